"""The command `dpl`. Each command reads its options, calls a verb and shows what came of it."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from deep_patch_learning.cli.options import (
    Data,
    Device,
    Json,
    Limit,
    Run,
    RunOrShipped,
    Scales,
    Split,
    Workers,
    device_or_none,
    example,
    scale_numbers,
)
from deep_patch_learning.cli.research import research
from deep_patch_learning.cli.training import training
from deep_patch_learning.common.errors import DplError, did_you_mean
from deep_patch_learning.common.memory import keep_memory


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
    help="From images with tags and no boxes to a classifier **and** boxes, in one network.",
)


@app.command(
    epilog=example("dpl demo", "dpl demo --recipe world", "dpl demo --seed 1 --out worlds/one --json"),
)
def demo(
    out: Annotated[
        Path | None, typer.Option(help="Where the world, the runs and the report go. dpl-demo if not given.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Draws another world and trains on it.")] = 0,
    recipe: Annotated[str, typer.Option(help="refined-world, or world: the paper's two heads.")] = "refined-world",
    as_json: Json = False,
) -> None:
    """Make the embedded tagged world, train on its tags, find the boxes, measure both, write report.html."""
    from deep_patch_learning.commands.demo import run_demo, show

    figures = run_demo(out or Path(f"dpl-demo-{seed}" if seed else "dpl-demo"), seed, recipe=recipe)
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
    limit: Annotated[int | None, typer.Option(min=1, help="Open only the first N images of each split.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Cores that open images. All if not given.")] = None,
    as_json: Json = False,
) -> None:
    """Say what will go wrong before hours are spent. Changes nothing; exit status 1 if the data is not ready."""
    from deep_patch_learning.commands.check import check_data, show_report

    report = check_data(data, split, against, limit, workers)
    show_report(report, f"{data} {split or ''}".strip())
    if as_json:
        print(json.dumps(report.as_dict()))
    if not report.ready:
        raise typer.Exit(1)


app.registered_commands += training.registered_commands  # here, so that they stand in the order of use


@app.command(epilog=example("dpl predict street.jpg", "dpl predict holiday/ --model runs/photos --out found"))
def predict(
    images: Annotated[list[Path], typer.Argument(help="Images, or folders of them.")],
    model: RunOrShipped = None,
    out: Annotated[Path, typer.Option(help="Where NAME.json and the drawn NAME.png go.")] = Path("found"),
    scales: Scales = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="From which probability a tag is shown. 0.5, or each class's own if calibrated."
        ),
    ] = None,
    draw: Annotated[bool, typer.Option(help="Draw the boxes on a copy of each image.")] = True,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Say what is in images and where, as JSON and as drawn images."""
    from deep_patch_learning.commands import showing
    from deep_patch_learning.data.images import image_files
    from deep_patch_learning.inference.loading import load

    found, broken = showing.predict_files(
        load(model, device_or_none(device), scale_numbers(scales)), image_files(images), out, threshold, draw
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
    min_score: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="The probability that a box must reach.",
            show_default="that of a shown tag, 0.5 or the class's own",
        ),
    ] = None,
    boxes_per_class: Annotated[int, typer.Option(min=1, help="At most N boxes of a class in an image.")] = 1,
    untagged: Annotated[bool, typer.Option("--untagged", help="Boxes of classes that are not tagged too.")] = False,
    limit: Limit = None,
    device: Device = "auto",
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Write boxes for the tags of DATA, ready to train a detector on."""
    from deep_patch_learning.commands import label as command
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
    from deep_patch_learning.commands import showing
    from deep_patch_learning.data.dataset import limited
    from deep_patch_learning.data.readers.read import read_tags
    from deep_patch_learning.data.truth import read_truth
    from deep_patch_learning.evaluation.measure import measure_predictions
    from deep_patch_learning.inference.loading import load
    from deep_patch_learning.inference.stream import predict_prepared
    from deep_patch_learning.patches.prepare import prepare

    loaded = load(model, device_or_none(device), scale_numbers(scales))
    images = limited(read_tags(data, split, classes=loaded.classes), limit)
    prepared = prepare(images, loaded.patch_generator, workers=workers)
    predictions = predict_prepared(loaded, prepared)
    figures = measure_predictions(
        predictions, prepared.images.labels, read_truth(data, prepared.images), strict, difficult
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
        Path | None, typer.Option(help="Images to measure on. A held-out split of the training's data if not given.")
    ] = None,
    split: Split = None,
    out: Annotated[Path | None, typer.Option(help="The page. RUN/report.html if not given.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most N images, spread evenly.")] = 200,
    device: Device = "auto",
    workers: Workers = None,
) -> None:
    """Write one HTML page that says how far to trust a run: numbers, tags to check, best and worst images, reasons."""
    from deep_patch_learning.commands.report import report_on_run

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
    """Make and cache the patches of every image; measure recall where boxes are known."""
    from deep_patch_learning.commands import showing
    from deep_patch_learning.data.dataset import limited
    from deep_patch_learning.data.readers.read import read_tags
    from deep_patch_learning.data.truth import read_truth

    made = showing.patch_method(method, mode)
    images = limited(read_tags(data, split), limit)
    figures = showing.measure_patches(made, images, read_truth(data, images), workers, fresh)
    showing.patches_table(figures, method)
    if as_json:
        print(json.dumps(figures))


app.add_typer(research)


def _only_the_first_speaks() -> None:
    """Silence the processes that another one started to train together with it."""
    if os.environ.get("LOCAL_RANK", "0") != "0":
        from deep_patch_learning.common.progress import console

        console.quiet = True


def main() -> None:
    """Run the command; a mistake the user can fix is one line on standard error and exit status 2."""
    # torch's threads spin while they wait for each other, which costs dearly when another program wants the core: spin less
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    keep_memory()
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
