"""The one predict loop, and what it does for files and for prepared data sets.

Images are read and searched for patches by threads while the network works on earlier ones. At any time a bounded number of
images is held (see `Plan`), so that memory does not depend on how many there are. Images of one size within that window share a
micro-batch. Predictions come in the order of the images, each as soon as it and those before it are ready.

On a GPU the network runs in the calling thread, and the threads do what the host has to do with its scores. On the CPU it runs
in the same threads as the reading, each thread with its own image and its share of torch's threads: on two cores, two images
side by side take half the processor time of one image whose operations are split between both, since no thread waits for
another. Above `LARGE` pixels one image fills all cores, and one at a time passes the network. `plan_for` decides.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import torch

from deep_patch_learning.common.devices import give_back_memory
from deep_patch_learning.common.errors import DataError
from deep_patch_learning.common.progress import bar
from deep_patch_learning.data.dataset import TaggedImages
from deep_patch_learning.data.images import single_threaded_opencv
from deep_patch_learning.inference.prediction import Prediction
from deep_patch_learning.inference.scoring import ImageInput

Source = TypeVar("Source")
LARGE = 640  # pixels of an image's longest side: above it one image fills all cores
MOST_NETWORKS = 8  # images that pass the network at once on the CPU: each needs memory of its own
GIVE_BACK = 25  # images on the CPU after which freed memory goes back to the system, for a hundredth of their time
ON_DEVICE = 4  # micro-batches that a device was asked for and that are not finished: it need not wait for the host
HELD_BYTES = 256 << 20  # of decoded images that wait; a few wait even if they are larger


class Predictor(Protocol):
    """What predicts a micro-batch, in two halves: a device works on one while the host finishes the one before."""

    def begin(self, images: list[ImageInput]) -> Any:
        """Return what the device was asked for these images."""

    def finish(self, images: list[ImageInput], begun: Any) -> list[Prediction]:
        """Return the predictions of these images."""

    def size_of(self, image: ImageInput) -> tuple[int, int]:
        """Return the size in which an image passes the network; images of one size share a micro-batch."""


@dataclass(frozen=True)
class Plan:
    """How the loop uses a machine.

    `threads` read images and make patches; each may use `torch_threads` in the network. Without threads everything runs in the
    calling one. `batch` images of one size share a micro-batch; at most `held` images are in memory. `queued` micro-batches may
    be in the threads at once. With `asks_device` the calling thread feeds the device, and threads finish what it began.
    """

    threads: int
    torch_threads: int
    batch: int
    held: int
    queued: int
    asks_device: bool = False


def plan_for(device: torch.device, largest_scale: int, batch: int | None, images: int | None = None) -> Plan:
    """Return the plan for a device: `batch` images of one size share a micro-batch, 8 on a GPU and 1 on the CPU if not given."""
    cores = os.cpu_count() or 1
    if images == 1:
        return Plan(0, 0, 1, 1, queued=1)
    if device.type != "cpu":
        batch = batch or 8
        return Plan(min(cores, 16), 1, batch, 8 * batch, queued=ON_DEVICE, asks_device=True)
    batch = batch or 1
    threads = torch.get_num_threads()
    if largest_scale > LARGE:  # one image in the network at a time; another thread prepares the next
        return Plan(2, threads, batch, 3 * batch, queued=1)
    networks = min(threads, MOST_NETWORKS)
    return Plan(networks, max(threads // networks, 1), batch, (3 * networks + 1) * batch, queued=2 * networks)


@dataclass
class _Slot(Generic[Source]):
    """One image on its way: being read, waiting for others of its size, in the network, done."""

    source: Source
    reading: "Future[ImageInput]"
    image: ImageInput | None = None
    waits: bool = False
    found: Prediction | DataError | None = None


@dataclass
class _Loop(Generic[Source]):
    """The state of one run of the loop: the images held, in order, and what is under way."""

    predictor: Predictor
    plan: Plan
    pool: "ThreadPoolExecutor | _Here"
    slots: "deque[_Slot[Source]]" = field(default_factory=deque)
    running: "dict[Future[list[Prediction]], list[_Slot[Source]]]" = field(default_factory=dict)
    largest: int = 0  # bytes of an image so far

    def has_room(self) -> bool:
        """Return whether another image may be read: more than a few only when it is known how large they are."""
        count = len(self.slots)
        few = count <= 2 * self.plan.threads
        return count < self.plan.held and (few or 0 < count * self.largest < HELD_BYTES)

    def collect(self) -> None:
        """Note which images have been read, which cannot be, and which predictions the threads have made."""
        for slot in self.slots:
            if slot.image is None and slot.found is None and slot.reading.done():
                try:
                    slot.image = slot.reading.result()
                except DataError as error:
                    slot.found = error
                    continue
                slot.waits = True
                self.largest = max(self.largest, slot.image.image.nbytes)
        for future in [future for future in self.running if future.done()]:
            self._keep(self.running.pop(future), future.result())

    def batches(self, all_read: bool) -> Iterator[list["_Slot[Source]"]]:
        """Yield the micro-batches that are full, and that of the first image if nothing can be added to it."""
        groups: dict[tuple[int, int], list[_Slot[Source]]] = {}
        for slot in self.slots:
            if slot.waits and slot.image is not None:
                group = groups.setdefault(self.predictor.size_of(slot.image), [])
                group.append(slot)
                if len(group) == self.plan.batch:
                    yield groups.pop(self.predictor.size_of(slot.image))
        first = self.slots[0]
        more_to_come = (not all_read and self.has_room()) or any(not slot.reading.done() for slot in self.slots)
        if first.waits and first.image is not None and not more_to_come:
            group = groups.get(self.predictor.size_of(first.image), [])
            if group and group[0] is first:  # else it is in a full one
                yield group

    def may_start(self) -> bool:
        """Return whether the network takes another micro-batch now."""
        return len(self.running) < self.plan.queued

    def start(self, batch: "list[_Slot[Source]]") -> None:
        """Let the network work on a micro-batch."""
        images = [slot.image for slot in batch if slot.image is not None]
        for slot in batch:
            slot.waits = False
        work = self._predict
        if self.plan.asks_device:
            work = partial(self.predictor.finish, begun=self.predictor.begin(images))
        self.running[self.pool.submit(work, images)] = batch

    def _predict(self, images: list[ImageInput]) -> list[Prediction]:
        return self.predictor.finish(images, self.predictor.begin(images))

    def _keep(self, batch: "list[_Slot[Source]]", found: list[Prediction]) -> None:
        for slot, prediction in zip(batch, found, strict=True):
            slot.found, slot.image = prediction, None

    def go_on(self) -> None:
        """Wait until something that is under way is done."""
        if under_way := self.under_way():
            wait(under_way, return_when=FIRST_COMPLETED)

    def under_way(self) -> "list[Future[Any]]":
        """Return what threads have still to do."""
        return [*(slot.reading for slot in self.slots if not slot.reading.done()), *self.running]


def stream(
    sources: Iterable[Source], read: Callable[[Source], ImageInput], predictor: Predictor, plan: Plan
) -> Iterator[tuple[Source, Prediction | DataError]]:
    """Yield each source with its prediction, in order; with the error where `read` says that it is not a readable image."""
    waiting = iter(sources)
    with _threads(plan) as pool:
        loop: _Loop[Source] = _Loop(predictor, plan, pool)
        all_read, done = False, 0
        try:
            while True:
                while not all_read and loop.has_room():
                    new = [_Slot(one, pool.submit(read, one)) for one in islice(waiting, 1)]
                    loop.slots.extend(new)
                    all_read = not new
                if not loop.slots:
                    return
                loop.collect()
                for batch in list(loop.batches(all_read)):
                    if loop.may_start():
                        loop.start(batch)
                if loop.slots[0].found is None:
                    loop.go_on()
                while loop.slots and (found := loop.slots[0].found) is not None:
                    yield loop.slots.popleft().source, found
                    done += 1
                    if not plan.asks_device and done % GIVE_BACK == 0:
                        give_back_memory()
        finally:
            for future in loop.under_way():
                future.cancel()


class _Here:
    """An executor that works at once, in the calling thread."""

    def submit(self, work: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        """Return the result, which is there already."""
        future: Future[Any] = Future()
        try:
            future.set_result(work(*arguments))
        except Exception as error:  # raised where the result is asked for
            future.set_exception(error)
        return future


@contextmanager
def _threads(plan: Plan) -> "Iterator[ThreadPoolExecutor | _Here]":
    """Return a context with the threads of a plan; torch's and OpenCV's numbers of threads come back afterwards."""
    if not plan.threads:
        yield _Here()
        return
    before = torch.get_num_threads()
    with ExitStack() as stack:
        stack.enter_context(single_threaded_opencv())
        stack.callback(torch.set_num_threads, before)  # a thread's number becomes that of new threads too
        yield stack.enter_context(ThreadPoolExecutor(plan.threads, "dpl", torch.set_num_threads, (plan.torch_threads,)))


class StreamingModel(Protocol):
    """What the functions below need of a `Model`."""

    def read(self, source: Any) -> ImageInput:
        """Return an image with its patches."""

    def stream(
        self, sources: Iterable[Any], read: Callable[[Any], ImageInput] | None, images_per_micro_batch: int | None
    ) -> Iterator[tuple[Any, Prediction | DataError]]:
        """Yield each source with its prediction or error."""


class WithPatches(Protocol):
    """Images and the patches of each, such as `Prepared`."""

    @property
    def images(self) -> TaggedImages:
        """Return the images."""

    @property
    def patches(self) -> Sequence[np.ndarray]:
        """Return the patches (P, 4) of each image."""


def predict_files(
    model: StreamingModel, files: Iterable[Path], images_per_micro_batch: int | None = None
) -> Iterator[tuple[Path, Prediction | DataError]]:
    """Yield each image file with its prediction, or with the error where it cannot be read, in order.

    The prediction's `source` is the absolute path.
    """

    def read(file: Path) -> ImageInput:
        return model.read(file)._replace(source=file.resolve())

    return model.stream(files, read, images_per_micro_batch)


def predict_prepared(
    model: StreamingModel,
    prepared: WithPatches,
    images_per_micro_batch: int | None = None,
    description: str = "predicting",
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
