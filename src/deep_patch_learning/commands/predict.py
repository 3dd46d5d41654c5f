"""`dpl predict`: images or folders of them -> tags and boxes, one image after the other, as JSON and as drawn images."""

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from PIL.PngImagePlugin import PngInfo

from deep_patch_learning.common.atomic_files import shortened, sweep, written_whole
from deep_patch_learning.common.errors import DataError
from deep_patch_learning.common.progress import bar, console, plain
from deep_patch_learning.common.progress import out as stdout
from deep_patch_learning.data.images import image_files
from deep_patch_learning.inference.loading import ModelOrRun, as_model
from deep_patch_learning.inference.model import Model
from deep_patch_learning.inference.prediction import FORMAT, Prediction
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
        if files and len(self.broken) == len(files):
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
    """The folder that NAME.json and NAME.png of each prediction go to; it is checked before anything is predicted.

    Files of that name that were written here before are replaced, others never.
    """

    def __init__(self, folder: Path, files: Sequence[Path], draw: bool) -> None:
        self.folder, self.draw = folder, draw
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(
                f"{folder}: cannot be written to ({error.strerror}). Give another folder with --out."
            ) from None
        sweep(folder)
        self.stems = _stems(files)
        inputs = {os.path.realpath(file) for file in files}
        for stem in self.stems:
            for path in (folder / f"{stem}.json", folder / f"{stem}.png")[: 2 if draw else 1]:
                if os.path.realpath(path) in inputs:
                    raise DataError(f"{path}: is one of the images and would be written over. Give another --out.")
                if os.path.lexists(path) and not _is_ours(path):
                    raise DataError(f"{path}: is there and was not written by dpl predict. Give another --out.")

    def write(self, index: int, prediction: Prediction) -> None:
        """Write the prediction of the file at this place."""
        prediction.save(self.folder / f"{self.stems[index]}.json")
        if self.draw:
            drawn = prediction.draw()
            with written_whole(self.folder / f"{self.stems[index]}.png") as part:
                drawn.save(part, "PNG", pnginfo=_mark())


def _stems(files: Sequence[Path]) -> list[str]:
    """Return a name of its own for each file's outputs: its stem, with a number where another file has that name.

    The first file of a stem has it alone, so that no number makes the name of another file. Names that differ in case alone
    count as one, as some systems take them.
    """
    stems = [_short(file.stem) for file in files]
    taken = {stem.casefold() for stem in stems}
    seen: set[str] = set()
    numbers: Counter[str] = Counter()
    for place, stem in enumerate(stems):
        key, found = stem.casefold(), stem
        if key in seen:
            while found.casefold() in taken:
                numbers[key] += 1
                found = f"{stem}_{numbers[key] + 1}"
            taken.add(found.casefold())
        seen.add(key)
        stems[place] = found
    return stems


def _short(stem: str) -> str:
    """Return the stem, or where it leaves no room for a suffix its beginning with a digest of all."""
    if stem == shortened(stem):
        return stem
    return f"{shortened(stem)}-{hashlib.sha256(os.fsencode(stem)).hexdigest()[:8]}"


_SOFTWARE = "dpl predict"  # under the key Software of each drawn PNG


def _mark() -> PngInfo:
    mark = PngInfo()
    mark.add_text("Software", _SOFTWARE)
    return mark


def _is_ours(path: Path) -> bool:
    """Return whether a file was written by an earlier prediction; a link never was."""
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(200)
    if path.suffix == ".json":
        return start.startswith(f'{{"format": "{FORMAT}"'.encode())
    return start.startswith(b"\x89PNG") and f"tEXtSoftware\0{_SOFTWARE}".encode() in start


def show(prediction: Prediction) -> None:
    """Print the tags of one image in one line."""
    tags = ", ".join(f"{tag.name} {tag.probability:.2f}" for tag in prediction.tags) or "nothing sure"
    stdout.print(f"{plain(prediction.name)}: {tags}", markup=False, soft_wrap=True)
