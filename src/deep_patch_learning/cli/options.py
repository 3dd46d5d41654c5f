"""Options that several commands share, how their texts are read, and options that have been renamed."""

import json
import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from deep_patch_learning.common.errors import SettingError

DATA, NETWORK, CLUSTER, RESEARCH = (
    "Data",
    "Network",
    "Cluster",
    "Research",
)  # help panels, after that of what everyone needs

# of earlier versions, by command: the old name works and says its new one
DEPRECATED: dict[str, dict[str, str]] = {"train": {"--boxes-from": "--pseudo-boxes-from"}}


class RecipeName(StrEnum):
    """The recipes of `dpl train`."""

    PAPER = "paper"
    MODERN = "modern"
    REFINED = "refined"
    FAST = "fast"
    BEST = "best"
    WORLD = "world"
    REFINED_WORLD = "refined-world"


class DemoRecipe(StrEnum):
    """The recipes of `dpl demo`."""

    REFINED_WORLD = "refined-world"
    WORLD = "world"


class DeviceName(StrEnum):
    """Where a network runs."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"
    MPS = "mps"


class PatchMethod(StrEnum):
    """The patch generators."""

    SELECTIVE_SEARCH = "selective-search"
    EDGE_BOXES = "edge-boxes"
    SLIDING_WINDOW = "sliding-window"


class SearchMode(StrEnum):
    """The modes of Selective Search."""

    FAST = "fast"
    QUALITY = "quality"
    ORIGINAL = "original"


class LabelFormat(StrEnum):
    """The formats of `dpl label`."""

    COCO = "coco"
    VOC = "voc"
    YOLO = "yolo"
    LABEL_STUDIO = "label-studio"
    CVAT = "cvat"
    CREATEML = "createml"
    FIFTYONE = "fiftyone"
    IMAGEFOLDER = "imagefolder"
    PARQUET = "parquet"


class Engine(StrEnum):
    """What works through a data set."""

    LOCAL = "local"
    RAY = "ray"


class BackendTool(StrEnum):
    """The tools that `dpl backend` serves."""

    LABEL_STUDIO = "label-studio"


class ExportFormat(StrEnum):
    """The formats of `dpl export`."""

    ONNX = "onnx"
    TORCH = "torch"


class Runtime(StrEnum):
    """What computes the network of `dpl predict`."""

    TORCH = "torch"
    ONNX = "onnx"


class PatchLayerMethod(StrEnum):
    """How patch layers are filled before a training."""

    DISTIL = "distil"


class DataSetName(StrEnum):
    """The data sets of the paper."""

    VOC2007 = "voc2007"
    VOC2012 = "voc2012"


def completed(*words: str) -> Callable[[str], list[str]]:
    """Return a shell completion for an option whose usual values are these words, and which takes others too."""
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


BACKBONES = (
    *("lite0-map", "lite0", "tiny", "resnet50", "resnet50-near", "resnet50-v1", "resnet50-v1-near"),
    *("vgg16", "vgg16-caffe", "caffenet", "alexnet", "timm:"),
)

Data = Annotated[
    Path,
    typer.Argument(
        help="A VOC folder, COCO json, CSV (image,tags), folder per class, JSON lines, shards (.tar, .parquet), or an export of "
        "Label Studio, CVAT or Hugging Face."
    ),
]
DataOrUri = Annotated[
    str,
    typer.Argument(
        help="A VOC folder, COCO json, CSV (image,tags), folder per class, JSON lines, shards (.tar, .parquet), or an export of "
        "Label Studio, CVAT or Hugging Face. With --engine ray also patterns of shards and URIs."
    ),
]
EngineName = Annotated[
    Engine, typer.Option(help="ray: many processes, on one machine or a cluster.", rich_help_panel=CLUSTER)
]
Address = Annotated[
    str | None,
    typer.Option(help="HOST:PORT of a Ray cluster, or auto.", show_default="this machine", rich_help_panel=CLUSTER),
]
ShardImages = Annotated[
    int | None,
    typer.Option(
        min=1, max=1_000_000, help="Images in a part of a table.", show_default="250", rich_help_panel=CLUSTER
    ),
]
Split = Annotated[
    str | None,
    typer.Option(help="A VOC list, a value of the split column, or a file of image names.", rich_help_panel=DATA),
]
Limit = Annotated[int | None, typer.Option(min=1, help="Only the first N images.", rich_help_panel=DATA)]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Cores that make patches. All if not given.", rich_help_panel=DATA)
]
Patches = Annotated[
    str | None,
    typer.Option(
        help="Other patches: selective-search, edge-boxes, sliding-window, or a proposal file (.mat, .pkl, .npz).",
        show_default="those of the run",
        autocompletion=completed(*PatchMethod),
        rich_help_panel=DATA,
    ),
]
ValSplit = Annotated[
    str | None,
    typer.Option(
        help="Images held out: weights that do well on their tags are kept, then calibrated.", rich_help_panel=DATA
    ),
]
ValShare = Annotated[
    float | None,
    typer.Option(
        min=0.01, max=0.9, help="Hold out this share of each class instead, such as 0.1.", rich_help_panel=DATA
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")]
Device = Annotated[DeviceName, typer.Option(help="Where the network runs.", show_default="the best there is")]
Run = Annotated[Path, typer.Argument(help="The folder of a run.")]
RunOrShipped = Annotated[
    Path | None,
    typer.Option(
        "--model", help="The folder of a run, or a .onnx file.", show_default="the shipped model, 20 everyday classes"
    ),
]
Scales = Annotated[
    str | None,
    typer.Option(
        help="Longest sides, such as 480,688,1200.", show_default="those of its recipe", rich_help_panel=NETWORK
    ),
]
Flips = Annotated[
    bool | None,
    typer.Option(
        help="See each scale mirrored too: better boxes, twice the time.",
        show_default="as in its recipe",
        rich_help_panel=NETWORK,
    ),
]
Backbone = Annotated[
    str | None,
    typer.Option(
        help="lite0[-map], resnet50[-v1][-near], vgg16[-caffe], caffenet, alexnet, tiny or timm:NAME.",
        show_default="that of the recipe",
        autocompletion=completed(*BACKBONES),
        rich_help_panel=NETWORK,
    ),
]
Weights = Annotated[
    str | None,
    typer.Option(
        help="imagenet, shipped, shipped-model, none, a torchvision name, a .pth, .safetensors (also a run's) or .caffemodel.",
        show_default="that of the recipe",
        autocompletion=completed("imagenet", "shipped", "shipped-model", "none"),
        rich_help_panel=NETWORK,
    ),
]
Settings = Annotated[
    list[str], typer.Option("--set", help="Any setting of the recipe, KEY=VALUE.", rich_help_panel=NETWORK)
]
Steps = Annotated[int | None, typer.Option(min=1, help="Steps of training.", show_default="as the recipe says")]
Seeds = Annotated[str, typer.Option(help="One training for each, such as 0,1,2.", rich_help_panel=RESEARCH)]
Teacher = Annotated[
    str | None,
    typer.Option(
        help="The classifier to distil: imagenet, a torchvision name, or a file with its fc.",
        autocompletion=completed("imagenet"),
        rich_help_panel=RESEARCH,
    ),
]
TeacherBackbone = Annotated[
    str,
    typer.Option(
        help="resnet50, or resnet50-v1 (strides as in the 2015 paper).",
        autocompletion=completed("resnet50", "resnet50-v1"),
        rich_help_panel=RESEARCH,
    ),
]


def example(*lines: str) -> str:
    """Return the examples that end a command's help."""
    return "**Examples**\n\n" + "\n\n".join(f"`{line}`" for line in lines)


