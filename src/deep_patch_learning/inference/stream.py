"""Predictions of a whole data set: images of one size share a batch."""

import dataclasses
import os

from deep_patch_learning.common.progress import bar
from deep_patch_learning.data.batch import scaled_size
from deep_patch_learning.data.images import image_size
from deep_patch_learning.data.store import prefetch
from deep_patch_learning.inference.model import Model, Picture
from deep_patch_learning.inference.prediction import Prediction
from deep_patch_learning.patches.prepare import Prepared


def predict_prepared(
    model: Model, prepared: Prepared, images_per_pass: int | None = None, description: str = "predicting"
) -> list[Prediction]:
    """Return the prediction of each picture; without a number, four share a pass, and eight on a GPU."""
    pictures = prepared.pictures
    images_per_pass = images_per_pass or (8 if model.device.type == "cuda" else 4)
    # pictures of one size share a pass
    sizes = [scaled_size(*image_size(path), 1_000, model.shapes) for path in pictures.paths]
    order = sorted(range(len(pictures)), key=lambda i: (sizes[i], len(prepared.patches[i]), i))

    def read(index: int) -> Picture:
        return Picture(pictures.names[index], pictures.read(index), prepared.patches[index])

    threads = min(os.cpu_count() or 1, 8) if model.device.type == "cuda" else 0
    ready = prefetch(read, order, depth=8 * images_per_pass, threads=threads)
    found: dict[int, Prediction] = {}
    with bar(description) as show:
        for index, prediction in zip(order, model.predict_pictures(ready, images_per_pass), strict=True):
            found[index] = dataclasses.replace(prediction, source=pictures.paths[index])
            show(len(found), len(pictures))
    return [found[index] for index in range(len(pictures))]
