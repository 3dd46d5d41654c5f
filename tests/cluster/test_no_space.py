"""A disk that is full where a worker writes: the part fails alone, nothing half-written stays, and the rest is kept."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deep_patch_learning.cluster.folder import PartsFolder
from deep_patch_learning.cluster.parts import read_parts
from deep_patch_learning.cluster.work import Done, Failed, LabelJob, PatchJob, part_file
from deep_patch_learning.commands.label import label
from deep_patch_learning.common.atomic_files import part_of
from deep_patch_learning.common.errors import RunError
from deep_patch_learning.inference.loading import load
from deep_patch_learning.labels.select import LabelRule
from deep_patch_learning.patches.generator import generator

FULL = Path("/dev/full")  # of Linux: takes no byte, as a disk without space
KIB = 1 << 10
pytest.importorskip("pyarrow", reason='needs pyarrow: pip install "deep-patch-learning[ray]"')
needs_full = pytest.mark.skipif(not FULL.exists(), reason="no /dev/full on this system")


def label_job(run: Path, folder: Path) -> LabelJob:
    """A job that has begun, with its folder."""
    classes = load(run, "cpu").classes
    rule = LabelRule(min_score=0.0)
    job = LabelJob(PartsFolder(folder), str(run), "cpu", None, rule, "parquet", "train", folder, classes)
    job.out.begin({"what": "labels"})
    job.begin()
    return job


def left_over(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.name.endswith(".dpl-part")]


@needs_full
@pytest.mark.parametrize("what", ["result", "note"])
def test_a_full_disk_fails_the_part_and_leaves_nothing_half_written(
    shards: Path, small_run: Path, tmp_path: Path, what: str
) -> None:
    job = label_job(small_run, tmp_path / "out")
    part = read_parts(shards, classes=job.classes).part(0)
    note = job.out.done / "part-00000.json"
    file = job.out.shards / "part-00000.parquet" if what == "result" else note
    part_of(file).symlink_to(FULL)  # what is written there goes to a disk without space
    found = job.work(part, lambda _: None)
    assert found == Failed(0, f"{file}: No space left on device, on {os.uname().nodename}. Make room there.")
    assert not note.exists()
    assert file == note or not file.exists()
    assert left_over(tmp_path / "out") == []
    assert isinstance(job.work(part, lambda _: None), Done)  # there is room again
    assert job.finished(part) is not None


@needs_full
def test_a_full_cache_fails_the_part_of_patches(shards: Path, tmp_path: Path) -> None:
    made = generator("sliding-window")
    job = PatchJob(PartsFolder(tmp_path / "out"), made, tmp_path / "cache")
    job.out.begin({"what": "patches"})
    part = read_parts(shards).part(0)
    file = part_file(tmp_path / "cache", made, part)
    file.parent.mkdir(parents=True, exist_ok=True)
    part_of(file).symlink_to(FULL)
    found = job.work(part, lambda _: None)
    assert isinstance(found, Failed)
    assert found.why.startswith(f"{file}: No space left on device")
    assert left_over(tmp_path) == []
    assert not file.exists()
    assert job.finished(part) is None


def test_a_file_that_may_not_grow_is_named(shards: Path, small_run: Path, tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    job = label_job(small_run, tmp_path / "out")
    part = read_parts(shards, classes=job.classes).part(0)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        found = job.work(part, lambda _: None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert isinstance(found, Failed)
    assert found.why.startswith(f"{job.out.shards / 'part-00000.parquet'}: File too large, on ")
    assert left_over(tmp_path / "out") == []
    assert list(job.out.done.iterdir()) == list(job.out.shards.iterdir()) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one MiB in memory."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if sys.platform != "linux" or os.getuid() != 0:
        pytest.skip("only root may mount a small file system, and only here on Linux")
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    made = subprocess.run(mount, capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no file system can be mounted here ({made.stderr.strip()})")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_run_on_a_disk_that_fills_up_goes_on_where_there_is_room_again(
    two_nodes: object, many: Path, small_run: Path, small_disk: Path, tmp_path: Path
) -> None:
    how: dict[str, Any] = {"format": "parquet", "engine": "ray", "shard_images": 12, "min_score": 0.0, "device": "cpu"}
    label(many, small_run, out=tmp_path / "undisturbed", **how)
    wanted = {path.name: path.read_bytes() for path in (tmp_path / "undisturbed" / "shards").iterdir()}
    ballast, out = small_disk / "ballast", small_disk / "out"
    room = 3 * (max(map(len, wanted.values())) + 8 * KIB) + 8 * KIB  # for about three of eight parts and their notes
    ballast.write_bytes(bytes(KIB * KIB - room))
    with pytest.raises(RunError, match=r"of 8 parts failed: .*No space left on device, on .*Make room there\."):
        label(many, small_run, out=out, **how)
    done = {path.stem for path in (out / "done").iterdir()}
    assert 0 < len(done) < 8
    assert all((out / "shards" / f"{name}.parquet").read_bytes() == wanted[f"{name}.parquet"] for name in done)
    assert left_over(out) == []
    assert not (out / "index.json").exists()
    ballast.unlink()
    assert label(many, small_run, out=out, **how)["shards_found_done"] == len(done)
    assert {path.name: path.read_bytes() for path in (out / "shards").iterdir()} == wanted
