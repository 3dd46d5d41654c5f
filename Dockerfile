# Deep Patch Learning with its command `dpl`, without the build's leftovers and not as root.
#
#   docker build -t dpl .
#   docker build -t dpl:cuda --build-arg BASE=nvidia/cuda:12.8.1-runtime-ubuntu24.04 \
#       --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu128 .
#   docker run --rm -v "$PWD:/data" dpl predict street.jpg
ARG BASE=ubuntu:24.04

FROM ${BASE} AS build
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# the distribution's security updates are wanted, whichever they are
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv /opt/dpl
ENV PATH=/opt/dpl/bin:$PATH
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
# first what changes seldom: the largest layer stays in the cache while the source changes; the newest of each
# hadolint ignore=DL3013
RUN pip install --no-cache-dir --index-url "${TORCH_INDEX}" "torch>=2.6" "torchvision>=0.21"
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
ARG EXTRAS=review,onnx,label-studio
# the package is the one in this folder
# hadolint ignore=DL3013
RUN pip install --no-cache-dir ".[${EXTRAS}]"

FROM ${BASE}
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 dpl
COPY --from=build /opt/dpl /opt/dpl
ENV PATH=/opt/dpl/bin:$PATH \
    DPL_CACHE=/cache
RUN mkdir /cache /data /reviews && chown 10001 /cache /data /reviews
USER 10001
WORKDIR /data
VOLUME ["/cache", "/reviews"]
ENTRYPOINT ["dpl"]
CMD ["--help"]
