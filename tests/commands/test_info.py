"""`dpl info`: what a bug report needs."""

import json
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

import deep_patch_learning as dpl
from deep_patch_learning.cli.app import app


def test_info(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPL_CACHE", str(tmp_path))
    (tmp_path / "patches" / "a").mkdir(parents=True)
    (tmp_path / "patches" / "a" / "b.npz").write_bytes(b"x" * 1_500_000)
    found = CliRunner().invoke(app, ["info", "--json"])
    said = json.loads(found.stdout.splitlines()[-1])
    assert said == dpl.info()
    assert said["versions"]["torch"] == version("torch")
    assert said["device"] in ("cpu", "cuda", "mps")
    assert said["cache"] == {"folder": str(tmp_path / "patches"), "files": 1, "bytes": 1_500_000}
    assert said["shipped_model"]["classes"] == len(dpl.load().classes) == 20
    assert "1 files, 1.5 MB" in " ".join(found.stdout.split())
