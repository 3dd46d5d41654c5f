"""Predictions of a whole data set: images of one size share a batch."""

import dataclasses
import os

from deep_patch_learning.common.progress import bar
from deep_patch_learning.data.batch import scaled_size
from deep_patch_learning.data.images import image_size
from deep_patch_learning.data.store import prefetch
from deep_patch_learning.inference.model import ImageInput, Model
from deep_patch_learning.inference.prediction import Prediction
from deep_patch_learning.patches.prepare import Prepared


def predict_prepared(
    model: Model, prepared: Prepared, images_per_micro_batch: int | None = None, description: str = "predicting"
) -> list[Prediction]:
    """Return the prediction of each image; without a number, four share a pass, and eight on a GPU."""
    images = prepared.images
    images_per_micro_batch = images_per_micro_batch or (8 if model.device.type == "cuda" else 4)
    # images of one size share a pass
    sizes = [scaled_size(*image_size(path), 1_000, model.shapes) for path in images.paths]
    order = sorted(range(len(images)), key=lambda i: (sizes[i], len(prepared.patches[i]), i))

    def read(index: int) -> ImageInput:
        return ImageInput(images.names[index], images.read(index), prepared.patches[index])

    threads = min(os.cpu_count() or 1, 8) if model.device.type == "cuda" else 0
    ready = prefetch(read, order, depth=8 * images_per_micro_batch, threads=threads)
    found: dict[int, Prediction] = {}
    with bar(description) as show:
        for index, prediction in zip(order, model.predict_images(ready, images_per_micro_batch), strict=True):
            found[index] = dataclasses.replace(prediction, source=images.paths[index])
            show(len(found), len(images))
    return [found[index] for index in range(len(images))]
