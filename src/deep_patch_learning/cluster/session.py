"""The connection to Ray: a cluster at an address, or one of this machine's cores, started here and stopped at the end."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from deep_patch_learning.common.errors import DplError, SettingError

STORE = (
    128 << 20
)  # bytes of Ray's object store on this machine: parts are read by the workers themselves, and little is sent
PATIENCE = 5.0  # seconds that an address has to answer


@dataclass(frozen=True)
class Cluster:
    """What the cluster has: Ray, its cores, its GPUs, and the cores for each GPU on the node that has the fewest."""

    ray: Any
    cores: int
    gpus: int
    cores_per_gpu: int = 0


@dataclass(frozen=True)
class WorkerPool:
    """How many workers there are, and what each takes of the cluster."""

    workers: int
    cores: int
    gpus: int


def import_ray() -> Any:
    """Return Ray, or raise an error that says how to install it."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # what Ray will do from its next version on
    try:
        import ray
    except ImportError:
        raise DplError('--engine ray needs Ray. Fix: pip install "deep-patch-learning[ray]"') from None
    return ray


@contextmanager
def connected(address: str | None, workers: int | None = None) -> Iterator[Cluster]:
    """Yield the cluster at an address, that of `RAY_ADDRESS`, or this machine; an open connection is used as it is."""
    ray = import_ray()
    if ray.is_initialized():
        yield _cluster(ray)
        return
    address = address or os.environ.get("RAY_ADDRESS")
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "include_dashboard": None}
    try:
        if address:
            _must_listen(address)
            ray.init(address=address, **quiet)
        else:
            cores = max(workers or 1, os.cpu_count() or 1)
            quiet["include_dashboard"] = False
            ray.init(address="local", num_cpus=cores, object_store_memory=STORE, **quiet)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError, OSError) as error:
        said = " ".join(str(error).split())[:200]
        where = f"--address {address}" if address else "Ray on this machine"
        raise SettingError(
            f"{where}: cannot be connected to ({said}). Start one with `ray start --head`, or leave --address out."
        ) from None
    try:
        yield _cluster(ray)
    finally:
        ray.shutdown()


def _must_listen(address: str) -> None:
    """Raise `SettingError` where nothing answers at an address: Ray itself would try for minutes."""
    if address in ("auto", "local"):
        return
    host, colon, port = address.rpartition("://")[2].partition(":")
    if not colon or not port.isdigit():
        raise SettingError(f"--address {address}: wanted HOST:PORT, such as 10.0.0.1:6379, or auto.")
    try:
        socket.create_connection((host, int(port)), PATIENCE).close()
    except OSError as error:
        raise SettingError(
            f"--address {address}: no Ray answers there ({error.strerror or error}). Start one with `ray start --head`, "
            "or correct the address."
        ) from None


def _cluster(ray: Any) -> Cluster:
    there = ray.cluster_resources()
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("GPU", 0) >= 1]
    per_gpu = min((int(node.get("CPU", 0) // node["GPU"]) for node in nodes), default=0)
    return Cluster(ray, int(there.get("CPU", 0)), int(there.get("GPU", 0)), per_gpu)


def worker_pool(cluster: Cluster, workers: int | None, device: str = "cpu") -> WorkerPool:
    """Return the workers for a job: one per GPU where there are any and `device` lets them be used, else one per core."""
    if device == "cuda" and not cluster.gpus:
        raise SettingError("--device cuda: the cluster has no GPU. Add a node with one, or use --device cpu.")
    gpus = cluster.gpus if device in ("auto", "cuda") else 0
    most = gpus or cluster.cores
    if not most:
        raise SettingError("the cluster has no cores to work with. Start its nodes with --num-cpus.")
    if workers is not None and workers > most:
        kind = "GPUs" if gpus else "cores"
        raise SettingError(f"--workers {workers}: the cluster has {most} {kind}. Ask for fewer, or add nodes.")
    count = workers or most
    return WorkerPool(count, max(1, min(cluster.cores_per_gpu, 16)) if gpus else 1, 1 if gpus else 0)
