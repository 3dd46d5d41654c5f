"""Deep Patch Learning: from images with tags and no boxes to a classifier and boxes, in one network.

    import deep_patch_learning as dpl
    model = dpl.load("runs/photos")
    found = model.predict("street.jpg")
    found.tags, found.boxes

Nothing heavy is imported until it is used.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from deep_patch_learning.common.errors import DplError
    from deep_patch_learning.data.dataset import TaggedImages
    from deep_patch_learning.data.readers.read import read_tags
    from deep_patch_learning.inference.loading import load
    from deep_patch_learning.inference.model import Model
    from deep_patch_learning.inference.prediction import Prediction

_HOME = {
    "DplError": "common.errors",
    "Model": "inference.model",
    "Prediction": "inference.prediction",
    "TaggedImages": "data.dataset",
    "load": "inference.loading",
    "read_tags": "data.readers.read",
}

__all__ = ["DplError", "Model", "Prediction", "TaggedImages", "load", "read_tags"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'deep_patch_learning' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(f"deep_patch_learning.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
