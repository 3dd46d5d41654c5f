"""The command `dpl`: each command reads its options, calls the function of its name in `commands/` and shows the result."""

import io
import json
import os
import re
import signal
import sys
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from deep_patch_learning.cli.options import (
    DATA,
    NETWORK,
    Address,
    BackendTool,
    Data,
    DataOrUri,
    DemoRecipe,
    Device,
    DeviceName,
    Engine,
    EngineName,
    ExportFormat,
    Flips,
    Json,
    LabelFormat,
    Limit,
    Patches,
    PatchMethod,
    RecipeName,
    Run,
    RunOrShipped,
    Runtime,
    Scales,
    SearchMode,
    ShardImages,
    Split,
    Workers,
    completed,
    example,
    print_json,
    renamed,
    scale_numbers,
)
from deep_patch_learning.cli.training import research, training
from deep_patch_learning.common.devices import collect_garbage_later, keep_memory, map_large_blocks
from deep_patch_learning.common.errors import DplError, SettingError, did_you_mean, in_one_line
from deep_patch_learning.common.signals import Ended, end_by_exception, raise_what_ended, repeat_ignored_signals

STOPPED = "dpl: stopped. What is written is whole; repeat the command to go on."


class Commands(TyperGroup):
    """Commands in the order in which they are used; a misspelt command or choice gets a hint."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command of this name, or fail with the nearest one."""
        if args and self.get_command(ctx, args[0]) is None:
            ctx.fail(f"there is no command '{args[0]}'.{did_you_mean(args[0], self.list_commands(ctx))}")
        name, command, rest = super().resolve_command(ctx, args)
        return name, command, renamed(name, rest)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; a choice that is not known is an error like any other, and names the nearest one."""
        try:
            return self._invoke(ctx)
        except typer.BadParameter as error:
            wrong = re.search(r"'([^']*)' is not one of (.*)", error.message)
            if wrong is None:
                raise
            option = max(error.param.opts, key=len) if error.param is not None else "choice"
            hint = did_you_mean(wrong[1], re.findall(r"'(.*?)'", wrong[2]))
            raise SettingError(f"{option} {wrong[1]}: not known.{hint}") from None
        except KeyboardInterrupt:
            print(STOPPED, file=sys.stderr)
            raise
        except BrokenPipeError:  # such as `dpl predict photos | head`
            _end_at_a_closed_pipe()

    def _invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.Exit:
            raise
        except Exception as error:
            raise_what_ended()
            _say_plainly(error)
            raise

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Return the context of a command line; what is wrong with it holds nothing that a terminal would obey."""
        try:
            return super().make_context(*arguments, **options)
        except Exception as error:
            _say_plainly(error)
            raise


def _say_plainly(error: Exception) -> None:
    """Take control characters out of the message of typer's own errors, which is printed as it is."""
    message = getattr(error, "message", None)
    if isinstance(message, str):
        from deep_patch_learning.common.progress import plain

        error.message = plain(message)  # type: ignore[attr-defined]


def _end_at_a_closed_pipe() -> NoReturn:
    """End as other programs do whose reader has gone away."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing is left to be flushed
    sys.exit(128 + signal.SIGPIPE)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="From images with tags and no boxes to a classifier **and** boxes, in one network.",
)


def _version(wanted: bool) -> None:
    if wanted:
        from deep_patch_learning import __version__

        print(f"dpl {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Read the options that stand before a command."""


