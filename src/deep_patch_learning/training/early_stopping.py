"""Early stopping on held-out images: good weights are kept, and a training whose mAP has fallen is stopped.

With a learning rate that falls to zero the mAP rises again towards the end, and a plateau in the middle says little. So a
training is stopped only when the mAP has fallen clearly and stayed there. For the same reason, and since boxes go on improving
when tags do not, the last of several weights whose difference may be chance are kept. Every decision is a function of the
measurements so far, which lie in a file of the run.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypedDict

import numpy as np
from torch import Tensor, nn

from deep_patch_learning.common.atomic_files import read_json, write_whole
from deep_patch_learning.common.errors import DataError, RunError
from deep_patch_learning.common.progress import console
from deep_patch_learning.data.batch import scaled_size
from deep_patch_learning.data.dataset import PRESENT, TaggedImages
from deep_patch_learning.data.holdout import drawn_share
from deep_patch_learning.data.store import ImageStore
from deep_patch_learning.inference.scoring import ImageInput, PredictSettings, head_scores, score_on_device
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.runs.checkpoint import save_checkpoint, step_of
from deep_patch_learning.runs.folder import AGAIN, RunFolder

MEASUREMENTS = 8  # in a training that goes to its end
PATIENCE = 3  # measurements in a row
CLEARLY = 2.0  # points of mAP, on `SURE` images or more; on fewer more points are chance
SURE = 400


@dataclass(frozen=True)
class Measurement:
    """The mean average precision on held-out tags, in percent, after a step."""

    step: int
    mean_ap: float


class Measure(Protocol):
    """What gives the mAP of a network, in percent, on a number of images, and leaves the network as it was."""

    images: int

    def __call__(self, network: nn.Module) -> float:
        """Return the mAP of a network."""
        ...


def measured_at(total_steps: int) -> tuple[int, ...]:
    """Return the steps after which held-out tags are measured: evenly spread, the last one among them."""
    return tuple(sorted({max(total_steps * number // MEASUREMENTS, 1) for number in range(1, MEASUREMENTS + 1)}))


def kept_of(measurements: Sequence[Measurement], chance: float) -> Measurement:
    """Return the last measurement that lies less than `chance` points below the highest up to it."""
    highest = -math.inf
    kept = measurements[0]
    for measured in measurements:
        highest = max(highest, measured.mean_ap)
        if measured.mean_ap > highest - chance:
            kept = measured
    return kept


def clear_fall(images: int) -> float:
    """Return by how many points the mAP on this many images must fall before it means anything."""
    return CLEARLY * max(math.sqrt(SURE / images), 1.0)


def has_fallen(measurements: Sequence[Measurement], fall: float) -> bool:
    """Return whether the last `PATIENCE` measurements all lie `fall` points or more below the best one before them."""
    before, after = measurements[:-PATIENCE], measurements[-PATIENCE:]
    return bool(before) and max(m.mean_ap for m in after) <= max(m.mean_ap for m in before) - fall


class HeldOut:
    """The held-out measurements of one run: when they are due, whose weights are kept, and whether training should end."""

    def __init__(self, run: RunFolder, total_steps: int, measure: Measure) -> None:
        self.run, self._measure = run, measure
        self._steps = frozenset(measured_at(total_steps))
        self.measurements = read_measurements(run)

    def read_again(self) -> None:
        """Take the measurements that the run folder holds now."""
        self.measurements = read_measurements(self.run)

    @property
    def kept(self) -> Measurement:
        """Return the measurement so far whose weights are kept; there must be one."""
        return self._kept_of(self.measurements)

    def _kept_of(self, measurements: Sequence[Measurement]) -> Measurement:
        return kept_of(measurements, clear_fall(self._measure.images) / 2)

    @property
    def has_fallen(self) -> bool:
        """Return whether training should stop."""
        return has_fallen(self.measurements, clear_fall(self._measure.images))

    def is_due(self, step: int) -> bool:
        """Return whether a measurement belongs after this step and is not there yet."""
        return step in self._steps and step not in {measured.step for measured in self.measurements}

    def take(self, step: int, network: nn.Module) -> None:
        """Measure the network after `step` steps, keep its weights if they are good, and write the measurement down.

        The weights come first: a kill between the two leads to the same measurement again.
        """
        found = Measurement(step, self._measure(network))
        measurements = [*self.measurements, found]
        if self._kept_of(measurements) is found:
            save_checkpoint(self.run.best, step, network)
        self.measurements = measurements
        rows = [{"step": measured.step, "mAP": measured.mean_ap} for measured in self.measurements]
        write_whole(self.run.held_out, json.dumps({"measurements": rows}, indent=1))
        console.print(f"step {step}: mAP {found.mean_ap:.1f} on {self._measure.images} held-out images", markup=False)

    def keep_best(self) -> None:
        """Make the weights that were kept the run's weights."""
        try:
            self.run.best.replace(self.run.weights)
        except FileNotFoundError:
            raise RunError(f"{self.run.best}: is gone. Restore it, or train again in a new folder.") from None


