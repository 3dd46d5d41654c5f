"""The command `dpl`. Each command reads its options, calls a verb and shows what came of it."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from deep_patch_learning.cli_options import (
    Data,
    Device,
    Json,
    Limit,
    Run,
    Scales,
    Split,
    Teacher,
    TeacherBackbone,
    ValShare,
    ValSplit,
    Workers,
    device_or_none,
    example,
    scale_numbers,
)
from deep_patch_learning.cli_research import research
from deep_patch_learning.errors import DplError, did_you_mean


class Commands(TyperGroup):
    """Commands in the order in which they are used; a misspelt one gets a hint."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command of this name, or fail with the nearest one."""
        if args and self.get_command(ctx, args[0]) is None:
            ctx.fail(f"there is no command '{args[0]}'.{did_you_mean(args[0], self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="From pictures with tags and no boxes to a classifier **and** boxes, in one network.",
)


@app.command(epilog=example("dpl demo", "dpl demo --seed 1 --out worlds/one --json"))
def demo(
    out: Annotated[
        Path | None, typer.Option(help="Where the world, the runs and the report go. dpl-demo if not given.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Draws another world and trains on it.")] = 0,
    as_json: Json = False,
) -> None:
    """Make the embedded tagged world, train on its tags, find the boxes, measure both, write report.html."""
    from deep_patch_learning.demo import run_demo, show

    figures = run_demo(out or Path(f"dpl-demo-{seed}" if seed else "dpl-demo"), seed)
    show(figures)
    if as_json:
        print(json.dumps(figures))


@app.command(
    epilog=example("dpl check photos.csv", "dpl check VOC2007 --split train --against val", "dpl check photos/ --json")
)
def check(
    data: Data,
    split: Split = None,
    against: Annotated[
        str | None, typer.Option(help="The split (or data set) held out. All that the data names if not given.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Open only the first N pictures of each split.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Cores that open pictures. All if not given.")] = None,
    as_json: Json = False,
) -> None:
    """Say what will go wrong before hours are spent. Changes nothing; exit status 1 if the data is not ready."""
    from deep_patch_learning.checking import check_data
    from deep_patch_learning.showing_check import show_report

    report = check_data(data, split, against, limit, workers)
    show_report(report, f"{data} {split or ''}".strip())
    if as_json:
        print(json.dumps(report.as_dict()))
    if not report.ready:
        raise typer.Exit(1)


