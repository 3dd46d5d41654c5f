"""Predictions of files and of prepared data sets, one by one as they are ready."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.common.progress import bar
from deep_patch_learning.inference.model import ImageInput, Model
from deep_patch_learning.inference.prediction import Prediction
from deep_patch_learning.patches.prepare import Prepared


def predict_files(
    model: Model, files: Iterable[Path], images_per_micro_batch: int | None = None
) -> Iterator[tuple[Path, Prediction | DataError]]:
    """Yield each image file with its prediction, or with the error where it cannot be read, in order.

    The prediction's `source` is the absolute path.
    """

    def read(file: Path) -> ImageInput:
        return model.read(file)._replace(source=file.resolve())

    return model.stream(files, read, images_per_micro_batch)


def predict_prepared(
    model: Model, prepared: Prepared, images_per_micro_batch: int | None = None, description: str = "predicting"
) -> Iterator[Prediction]:
    """Yield the prediction of each image, in order; an image that can no longer be read raises `DataError`."""
    images = prepared.images

    def read(index: int) -> ImageInput:
        return ImageInput(images.names[index], images.read(index), prepared.patches[index], images.paths[index])

    with bar(description) as show:
        for done, (_, found) in enumerate(model.stream(range(len(images)), read, images_per_micro_batch), start=1):
            if isinstance(found, DataError):
                raise found
            show(done, len(images))
            yield found
