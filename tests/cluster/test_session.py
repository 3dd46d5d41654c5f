"""Which cluster is used and how it is shared out: another program at an address, another cluster, cores and GPUs."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deep_patch_learning.cluster import session
from deep_patch_learning.cluster.session import Cluster, WorkerPool, connected, worker_pool
from deep_patch_learning.common.errors import SettingError


@pytest.fixture(params=["silent", "closes", "web"])
def listener(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a program that is not Ray: it says nothing, closes at once, or speaks HTTP/1."""
    monkeypatch.setattr(session, "PATIENCE", 2.0)
    held = []

    def serve(listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:  # the end of the test
                return
            held.append(connection)
            if request.param == "web":
                connection.recv(100)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            if request.param != "silent":
                connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, args=(listening,), daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
    for connection in held:
        connection.close()


def test_another_program_at_the_address_is_no_ray(listener: str) -> None:
    pytest.importorskip("ray")
    wanted = rf"--address {listener}: no Ray answers there \(.+\)\. Start one with `ray start --head`, or correct"
    with pytest.raises(SettingError, match=wanted), connected(listener):
        pass


def test_what_ray_raises_on_connecting_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")

    def init(**_: object) -> None:
        raise ray.exceptions.RpcError("the head\ndoes not answer")

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    with (
        pytest.raises(SettingError, match=r"Ray on this machine: cannot be connected to \(the head does"),
        connected(None),
    ):
        pass


def test_ray_itself_answers_and_a_cluster_that_is_connected_is_used(two_nodes: Any) -> None:
    session._must_listen(two_nodes.address)
    port = two_nodes.address.rpartition(":")[2]
    for address in (None, "auto", two_nodes.address, f"127.0.0.1:{port}", f"localhost:{port}"):
        with connected(address) as cluster:
            assert cluster.cores == 2


def test_another_cluster_than_the_connected_one_is_refused(two_nodes: Any) -> None:
    port = int(two_nodes.address.rpartition(":")[2])
    for other in (f"127.0.0.1:{port + 1}", f"10.99.0.1:{port}"):
        wanted = rf"--address {other}: Ray is connected to .*:{port} already\. Leave the address out"
        with pytest.raises(SettingError, match=wanted), connected(other):
            pass


class FakeRay:
    """The answers of a cluster with nodes of so many cores and GPUs, and of one that is dead."""

    def __init__(self, *nodes: tuple[int, int]) -> None:
        self._nodes = nodes

    def cluster_resources(self) -> dict[str, float]:
        return {
            "CPU": float(sum(cores for cores, _ in self._nodes)),
            "GPU": float(sum(gpus for _, gpus in self._nodes)),
        }

    def nodes(self) -> list[dict[str, Any]]:
        alive = [
            {"Alive": True, "Resources": {"CPU": float(c), **({"GPU": float(g)} if g else {})}} for c, g in self._nodes
        ]
        return [*alive, {"Alive": False, "Resources": {"CPU": 1.0, "GPU": 8.0}}]


@pytest.mark.parametrize(
    ("nodes", "workers", "device", "wanted"),
    [
        ([(8, 0), (4, 0)], None, "auto", WorkerPool(12, 1, 0)),
        ([(8, 0), (4, 0)], 3, "auto", WorkerPool(3, 1, 0)),
        ([(32, 4), (8, 2)], None, "auto", WorkerPool(6, 4, 1)),  # the cores of the node that has the fewest for a GPU
        ([(32, 4), (8, 2)], None, "cuda", WorkerPool(6, 4, 1)),
        ([(32, 4), (8, 2)], 2, "cuda", WorkerPool(2, 4, 1)),
        ([(32, 4), (8, 2)], None, "cpu", WorkerPool(40, 1, 0)),
        ([(128, 1)], None, "auto", WorkerPool(1, 16, 1)),  # more do not help one GPU
        ([(2, 4)], None, "auto", WorkerPool(4, 1, 1)),
        ([(16, 2), (64, 0)], None, "auto", WorkerPool(2, 8, 1)),  # nodes without a GPU are left out
    ],
)
def test_workers_are_one_per_gpu_or_per_core(
    nodes: list[tuple[int, int]], workers: int | None, device: str, wanted: WorkerPool
) -> None:
    assert worker_pool(session._cluster(FakeRay(*nodes)), workers, device) == wanted


@pytest.mark.parametrize(
    ("nodes", "workers", "device", "wanted"),
    [
        ([(8, 0)], None, "cuda", "--device cuda: the cluster has no GPU"),
        ([(8, 0)], 9, "auto", "--workers 9: the cluster has 8 cores"),
        ([(32, 4)], 5, "auto", "--workers 5: the cluster has 4 GPUs"),
        ([(0, 0)], None, "cpu", "the cluster has no cores to work with"),
    ],
)
def test_what_the_cluster_does_not_have_is_refused(
    nodes: list[tuple[int, int]], workers: int | None, device: str, wanted: str
) -> None:
    with pytest.raises(SettingError, match=wanted):
        worker_pool(session._cluster(FakeRay(*nodes)), workers, device)


def test_what_a_worker_takes_is_what_ray_is_asked_for(tmp_path: Path) -> None:
    from deep_patch_learning.cluster.engine import Engine

    asked: list[dict[str, Any]] = []

    class Handle:
        class begin:  # noqa: N801 - a method of an actor
            @staticmethod
            def remote() -> str:
                return "beginning"

    class Ray:
        def remote(self, _: type) -> "Ray":
            return self

        def options(self, **options: Any) -> Any:
            asked.append(options)
            return type("Actor", (), {"remote": lambda self, *_: Handle()})()

    Engine(Cluster(Ray(), 8, 2, 4), WorkerPool(2, 4, 1), None)._hire("job", more=True)  # type: ignore[arg-type]
    assert [{name: value for name, value in one.items() if name != "runtime_env"} for one in asked] == [
        {"num_cpus": 4, "num_gpus": 1, "max_concurrency": 2}
    ] * 2
    # the C library reads this before a thread of the worker starts: threads share one heap, and memory stays as it is
    assert [one["runtime_env"]["env_vars"] for one in asked] == [{"MALLOC_ARENA_MAX": "1"}] * 2
