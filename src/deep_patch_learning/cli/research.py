"""The commands of research: patch layers from a classifier, peers side by side, the paper's tables."""

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
    RecipeName,
    Seeds,
    Settings,
    Split,
    Steps,
    Teacher,
    TeacherBackbone,
    Weights,
    Workers,
    example,
    print_json,
    settings_of,
)

research = typer.Typer(rich_markup_mode="markdown")


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