@app.command(
    epilog=example(
        "dpl demo", "dpl demo --all", "dpl demo --recipe world", "dpl demo --seed 1 --out worlds/one --json"
    ),
)
def demo(
    out: Annotated[
        Path | None,
        typer.Option(help="Where the data set, the runs and the report go.", show_default="dpl-demo"),
    ] = None,
    all_heads: Annotated[bool, typer.Option("--all", help="Train each of the paper's two heads alone too.")] = False,
    as_json: Json = False,
    seed: Annotated[int, typer.Option(help="Draws another data set and trains on it.", rich_help_panel=DATA)] = 0,
    recipe: Annotated[
        DemoRecipe, typer.Option(help="world: the paper's two heads without refinement.", rich_help_panel=NETWORK)
    ] = DemoRecipe.REFINED_WORLD,
) -> None:
    """Draw a synthetic data set, train on its tags, find the boxes, measure both, write report.html."""
    from deep_patch_learning.commands.demo import demo as command
    from deep_patch_learning.commands.demo import show

    figures = command(out, seed=seed, recipe=recipe, all_heads=all_heads)
    show(figures)
    if as_json:
        print_json(figures)


@app.command(
    epilog=example("dpl check photos.csv", "dpl check VOC2007 --split train --against val", "dpl check photos/ --json")
)
def check(
    data: Data,
    as_json: Json = False,
    split: Split = None,
    against: Annotated[
        str | None,
        typer.Option(
            help="The split, or data set, held out.", show_default="all that the data names", rich_help_panel=DATA
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Open only the first N images of each split.", rich_help_panel=DATA)
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Cores that open images. All if not given.", rich_help_panel=DATA)
    ] = None,
) -> None:
    """Say what will go wrong before hours are spent. Changes nothing; exit status 1 if the data is not ready."""
    from deep_patch_learning.commands.check import check as command
    from deep_patch_learning.commands.check import show

    map_large_blocks()
    report = command(data, split, against, limit, workers)
    show(report, f"{data} {split or ''}".strip())
    if as_json:
        print_json(report.as_dict())
    if not report.ready:
        raise typer.Exit(1)


app.registered_commands += training.registered_commands  # here, so that they stand in the order of use


@app.command(epilog=example("dpl predict street.jpg", "dpl predict holiday/ --model runs/photos --out found"))
def predict(
    images: Annotated[list[Path], typer.Argument(help="Images, or folders of them.")],
    model: RunOrShipped = None,
    out: Annotated[Path, typer.Option(help="Where NAME.json and the drawn NAME.png go.")] = Path("found"),
    threshold: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="From which probability a tag is shown.",
            show_default="0.5, or each class's own if calibrated",
        ),
    ] = None,
    draw: Annotated[bool, typer.Option(help="Draw the boxes on a copy of each image.")] = True,
    device: Device = DeviceName.AUTO,
    as_json: Json = False,
    scales: Scales = None,
    flips: Flips = None,
    patches: Patches = None,
    runtime: Annotated[
        Runtime, typer.Option(help="onnx: the model.onnx that dpl export wrote into the run.", rich_help_panel=NETWORK)
    ] = Runtime.TORCH,
) -> None:
    """Say what is in images and where, as JSON and as drawn images."""
    from deep_patch_learning.commands.predict import predict as command
    from deep_patch_learning.commands.predict import show
    from deep_patch_learning.inference.loading import load

    if runtime == Runtime.ONNX:
        from deep_patch_learning.commands.export import exported

        model = exported(model)
    loaded = load(model, device, scale_numbers(scales), flips, patches)
    found = command(images, loaded, out=out, threshold=threshold, draw=draw)
    with tempfile.TemporaryFile("w+", encoding="utf-8") as lines:  # on disk: memory must not grow with the images
        for count, prediction in enumerate(found, 1):
            show(prediction)
            if as_json:
                lines.write(", " * (count > 1) + json.dumps(prediction.as_dict()))
        count = found.count - len(found.broken)
        print(f"{count} image{'s' * (count != 1)} in {out}")
        if as_json:
            lines.seek(0)
            print('{"predictions": [', end="")
            for part in iter(lambda: lines.read(1 << 20), ""):
                print(part, end="")
            print(f'], "broken": {json.dumps([str(path) for path, _ in found.broken])}}}')


