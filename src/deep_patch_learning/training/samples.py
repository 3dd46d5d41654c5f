"""Which image is seen when, at which scale, mirrored or not, with which patches.

Everything is a pure function of the seed and the number of the sample. So a run that was killed sees after its resume exactly
what it would have seen, with no random state to store, and threads can prepare images ahead in any order.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from deep_patch_learning.recipe.recipe import Recipe

Made = TypeVar("Made")
ERASED_SIDES = (0.2, 0.5)  # of an erased region, as shares of the image's sides


@dataclass(frozen=True)
class Sample:
    """One image seen once in training."""

    image: int
    scale: int
    flip: bool
    number: int


class SamplePlan:
    """The endless sequence of samples of one training.

    An epoch shows every image once and, with flips, once more mirrored, in an order of its own. The images of a micro-batch
    share a scale. With `shapes`, the shape of each image, they share a shape too as far as images of that shape are left, so
    that little of a micro-batch is padding; fewer images than fill a micro-batch wait for the next epoch. `entries` names the
    images of an epoch where some are shown several times.
    """

    def __init__(
        self,
        images: int,
        recipe: Recipe,
        shapes: Sequence[Hashable] | None = None,
        entries: Sequence[int] | None = None,
    ) -> None:
        # an image may have several entries: it is then shown as often in an epoch
        self._entries = None if entries is None else np.array(entries)
        if entries is not None:
            images, shapes = len(entries), None if shapes is None else [shapes[entry] for entry in entries]
        self.images = images
        self.recipe = recipe
        self._length = images * (2 if recipe.data.flips else 1)
        self._shapes: np.ndarray | None = None
        together = recipe.optimiser.images_per_micro_batch
        mixed = shapes is not None and len(set(shapes)) > 1
        if mixed and together > 1 and recipe.optimiser.batch_images % together == 0 and self._length >= together:
            numbers = {shape: number for number, shape in enumerate(sorted(set(shapes or ()), key=repr))}
            self._shapes = np.array([numbers[shape] for shape in shapes or ()])
            self._length -= self._length % together
        self._orders: dict[int, np.ndarray] = {}

    def micro_batches_of(self, step: int) -> list[list[Sample]]:
        """Return the samples of a step (from 0), micro-batch by micro-batch."""
        recipe = self.recipe
        first = step * recipe.optimiser.batch_images
        numbers = range(first, first + recipe.optimiser.batch_images)
        together = recipe.optimiser.images_per_micro_batch
        groups = [numbers[at : at + together] for at in range(0, len(numbers), together)]
        return [[self._sample(number, self._scale(group[0])) for number in group] for group in groups]

    def _scale(self, number: int) -> int:
        return int(np.random.default_rng((self.recipe.machine.seed, 1, number)).choice(self.recipe.data.scales))

    def _sample(self, number: int, scale: int) -> Sample:
        epoch, place = divmod(number, self._length)
        drawn = int(self._order(epoch)[place])
        image = drawn % self.images
        return Sample(
            image if self._entries is None else int(self._entries[image]), scale, drawn >= self.images, number
        )

    def _order(self, epoch: int) -> np.ndarray:
        order = self._orders.get(epoch)
        if order is None:
            random = np.random.default_rng((self.recipe.machine.seed, 0, epoch))
            order = random.permutation(self.images * (2 if self.recipe.data.flips else 1))
            if self._shapes is not None:
                order = self._by_shape(order[: self._length], random)
            self._orders = {e: known for e, known in self._orders.items() if e >= epoch - 2} | {epoch: order}
        return order

    def _by_shape(self, order: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Return the same entries in micro-batches of one shape each; those left over have neighbouring shapes."""
        assert self._shapes is not None
        together = self.recipe.optimiser.images_per_micro_batch
        shapes = self._shapes[order % self.images]
        whole, left = [], []
        for shape in np.unique(shapes):
            own = order[shapes == shape]
            full = len(own) - len(own) % together
            whole.append(own[:full])
            left.append(own[full:])
        groups = np.concatenate((*whole, *left)).reshape(-1, together)
        return groups[random.permutation(len(groups))].flatten()


def draw_erased(sizes: Sequence[tuple[int, int]], samples: Sequence[Sample], recipe: Recipe) -> np.ndarray | None:
    """Return the regions (I, R, 4) that are erased of samples seen at these sizes (height, width); None where none is.

    The sides of a region are from 0.2 to 0.5 of those of the image, and it may lie anywhere inside.
    """
    if not recipe.data.erased_regions:
        return None
    shape = (recipe.data.erased_regions, 2)
    regions = []
    for (height, width), sample in zip(sizes, samples, strict=True):
        random = np.random.default_rng((recipe.machine.seed, 3, sample.number))
        sides = random.uniform(*ERASED_SIDES, shape)
        low = random.uniform(0, 1, shape) * (1 - sides)
        regions.append(np.concatenate((low, low + sides), axis=1) * [width, height, width, height])
    return np.stack(regions).astype(np.float32)


def draw_patches(patches: np.ndarray, recipe: Recipe, number: int) -> np.ndarray:
    """Return the patches that sample `number` uses: all, or `patches_per_sample` of them drawn without repetition."""
    if not recipe.data.patches_per_sample or len(patches) <= recipe.data.patches_per_sample:
        return patches
    drawn = np.random.default_rng((recipe.machine.seed, 2, number)).choice(
        len(patches), recipe.data.patches_per_sample, replace=False
    )
    return patches[np.sort(drawn)]
