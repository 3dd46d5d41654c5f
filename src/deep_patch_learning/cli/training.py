"""The commands that train: `dpl train`, and `dpl calibrate` for a run that exists."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from deep_patch_learning.cli.options import (
    Data,
    Device,
    Json,
    Limit,
    Split,
    Teacher,
    TeacherBackbone,
    ValShare,
    ValSplit,
    Workers,
    device_or_none,
    example,
)

training = typer.Typer(rich_markup_mode="markdown")


@training.command(
    epilog=example(
        "dpl train photos.csv --out runs/photos",
        "dpl train photos.csv --split train --val-split val --out runs/photos",
        "dpl train VOC2007 --split train --out runs/voc --backbone vgg16 --weights imagenet --recipe paper",
        "dpl train photos.csv --out runs/second --recipe refined --boxes-from runs/photos",
        "dpl train photos.csv --out runs/fast --set steps=500 --set learning_rate=1e-4",
        "dpl train photos.csv --out runs/vgg --backbone vgg16 --weights convs.pth --patch-layers distil --teacher imagenet",
    )
)
def train(
    data: Data,
    out: Annotated[Path, typer.Option(help="The run folder. Repeat the command to resume.")],
    split: Split = None,
    val_split: ValSplit = None,
    val_share: ValShare = None,
    recipe: Annotated[str, typer.Option(help="paper, modern, refined, fast, world or refined-world.")] = "modern",
    backbone: Annotated[
        str | None,
        typer.Option(
            help="caffenet, alexnet, vgg16, vgg16-caffe, resnet50[-v1][-near], lite0[-map], tiny, timm:NAME; see the README."
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            help="imagenet, shipped, shipped-model, none, a torchvision name, a .pth, .safetensors (also a run's) or .caffemodel."
        ),
    ] = None,
    patch_layers: Annotated[
        str | None, typer.Option(help="distil: first fill fc6 and fc7, in OUT-patch-layers, where --weights lack them.")
    ] = None,
    teacher: Teacher = None,
    teacher_backbone: TeacherBackbone = "resnet50",
    distil_steps: Annotated[int | None, typer.Option(min=1, help="Steps of distilling.")] = None,
    heads: Annotated[
        str,
        typer.Option(help="both (the paper's), classification, discovery, refinement, all; else as the recipe says."),
    ] = "",
    boxes_from: Annotated[
        list[Path],
        typer.Option(
            help="A finished run: its boxes on these images are what the refinement learns from. Several agree on them."
        ),
    ] = [],  # noqa: B006
    patches: Annotated[str | None, typer.Option(help="selective-search, edge-boxes or sliding-window.")] = None,
    scales: Annotated[str | None, typer.Option(help="Longest sides to train at, such as 480,688.")] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Steps of training. As many as the images call for if not given.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Order, scales, flips, dropout and new layers.")] = 0,
    changes: Annotated[list[str], typer.Option("--set", help="Any setting of the recipe, KEY=VALUE.")] = [],  # noqa: B006
    limit: Limit = None,
    device: Device = "auto",
    devices: Annotated[int, typer.Option(min=1, help="How many of them; each takes its share of every step.")] = 1,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Train on the tags of DATA. The same command again resumes; boxes are never read."""
    from deep_patch_learning.commands.calibrate import finish_with_held_out
    from deep_patch_learning.common.devices import usable_device
    from deep_patch_learning.common.errors import RunError
    from deep_patch_learning.common.progress import console
    from deep_patch_learning.data.checks.names import names_written_twice
    from deep_patch_learning.data.holdout import read_apart
    from deep_patch_learning.model.backbones.catalogue import check_name
    from deep_patch_learning.model.backbones.weights import check_source
    from deep_patch_learning.patches.prepare import prepare
    from deep_patch_learning.recipe.build import recipe_patches
    from deep_patch_learning.recipe.presets import SELF_TRAINING_ROUND, choose
    from deep_patch_learning.recipe.sizing import choose_sized
    from deep_patch_learning.runs.folder import RunFolder
    from deep_patch_learning.training.fit import train_prepared
    from deep_patch_learning.training.patch_layers import before_training, distil_patch_layers
    from deep_patch_learning.training.self_training import check_teacher, find_pseudo_boxes

    options = {"backbone": backbone, "weights": weights, "patches": patches, "steps": steps, "scales": scales}
    options = {key: value for key, value in options.items() if value is not None}
    if boxes_from:
        if any(change.partition("=")[0].strip() == "seeds" for change in changes):
            raise RunError("--boxes-from and --set seeds: the boxes are the seeds. Give one of the two.")
        changes = [*(f"{key}={value}" for key, value in SELF_TRAINING_ROUND.items()), *changes]
    chosen = choose(recipe, heads, seed, changes, options)
    # what can fail at once fails before an hour of patches
    check_name(chosen.backbone)
    check_source(chosen.weights)
    usable_device(device)
    check_teacher(chosen, out, boxes_from)
    run = RunFolder(out)
    images, held_out = read_apart(data, split, val_split, val_share, seed, limit)
    check_teacher(chosen, out, boxes_from, images.classes)
    chosen, size = choose_sized(recipe, heads, seed, changes, options, len(images), run.begun_with())
    layers = before_training(patch_layers, chosen, out, distil_steps, teacher, teacher_backbone)
    if layers is not None:
        chosen = chosen.replace(weights=str(layers.weights))
    run.check(chosen)
    if size:
        console.print(size, markup=False, soft_wrap=True)
    for finding in names_written_twice(images.classes, images.labels):
        console.print(
            f"{finding.title}: {finding.examples()}. {finding.fix}", markup=False, soft_wrap=True, style="yellow"
        )
    prepared = prepare(images, recipe_patches(chosen), workers=workers)
    apart = None if held_out is None else prepare(held_out, recipe_patches(chosen), workers=workers)
    source: dict[str, Any] = {"path": str(data.resolve()), "split": split, "limit": limit}
    source |= {} if apart is None else {"val_split": val_split, "val_share": val_share}
    if layers is not None and distil_patch_layers(prepared, layers, source, device) is None:
        raise typer.Exit(130)
    given = find_pseudo_boxes(prepared, chosen, out, boxes_from, device_or_none(device), workers)
    source |= {"boxes_from": [str(run.resolve()) for run in boxes_from]} if boxes_from else {}
    trainer = train_prepared(prepared, chosen, out, source, device, devices=devices, held_out=apart, given=given)
    if not trainer.finished:
        console.print(
            f"stopped at step {trainer.step} of {chosen.total_steps}. Repeat the command to go on.",
            markup=False,
            soft_wrap=True,
        )
        raise typer.Exit(130)
    console.print(f"{out}: trained {trainer.step} steps on {len(prepared.images)} images", markup=False, soft_wrap=True)
    figures = {"run": str(out), "steps": trainer.step, "broken": len(prepared.broken)}
    if trainer.ranks.first and apart is not None:
        figures |= finish_with_held_out(trainer, apart, source, device_or_none(device))
    if as_json and trainer.ranks.first:
        log = run.read_log()
        print(json.dumps(figures | {"loss": log[-1]["loss"] if log else None}))


@training.command(
    epilog=example(
        "dpl calibrate runs/photos photos.csv --split val", "dpl calibrate runs/voc VOC2007 --split val --json"
    )
)
def calibrate(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    data: Data,
    split: Split = None,
    limit: Limit = None,
    device: Device = "auto",
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Fit the probabilities and thresholds of a run to tags that it was not trained on."""
    from deep_patch_learning.commands.calibrate import calibrate_run
    from deep_patch_learning.data.dataset import limited
    from deep_patch_learning.data.readers.read import read_tags
    from deep_patch_learning.patches.prepare import prepare
    from deep_patch_learning.recipe.build import recipe_patches
    from deep_patch_learning.recipe.recipe import Recipe
    from deep_patch_learning.runs.folder import RunFolder

    folder = RunFolder(run)
    images = limited(read_tags(data, split, classes=folder.describe()["classes"]), limit)
    prepared = prepare(images, recipe_patches(Recipe.load(folder.config)), workers=workers)
    source = {"path": str(data.resolve()), "split": split, "limit": limit}
    found = calibrate_run(run, prepared, source, device_or_none(device))
    if as_json:
        print(json.dumps(found.as_dict()))
