"""The package as a whole: quick to import, typed, and the API is the commands."""

import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import deep_patch_learning as dpl
from deep_patch_learning.common import errors

COMMANDS = {
    "train",
    "load",
    "predict",
    "evaluate",
    "label",
    "review",
    "check",
    "report",
    "patches",
    "calibrate",
    "demo",
    "export",
    "backend",
    "info",
}
RESEARCH = {"distil", "compare", "reproduce"}
TYPES = {"Model", "Prediction", "Tag", "FoundBox", "TaggedImages", "Recipe", "Run"}


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


def test_every_public_name_is_there_and_no_other() -> None:
    kinds = {
        name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, errors.DplError)
    }
    assert set(dpl.__all__) == COMMANDS | RESEARCH | TYPES | kinds | {"read_tags"}
    for name in dpl.__all__:
        assert getattr(dpl, name) is not None
        assert name in dir(dpl)


@pytest.mark.parametrize("name", sorted(COMMANDS | RESEARCH))
def test_a_command_is_a_typed_and_documented_function_of_few_parameters(name: str) -> None:
    home = "inference.loading" if name == "load" else f"commands.{name}"  # `dpl load` does not exist
    function = getattr(import_module(f"deep_patch_learning.{home}"), name)
    signature = inspect.signature(function)
    assert function.__doc__.startswith("Return")
    assert signature.return_annotation is not inspect.Signature.empty
    assert all(one.annotation is not inspect.Parameter.empty for one in signature.parameters.values())
    assert len(signature.parameters) <= (7 if name == "train" else 6)


def test_a_package_with_the_name_of_a_command_can_be_called(tmp_path: Path) -> None:
    import deep_patch_learning.patches.cache
    import deep_patch_learning.report.page  # noqa: F401

    assert dpl.patches.cache.PatchCache is not None  # type: ignore[attr-defined]
    with pytest.raises(dpl.DataError, match="there is no such"):
        dpl.patches(tmp_path / "nowhere.csv")
    with pytest.raises(dpl.RunError, match="there is no such run"):
        dpl.report(tmp_path / "nowhere")


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(dpl, "laod")


def test_the_way_from_tags_to_labels_in_python(small_world: Path, tmp_path: Path) -> None:
    """As the documentation shows it, on small images."""
    run = dpl.train(small_world, out=tmp_path / "run", split="train", recipe="world", steps=2)
    model = dpl.load(tmp_path / "run")
    assert model.classes == run.load().classes
    found = model.predict(small_world.parent / "images" / "500000.jpg")
    assert len(found.filter(min_probability=0).tags) == len(model.classes)
    figures = dpl.evaluate(small_world, model, split="test")
    assert figures["mAP"] == dpl.evaluate(small_world, tmp_path / "run", split="test")["mAP"]
    counts = dpl.label(small_world, model, out=tmp_path / "labels", format="coco", min_score=0, split="test")
    assert counts["boxes"] == counts["tagged"]
    assert dpl.check(small_world, split="train").images == 24
    assert dpl.report(tmp_path / "run", limit=4).read_text().startswith("<!doctype html>")