@app.command(
    epilog=example(
        "dpl train photos.csv --out runs/photos",
        "dpl train photos.csv --split train --val-split val --out runs/photos",
        "dpl train VOC2007 --split train --out runs/voc --backbone vgg16 --weights imagenet --recipe paper",
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
    recipe: Annotated[str, typer.Option(help="paper, modern, refined or world.")] = "modern",
    backbone: Annotated[
        str | None,
        typer.Option(help="caffenet, alexnet, vgg16, vgg16-caffe, resnet50, lite0, tiny, timm:NAME"),
    ] = None,
    weights: Annotated[
        str | None, typer.Option(help="imagenet, a torchvision name, a .pth, .safetensors or .caffemodel, or none.")
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
    patches: Annotated[str | None, typer.Option(help="selective-search, edge-boxes or sliding-window.")] = None,
    scales: Annotated[str | None, typer.Option(help="Longest sides to train at, such as 480,688.")] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Steps of training. As many as the pictures call for if not given.")
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
    from deep_patch_learning import verbs
    from deep_patch_learning.data.check_names import names_written_twice
    from deep_patch_learning.data.holding_out import read_apart
    from deep_patch_learning.devices import usable_device
    from deep_patch_learning.model.backbones import check_name
    from deep_patch_learning.model.weights import check_source
    from deep_patch_learning.patch_layers import before_training, distil_patch_layers
    from deep_patch_learning.progress import console
    from deep_patch_learning.training.recipe import choose, recipe_patches
    from deep_patch_learning.training.run import RunFolder
    from deep_patch_learning.training.sizing import choose_sized

    options = {"backbone": backbone, "weights": weights, "patches": patches, "steps": steps, "scales": scales}
    options = {key: value for key, value in options.items() if value is not None}
    chosen = choose(recipe, heads, seed, changes, options)
    # what can fail at once fails before an hour of patches
    check_name(chosen.backbone)
    check_source(chosen.weights)
    usable_device(device)
    run = RunFolder(out)
    pictures, held_out = read_apart(data, split, val_split, val_share, seed, limit)
    chosen, size = choose_sized(recipe, heads, seed, changes, options, len(pictures), run)
    layers = before_training(patch_layers, chosen, out, distil_steps, teacher, teacher_backbone)
    if layers is not None:
        chosen = chosen.replace(weights=str(layers.weights))
    run.check(chosen)
    if size:
        console.print(size, markup=False, soft_wrap=True)
    for finding in names_written_twice(pictures.classes, pictures.labels):
        console.print(
            f"{finding.title}: {finding.examples()}. {finding.fix}", markup=False, soft_wrap=True, style="yellow"
        )
    prepared = verbs.prepare(pictures, recipe_patches(chosen), workers=workers)
    apart = None if held_out is None else verbs.prepare(held_out, recipe_patches(chosen), workers=workers)
    source: dict[str, Any] = {"path": str(data.resolve()), "split": split, "limit": limit}
    source |= {} if apart is None else {"val_split": val_split, "val_share": val_share}
    if layers is not None and distil_patch_layers(prepared, layers, source, device) is None:
        raise typer.Exit(130)
    trainer = verbs.train(prepared, chosen, out, source, device, devices=devices, held_out=apart)
    if not trainer.finished:
        console.print(
            f"stopped at step {trainer.step} of {chosen.total_steps}. Repeat the command to go on.",
            markup=False,
            soft_wrap=True,
        )
        raise typer.Exit(130)
    console.print(
        f"{out}: trained {trainer.step} steps on {len(prepared.pictures)} pictures", markup=False, soft_wrap=True
    )
    figures = {"run": str(out), "steps": trainer.step, "broken": len(prepared.broken)}
    if trainer.team.first and apart is not None:
        figures |= verbs.finish_with_held_out(trainer, apart, source, device_or_none(device))
    if as_json and trainer.team.first:
        log = run.read_log()
        print(json.dumps(figures | {"loss": log[-1]["loss"] if log else None}))


@app.command(
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
    from deep_patch_learning import verbs
    from deep_patch_learning.data.tags import read_tags
    from deep_patch_learning.training.recipe import Recipe, recipe_patches
    from deep_patch_learning.training.run import RunFolder

    folder = RunFolder(run)
    pictures = verbs.limited(read_tags(data, split, classes=folder.describe()["classes"]), limit)
    prepared = verbs.prepare(pictures, recipe_patches(Recipe.load(folder.config)), workers=workers)
    source = {"path": str(data.resolve()), "split": split, "limit": limit}
    found = verbs.calibrate_run(run, prepared, source, device_or_none(device))
    if as_json:
        print(json.dumps(found.as_dict()))


@app.command(
    epilog=example("dpl predict street.jpg --model runs/photos", "dpl predict holiday/ --model runs/photos --out found")
)
def predict(
    images: Annotated[list[Path], typer.Argument(help="Images, or folders of them.")],
    model: Run,
    out: Annotated[Path, typer.Option(help="Where NAME.json and the drawn NAME.png go.")] = Path("found"),
    scales: Scales = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="From which probability a tag is shown. 0.5, or each class's own if calibrated."
        ),
    ] = None,
    draw: Annotated[bool, typer.Option(help="Draw the boxes on a copy of each picture.")] = True,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Say what is in pictures and where, as JSON and as drawn pictures."""
    from deep_patch_learning import showing, verbs
    from deep_patch_learning.predict import load

    found, broken = showing.predict_files(
        load(model, device_or_none(device), scale_numbers(scales)), verbs.image_files(images), out, threshold, draw
    )
    if as_json:
        print(
            json.dumps({"predictions": [one.as_dict() for one in found], "broken": [str(path) for path, _ in broken]})
        )


@app.command(
    epilog=example(
        "dpl label photos.csv --model runs/photos --format yolo --out labels",
        "dpl label VOC2007 --model runs/voc --split train --format coco --out labels --min-score 0.7",
    )
)
def label(
    data: Data,
    model: Run,
    out: Annotated[Path, typer.Option(help="A new folder for the labels.")],
    format: Annotated[str, typer.Option(help="coco, voc, yolo or label-studio.")] = "coco",
    split: Split = None,
    min_score: Annotated[float, typer.Option(min=0, max=1, help="The probability that a box must reach.")] = 0.5,
    boxes_per_class: Annotated[int, typer.Option(min=1, help="At most N boxes of a class in a picture.")] = 1,
    untagged: Annotated[bool, typer.Option("--untagged", help="Boxes of classes that are not tagged too.")] = False,
    limit: Limit = None,
    device: Device = "auto",
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Write boxes for the tags of DATA, ready to train a detector on."""
    from deep_patch_learning.labels import command
    from deep_patch_learning.labels.select import Choice

    choice = Choice(min_score, boxes_per_class, untagged)
    counts = command.label(data, model, format, out, split, choice, limit, device_or_none(device), workers)
    command.show(counts)
    if as_json:
        print(json.dumps(counts))


@app.command(
    epilog=example(
        "dpl evaluate VOC2007 --model runs/voc --split val", "dpl evaluate photos.csv --model runs/photos --json"
    )
)
def evaluate(
    data: Data,
    model: Run,
    split: Split = None,
    scales: Scales = None,
    strict: Annotated[bool, typer.Option(help="An overlap of exactly 0.5 is a miss, as in later papers.")] = False,
    difficult: Annotated[bool, typer.Option(help="CorLoc counts objects marked difficult, as in the paper.")] = True,
    limit: Limit = None,
    device: Device = "auto",
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Measure a run: mAP (all-point and 11-point), CorLoc and detection mAP where boxes are known, per class."""
    from deep_patch_learning import showing, verbs
    from deep_patch_learning.data.tags import read_tags
    from deep_patch_learning.data.truth import read_truth
    from deep_patch_learning.predict import load

    loaded = load(model, device_or_none(device), scale_numbers(scales))
    pictures = verbs.limited(read_tags(data, split, classes=loaded.classes), limit)
    prepared = verbs.prepare(pictures, loaded.patch_generator, workers=workers)
    predictions = verbs.predict(loaded, prepared)
    figures = verbs.measure(
        predictions, prepared.pictures.labels, read_truth(data, prepared.pictures), strict, difficult
    )
    showing.figures_table(figures, f"{data} {split or ''}")
    if as_json:
        print(json.dumps(figures))


@app.command(
    epilog=example(
        "dpl report runs/photos",
        "dpl report runs/photos --data photos.csv --split val --limit 5000",
    )
)
def report(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    data: Annotated[
        Path | None, typer.Option(help="Pictures to measure on. A held-out split of the training's data if not given.")
    ] = None,
    split: Split = None,
    out: Annotated[Path | None, typer.Option(help="The page. RUN/report.html if not given.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most N pictures, spread evenly.")] = 200,
    device: Device = "auto",
    workers: Workers = None,
) -> None:
    """Write one HTML page that says how far to trust a run: numbers, tags to check, best and worst pictures, reasons."""
    from deep_patch_learning.report.of_run import report_on_run

    print(report_on_run(run, data, split, out, limit, device_or_none(device), workers))


@app.command(epilog=example("dpl patches VOC2007 --split val", "dpl patches photos.csv --method edge-boxes --json"))
def patches(
    data: Data,
    method: Annotated[
        str,
        typer.Option(help="selective-search, edge-boxes, sliding-window, or a proposal file (.mat, .pkl) to measure."),
    ] = "selective-search",
    mode: Annotated[str, typer.Option(help="Of Selective Search: fast, quality or original.")] = "fast",
    split: Split = None,
    limit: Limit = None,
    workers: Workers = None,
    fresh: Annotated[bool, typer.Option(help="Ignore the cache.")] = False,
    as_json: Json = False,
) -> None:
    """Make and cache the patches of every picture; measure recall where boxes are known."""
    from deep_patch_learning import showing, verbs
    from deep_patch_learning.data.tags import read_tags
    from deep_patch_learning.data.truth import read_truth

    made = showing.patch_method(method, mode)
    pictures = verbs.limited(read_tags(data, split), limit)
    figures = showing.measure_patches(made, pictures, read_truth(data, pictures), workers, fresh)
    showing.patches_table(figures, method)
    if as_json:
        print(json.dumps(figures))


app.add_typer(research)


def _only_the_first_speaks() -> None:
    """Silence the processes that another one started to train together with it."""
    if os.environ.get("LOCAL_RANK", "0") != "0":
        from deep_patch_learning.progress import console

        console.quiet = True


def main() -> None:
    """Run the command; a mistake the user can mend is one line on standard error and exit status 2."""
    # torch's threads spin while they wait for each other, which costs dearly when another program wants the core: spin less
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    _only_the_first_speaks()
    try:
        app()
    except DplError as error:
        print(f"dpl: {error}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        print(
            f"dpl: {error.filename or 'a file'}: {error.strerror or error}. Check the path and its permissions.",
            file=sys.stderr,
        )
        sys.exit(2)
    except KeyboardInterrupt:
        print("dpl: stopped.", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
