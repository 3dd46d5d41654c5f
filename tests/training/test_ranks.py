"""Several real processes that train one network together end where one process ends."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from deep_patch_learning.runs.checkpoint import read_checkpoint

SETTINGS = (
    "batch_images=8",
    "images_per_micro_batch=2",
    "patches_per_sample=16",
    "filters=16",
    "scales=96,128",
    "warmup_steps=2",
)


def command(listing: Path, out: Path, devices: int, steps: int, *more: str) -> list[str]:
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    words = ["train", str(listing), "--split", "train", "--recipe", "world", "--steps", str(steps), "--out", str(out)]
    start = [sys.executable, "-m", "deep_patch_learning", *words, "--device", "cpu", "--devices", str(devices)]
    return [*start, *settings, *more]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return os.environ | {"DPL_CACHE": str(tmp_path_factory.mktemp("cache")), "OMP_NUM_THREADS": "1"}


def test_two_processes_end_where_one_does(small_world: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    said = {}
    for devices in (1, 2):
        done = subprocess.run(
            command(small_world, tmp_path / str(devices), devices, 4, "--json"),
            env=environment, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]
        lines = done.stdout.strip().splitlines()
        assert len(lines) == 1, lines  # the second process keeps silent
        said[devices] = json.loads(lines[0])
        assert done.stderr.count("trained 4 steps") == 1
    assert said[1]["loss"] == pytest.approx(said[2]["loss"], rel=1e-4)
    one, two = (read_checkpoint(tmp_path / name / "weights.safetensors")[1] for name in ("1", "2"))
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, rtol=1e-3, atol=1e-5, msg=name)
    log = [json.loads(line) for line in (tmp_path / "2" / "log.jsonl").read_text().splitlines()]
    assert [entry["step"] for entry in log] == [4]
    assert log[-1]["samples"] == 32


def test_more_processes_than_passes_is_an_error(small_world: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        command(small_world, tmp_path / "run", 2, 2, "--set", "images_per_micro_batch=8"),
        env=environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 2
    assert "a step has 1 micro-batches, too few for 2 devices" in done.stderr
    assert not (tmp_path / "run").exists()


def test_ctrl_c_stops_all_of_them_with_everything_saved(
    small_world: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    out = tmp_path / "run"
    process = subprocess.Popen(
        command(small_world, out, 2, 400), env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    log = out / "log.jsonl"
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and process.poll() is None and not (log.exists() and log.read_text()):
        time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: every process gets it
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said[-2000:]
    assert "Repeat the command to go on" in said
    step = read_checkpoint(out / "checkpoint.safetensors")[0]
    assert 10 <= step < 400
    assert step % 10 == 0  # where all agreed
