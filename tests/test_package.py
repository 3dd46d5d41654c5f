"""The package as a whole: quick to import, typed, and honest about what it exports."""

import subprocess
import sys

import deep_patch_learning as dpl


def test_importing_is_quick_because_nothing_heavy_comes_along() -> None:
    code = "import sys, deep_patch_learning; print(' '.join(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"torch", "torchvision", "numba", "cv2", "lightning_fabric", "lightning", "timm", "numpy", "PIL", "rich"}
    assert not heavy & set(loaded)


def test_loading_a_model_does_not_bring_numba_lightning_or_torchvisions_models() -> None:
    code = "import sys, deep_patch_learning; deep_patch_learning.load; print(' '.join(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "torch" in loaded
    assert not {"numba", "cv2", "lightning_fabric", "timm"} & set(loaded)


def test_every_public_name_is_there() -> None:
    for name in dpl.__all__:
        assert getattr(dpl, name) is not None
        assert name in dir(dpl)


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(dpl, "laod")
