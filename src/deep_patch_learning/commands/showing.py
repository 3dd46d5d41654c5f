"""What a command shows: tables on standard output, predictions as files."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.common.progress import bar, console, number, out
from deep_patch_learning.data.dataset import TaggedImages
from deep_patch_learning.data.images import read_image
from deep_patch_learning.inference.model import ImageInput, Model
from deep_patch_learning.inference.prediction import Prediction
from deep_patch_learning.patches.generator import PatchGenerator

RECALLS = ("recall_50", "recall_70", "mean_best_overlap")


def figures_table(figures: dict[str, Any], title: str) -> None:
    """Print the figures of an evaluation, per class and in the mean."""
    columns = {"mAP": "AP", "mAP_11pt": "AP_11pt", "CorLoc": "CorLoc_per_class", "detection_mAP": "detection_AP"}
    shown = {mean: by_class for mean, by_class in columns.items() if mean in figures}
    table = Table(title=f"{title}: {figures['images']} images", title_justify="left")
    table.add_column("class")
    for mean in shown:
        table.add_column(mean, justify="right")
    for name in figures["AP"]:
        table.add_row(name, *(number(figures[by_class][name]) for by_class in shown.values()))
    table.add_section()
    table.add_row("mean", *(number(figures[mean]) for mean in shown), style="bold")
    out.print(table)
    if "CorLoc_rule" in figures:
        out.print(f"CorLoc and detection count an overlap of {figures['CorLoc_rule']}")


def predict_files(
    model: Model, files: Sequence[Path], folder: Path, threshold: float | None, draw: bool
) -> tuple[list[Prediction], list[tuple[Path, str]]]:
    """Return the predictions of image files and the ones that cannot be read; NAME.json and NAME.png go to `folder`.

    Without a `threshold` each prediction keeps its own.
    """
    import dataclasses

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder}: cannot be written to ({error.strerror}). Give another folder with --out.") from None
    stems = _stems(files)
    inputs = {file.resolve() for file in files}
    for stem in stems:
        if (folder / f"{stem}.png").resolve() in inputs:
            raise DataError(f"{folder / stem}.png: is one of the images and would be written over. Give another --out.")
    found, broken = [], []
    with bar("predicting") as show:
        for done, (file, stem) in enumerate(zip(files, stems, strict=True), 1):
            try:
                image = read_image(file)
            except DataError as error:
                broken.append((file, str(error)))
                continue
            ready = ImageInput(file.name, image, model.patch_generator(image))
            prediction = next(model.predict_images([ready]))
            prediction = dataclasses.replace(prediction, source=file.resolve()).filter(min_probability=threshold)
            prediction.save(folder / f"{stem}.json")
            if draw:
                prediction.draw(image).save(folder / f"{stem}.png")
            found.append(prediction)
            show(done, len(files))
    for prediction in found:
        tags = ", ".join(f"{tag.name} {tag.probability:.2f}" for tag in prediction.tags) or "nothing sure"
        out.print(f"{prediction.name}: {tags}", markup=False)
    for _, reason in broken:
        console.print(f"left out: {reason}", markup=False)
    if not found:
        raise DataError(f"none of the {len(files)} images could be read.")
    out.print(f"{len(found)} image{'s' * (len(found) != 1)} in {folder}", markup=False)
    return found, broken


def _stems(files: Sequence[Path]) -> list[str]:
    """Return a name of its own for each file's outputs: its stem, with a number where several files share it."""
    seen: Counter[str] = Counter()
    stems = []
    for file in files:
        seen[file.stem] += 1
        stems.append(file.stem if seen[file.stem] == 1 else f"{file.stem}_{seen[file.stem]}")
    return stems


def patch_method(method: str, mode: str) -> PatchGenerator | dict[str, np.ndarray]:
    """Return the generator that the command line names, or the boxes by image name of a proposal file."""
    from deep_patch_learning.patches import generator
    from deep_patch_learning.patches.proposals import read_proposals
    from deep_patch_learning.recipe.build import selective_search

    if Path(method).suffix in (".mat", ".pkl"):
        return read_proposals(Path(method))
    return selective_search(mode, min_side=8) if method == "selective-search" else generator(method)


def measure_patches(
    method: PatchGenerator | dict[str, np.ndarray],
    images: TaggedImages,
    truth: list[Any] | None,
    workers: int | None,
    fresh: bool,
) -> dict[str, Any]:
    """Return the figures of the patches of every image, made now or found in the cache."""
    from deep_patch_learning.evaluation.patch_recall import measure

    if isinstance(method, dict):
        return measure(_proposals_of(method, images), images, truth)
    with bar(method.name) as show:
        return measure(method, images, truth, workers=workers, fresh=fresh, progress=show)


def _proposals_of(proposals: dict[str, np.ndarray], images: TaggedImages) -> list[np.ndarray]:
    """Return the boxes of each image, found by its name or its file's stem."""
    found = []
    for name, path in zip(images.names, images.paths, strict=True):
        key = next((key for key in (name, path.name, path.stem) if key in proposals), None)
        if key is None:
            raise DataError(f"the proposal file has no boxes for '{name}'. Choose the --split that it was made for.")
        found.append(proposals[key])
    return found


def patches_table(figures: dict[str, Any], method: str) -> None:
    """Print recall and overlap by the number of patches used."""
    table = Table(title=f"{method}: {figures['boxes']:.0f} patches an image", title_justify="left")
    for heading in ("patches", "recall 0.5", "recall 0.7", "mean best overlap"):
        table.add_column(heading, justify="right")
    for count, row in figures.get("at", {}).items():
        table.add_row(str(count), *(f"{row[key]:.3f}" for key in RECALLS))
    if figures.get("recall_50") is not None:
        table.add_row(
            "all", *(number(figures[key]) for key in ("recall_50", "recall_70", "mean_best_overlap")), style="bold"
        )
        out.print(table)
    else:
        out.print(f"{method}: {figures['boxes']:.0f} patches an image; no boxes are known, so recall is not measured")
    if figures.get("seconds_per_image") is not None:
        out.print(f"{figures['seconds_per_image']:.3f} s an image on one core")
