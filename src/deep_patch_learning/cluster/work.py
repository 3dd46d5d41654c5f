"""What a worker does with one part. A job is made where the command runs, sent to each worker, and begun there once."""

import errno
import json
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypedDict

import numpy as np

from deep_patch_learning.cluster.folder import ChangedError, PartFacts, PartsFolder
from deep_patch_learning.cluster.parts import Item, Part, items_of
from deep_patch_learning.common.atomic_files import sweep, write_whole, written_whole
from deep_patch_learning.common.devices import give_back_memory
from deep_patch_learning.common.errors import DataError, DplError
from deep_patch_learning.data.images import decode_image, single_threaded_opencv
from deep_patch_learning.inference.prediction import Prediction
from deep_patch_learning.inference.scoring import ImageInput
from deep_patch_learning.labels.coco import coco_content
from deep_patch_learning.labels.parquet import encoded
from deep_patch_learning.labels.select import LabelledImage, LabelRule, LabelSet, label_image, summary
from deep_patch_learning.patches.cache import cache_folder
from deep_patch_learning.patches.cache_files import digest_of_content, pack_record, read_record, records
from deep_patch_learning.patches.generator import PatchGenerator, ProposalFile

MOST_IN_PART = 1_000_000  # images; ids in COCO shards are numbered from part number times this
MOST_BOXES = 100_000_000  # in a part, likewise
FORMATS = ("coco", "parquet")  # that can be written in shards

Tell = Callable[[int], None]  # called with the number of images of the part that are done


@dataclass(frozen=True)
class Done:
    """What is known of a part that is done, ready for JSON."""

    part: int
    facts: dict[str, Any]


@dataclass(frozen=True)
class Failed:
    """Why a part could not be done: a place that does not answer, a damaged shard, no space left."""

    part: int
    why: str


class ClassFacts(TypedDict):
    """What is known of a class in a part with labels."""

    tagged: int
    boxes: int
    parts: int
    abstained: int
    mean_score: float | None


class LabelFacts(PartFacts):
    """The schema of what is known of a part with labels."""

    file: str
    bytes: int
    images: int
    images_without_boxes: int
    boxes: int
    parts: int
    tagged: int
    abstained: int
    per_class: dict[str, ClassFacts]
    left_out: list[str]


class PatchFacts(PartFacts):
    """The schema of what is known of a part with patches."""

    images: int
    boxes: int
    patch_seconds: float


class Job(ABC):
    """What is done with each part. `out` is a folder that all workers share, `schema` that of what is known of a part."""

    out: PartsFolder
    schema: ClassVar[type]

    @abstractmethod
    def begin(self) -> None:
        """Load what is needed, once in a worker."""

    @abstractmethod
    def facts(self, part: Part, tell: Tell) -> dict[str, Any]:
        """Write the result of a part, whole or not at all, and return what is known of it."""

    def digest(self, part: Part) -> str:
        """Return what identifies the input of a part."""
        return part.digest

    def finished(self, part: Part) -> dict[str, Any] | None:
        """Return what is known of a part that is done, or None; `ChangedError` where it was done of other data."""
        return self.out.finished(part.name, self.digest(part), self.schema)

    def sweep(self) -> None:
        """Remove what a worker that died has left half-written."""
        self.out.sweep()

    def work(self, part: Part, tell: Tell) -> Done | Failed:
        """Do a part, and note that it is done."""
        try:
            facts = {"part": part.name, "digest": self.digest(part), **self.facts(part, tell)}
            write_whole(self.out.done / f"{part.name}.json", json.dumps(facts) + "\n")
        except DplError as error:
            return Failed(part.number, str(error))
        except OSError as error:
            why = error.strerror or type(error).__name__
            fix = "Make room there" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "Check the folder"
            return Failed(part.number, f"{error.filename or self.out.folder}: {why}, on {os.uname().nodename}. {fix}.")
        finally:
            give_back_memory()
        return Done(part.number, facts)


