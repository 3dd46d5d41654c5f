"""The log and the files of a run, those of earlier versions among them."""

import json
from pathlib import Path

import pytest

from deep_patch_learning.refinement.pseudo_boxes import waiting
from deep_patch_learning.runs.folder import RunFolder, training_time


def lines(*pairs: tuple[int, float]) -> list[dict]:
    return [{"samples": samples, "seconds": seconds} for samples, seconds in pairs]


def test_the_speed_leaves_out_the_start_and_breaks() -> None:
    assert training_time([]) == (0.0, None)
    assert training_time(lines((10, 5.0))) == (5.0, 2.0)  # the only line there is
    assert training_time(lines((10, 5.0), (20, 7.0))) == (7.0, 5.0)
    assert training_time(lines((10, 5.0), (20, 7.0), (30, 4.0), (40, 6.0))) == (13.0, 5.0)  # resumed
    assert training_time([{"step": 1, "loss": 2.0}]) == (0.0, None)


def test_a_log_of_an_earlier_version_counts_samples(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.log.write_text('{"step": 10, "visits": 80, "seconds": 2.0}\n{"step": 20, "visits": 160, "seconds": 4.0}\n{"ste')
    assert [entry["samples"] for entry in run.read_log()] == [80, 160]
    assert training_time(run.read_log()).samples_per_second == 40
    run.cut_log(10)
    run.append_log({"step": 11, "samples": 88, "seconds": 2.5})
    assert [json.loads(line)["samples"] for line in run.log.read_text().splitlines()] == [80, 88]


def test_pseudo_boxes_of_an_earlier_version_are_found(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    run.folder.mkdir()
    assert (run.pseudo_boxes.name, waiting(run.folder).name) == ("pseudo_boxes.jsonl", "run-pseudo-boxes.jsonl")
    (run.folder / "given_boxes.jsonl").touch()
    (tmp_path / "run-given-boxes.jsonl").touch()
    assert (run.pseudo_boxes.name, waiting(run.folder).name) == ("given_boxes.jsonl", "run-given-boxes.jsonl")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_names_the_log(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.log.symlink_to("/dev/full")
    with pytest.raises(OSError, match=r"No space left on device.*log\.jsonl"):
        run.append_log({"step": 1})