def renamed(command: str | None, arguments: list[str]) -> list[str]:
    """Return the arguments of a command with options of earlier versions renamed; each is named once on standard error."""
    names = DEPRECATED.get(command or "", {})
    found = []
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if name in names:
            print(f"dpl: {name} is deprecated, use {names[name]}.", file=sys.stderr)
            argument = names[name] + equals + value
        found.append(argument)
    return found


def settings_of(changes: Sequence[str], **options: Any) -> dict[str, Any]:
    """Return the settings that options give, without those left out, and over them the KEY=VALUE texts of --set."""
    found = {
        key: str(value) if isinstance(value, StrEnum) else value for key, value in options.items() if value is not None
    }
    if changes:
        from deep_patch_learning.recipe.choose import key_and_value

        found |= dict(map(key_and_value, changes))
    return found


def scale_numbers(text: str | None) -> tuple[int, ...] | None:
    """Return scales written with commas; None where none were given."""
    if text is None:
        return None
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise SettingError(f"--scales {text}: wanted whole numbers with commas, such as 480,688,1200.") from None
    if min(numbers) < 16:
        raise SettingError(f"--scales {text}: none may be below 16 pixels.")
    if max(numbers) > 16_384:
        raise SettingError(f"--scales {text}: none may be above 16384 pixels.")
    return numbers


def print_json(found: Any) -> None:
    """Print one JSON object as the last line of standard output."""
    print(json.dumps(found))