@app.command(
    epilog=example(
        "dpl label photos.csv --model runs/photos --format yolo --out labels",
        "dpl label VOC2007 --model runs/voc --split train --format coco --out labels --min-score 0.7",
        "dpl label 's3://bucket/shards/*.tar' --engine ray --address auto --format parquet --out /shared/labels",
    )
)
def label(
    data: DataOrUri,
    out: Annotated[Path, typer.Option(help="A new folder for the labels.")],
    model: RunOrShipped = None,
    format: Annotated[LabelFormat, typer.Option(help="The format of the labels.")] = LabelFormat.COCO,
    min_score: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="The probability that a box must reach.",
            show_default="that of a shown tag, 0.5 or the class's own",
        ),
    ] = None,
    precision: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="The expected precision that a box must reach; three views.",
            show_default="not estimated",
        ),
    ] = None,
    boxes_per_class: Annotated[
        int | None,
        typer.Option(
            min=1, help="At most N boxes of a class in an image.", show_default="1; with --for-training all good ones"
        ),
    ] = None,
    untagged: Annotated[bool, typer.Option("--untagged", help="Boxes of classes that are not tagged too.")] = False,
    for_training: Annotated[
        bool, typer.Option("--for-training", help="Labels to train a detector on: no tag without a box.")
    ] = False,
    reviewed: Annotated[
        Path | None, typer.Option(help="The store of dpl review: people's boxes go before those found.")
    ] = None,
    device: Device = DeviceName.AUTO,
    as_json: Json = False,
    split: Split = None,
    limit: Limit = None,
    workers: Workers = None,
    patches: Patches = None,
    engine: EngineName = Engine.LOCAL,
    address: Address = None,
    shard_images: ShardImages = None,
) -> None:
    """Write boxes for the tags of DATA, ready to train a detector on."""
    from deep_patch_learning.commands.label import label as command
    from deep_patch_learning.commands.label import show

    counts = command(
        data,
        model,
        out=out,
        format=format,
        split=split,
        min_score=min_score,
        precision=precision,
        boxes_per_class=boxes_per_class,
        reviewed=reviewed,
        untagged=untagged,
        patches=patches,
        for_training=for_training,
        limit=limit,
        device=device,
        workers=workers,
        engine=engine,
        address=address,
        shard_images=shard_images,
    )
    show(counts)
    if as_json:
        print_json(counts)


@app.command(
    epilog=example(
        "dpl review photos.csv --model runs/photos",
        "dpl review labels/annotations/instances_train.json",
        "dpl review runs/photos/review.sqlite --host 0.0.0.0",
    )
)
def review(
    data: Annotated[
        Path, typer.Argument(help="A tagged data set; or a COCO json, a folder of dpl label, or a store to go on with.")
    ],
    model: RunOrShipped = None,
    store: Annotated[
        Path | None,
        typer.Option(help="Where the review is kept.", show_default="review.sqlite beside the run or labels"),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Where the page is served.", show_default="the first free from 8765"),
    ] = None,
    host: Annotated[
        str, typer.Option(help="The address. Others than this machine's own need the token.")
    ] = "127.0.0.1",
    token: Annotated[
        str | None, typer.Option(help="What the link must hold.", show_default="made where it is needed")
    ] = None,
    others: Annotated[
        list[Path] | None,
        typer.Option(
            help="Another run (other seed or round): boxes that it finds elsewhere come first. Can be repeated."
        ),
    ] = None,
    browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    follow_links: Annotated[
        bool, typer.Option("--follow-links", help="Images may be links out of the data's folder.", rich_help_panel=DATA)
    ] = False,
    device: Device = DeviceName.AUTO,
    split: Split = None,
    limit: Limit = None,
    workers: Workers = None,
) -> None:
    """Open a page to accept, correct and draw boxes; it says how many are right."""
    from deep_patch_learning.commands.review import review as command

    command(
        data,
        model,
        store=store,
        split=split,
        host=host,
        port=port,
        token=token,
        browser=browser,
        others=others or (),
        follow_links=follow_links,
        limit=limit,
        device=device,
        workers=workers,
    )


