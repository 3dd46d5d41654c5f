"""Labels and patches made by two real Ray nodes are those of one machine, whatever dies on the way."""

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from deep_patch_learning.commands.label import label
from deep_patch_learning.commands.patches import patches
from deep_patch_learning.common.errors import RunError
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.patches.cache import PatchCache
from deep_patch_learning.patches.generator import generator

pytest.importorskip("ray", reason='needs Ray: pip install "deep-patch-learning[ray]"')
import pyarrow as pa  # comes with Ray
import pyarrow.parquet as pq

RULE: dict[str, Any] = {"min_score": 0.0, "boxes_per_class": 3, "device": "cpu"}


def on_ray(data: Path | str, run: Path, out: Path, **options: Any) -> dict[str, Any]:
    how = {"format": "parquet", "engine": "ray", "shard_images": 24, **RULE, **options}
    return label(data, run, out=out, **how)


def rows_of(out: Path) -> list[dict[str, Any]]:
    return pa.concat_tables(pq.read_table(path) for path in sorted((out / "shards").glob("*.parquet"))).to_pylist()


def contents(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((out / "shards").iterdir())}


@pytest.fixture(scope="module")
def undisturbed(two_nodes: object, many: Path, small_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed") / "labels"
    counts = on_ray(many, small_run, out)
    assert counts["images"] == 95
    assert counts["broken"] == 1
    assert counts["shards"] == 4
    return out


def test_labels_are_those_of_one_machine(undisturbed: Path, many: Path, small_run: Path, tmp_path: Path) -> None:
    counts = label(many, small_run, out=tmp_path / "plain", format="parquet", **RULE)
    plain = pq.read_table(tmp_path / "plain" / "train.parquet").to_pylist()
    assert rows_of(undisturbed) == plain
    assert sum(len(row["boxes"]) for row in plain) == counts["boxes"] > 100
    index = json.loads((undisturbed / "index.json").read_text())
    assert index["boxes"] == counts["boxes"]
    for name, row in counts["per_class"].items():
        ours = index["per_class"][name]
        assert ours["mean_score"] == pytest.approx(row["mean_score"])
        assert {key: ours[key] for key in ("tagged", "boxes", "parts", "abstained")} == {
            key: row[key] for key in ("tagged", "boxes", "parts", "abstained")
        }
    broken = [json.loads(line) for line in (undisturbed / "broken.jsonl").read_text().splitlines()]
    assert [one["image"] for one in broken] == ["041.jpg"]
    assert "not an image that can be read" in broken[0]["reason"]


def test_ray_data_reads_them(undisturbed: Path) -> None:
    import ray

    read = ray.data.read_parquet(str(undisturbed / "shards"))
    assert read.count() == 95
    assert sorted(row["name"] for row in read.select_columns(["name"]).take_all()) == sorted(
        row["name"] for row in rows_of(undisturbed)
    )


def _workers() -> list[psutil.Process]:
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            title = "".join(
                process.cmdline()[:1]
            )  # of the method that was called last: it works while it says how far it is
            if title in ("ray::Worker", "ray::Worker.work", "ray::Worker.state"):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
    return found


class Killer(threading.Thread):
    """Kills so many workers, each as soon as it is at work; then removes the second node while a worker is at work."""

    def __init__(self, out: Path, kills: int, cluster: Any = None) -> None:
        super().__init__(daemon=True)
        self.out, self.kills, self.cluster = out, kills, cluster
        self.killed, self.removed = 0, False
        self.dead: set[int] = set()
        self.over = threading.Event()

    def run(self) -> None:
        while self.killed < self.kills and not self.over.wait(0.02):
            for process in _workers():
                if process.pid not in self.dead and self.killed < self.kills:
                    os.kill(process.pid, signal.SIGKILL)
                    self.dead.add(process.pid)
                    self.killed += 1
        if self.cluster is not None:
            while not [one for one in _workers() if one.pid not in self.dead] and not self.over.wait(0.02):
                pass
            self.removed = not self.over.is_set()
            self.cluster.remove_node(self.cluster.worker_nodes.copy().pop(), allow_graceful=False)


def test_a_worker_killed_and_a_node_removed_change_nothing(
    two_nodes: Any, undisturbed: Path, many: Path, small_run: Path, tmp_path: Path
) -> None:
    killer = Killer(tmp_path / "out", kills=2, cluster=two_nodes)
    killer.start()
    try:
        counts = on_ray(many, small_run, tmp_path / "out")
    finally:
        killer.over.set()
        killer.join()
    assert killer.killed == 2
    assert killer.removed
    assert counts["workers_replaced"] >= 2
    assert contents(tmp_path / "out") == contents(undisturbed)
    assert not list((tmp_path / "out").rglob("*.part"))
    names = [row["name"] for row in rows_of(tmp_path / "out")]
    assert names == [f"{number:03d}.jpg" for number in range(96) if number != 41]  # each once
    two_nodes.add_node(num_cpus=1, object_store_memory=80 << 20)


def test_a_second_start_does_nothing_and_needs_no_cluster(undisturbed: Path, many: Path, small_run: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in undisturbed.rglob("*.*")}
    counts = on_ray(many, small_run, undisturbed, address="127.0.0.1:1")
    assert counts["shards_found_done"] == counts["shards"] == 4
    assert counts["images_done_now"] == 0
    assert counts["images"] == 95
    assert {path: path.stat().st_mtime_ns for path in undisturbed.rglob("*.*")} == before


def test_shards_are_read_and_a_lost_result_is_made_again(
    two_nodes: object, shards: Path, tables: Path, small_world: Path, small_run: Path, tmp_path: Path
) -> None:
    label(small_world, small_run, out=tmp_path / "plain", format="parquet", split="train", **RULE)
    plain = pq.read_table(tmp_path / "plain" / "train.parquet").to_pylist()
    assert on_ray(tables, small_run, tmp_path / "of_tables")["shards"] == 2
    found = rows_of(tmp_path / "of_tables")
    assert [(row["name"], row["tags"], row["boxes"]) for row in found] == [
        (row["name"], row["tags"], row["boxes"]) for row in plain
    ]
    out = tmp_path / "of_tars"
    on_ray(f"{shards}/{{000..002}}.tar", small_run, out)
    assert [(row["tags"], row["boxes"]) for row in rows_of(out)] == [(row["tags"], row["boxes"]) for row in plain]
    assert rows_of(out)[0]["name"] == "000.tar/000000.jpg"
    before = contents(out)
    (out / "shards" / "part-00001.parquet").write_bytes(before["part-00001.parquet"][:100])
    counts = on_ray(f"{shards}/{{000..002}}.tar", small_run, out)
    assert counts["shards_found_done"] == 2
    assert contents(out) == before


def test_a_shard_cut_in_half_fails_alone_and_goes_on_when_it_is_whole(
    two_nodes: object, shards: Path, small_run: Path, tmp_path: Path
) -> None:
    whole = (shards / "001.tar").read_bytes()
    (shards / "001.tar").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(
        RunError, match=r"1 of 3 parts failed: .*001.tar: the shard is cut off or damaged .* Copy it again"
    ):
        on_ray(shards, small_run, tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out" / "shards").iterdir()) == [
        "part-00000.parquet",
        "part-00002.parquet",
    ]
    assert not (tmp_path / "out" / "index.json").exists()
    (shards / "001.tar").write_bytes(whole)
    counts = on_ray(shards, small_run, tmp_path / "out")
    assert counts["shards_found_done"] == 2
    assert counts["images"] == 24


def test_coco_shards_have_ids_of_their_own(
    two_nodes: object, shards: Path, small_world: Path, small_run: Path, tmp_path: Path
) -> None:
    counts = on_ray(shards, small_run, tmp_path / "out", format="coco")
    files = [json.loads(path.read_text()) for path in sorted((tmp_path / "out" / "shards").glob("*.json"))]
    for kind in ("images", "annotations"):
        ids = [one["id"] for file in files for one in file[kind]]
        assert len(set(ids)) == len(ids) == counts["boxes" if kind == "annotations" else "images"]
    assert files[0]["images"][0]["coco_url"].endswith("000.tar/000000.jpg")


def test_patches_of_a_cluster_are_read_by_one_machine(
    two_nodes: object, many: Path, shards: Path, small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPL_CACHE", str(tmp_path / "cache"))
    figures = patches(many, method="edge-boxes", engine="ray", shard_images=32)
    assert figures["images"] == 95
    assert [one["image"] for one in figures["broken"]] == ["041.jpg"]
    made = generator("edge-boxes")
    images = read_tags(many)
    cache = PatchCache(None, made)
    report = cache.fill(images.paths[:40])
    assert (report.made, report.found) == (0, 40)
    np.testing.assert_array_equal(cache.patches_of(images.paths[5]), made(images.read(5)))
    again = patches(many, method="edge-boxes", engine="ray", shard_images=32)
    assert again["images_done_now"] == 0
    assert again["boxes"] == figures["boxes"]


def test_patches_of_changed_images_are_made_again(
    two_nodes: object, shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPL_CACHE", str(tmp_path / "cache"))
    how: dict[str, Any] = {"method": "edge-boxes", "engine": "ray"}
    assert patches(shards, **how)["images_done_now"] == 24
    (shards / "001.tar").write_bytes((shards / "002.tar").read_bytes())
    (left,) = [folder for folder in (tmp_path / "cache").rglob("*") if list(folder.glob("part-*.patches"))]
    (left / ".part-x.patches.99999999.dpl-part").write_bytes(b"half")  # of a worker that was killed
    assert patches(shards, **how)["images_done_now"] == 8
    assert not list(left.glob(".*"))
    assert patches(shards, **how)["images_done_now"] == 0
