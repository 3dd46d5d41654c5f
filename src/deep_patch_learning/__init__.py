"""Deep Patch Learning: from images with tags and no boxes to a classifier and boxes, in one network.

    import deep_patch_learning as dpl

    run = dpl.train("photos/tags.csv", out="runs/photos")
    model = dpl.load("runs/photos")  # dpl.load() is the shipped model
    found = model.predict("street.jpg")
    found.tags, found.boxes

One function per command of `dpl`, and the types they return. Nothing heavy is imported until it is used.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from deep_patch_learning.commands.backend import backend
    from deep_patch_learning.commands.calibrate import calibrate
    from deep_patch_learning.commands.check import check
    from deep_patch_learning.commands.compare import compare
    from deep_patch_learning.commands.demo import demo
    from deep_patch_learning.commands.distil import distil
    from deep_patch_learning.commands.evaluate import evaluate
    from deep_patch_learning.commands.export import export
    from deep_patch_learning.commands.info import info
    from deep_patch_learning.commands.label import label
    from deep_patch_learning.commands.patches import patches
    from deep_patch_learning.commands.predict import predict
    from deep_patch_learning.commands.report import report
    from deep_patch_learning.commands.reproduce import reproduce
    from deep_patch_learning.commands.review import review
    from deep_patch_learning.commands.train import Run, train
    from deep_patch_learning.common.errors import DataError, DplError, ModelError, RunError, SettingError, TrainingError
    from deep_patch_learning.data.dataset import TaggedImages
    from deep_patch_learning.data.readers.read import read_tags
    from deep_patch_learning.inference.loading import load
    from deep_patch_learning.inference.model import Model
    from deep_patch_learning.inference.prediction import FoundBox, Prediction, Tag
    from deep_patch_learning.recipe.recipe import Recipe

__all__ = [
    "DataError",
    "DplError",
    "FoundBox",
    "Model",
    "ModelError",
    "Prediction",
    "Recipe",
    "Run",
    "RunError",
    "SettingError",
    "Tag",
    "TaggedImages",
    "TrainingError",
    "backend",
    "calibrate",
    "check",
    "compare",
    "demo",
    "distil",
    "evaluate",
    "export",
    "info",
    "label",
    "load",
    "patches",
    "predict",
    "read_tags",
    "report",
    "reproduce",
    "review",
    "train",
]

_HOME = {
    **dict.fromkeys(
        ("DataError", "DplError", "ModelError", "RunError", "SettingError", "TrainingError"), "common.errors"
    ),
    **dict.fromkeys(("FoundBox", "Prediction", "Tag"), "inference.prediction"),
    "Model": "inference.model",
    "Recipe": "recipe.recipe",
    "Run": "commands.train",
    "TaggedImages": "data.dataset",
    "load": "inference.loading",
    "read_tags": "data.readers.read",
}
_PACKAGES_TOO = ("patches", "report", "review")  # names of a command and of a package


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'deep_patch_learning' has no attribute '{name}'")
    return getattr(import_module(f"deep_patch_learning.{_HOME.get(name, f'commands.{name}')}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _CallablePackage(ModuleType):
    """A package that is called as the command of its name."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        name = self.__name__.rpartition(".")[2]
        return getattr(import_module(f"deep_patch_learning.commands.{name}"), name)(*arguments, **options)


class _Root(ModuleType):
    """This module: when Python binds a package to the name of a command, `dpl.report(...)` still calls the command."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _PACKAGES_TOO and isinstance(value, ModuleType):
            value.__class__ = _CallablePackage
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Root