@app.command(
    epilog=example(
        "dpl evaluate VOC2007 --model runs/voc --split val", "dpl evaluate photos.csv --model runs/photos --json"
    )
)
def evaluate(
    data: Data,
    model: RunOrShipped = None,
    device: Device = DeviceName.AUTO,
    as_json: Json = False,
    split: Split = None,
    limit: Limit = None,
    workers: Workers = None,
    scales: Scales = None,
    flips: Flips = None,
    patches: Patches = None,
    strict: Annotated[
        bool, typer.Option(help="An IoU of exactly 0.5 is a miss, as in later papers.", rich_help_panel="Research")
    ] = False,
    difficult: Annotated[
        bool, typer.Option(help="CorLoc counts objects marked difficult, as in the paper.", rich_help_panel="Research")
    ] = True,
) -> None:
    """Measure a model: mAP (all-point and 11-point), CorLoc and detection mAP where boxes are known, per class."""
    from deep_patch_learning.commands.evaluate import evaluate as command
    from deep_patch_learning.commands.evaluate import show
    from deep_patch_learning.inference.loading import load

    loaded = load(model, device, scale_numbers(scales), flips, patches)
    figures = command(data, loaded, split=split, strict=strict, difficult=difficult, limit=limit, workers=workers)
    show(figures, f"{data} {split or ''}".strip())
    if as_json:
        print_json(figures)


@app.command(
    epilog=example("dpl report runs/photos", "dpl report runs/photos --data photos.csv --split val --limit 5000")
)
def report(
    run: Run,
    out: Annotated[Path | None, typer.Option(help="The page.", show_default="RUN/report.html")] = None,
    device: Device = DeviceName.AUTO,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Images to measure on.", show_default="held-out images of the run's data", rich_help_panel=DATA
        ),
    ] = None,
    split: Split = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="At most N images, spread evenly.", rich_help_panel=DATA)
    ] = 200,
    workers: Workers = None,
    reviewed: Annotated[
        Path | None,
        typer.Option(help="A store of dpl review: how many boxes are right.", show_default="RUN/review.sqlite"),
    ] = None,
) -> None:
    """Write one HTML page that says how far to trust a run: numbers, tags to check, best and worst images, reasons."""
    from deep_patch_learning.commands.report import report as command

    work: dict[str, Any] = {"limit": limit, "device": device, "workers": workers}
    print(command(run, data=data, split=split, out=out, reviewed=reviewed, **work))


@app.command(
    epilog=example("dpl patches VOC2007 --split val", "dpl patches photos.csv --recipe best    # before a training")
)
def patches(
    data: DataOrUri,
    method: Annotated[
        str,
        typer.Option(
            help="selective-search, edge-boxes, sliding-window, or a proposal file (.mat, .pkl, .npz) to measure.",
            autocompletion=completed(*PatchMethod),
        ),
    ] = "selective-search",
    mode: Annotated[SearchMode, typer.Option(help="The mode of Selective Search.")] = SearchMode.FAST,
    recipe: Annotated[
        RecipeName | None, typer.Option(help="The patches that a training with this recipe uses.", show_default="none")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="The patches that the run in this folder uses.", show_default="none")
    ] = None,
    fresh: Annotated[bool, typer.Option(help="Ignore the cache.")] = False,
    as_json: Json = False,
    split: Split = None,
    limit: Limit = None,
    workers: Workers = None,
    engine: EngineName = Engine.LOCAL,
    address: Address = None,
    shard_images: ShardImages = None,
) -> None:
    """Make and cache the patches of every image; measure recall where boxes are known."""
    from deep_patch_learning.commands.patches import patches as command
    from deep_patch_learning.commands.patches import show

    how: Any = {"method": method, "mode": mode, "recipe": recipe, "model": model, "fresh": fresh}
    how |= {"engine": engine, "address": address, "shard_images": shard_images}
    figures = command(data, split=split, limit=limit, workers=workers, **how)
    show(figures, str(recipe or model or method))
    if as_json:
        print_json(figures)


