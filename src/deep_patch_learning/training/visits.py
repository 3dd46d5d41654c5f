"""Which picture is seen when, at which scale, mirrored or not, with which patches.

Everything is a pure function of the seed and the number of the visit. So a run that was killed sees, after it resumes, exactly
what it would have seen, with no random state to store; and pictures can be prepared ahead by threads in any order.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np

from deep_patch_learning.data.transforms import View, make_view
from deep_patch_learning.training.recipe import Recipe

Made = TypeVar("Made")


@dataclass(frozen=True)
class Visit:
    """One sight of one picture in training."""

    picture: int
    scale: int
    flip: bool
    number: int


class VisitPlan:
    """The endless sequence of visits of one training.

    An epoch shows every picture once and, with flips, once more mirrored, in an order of its own. The images of one pass share
    a scale, so that they fit one tensor.
    """

    def __init__(self, pictures: int, recipe: Recipe) -> None:
        self.pictures = pictures
        self.recipe = recipe

    def passes_of(self, step: int) -> list[list[Visit]]:
        """Return the visits of a step (from 0), pass by pass."""
        recipe = self.recipe
        first = step * recipe.batch_images
        numbers = range(first, first + recipe.batch_images)
        passes = [numbers[at : at + recipe.images_per_pass] for at in range(0, len(numbers), recipe.images_per_pass)]
        return [[self._visit(number, self._scale(group[0])) for number in group] for group in passes]

    def _scale(self, number: int) -> int:
        return int(np.random.default_rng((self.recipe.seed, 1, number)).choice(self.recipe.scales))

    def _visit(self, number: int, scale: int) -> Visit:
        length = self.pictures * (2 if self.recipe.flips else 1)
        epoch, place = divmod(number, length)
        drawn = int(_order(self.recipe.seed, epoch, length)[place])
        return Visit(drawn % self.pictures, scale, drawn >= self.pictures, number)


@lru_cache(maxsize=4)
def _order(seed: int, epoch: int, length: int) -> np.ndarray:
    return np.random.default_rng((seed, 0, epoch)).permutation(length)


def draw_patches(patches: np.ndarray, recipe: Recipe, number: int) -> np.ndarray:
    """Return the patches that visit `number` uses: all, or `max_patches` of them drawn without repetition."""
    if not recipe.max_patches or len(patches) <= recipe.max_patches:
        return patches
    drawn = np.random.default_rng((recipe.seed, 2, number)).choice(len(patches), recipe.max_patches, replace=False)
    return patches[np.sort(drawn)]


def see(visit: Visit, image: np.ndarray, patches: np.ndarray, recipe: Recipe, device: str = "cpu") -> View:
    """Return what the network sees at a visit."""
    return make_view(image, draw_patches(patches, recipe, visit.number), visit.scale, visit.flip, device)


def ahead(make: Callable[[int], Made], items: Sequence[int], depth: int = 4, threads: int = 2) -> Iterator[Made]:
    """Yield `make(item)` for each item in order, with up to `depth` of them prepared ahead by threads.

    Without threads each is made when it is asked for: best where the network itself keeps every core busy.
    """
    if not threads:
        yield from map(make, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting: list[Future[Made]] = []
        try:
            for item in items:
                waiting.append(pool.submit(make, item))
                if len(waiting) > depth:
                    yield waiting.pop(0).result()
            while waiting:
                yield waiting.pop(0).result()
        finally:
            for future in waiting:
                future.cancel()
