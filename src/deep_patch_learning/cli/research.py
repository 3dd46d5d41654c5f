"""The commands of research: patch layers from a classifier, peers side by side, the paper's tables."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from deep_patch_learning.cli.options import Data, Device, Json, Limit, Split, Teacher, TeacherBackbone, Workers, example

research = typer.Typer(rich_markup_mode="markdown")


@research.command(
    epilog=example(
        "dpl distil VOC2007 --split train --backbone vgg16 --weights convs.pth --teacher imagenet --out runs/layers",
        "dpl train VOC2007 --split train --backbone vgg16 --weights runs/layers/weights.safetensors --out runs/voc",
    )
)
def distil(
    data: Data,
    out: Annotated[Path, typer.Option(help="Gets weights.safetensors. Repeat the command to resume.")],
    split: Split = None,
    backbone: Annotated[str, typer.Option(help="The network whose patch layers are new.")] = "vgg16",
    weights: Annotated[str | None, typer.Option(help="Its convolutions: a file, or a torchvision name.")] = None,
    teacher: Teacher = "imagenet",
    teacher_backbone: TeacherBackbone = "resnet50",
    steps: Annotated[int | None, typer.Option(min=1, help="Steps of distilling.")] = None,
    seed: Annotated[int, typer.Option(help="Order, scales, flips, patches and new layers.")] = 0,
    changes: Annotated[
        list[str], typer.Option("--set", help="Any setting of the recipe, or crop, temperature, dropout, ...")
    ] = [],  # noqa: B006
    limit: Limit = None,
    device: Device = "auto",
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Fill the patch layers of a network that has its convolutions only, from a classifier. Tags and boxes are not read."""
    from deep_patch_learning.common.devices import usable_device
    from deep_patch_learning.data.dataset import limited
    from deep_patch_learning.data.readers.read import read_tags
    from deep_patch_learning.patches.prepare import prepare
    from deep_patch_learning.recipe.build import recipe_patches
    from deep_patch_learning.training.patch_layers import distil_patch_layers, plan

    options = {key: value for key, value in {"weights": weights, "steps": steps}.items() if value is not None}
    settings = {"teacher": teacher, "teacher_backbone": teacher_backbone}
    layers = plan(out, backbone, seed, changes, options, settings)
    layers.check()
    usable_device(device)
    prepared = prepare(limited(read_tags(data, split), limit), recipe_patches(layers.recipe), workers=workers)
    source = {"path": str(data.resolve()), "split": split, "limit": limit}
    if distil_patch_layers(prepared, layers, source, device) is None:
        raise typer.Exit(130)
    if as_json:
        print(json.dumps({"weights": str(layers.weights), **layers.read_figures()}))


@research.command(
    epilog=example(
        "dpl compare VOC2007 --split train --test-split val --out comparison",
        "dpl compare photos.csv --peers dpl,plain,svm --steps 500 --seeds 0,1,2",
    )
)
def compare(
    data: Data,
    out: Annotated[Path, typer.Option(help="Where compare.csv and the runs go. Repeat the command to resume.")] = Path(
        "dpl-compare"
    ),
    split: Annotated[str, typer.Option(help="The images that every peer trains on.")] = "train",
    test_split: Annotated[str, typer.Option(help="The images that every peer is measured on.")] = "val",
    peers: Annotated[
        str, typer.Option(help="Those wanted, with commas.")
    ] = "dpl,classification,discovery,plain,hcp,svm,whole-image,fast-rcnn",
    recipe: Annotated[str, typer.Option(help="paper, modern or world.")] = "modern",
    backbone: Annotated[str | None, typer.Option(help="As of dpl train, for all peers.")] = None,
    weights: Annotated[str | None, typer.Option(help="As of dpl train, for all peers.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Steps of training, for all peers.")] = None,
    seeds: Annotated[str, typer.Option(help="Each peer is trained once for each, such as 0,1,2.")] = "0",
    hypotheses: Annotated[int, typer.Option(min=1, help="Crops of a test image, for hcp.")] = 500,
    changes: Annotated[list[str], typer.Option("--set", help="Any setting of the recipe, KEY=VALUE.")] = [],  # noqa: B006
    limit: Limit = None,
    device: Device = "auto",
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Train, measure and time Deep Patch Learning and its peers side by side. Of them, fast-rcnn alone is told the boxes."""
    import shlex

    from deep_patch_learning.recipe.presets import choose, seed_numbers
    from deep_patch_learning.research.compare import compare as run_comparison
    from deep_patch_learning.research.compare import show
    from deep_patch_learning.research.peers.catalogue import chosen_peers

    names = chosen_peers(peers)
    options = {"backbone": backbone, "weights": weights, "steps": steps}
    chosen = choose(recipe, "both", 0, changes, {k: v for k, v in options.items() if v is not None})
    # paths by their last part: the rest says nothing to another machine
    command = shlex.join(["dpl", *(Path(word).name if Path(word).is_absolute() else word for word in sys.argv[1:])])
    numbers = seed_numbers(seeds)
    rows = run_comparison(
        data, split, test_split, chosen, names, out, numbers, device, limit, workers, hypotheses, command
    )
    show(rows, out)
    if as_json:
        print(json.dumps({"rows": rows, "csv": str(out / "compare.csv")}))


@research.command(
    epilog=example(
        "dpl reproduce voc2007",
        "dpl reproduce voc2007 --data VOC2007 --table tasks --backbone alexnet --weights alexnet.pth --seeds 0,1,2",
        "dpl reproduce voc2012 --data VOC2012 --table main --recipe modern",
    )
)
def reproduce(
    name: Annotated[str, typer.Argument(help="voc2007 or voc2012.")],
    data: Annotated[
        Path | None, typer.Option(help="Its folder, with JPEGImages. Fetched to ./data if not given.")
    ] = None,
    table: Annotated[
        str, typer.Option(help="main, tasks, scales, patches, peers, time, several with commas, or all.")
    ] = "all",
    recipe: Annotated[str, typer.Option(help="paper or modern.")] = "paper",
    backbone: Annotated[str | None, typer.Option(help="As of dpl train. vgg16 in recipe paper.")] = None,
    weights: Annotated[str | None, typer.Option(help="As of dpl train.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Steps of each training.")] = None,
    seeds: Annotated[str, typer.Option(help="Each training is done once for each, such as 0,1,2.")] = "0",
    changes: Annotated[list[str], typer.Option("--set", help="Any setting of the recipe, KEY=VALUE.")] = [],  # noqa: B006
    out: Annotated[
        Path | None, typer.Option(help="Where runs, CSVs and images go. runs/NAME if not given. Repeat to resume.")
    ] = None,
    limit: Limit = None,
    device: Device = "auto",
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Fill the paper's tables: ours beside the paper's, what differs, whether its claims hold, and its two figures."""
    from deep_patch_learning.research.reproduce.command import Options
    from deep_patch_learning.research.reproduce.command import reproduce as run

    found = run(
        Options(name, data, table, recipe, backbone, weights, steps, seeds, changes, out, device, limit, workers)
    )
    if as_json:
        print(json.dumps(found))