@app.command(epilog=example("dpl info", "dpl info --json"))
def info(as_json: Json = False) -> None:
    """Print what a bug report needs: versions, device, cache folder and size, shipped model."""
    from deep_patch_learning.commands.info import info as command
    from deep_patch_learning.commands.info import show

    found = command()
    show(found)
    if as_json:
        print_json(found)


@app.command(
    epilog=example("dpl export runs/photos", "dpl export runs/photos --format torch", "dpl export --out model.onnx")
)
def export(
    run: Annotated[Path | None, typer.Argument(help="The folder of a run.", show_default="the shipped model")] = None,
    format: Annotated[
        ExportFormat, typer.Option(help="onnx: images in, boxes out. torch: torch.export, one view.")
    ] = ExportFormat.ONNX,
    out: Annotated[Path | None, typer.Option(help="The file.", show_default="RUN/model.onnx or RUN/model.pt2")] = None,
    eight_bit: Annotated[
        bool, typer.Option("--8-bit/--no-8-bit", help="Write NAME-8bit.onnx too, its weights in 8 bits.")
    ] = True,
    as_json: Json = False,
    scales: Scales = None,
    flips: Flips = None,
) -> None:
    """Write the network of a run as one file that other runtimes load."""
    from deep_patch_learning.commands.export import export as command
    from deep_patch_learning.commands.export import show

    files = command(run, format=format, out=out, scales=scale_numbers(scales), flips=flips, eight_bit=eight_bit)
    show(files)
    if as_json:
        print_json({"files": [{"path": str(file), "bytes": file.stat().st_size} for file in files]})


@app.command(epilog=example("dpl backend label-studio --model runs/photos --images /data"))
def backend(
    tool: Annotated[BackendTool, typer.Argument(help="Whose backend.")],
    model: RunOrShipped = None,
    images: Annotated[
        Path | None, typer.Option(help="Label Studio's document root; no file outside it is read.", show_default="none")
    ] = None,
    host: Annotated[str, typer.Option(help="Where to listen; others than this machine need a password.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port.")] = 9090,
    device: Device = DeviceName.AUTO,
) -> None:
    """Serve a model to Label Studio, which then shows boxes and tags before people label."""
    from deep_patch_learning.commands.backend import backend as command

    command(model, images=images, host=host, port=port, device=device)


app.add_typer(research)


def _only_the_first_speaks() -> None:
    """Silence the processes that another one started to train together with it."""
    if os.environ.get("LOCAL_RANK", "0") != "0":
        from deep_patch_learning.common.progress import console

        console.quiet = True


def main() -> None:
    """Run the command; a mistake the user can fix is one line on standard error and exit status 2."""
    collect_garbage_later()
    keep_memory()
    # torch's threads spin while they wait for each other, which costs dearly when another program wants the core: spin less
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    warnings.filterwarnings("ignore", "Image size .* exceeds limit")  # Pillow's; ours is an error
    for stream in (sys.stdout, sys.stderr):  # a name that the terminal's letters cannot show ends no command
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    with suppress(ValueError):  # not the main thread
        end_by_exception()
    repeat_ignored_signals()
    _only_the_first_speaks()
    try:
        app()
    except Ended:
        print(STOPPED, file=sys.stderr)
        raise
    except KeyboardInterrupt:  # before a command runs; once it does, `Commands.invoke` says so
        print(STOPPED, file=sys.stderr)
        sys.exit(128 + signal.SIGINT)
    except SystemExit as end:  # --help and --version print before a command runs: typer and rich then end with status 1
        if isinstance(end.__context__, BrokenPipeError):
            _end_at_a_closed_pipe()
        raise
    except (DplError, OSError, MemoryError, RuntimeError, ImportError) as error:
        said = in_one_line(error)
        if said is None:
            raise
        print(f"dpl: {said}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
