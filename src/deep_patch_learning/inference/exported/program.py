"""Model -> a program of torch.export: one view of one image, of any size and with any number of patches."""

import json
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn

from deep_patch_learning.common.atomic_files import written_afresh
from deep_patch_learning.common.signals import stopped_afterwards
from deep_patch_learning.inference.exported.one_image import OneView, example_of, exportable
from deep_patch_learning.inference.model import Model

ABOUT = "deep_patch_learning.json"  # beside the program in its archive


def traced(module: nn.Module, arguments: tuple[Any, ...], dynamic: tuple[Any, ...]) -> torch.export.ExportedProgram:
    """Return the program of a module whose arguments may change in the dimensions that `dynamic` names."""
    import torchvision.ops  # noqa: F401 - registers roi_pool

    # with gradients: without them convolutions and products take ways of their own to oneDNN, which no other runtime knows
    with stopped_afterwards(), torch.enable_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch's own functions
        return torch.export.export(module, arguments, dynamic_shapes=dynamic, strict=False)


def view_program(view: OneView) -> torch.export.ExportedProgram:
    """Return the program of one view, whose inputs are those of `OneView`."""
    any_size = torch.export.Dim.DYNAMIC
    return traced(view, example_of(view), ({2: any_size, 3: any_size}, {0: any_size}, None, None))


def write_program(model: Model, path: Path, about: dict[str, Any]) -> None:
    """Write the program of one view of a model, with `about` as JSON in it."""
    program = view_program(exportable(model))
    with written_afresh(path) as part, part.open("wb") as file:
        torch.export.save(program, file, extra_files={ABOUT: json.dumps(about)})