@dataclass
class LabelJob(Job):
    """Labels of each part, as Parquet or COCO. `model` is a run folder or the model itself; `cache` that of patches.

    Patches that `dpl patches --engine ray` kept of a part are read; others are made and not kept.
    """

    out: PartsFolder
    model: Any
    device: str
    patches: str | Path | None
    rule: LabelRule
    format: str
    split: str
    cache: Path
    classes: tuple[str, ...]
    schema: ClassVar[type] = LabelFacts
    _model: Any = field(default=None, repr=False)

    def begin(self) -> None:
        """Load the model."""
        from deep_patch_learning.inference.box_trust import TrustingModel
        from deep_patch_learning.inference.loading import as_model

        self._model = as_model(self.model, self.device, self.patches)
        if self.rule.precision is not None:
            self._model = TrustingModel.of(self._model)

    def digest(self, part: Part) -> str:
        """Return what identifies the images and the tags of a part."""
        if part.labels is None:
            return part.digest
        return f"{part.digest}-{digest_of_content(np.ascontiguousarray(part.labels).tobytes()).hex()[:8]}"

    def facts(self, part: Part, tell: Tell) -> dict[str, Any]:
        """Write the labels of a part."""
        began = time.process_time()
        images, broken = self._labelled(part, tell)
        left_out: list[tuple[LabelledImage, str]] = []
        if self.rule.for_training:
            left_out = [one for one in images if len(one[0].abstained)]
            images = [one for one in images if not len(one[0].abstained)]
        labels = LabelSet(self.classes, [image for image, _ in images], self.split, [image for image, _ in left_out])
        file = self.out.shards / f"{part.name}.{'json' if self.format == 'coco' else 'parquet'}"
        with written_whole(file) as partial:
            self._write(labels, [place for _, place in images], part.number, partial)
            size = partial.stat().st_size
        return {
            "source": part.shard or (part.places[0] if part.places else ""),
            "file": file.name,
            "bytes": size,
            "broken": broken,
            "seconds": round(time.process_time() - began, 3),
            **summary(labels),
        }

    def _labelled(self, part: Part, tell: Tell) -> tuple[list[tuple[LabelledImage, str]], list[dict[str, str]]]:
        kept = kept_patches(self.cache, self._model.patch_generator, part)
        images: list[tuple[LabelledImage, str]] = []
        broken: list[dict[str, str]] = []
        boxes = 0

        def read(item: Item) -> ImageInput:
            pixels = pixels_of_item(item)
            return ImageInput(item.name, pixels, self._patches(item, pixels, kept))

        found: Prediction | DataError
        for done, (item, found) in enumerate(self._model.stream(items_of(part, self.classes), read, None), start=1):
            if isinstance(found, DataError):
                broken.append({"image": item.name, "reason": str(found)})
            else:
                images.append((label_image(found, Path(item.place), item.states, self.rule), item.place))
            if self.format == "coco":
                boxes += 0 if isinstance(found, DataError) else len(images[-1][0].boxes)
                must_have_ids(done, boxes, part.shard or part.name)
            tell(done)
        return images, broken

    def _patches(self, item: Item, pixels: np.ndarray, kept: dict[bytes, np.ndarray]) -> np.ndarray:
        generator = self._model.patch_generator
        if isinstance(generator, ProposalFile):
            return generator.of(Path(item.place), (pixels.shape[0], pixels.shape[1]), item.name)
        found = kept.get(digest_of_content(item.content)) if isinstance(item.content, bytes) and kept else None
        return generator(pixels) if found is None else found

    def _write(self, labels: LabelSet, places: list[str], number: int, path: Path) -> None:
        if self.format == "parquet":
            path.write_bytes(encoded(labels, places))
            return
        first_ids = number * MOST_IN_PART + 1, number * MOST_BOXES + 1
        content = coco_content(labels, [image.name for image in labels.images], first_ids)
        for entry, place in zip(content["images"], places, strict=True):
            entry["coco_url"] = place
        path.write_text(json.dumps(content, allow_nan=False) + "\n", encoding="ascii")


@dataclass
class PatchJob(Job):
    """The patches of each part, in the patch cache that training reads: a file of records per part."""

    out: PartsFolder
    generator: PatchGenerator
    cache: Path
    schema: ClassVar[type] = PatchFacts

    def begin(self) -> None:
        """Let the generator compile its code."""
        self.generator(np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8))

    def finished(self, part: Part) -> dict[str, Any] | None:
        """Return what is known of a part that is done, or None; one of other images, or whose file is gone, is made again."""
        try:
            found = super().finished(part)
        except ChangedError:
            return None
        return found if part_file(self.cache, self.generator, part).is_file() else None

    def sweep(self) -> None:
        """Remove what a worker that died has left half-written, also in the cache."""
        super().sweep()
        sweep(cache_folder(self.cache, self.generator))

    def facts(self, part: Part, tell: Tell) -> dict[str, Any]:
        """Write the patches of a part."""
        broken: list[dict[str, str]] = []
        seconds, boxes, images = 0.0, 0, 0
        file = part_file(self.cache, self.generator, part)
        with written_whole(file) as partial, single_threaded_opencv(), partial.open("wb") as records_file:
            for item in items_of(part, ()):
                try:
                    pixels = pixels_of_item(item)
                    before = time.thread_time()
                    found = np.ascontiguousarray(self.generator(pixels), dtype="<u2")
                except DataError as error:
                    broken.append({"image": item.name, "reason": str(error)})
                    continue
                took = time.thread_time() - before
                assert isinstance(item.content, bytes)  # else it has no pixels
                records_file.write(pack_record(digest_of_content(item.content), found, took))
                seconds, boxes, images = seconds + took, boxes + len(found), images + 1
                tell(images + len(broken))
        return {
            "source": part.shard or "",
            "images": images,
            "boxes": boxes,
            "patch_seconds": seconds,
            "broken": broken,
        }


def must_have_ids(images: int, boxes: int, place: str) -> None:
    """Raise `DataError` for more images or boxes than a part in COCO's format has ids for: they would be those of the next."""
    for count, most, what in ((images, MOST_IN_PART, "images"), (boxes, MOST_BOXES, "boxes")):
        if count > most:
            raise DataError(
                f"{place}: more than {most:,} {what}, which are all the ids of a part in COCO's format. Make parts smaller, or "
                "use --format parquet."
            )


def pixels_of_item(item: Item) -> np.ndarray:
    """Return the pixels of an image, or raise `DataError` where it cannot be read."""
    if isinstance(item.content, DataError):
        raise item.content
    return decode_image(item.content, item.place)


def part_file(cache: Path, generator: PatchGenerator, part: Part) -> Path:
    """Return the file in the patch cache that holds the patches of a part."""
    return cache_folder(cache, generator) / f"part-{part.digest}.patches"


def kept_patches(cache: Path, generator: Any, part: Part) -> dict[bytes, np.ndarray]:
    """Return the patches of a part by the digest of each image's content, where they were made before; else nothing."""
    if isinstance(generator, ProposalFile):
        return {}
    file = part_file(cache, generator, part)
    if not file.is_file():
        return {}
    found = (read_record(file, offset) for _, offset, _ in records(file, 0))
    return {record[0]: record[1] for record in found if record is not None}
