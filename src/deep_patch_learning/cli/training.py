"""The commands that train: a run and its calibration; for research, patch layers, peers side by side, the paper's tables."""

from pathlib import Path
from typing import Annotated

import typer

from deep_patch_learning.cli.options import (
    DATA,
    NETWORK,
    RESEARCH,
    Backbone,
    Data,
    DataSetName,
    Device,
    DeviceName,
    Json,
    Limit,
    PatchLayerMethod,
    PatchMethod,
    RecipeName,
    Run,
    Seeds,
    Settings,
    Split,
    Steps,
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
research = typer.Typer(rich_markup_mode="markdown")


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
        str | None,
        typer.Option(
            help="selective-search, edge-boxes, sliding-window, or a proposal file (.mat, .pkl, .npz).",
            show_default="that of the recipe",
            autocompletion=completed(*PatchMethod),
            rich_help_panel=DATA,
        ),
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
    reviewed: Annotated[
        Path | None,
        typer.Option(help="The store of dpl review: its boxes and tags are taught.", rich_help_panel=DATA),
    ] = None,
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
    settings |= {"limit": limit, "workers": workers, "devices": devices, "reviewed": reviewed}
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
    force: Annotated[bool, typer.Option("--force", help="Also on images that the run was trained on.")] = False,
) -> None:
    """Fit the probabilities and thresholds of a run to tags that it was not trained on."""
    from deep_patch_learning.commands.calibrate import calibrate as command

    found = command(run, data, split=split, limit=limit, device=device, workers=workers, force=force)
    if as_json:
        print_json(found.as_dict())


@research.command(
    rich_help_panel=RESEARCH,
    epilog=example(
        "dpl distil VOC2007 --split train --backbone vgg16 --weights convs.pth --teacher imagenet --out runs/layers",
        "dpl train VOC2007 --split train --backbone vgg16 --weights runs/layers/weights.safetensors --out runs/voc",
    ),
)
def distil(
    data: Data,
    out: Annotated[Path, typer.Option(help="Gets weights.safetensors. Repeat the command to resume.")],
    steps: Steps = None,
    device: Device = DeviceName.AUTO,
    as_json: Json = False,
    split: Split = None,
    limit: Limit = None,
    workers: Workers = None,
    backbone: Annotated[str, typer.Option(help="The network whose patch layers are new.")] = "vgg16",
    weights: Weights = None,
    seed: Annotated[
        int, typer.Option(help="Order, scales, flips, patches and new layers.", rich_help_panel=NETWORK)
    ] = 0,
    changes: Annotated[
        list[str],
        typer.Option(
            "--set", help="Any setting of the recipe, or crop, temperature, dropout, ...", rich_help_panel=NETWORK
        ),
    ] = [],  # noqa: B006
    teacher: Teacher = "imagenet",
    teacher_backbone: TeacherBackbone = "resnet50",
) -> None:
    """Fill the patch layers of a network that has its convolutions only, from a classifier. Tags and boxes are not read."""
    from deep_patch_learning.commands.distil import distil as command

    settings = {"teacher": teacher, "teacher_backbone": teacher_backbone}
    settings |= settings_of(changes, weights=weights, steps=steps, seed=seed, limit=limit, workers=workers)
    found = command(data, out, split=split, backbone=backbone, device=device, **settings)
    if found is None:
        raise typer.Exit(130)
    if as_json:
        print_json(found)


@research.command(
    rich_help_panel=RESEARCH,
    epilog=example(
        "dpl compare VOC2007 --split train --test-split val --out comparison",
        "dpl compare photos.csv --peers dpl,plain,svm --steps 500 --seeds 0,1,2",
    ),
)
def compare(
    data: Data,
    out: Annotated[Path, typer.Option(help="Where compare.csv and the runs go. Repeat the command to resume.")] = Path(
        "dpl-compare"
    ),
    steps: Steps = None,
    device: Device = DeviceName.AUTO,
    as_json: Json = False,
    split: Annotated[str, typer.Option(help="The images that every peer trains on.", rich_help_panel=DATA)] = "train",
    test_split: Annotated[
        str, typer.Option(help="The images that every peer is measured on.", rich_help_panel=DATA)
    ] = "val",
    limit: Limit = None,
    workers: Workers = None,
    recipe: Annotated[RecipeName, typer.Option(help="The recipe of all peers.", rich_help_panel=NETWORK)] = (
        RecipeName.MODERN
    ),
    backbone: Backbone = None,
    weights: Weights = None,
    changes: Settings = [],  # noqa: B006
    peers: Annotated[
        str, typer.Option(help="Those wanted, with commas.", rich_help_panel=RESEARCH)
    ] = "dpl,classification,discovery,plain,hcp,svm,whole-image,fast-rcnn",
    seeds: Seeds = "0",
    hypotheses: Annotated[
        int, typer.Option(min=1, help="Crops of a test image, for hcp.", rich_help_panel=RESEARCH)
    ] = 500,
) -> None:
    """Train, measure and time Deep Patch Learning and its peers side by side. Only fast-rcnn is trained on boxes."""
    from deep_patch_learning.commands.compare import compare as command
    from deep_patch_learning.commands.compare import show

    rows = command(
        data,
        out,
        split=split,
        test_split=test_split,
        peers=peers,
        seeds=seeds,
        hypotheses=hypotheses,
        recipe=recipe,
        backbone=backbone,
        weights=weights,
        steps=steps,
        changes=changes,
        device=device,
        limit=limit,
        workers=workers,
    )
    show(rows, out)
    if as_json:
        print_json({"rows": rows, "csv": str(out / "compare.csv")})


@research.command(
    rich_help_panel=RESEARCH,
    epilog=example(
        "dpl reproduce voc2007",
        "dpl reproduce voc2007 --data VOC2007 --table tasks --backbone alexnet --weights alexnet.pth --seeds 0,1,2",
        "dpl reproduce voc2012 --data VOC2012 --table main --recipe modern",
    ),
)
def reproduce(
    name: Annotated[DataSetName, typer.Argument(help="The data set of the paper.")],
    data: Annotated[
        Path | None, typer.Option(help="Its folder, with JPEGImages.", show_default="fetched to ./data")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Where runs, CSVs and images go. Repeat the command to resume.", show_default="runs/NAME"),
    ] = None,
    table: Annotated[
        str, typer.Option(help="main, tasks, scales, patches, peers, time, several with commas, or all.")
    ] = "all",
    steps: Steps = None,
    device: Device = DeviceName.AUTO,
    as_json: Json = False,
    limit: Limit = None,
    workers: Workers = None,
    recipe: Annotated[RecipeName, typer.Option(help="The recipe of all trainings.", rich_help_panel=NETWORK)] = (
        RecipeName.PAPER
    ),
    backbone: Backbone = None,
    weights: Weights = None,
    changes: Settings = [],  # noqa: B006
    seeds: Seeds = "0",
) -> None:
    """Fill the paper's tables: ours beside the paper's, what differs, whether its claims hold, and its two figures."""
    from deep_patch_learning.commands.reproduce import reproduce as command

    found = command(
        name,
        data,
        table=table,
        recipe=recipe,
        backbone=backbone,
        weights=weights,
        steps=steps,
        seeds=seeds,
        changes=changes,
        out=out,
        device=device,
        limit=limit,
        workers=workers,
    )
    if as_json:
        print_json(found)
