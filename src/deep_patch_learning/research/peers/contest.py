"""What all peers share: the images, their patches, the measures, and how time is taken."""

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from deep_patch_learning.common.devices import usable_device
from deep_patch_learning.evaluation.measure import Truth, measure_predictions
from deep_patch_learning.inference.loading import recipe_box_selection
from deep_patch_learning.inference.model import Model
from deep_patch_learning.inference.stream import predict_prepared
from deep_patch_learning.model.backbones.weights import FilledLayers
from deep_patch_learning.model.network import DeepPatchNet
from deep_patch_learning.patches.prepare import Prepared
from deep_patch_learning.recipe.build import build_network, recipe_patches
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.training.fit import train_prepared
from deep_patch_learning.training.loop import Trainer

FIGURES = ("mAP", "mAP_11pt", "CorLoc", "detection_mAP")


@dataclass(frozen=True)
class Contest:
    """The images that peers train on and are measured on. `truth` is of the test images; `data` is where both come from."""

    data: Path
    training: Prepared
    testing: Prepared
    truth: Truth | None
    source: dict[str, Any] = field(default_factory=dict)
    device: str = "auto"
    hypotheses: int = 500  # of a test image, for HCP
    training_hypotheses: int = 32  # drawn from them at each sample

    @property
    def classes(self) -> tuple[str, ...]:
        """Return the class names."""
        return self.training.images.classes


@dataclass(frozen=True)
class Outcome:
    """What came of one peer; rates are of this machine, None where nothing was trained or tested."""

    figures: dict[str, Any]
    samples: int = 0
    train_samples_per_second: float | None = None
    test_images_per_second: float | None = None
    scales: tuple[int, ...] = ()
    patches: float = 0.0  # looked at in a test image, in the mean


def first_patches(prepared: Prepared, count: int) -> Prepared:
    """Return the images with the first `count` patches of each: those that hold the most objects, for their number."""
    return replace(prepared, patches=[patches[:count] for patches in prepared.patches])


def network_parts(recipe: Recipe, classes: int) -> tuple[DeepPatchNet, int, FilledLayers | None]:
    """Return a network to take the backbone and patch layers from, the width of its features, and which layers were filled."""
    torch.manual_seed(recipe.seed)
    parts, filled = build_network(recipe.backbone, classes, ("discovery",), weights=recipe.weights or None)
    return parts, parts.patch_features.width, filled  # type: ignore[return-value]


def train(contest: Contest, prepared: Prepared, recipe: Recipe, folder: Path, trainer: Trainer | None) -> Trainer:
    """Return the trainer after its last step; Ctrl-C ends the whole comparison, which can be resumed."""
    done = train_prepared(
        prepared, recipe, folder, contest.source, contest.device, description=folder.name, trainer=trainer
    )
    if done.step < recipe.total_steps:
        raise KeyboardInterrupt
    return done


def outcome_of(
    contest: Contest, trainer: Trainer, testing: Prepared, kind: type[Model] = Model, patches: bool = True
) -> Outcome:
    """Return the figures and rates of a trained network."""
    recipe = trainer.recipe
    figures, rate = measure(contest, model_of(contest, recipe, trainer.bare, kind), testing)
    return Outcome(
        figures,
        recipe.total_steps * recipe.batch_images,
        samples_per_second(trainer.run.read_log()),
        rate,
        recipe.seen_at,
        mean_patches(testing) if patches else 0.0,
    )


def model_of(contest: Contest, recipe: Recipe, network: nn.Module, kind: type[Model] = Model) -> Model:
    """Return a model that predicts as a run of this recipe would."""
    return kind(
        network,
        contest.classes,
        recipe.seen_at,
        recipe_patches(recipe),
        usable_device(contest.device),
        box_selection=recipe_box_selection(recipe),
        shapes=recipe.shapes,
        precision=recipe.precision,
    )


def measure(contest: Contest, model: Model, testing: Prepared) -> tuple[dict[str, Any], float]:
    """Return the figures of a model and the images it predicts in a second: reading included, making patches not."""
    few = Prepared(testing.images.subset(range(min(4, len(testing.images)))), testing.patches[:4], [])
    predict_prepared(model, few, description="warming up")  # the first pass of a device chooses its kernels
    began = time.perf_counter()
    predictions = predict_prepared(model, testing)
    seconds = time.perf_counter() - began
    return measure_predictions(predictions, testing.images.labels, contest.truth), len(predictions) / seconds


def samples_per_second(log: Sequence[dict[str, Any]]) -> float | None:
    """Return the rate of training between the first and the last line of its log; a break between them does not count.

    The steps before the first line, in which a device chooses its kernels, count only where there is no other line.
    """
    if not log:
        return None
    pairs = [(a, b) for a, b in itertools.pairwise(log) if b["seconds"] > a["seconds"]]
    if not pairs:
        return log[-1]["samples"] / log[-1]["seconds"] if log[-1]["seconds"] else None
    return sum(b["samples"] - a["samples"] for a, b in pairs) / sum(b["seconds"] - a["seconds"] for a, b in pairs)


def mean_patches(prepared: Prepared) -> float:
    """Return the mean number of patches."""
    return sum(len(patches) for patches in prepared.patches) / len(prepared.patches)
