"""Every input that ever crashed, hung or was believed: it is read, or refused in one line."""

import importlib.util
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from PIL import Image

from deep_patch_learning.common.errors import DplError

ROOT = Path(__file__).parent
CORPUS = sorted(path for path in (ROOT / "corpus").rglob("*") if path.is_file() and path.suffix != ".md")


def targets() -> dict[str, Callable[[Path], None]]:
    place = ROOT.parent / "benchmarks" / "reliability" / "targets.py"
    spec = importlib.util.spec_from_file_location("targets", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.TARGETS


@pytest.mark.parametrize("found", CORPUS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_what_was_found_is_read_or_refused(found: Path, tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        Image.new("RGB", (12, 10)).save(tmp_path / name)
    path = Path(shutil.copy(found, tmp_path))
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    with suppress(DplError):  # anything else fails the test
        targets()[found.parent.name](path)
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before
