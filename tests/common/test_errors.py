"""What ends a command: one line that says what happened and what to do."""

import errno
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deep_patch_learning.common.errors import RunError, in_one_line

DPL = [sys.executable, "-m", "deep_patch_learning"]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RunError("a\nb\x1b[2Jc"), "a b\ufffd[2Jc"),
        (
            OSError(errno.ENOSPC, "No space left on device", "runs/a"),
            "runs/a: No space left on device. Make room there",
        ),
        (PermissionError(errno.EACCES, "Permission denied", "x\x07"), "x\ufffd: Permission denied. Check the path"),
        (MemoryError(), "memory is full. Use smaller --scales"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried"), "memory is full."),
        (RuntimeError("can't start new thread"), "memory is full."),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"), "memory is full."),
        (ImportError("libtorch_cuda.so: failed to map segment from shared object"), "memory is full."),
    ],
)
def test_an_error_is_one_line_with_the_fix(error: Exception, said: str) -> None:
    assert (in_one_line(error) or "").startswith(said)


def test_a_bug_is_no_error_of_the_user() -> None:
    assert in_one_line(RuntimeError("index out of range")) is None


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_command_says_so(small_world: Path, tmp_path: Path, sent: signal.Signals, status: int) -> None:
    command = [*DPL, "predict", str(small_world.parent / "images"), "--out", str(tmp_path / "found"), "--no-draw"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:
        until = time.monotonic() + 120
        while not list(tmp_path.glob("found/*.json")) and time.monotonic() < until:
            time.sleep(0.01)
        started.send_signal(sent)
        _, said = started.communicate(timeout=120)
    assert started.returncode == status
    assert said.strip() == "dpl: stopped. What is written is whole; repeat the command to go on."
    assert not list(tmp_path.glob("found/.*"))


STOPPED_EARLY = """
import os, sys
import typer.main
from deep_patch_learning.cli.app import main

build = typer.main.get_command

def interrupted(app):
    os.kill(os.getpid(), int(sys.argv.pop()))
    return build(app)

typer.main.get_command = interrupted
main()
"""


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_command_that_is_stopped_before_it_runs_says_so(sent: signal.Signals, status: int) -> None:
    words = [sys.executable, "-c", STOPPED_EARLY, "--version", str(int(sent))]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.strip() == "dpl: stopped. What is written is whole; repeat the command to go on."


def test_a_closed_pipe_ends_a_command_quietly(small_world: Path, tmp_path: Path) -> None:
    command = [*DPL, "predict", str(small_world.parent / "images"), "--out", str(tmp_path / "found"), "--no-draw"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        started.stdout.close()
        assert started.stderr is not None
        said = started.stderr.read()
    assert (started.returncode, said) == (141, "")


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["train", "--help"], ["info", "--json"]])
def test_a_closed_pipe_ends_what_only_prints_too(words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*DPL, *words], stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", [["--version"], ["info"]])
def test_standard_output_that_is_full_is_named(words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*DPL, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    said = "dpl: standard output: No space left on device. Make room there and repeat.\n"
    assert (done.returncode, done.stderr) == (2, said)


@pytest.mark.parametrize("words", [["\x1b[31mx"], ["info", "--\x1b[31mx"], ["train", "x", "--steps", "\x1b]0;x\x07"]])
def test_a_wrong_word_does_not_reach_the_terminal(words: list[str]) -> None:
    done = subprocess.run([*DPL, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "\x1b[31mx" not in done.stderr
    assert "\x1b]" not in done.stderr
    assert "\x07" not in done.stderr


@pytest.mark.parametrize("gigabytes", [0.5, 2])
def test_a_limit_of_memory_ends_a_command_in_one_line(gigabytes: float, small_world: Path, tmp_path: Path) -> None:
    words = ["predict", str(small_world.parent / "images"), "--out", str(tmp_path / "found"), "--device", "cpu"]
    limit = int(gigabytes * 2**30)
    done = subprocess.run(
        [*DPL, *words],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    assert "Traceback" not in done.stderr
    if done.returncode:  # a torch without CUDA may need less
        assert done.returncode == 2
        assert done.stderr.splitlines()[-1].startswith("dpl: memory is full.")
