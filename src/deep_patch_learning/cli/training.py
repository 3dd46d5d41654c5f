"""The commands that change a run: `dpl train`, and `dpl calibrate` for a run that exists."""

from pathlib import Path
from typing import Annotated

import typer

from deep_patch_learning.cli.options import (
    DATA,
    NETWORK,
    RESEARCH,
    Backbone,
    Data,
    Device,
    DeviceName,
    Json,
    Limit,
    PatchLayerMethod,
    PatchMethod,
    RecipeName,
    Run,
    Settings,
    Split,
    Teacher,
    TeacherBackbone,
    ValShare,
    ValSplit,
    Weights,
    Workers,
    completed,
    example,
    print_json,
    settings_of,
)
from deep_patch_learning.common.errors import DataError, SettingError

training = typer.Typer(rich_markup_mode="markdown")


@training.command(
    epilog=example(
        "dpl train photos.csv --out runs/photos",
        "dpl train photos.csv --split train --val-split val --out runs/photos",
        "dpl train photos.csv --val-share 0.1 --recipe best --out runs/best",
        "dpl train VOC2007 --split train --out runs/voc --backbone vgg16 --weights imagenet --recipe paper",
        "dpl train photos.csv --out runs/second --recipe refined --pseudo-boxes-from runs/photos",
        "dpl train photos.csv --out runs/fast --set steps=500 --set learning_rate=1e-4",
        "dpl train photos.csv --out runs/vgg --backbone vgg16 --weights convs.pth --patch-layers distil --teacher imagenet",
    )
)
def train(
    data: Data,
    out: Annotated[Path, typer.Option(help="The run folder. Repeat the command to resume.")],
    recipe: Annotated[
        RecipeName | None,
        typer.Option(
            help="The network and how it is trained; best: several trainings, for the best boxes.",
            show_default="refined with a GPU, else fast",
        ),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Steps of training.", show_default="as many as the images call for")
    ] = None,
    device: Device = DeviceName.AUTO,
    as_json: Json = False,
    split: Split = None,
    val_split: ValSplit = None,
    val_share: ValShare = None,
    limit: Limit = None,
    workers: Workers = None,
    patches: Annotated[
        PatchMethod | None,
        typer.Option(help="The patch generator.", show_default="that of the recipe", rich_help_panel=DATA),
    ] = None,
    backbone: Backbone = None,
    weights: Weights = None,
    heads: Annotated[
        str | None,
        typer.Option(
            help="both (the paper's), classification, discovery, refinement, all, or several with commas.",
            show_default="those of the recipe",
            autocompletion=completed("both", "all", "classification", "discovery", "refinement"),
            rich_help_panel=NETWORK,
        ),
    ] = None,
    scales: Annotated[
        str | None, typer.Option(help="Longest sides to train at, such as 480,688.", rich_help_panel=NETWORK)
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Order, scales, flips, dropout and new layers.", rich_help_panel=NETWORK)
    ] = 0,
    devices: Annotated[
        int,
        typer.Option(
            min=1, help="How many of the device; each takes its share of every step.", rich_help_panel=NETWORK
        ),
    ] = 1,
    rounds: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Self-training rounds, each on the boxes of the networks before it.",
            show_default="those of the recipe",
            rich_help_panel=NETWORK,
        ),
    ] = None,
    first_networks: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Networks before the rounds, which find the first boxes together.",
            show_default="those of the recipe",
            rich_help_panel=NETWORK,
        ),
    ] = None,
    changes: Settings = [],  # noqa: B006
    pseudo_boxes_from: Annotated[
        list[Path],
        typer.Option(
            help="A finished run, for a self-training round: the refinement learns from its boxes on these images. "
            "Several agree on them.",
            rich_help_panel=RESEARCH,
        ),
    ] = [],  # noqa: B006
    patch_layers: Annotated[
        PatchLayerMethod | None,
        typer.Option(
            help="First fill fc6 and fc7, in OUT-patch-layers, where --weights lack them.", rich_help_panel=RESEARCH
        ),
    ] = None,
    teacher: Teacher = None,
    teacher_backbone: TeacherBackbone = "resnet50",
    distil_steps: Annotated[
        int | None, typer.Option(min=1, help="Steps of distilling.", rich_help_panel=RESEARCH)
    ] = None,
) -> None:
    """Train on the tags of DATA. The same command again resumes; boxes are never read."""
    from deep_patch_learning.commands.train import Distillation
    from deep_patch_learning.commands.train import train as command

    if val_split is not None and val_share is not None:
        raise DataError("--val-split and --val-share both say what is held out. Give one of them.")
    if patch_layers is None and (teacher is not None or distil_steps is not None):
        raise SettingError("--teacher and --distil-steps belong to --patch-layers distil. Add it, or leave them out.")
    distillation = Distillation(teacher or "imagenet", teacher_backbone, distil_steps) if patch_layers else None
    named = {"backbone": backbone, "weights": weights, "patches": patches, "steps": steps, "scales": scales}
    named |= {"heads": heads, "seed": seed, "rounds": rounds, "first_networks": first_networks}
    settings = settings_of(changes, **named)
    settings |= {"limit": limit, "workers": workers, "devices": devices}
    settings |= {"pseudo_boxes_from": pseudo_boxes_from, "distillation": distillation}
    run = command(data, out, split=split, val=val_split or val_share, recipe=recipe, device=device, **settings)
    if not run.finished:
        raise typer.Exit(130)
    if as_json and run.figures:
        print_json(run.figures)


@training.command(
    epilog=example(
        "dpl calibrate runs/photos photos.csv --split val", "dpl calibrate runs/voc VOC2007 --split val --json"
    )
)
def calibrate(
    run: Run,
    data: Data,
    device: Device = DeviceName.AUTO,
    as_json: Json = False,
    split: Split = None,
    limit: Limit = None,
    workers: Workers = None,
) -> None:
    """Fit the probabilities and thresholds of a run to tags that it was not trained on."""
    from deep_patch_learning.commands.calibrate import calibrate as command

    found = command(run, data, split=split, limit=limit, device=device, workers=workers)
    if as_json:
        print_json(found.as_dict())
