"""How many files of the package a reader meets on the way of a command: its own modules that are loaded at the end."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

# `__init__.py` files do not count
RUN = """
import sys
from deep_patch_learning.cli.app import main

sys.argv = ["dpl", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
own = [name for name, module in sys.modules.items() if name.startswith("deep_patch_learning.")]
print(*(name for name in own if not hasattr(sys.modules[name], "__path__")))
"""


def loaded(*command: str | Path) -> list[str]:
    """Return the package's modules that are loaded at the end of a command of `dpl`."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, *map(str, command)], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1].split()


@pytest.fixture
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder per class, and a patch cache that is empty."""
    monkeypatch.setenv("DPL_CACHE", str(tmp_path / "cache"))
    random = np.random.default_rng(0)
    for number in range(6):
        file = tmp_path / "images" / ("cat", "dog")[number % 2] / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        small = random.integers(0, 256, (6, 8, 3), np.uint8)
        Image.fromarray(small).resize((160, 120), Image.Resampling.NEAREST).save(file)
    return tmp_path / "images"


def test_predict_loads_few_modules(images: Path, tmp_path: Path) -> None:
    found = loaded("predict", images / "cat" / "0.png", "--out", tmp_path / "found")
    assert {"deep_patch_learning.inference.stream", "deep_patch_learning.common.drawing"} <= set(found)
    assert len(found) <= 45, sorted(found)
    assert not [name for name in found if "training." in name.removeprefix("deep_patch_learning.cli.")]
    assert (tmp_path / "found" / "0.json").exists()


def test_train_loads_few_modules(images: Path, tmp_path: Path) -> None:
    found = loaded("train", images, "--recipe", "fast", "--steps", "2", "--out", tmp_path / "run", "--device", "cpu")
    assert {"deep_patch_learning.training.loop", "deep_patch_learning.patches.selective_search.grouping"} <= set(found)
    assert len(found) <= 62, sorted(found)
    assert (tmp_path / "run" / "weights.safetensors").exists()


def test_help_loads_neither_torch_nor_numba() -> None:
    code = RUN.replace("own = [", "own = [name for name in sys.modules if name in HEAVY] + [")
    heavy = "HEAVY = {'torch', 'numba', 'numpy', 'cv2', 'PIL', 'jinja2', 'fastapi'}\n"
    for words in (("--help",), ("predict", "--help"), ("train", "--help"), ("--version",)):
        done = subprocess.run(
            [sys.executable, "-c", heavy + code, *words], capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, done.stderr
        found = done.stdout.splitlines()[-1].split()
        assert "deep_patch_learning.cli.app" in found
        assert not {"torch", "numba", "numpy", "cv2", "PIL", "jinja2", "fastapi"} & set(found), words
