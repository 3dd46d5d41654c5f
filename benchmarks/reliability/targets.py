"""What reads an input, by kind: one function each, which returns or raises; a `DplError` or `OSError` is one line to the user."""

from collections.abc import Callable
from pathlib import Path

from deep_patch_learning.common.errors import DplError

CLEAN = (DplError, OSError)  # what the command line says in one line


def images(path: Path) -> None:
    """Decode an image, ask for its size, and shrink it as the search for near-duplicates does."""
    from deep_patch_learning.data.images import image_size, problem, read_image

    for read in (image_size, problem, read_image, lambda place: read_image(place, enough=64)):
        try:
            read(path)
        except CLEAN:
            continue
    read_image(path)


def tags(path: Path) -> None:
    """Read tags and boxes of a data set, its splits and its fingerprint, and check the tags."""
    from deep_patch_learning.commands.check import check
    from deep_patch_learning.data.readers.read import named_splits, read_tags
    from deep_patch_learning.data.truth import read_truth
    from deep_patch_learning.runs.folder import fingerprint

    found = read_tags(path)
    fingerprint(found)
    for split in named_splits(path)[:3]:
        read_tags(path, split)
    read_truth(path, found)
    check(path, limit=1, workers=1)


def shard(path: Path) -> None:
    """Read the tags of a shard, its images where they lie, and its samples from start to end."""
    from deep_patch_learning.data.images import read_image
    from deep_patch_learning.data.readers.read import read_tags
    from deep_patch_learning.data.shards import samples_of

    last: Exception | None = None
    try:
        for image in read_tags(path).paths[:4]:
            read_image(image)
    except CLEAN as error:
        last = error
    with path.open("rb") as file:
        for _ in samples_of(file, str(path)):
            pass
    if last is not None:
        raise last


def split_list(path: Path) -> None:
    """Read the images that a list names, of the data set beside it."""
    from deep_patch_learning.data.readers.read import read_tags

    read_tags(path.parent / "tags.csv", str(path))


def proposals(path: Path) -> None:
    """Read a proposal file, in the process of its own that it gets."""
    from deep_patch_learning.patches.proposals import read_proposals

    read_proposals(path)


def run_folder(folder: Path) -> None:
    """Load the model of a run and predict with it, and read all that the run says of itself."""
    import numpy as np

    from deep_patch_learning.data.dataset import TaggedImages
    from deep_patch_learning.inference.calibration import read_calibration
    from deep_patch_learning.inference.loading import load
    from deep_patch_learning.refinement.pseudo_boxes import read_pseudo_boxes
    from deep_patch_learning.report.build import _facts, _settings, _versions, images_of_run
    from deep_patch_learning.report.charts import loss_curve
    from deep_patch_learning.runs.checkpoint import read_checkpoint
    from deep_patch_learning.runs.folder import RunFolder, training_time
    from deep_patch_learning.runs.stages import read_record
    from deep_patch_learning.training.early_stopping import read_measurements

    run = RunFolder(folder)
    image = np.full((48, 64, 3), 90, np.uint8)
    parts: list[Callable[[], object]] = [
        lambda: load(folder, "cpu").predict(image).as_dict(),
        lambda: training_time(run.read_log()),
        lambda: loss_curve(run.read_log()),
        lambda: read_record(run),
        lambda: read_measurements(run),
        lambda: read_calibration(run.calibration, ["cat", "dog"]),
        lambda: read_pseudo_boxes(run.pseudo_boxes, ["a.jpg"], ["cat", "dog"]),
        lambda: read_checkpoint(run.checkpoint),
        lambda: images_of_run(run),
        lambda: (
            _settings(run),
            _versions(run),
            _facts(run, TaggedImages((), (), (), np.zeros((0, 0))), run.read_log()),
        ),
    ]
    last: Exception | None = None
    for part in parts:
        try:
            part()
        except CLEAN as error:
            last = error
    if last is not None:
        raise last


def recipe(path: Path) -> None:
    """Read a recipe, write it and read it again."""
    from deep_patch_learning.recipe.recipe import Recipe

    found = Recipe.load(path)
    if Recipe.from_toml(found.to_toml()) != found:
        raise AssertionError("a recipe that is written reads differently")


def set_options(path: Path) -> None:
    """Ask for a recipe with the KEY=VALUE texts of a file's lines, as `--set` gives them."""
    from deep_patch_learning.recipe.choose import ask

    name, heads, *changes = [*path.read_bytes().decode("utf-8", "surrogateescape").split("\n"), ""]
    changes = [change for change in changes if change]
    ask(name, heads, 0, changes).sized(100)


def prediction(path: Path) -> None:
    """Load a saved prediction, and use it."""
    from deep_patch_learning.inference.prediction import Prediction

    found = Prediction.load(path)
    Prediction.from_dict(found.as_dict())
    found.to_coco()


def review_answers(path: Path) -> None:
    """Read what people said in a review: its store, or the lines that a run keeps of it."""
    from deep_patch_learning.data.reviewed import from_lines, judged_boxes, opened, read_reviewed

    if path.suffix == ".jsonl":
        from_lines(path, ["cat", "dog"])
        return
    read_reviewed(path, ["cat", "dog"])
    with opened(path) as file:
        judged_boxes(file, ["cat", "dog"])


def weights(path: Path) -> None:
    """Build a network that starts from a file of pretrained weights."""
    from deep_patch_learning.recipe.build import build_network
    from deep_patch_learning.recipe.presets import world

    build_network(world(steps=1).replace(weights=str(path), filters=4), 2)


TARGETS: dict[str, Callable[[Path], None]] = {
    "images": images,
    "csv": tags,
    "json-lines": tags,
    "coco": tags,
    "voc": tags,
    "split-lists": split_list,
    "proposals": proposals,
    "run-folders": run_folder,
    "recipes": recipe,
    "set": set_options,
    "predictions": prediction,
    "weights": weights,
    "label-studio": tags,
    "cvat": tags,
    "review-answers": review_answers,
    "tar": shard,
    "parquet": shard,
}
