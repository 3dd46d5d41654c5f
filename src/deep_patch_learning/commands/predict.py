"""`dpl predict`: images or folders of them -> tags and boxes, one image after the other, as JSON and as drawn images."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.common.progress import bar, console
from deep_patch_learning.common.progress import out as stdout
from deep_patch_learning.data.images import image_files
from deep_patch_learning.inference.loading import ModelOrRun, as_model
from deep_patch_learning.inference.model import Model
from deep_patch_learning.inference.prediction import Prediction
from deep_patch_learning.inference.stream import predict_files


class Predictions(Iterator[Prediction]):
    """The predictions of image files, each as soon as it is ready; none is kept.

    `broken` lists the files that could not be read so far, with the reason, and `count` is the number of files.
    """

    def __init__(self, model: Model, files: Sequence[Path], threshold: float | None, outputs: "Outputs | None") -> None:
        self.broken: list[tuple[Path, str]] = []
        self.count = len(files)
        self._found = self._stream(model, files, threshold, outputs)

    def __next__(self) -> Prediction:
        return next(self._found)

    def _stream(
        self, model: Model, files: Sequence[Path], threshold: float | None, outputs: "Outputs | None"
    ) -> Iterator[Prediction]:
        with bar("predicting") as progress:
            for index, (file, found) in enumerate(predict_files(model, files)):
                progress(index + 1, len(files))
                if isinstance(found, DataError):
                    self.broken.append((file, str(found)))
                    console.print(f"left out: {found}", markup=False)
                    continue
                prediction = found.filter(min_probability=threshold)
                if outputs is not None:
                    outputs.write(index, prediction)
                yield prediction
        if len(self.broken) == len(files):
            raise DataError(f"none of the {len(files)} images could be read. {self.broken[0][1]}")


def predict(
    images: str | Path | Sequence[str | Path],
    model: ModelOrRun = None,
    *,
    out: str | Path | None = None,
    threshold: float | None = None,
    draw: bool = True,
    device: str = "auto",
) -> Predictions:
    """Return an iterator over the predictions of image files, or of folders of them, in their order.

    `model` is a model, a run folder, or None for the shipped model. With `out`, NAME.json and, with `draw`, NAME.png are
    written there. `threshold` is the probability from which a tag is shown: if not given 0.5, or the class's own where
    calibrated. An image that cannot be read is named on standard error and in the iterator's `broken`, and left out.
    """
    places = [images] if isinstance(images, str | Path) else images
    files = image_files([Path(place) for place in places])
    loaded = as_model(model, device)
    outputs = None if out is None else Outputs(Path(out), files, draw)
    return Predictions(loaded, files, threshold, outputs)


class Outputs:
    """The folder that NAME.json and NAME.png of each prediction go to; it is checked before anything is predicted."""

    def __init__(self, folder: Path, files: Sequence[Path], draw: bool) -> None:
        self.folder, self.draw = folder, draw
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(
                f"{folder}: cannot be written to ({error.strerror}). Give another folder with --out."
            ) from None
        self.stems = _stems(files)
        inputs = {file.resolve() for file in files}
        for stem in self.stems:
            if (folder / f"{stem}.png").resolve() in inputs:
                raise DataError(
                    f"{folder / stem}.png: is one of the images and would be written over. Give another --out."
                )

    def write(self, index: int, prediction: Prediction) -> None:
        """Write the prediction of the file at this place."""
        prediction.save(self.folder / f"{self.stems[index]}.json")
        if self.draw:
            prediction.draw().save(self.folder / f"{self.stems[index]}.png")


def _stems(files: Sequence[Path]) -> list[str]:
    """Return a name of its own for each file's outputs: its stem, with a number where several files share it."""
    seen: Counter[str] = Counter()
    stems = []
    for file in files:
        seen[file.stem] += 1
        stems.append(file.stem if seen[file.stem] == 1 else f"{file.stem}_{seen[file.stem]}")
    return stems


def show(prediction: Prediction) -> None:
    """Print the tags of one image in one line."""
    tags = ", ".join(f"{tag.name} {tag.probability:.2f}" for tag in prediction.tags) or "nothing sure"
    stdout.print(f"{prediction.name}: {tags}", markup=False)
