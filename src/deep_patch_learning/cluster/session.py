"""The connection to Ray: a cluster at an address, or one of this machine's cores, started here and stopped at the end."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from deep_patch_learning.common.errors import DplError, SettingError

STORE = (
    128 << 20
)  # bytes of Ray's object store on this machine: parts are read by the workers themselves, and little is sent
PATIENCE = 5.0  # seconds that an address has to answer
_SETTINGS, _FRAME_HEAD = 4, 9  # kind of a frame of HTTP/2, and the bytes before its content
_HTTP2_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, _SETTINGS, 0, 0, 0, 0, 0])


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
        _must_be_connected_to(address, ray)
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
    except (ray.exceptions.RayError, RuntimeError, ValueError, OSError) as error:
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
        with socket.create_connection((host, int(port)), PATIENCE) as connection:
            why = (
                "" if os.environ.get("RAY_USE_TLS", "0") == "1" or _speaks_grpc(connection) else "another program does"
            )
    except OSError as error:
        why = error.strerror or str(error)
    if why:
        raise SettingError(
            f"--address {address}: no Ray answers there ({why}). Start one with `ray start --head`, or correct the address."
        )


def _speaks_grpc(connection: socket.socket) -> bool:
    """Return whether the other side answers as every server of gRPC does, and so Ray: with its settings in HTTP/2."""
    connection.settimeout(PATIENCE)
    connection.sendall(_HTTP2_GREETING)
    answer = b""
    while len(answer) < _FRAME_HEAD and (more := connection.recv(_FRAME_HEAD - len(answer))):
        answer += more
    return len(answer) == _FRAME_HEAD and answer[3] == _SETTINGS


def _must_be_connected_to(address: str | None, ray: Any) -> None:
    """Raise `SettingError` where Ray is connected to another cluster than the one that is asked for."""
    connected_to, here = ray.get_runtime_context().gcs_address, ray.util.get_node_ip_address()
    if address in (None, "auto", "local") or _end_of(str(address), here) == _end_of(connected_to, here):
        return
    raise SettingError(
        f"--address {address}: Ray is connected to {connected_to} already. Leave the address out, or call ray.shutdown()."
    )


def _end_of(address: str, here: str) -> tuple[str, str]:
    """Return the machine's number and the port of an address; `here` is this machine's number for others."""
    host, _, port = address.rpartition("://")[2].partition(":")
    with suppress(OSError):  # an unknown name stays as it is
        host = socket.gethostbyname(host)
    return (here if host.startswith("127.") else host), port


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
