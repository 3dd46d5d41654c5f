"""Options that several commands share, and how their texts are read."""

from pathlib import Path
from typing import Annotated

import typer

from deep_patch_learning.common.errors import RunError

Data = Annotated[
    Path, typer.Argument(help="A VOC folder, COCO json, CSV (image,tags), folder per class, or JSON lines.")
]
Split = Annotated[str | None, typer.Option(help="A VOC list, a value of the split column, or a file of image names.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
Run = Annotated[Path, typer.Option("--model", help="The folder of a run.")]
RunOrShipped = Annotated[
    Path | None,
    typer.Option("--model", help="The folder of a run. The model that is shipped, 20 everyday classes, if not given."),
]
Limit = Annotated[int | None, typer.Option(min=1, help="Only the first N images.")]
Scales = Annotated[
    str | None, typer.Option(help="Longest sides, such as 480,688,1200. Those of its recipe if not given.")
]
Teacher = Annotated[
    str | None, typer.Option(help="The classifier to distil: imagenet, a torchvision name, or a file with its fc.")
]
TeacherBackbone = Annotated[str, typer.Option(help="resnet50, or resnet50-v1 (strides as in the 2015 paper).")]
ValSplit = Annotated[
    str | None, typer.Option(help="Images held out: weights that do well on their tags are kept, then calibrated.")
]
ValShare = Annotated[
    float | None, typer.Option(min=0.01, max=0.9, help="Hold out this share of each class instead, such as 0.1.")
]
Workers = Annotated[int | None, typer.Option(min=1, help="Cores that make patches. All if not given.")]


def example(*lines: str) -> str:
    """Return the examples that end a command's help."""
    return "**Examples**\n\n" + "\n\n".join(f"`{line}`" for line in lines)


def device_or_none(name: str) -> str | None:
    """Return the name of a device, or None where the machine's best is to be taken."""
    return None if name == "auto" else name


def scale_numbers(text: str | None) -> tuple[int, ...] | None:
    """Return scales written with commas; None where none were given."""
    if text is None:
        return None
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise RunError(f"--scales {text}: wanted whole numbers with commas, such as 480,688,1200.") from None
    if min(numbers) < 16:
        raise RunError(f"--scales {text}: none may be below 16 pixels.")
    return numbers