def kept_measurement(run: RunFolder) -> Measurement:
    """Return the held-out measurement of the weights that a finished run kept."""
    step = step_of(run.weights)
    for measured in read_measurements(run):
        if measured.step == step:
            return measured
    raise RunError(f"{run.held_out}: has no measurement of step {step}, whose weights were kept. Restore it.")


class _Row(TypedDict):
    step: int
    mAP: float


class _Measurements(TypedDict):
    """The schema of held_out.json."""

    measurements: list[_Row]


def read_measurements(run: RunFolder) -> list[Measurement]:
    """Return the held-out measurements of a run, in their order; none where nothing was held out."""
    try:
        rows = read_json(run.held_out, _Measurements, RunError, AGAIN)["measurements"]
    except FileNotFoundError:
        return []
    return [Measurement(row["step"], row["mAP"]) for row in rows]


# An image costs at most about what a sample in training does, which has a backward pass too and mostly larger scales.
SHARE = 0.15  # of the samples of training, what all measurements together may use
FEWEST = 32  # images, for trainings so short that it does not matter


class TagMeasure:
    """Gives the mAP of a network on held-out images, in percent, and leaves the network as it was.

    It always uses the same images, at the smallest scale of the recipe, with twice the patches of a sample in training.
    Images are decoded once, as far as memory is there for them.
    """

    def __init__(self, images: TaggedImages, patches: Sequence[np.ndarray], recipe: Recipe) -> None:
        kept = measured_images(images.labels, recipe)
        self.images = len(kept)
        self._recipe = recipe
        self._tagged = images.subset(kept)
        self._patches = [_first(patches[index], recipe) for index in kept]
        self._images = ImageStore(self._tagged)

    def __call__(self, network: nn.Module) -> float:
        """Return the mAP of a network."""
        was_training = network.training
        network.eval()
        scores = np.zeros(self._tagged.labels.shape, np.float32)
        for together in self._micro_batches():
            ready = [ImageInput(self._tagged.names[i], self._images[i].numpy(), self._patches[i]) for i in together]
            scores[together] = _image_scores(network, ready, self._recipe).float().cpu().numpy()
        network.train(was_training)
        return mean_ap(scores, self._tagged.labels)

    def _micro_batches(self) -> list[list[int]]:
        """Return the images micro-batch by micro-batch; those of one have about one size, so that little is padding."""
        scale, together = min(self._recipe.data.scales), self._recipe.optimiser.images_per_micro_batch
        sizes = [scaled_size(*size, scale, self._recipe.data.shapes) for size in self._images.sizes]
        order = sorted(range(self.images), key=lambda index: (sizes[index], index))
        return [order[at : at + together] for at in range(0, len(order), together)]


def measured_images(labels: np.ndarray, recipe: Recipe) -> np.ndarray:
    """Return the indices of the held-out images, with tags `labels` (I, C), that every measurement uses."""
    if not (labels == PRESENT).any():
        raise DataError(f"none of the {len(labels)} images held out shows a class. Hold out more.")
    samples = recipe.total_steps * recipe.optimiser.batch_images
    wanted = max(SHARE * samples / MEASUREMENTS, FEWEST)
    kept = drawn_share(labels, min(wanted / len(labels), 1.0), recipe.machine.seed)
    return kept if (labels[kept] == PRESENT).any() else np.arange(len(labels))


def mean_ap(scores: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean all-point average precision, in percent, over the classes that an image shows."""
    # here, not above: with it comes the reader of boxes, which what trains does not load before it measures
    from deep_patch_learning.evaluation.classification import average_precision

    found = [average_precision(scores[:, index], labels[:, index]) for index in range(labels.shape[1])]
    return 100.0 * float(np.nanmean(found))


def _first(patches: np.ndarray, recipe: Recipe) -> np.ndarray:
    return patches[: 2 * recipe.data.patches_per_sample] if recipe.data.patches_per_sample else patches


def _image_scores(network: nn.Module, images: Sequence[ImageInput], recipe: Recipe) -> Tensor:
    """Return the image scores (I, C), which rank images: those of `Prediction`, at the smallest scale."""
    device = next(network.parameters()).device
    settings = PredictSettings(
        (min(recipe.data.scales),),
        recipe.data.shapes,
        recipe.machine.precision,
        two_stream_tags=recipe.refinement.two_stream_tags,
    )
    return head_scores(score_on_device(network, images, settings, device), settings).image_scores()
