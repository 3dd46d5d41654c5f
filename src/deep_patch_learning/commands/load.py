"""`load`: a run folder, several of them, or nothing for the shipped model -> a model that predicts."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from deep_patch_learning.common.errors import did_you_mean
from deep_patch_learning.inference import loading
from deep_patch_learning.inference.model import Model

ModelOrRun = Model | str | Path | Sequence[str | Path] | None


class Work(TypedDict, total=False):
    """How a data set is worked through.

    `limit`: only the first images. `workers`: cores that make patches, all if not given. `device`: `auto`, `cpu`, `cuda` or
    `mps`, for a model that is given as a folder.
    """

    limit: int | None
    workers: int | None
    device: str


def load(
    run: str | Path | Sequence[str | Path] | None = None,
    device: str = "auto",
    scales: Sequence[int] | None = None,
    flips: bool | None = None,
) -> Model:
    """Return the model of a run folder, or without one the shipped model of 20 everyday classes.

    Several run folders of the same classes become an ensemble. `device` is `auto`, `cpu`, `cuda` or `mps`. `scales` are the
    longest sides at which images are seen, and with `flips` they are seen mirrored too: as the run's recipe says if not given.
    A calibrated run gives calibrated
    probabilities and a threshold for each class.
    """
    return loading.load(run, None if device == "auto" else device, scales, flips)


def as_model(model: ModelOrRun, device: str = "auto") -> Model:
    """Return the model itself, or that of a run folder; the shipped one for None."""
    return model if isinstance(model, Model) else load(model, device)


def check_options(options: Mapping[str, Any], known: type, function: str) -> None:
    """Raise `TypeError` for a keyword that the typed dictionary `known` does not have, as Python does for a parameter."""
    for name in options.keys() - known.__annotations__.keys():
        raise TypeError(f"{function}() has no option '{name}'.{did_you_mean(name, known.__annotations__)}")
