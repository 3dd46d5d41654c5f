"""What all peers share: the images and patches, training, measuring and timing."""

import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from deep_patch_learning.common.devices import usable_device
from deep_patch_learning.evaluation.measure import Truth, measure_predictions
from deep_patch_learning.inference.loading import predict_settings
from deep_patch_learning.inference.model import Model
from deep_patch_learning.inference.stream import predict_prepared
from deep_patch_learning.model.backbones.weights import FilledLayers
from deep_patch_learning.model.network import DeepPatchNet
from deep_patch_learning.patches.prepare import Prepared
from deep_patch_learning.recipe.build import build_network, recipe_patches
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.runs.folder import training_time
from deep_patch_learning.training.fit import train_prepared
from deep_patch_learning.training.loop import Trainer

FIGURES = ("mAP", "mAP_11pt", "CorLoc", "detection_mAP")


@dataclass(frozen=True)
class Contest:
    """The images that all peers train on and are measured on. `truth` is that of the test images; `data` holds both."""

    data: Path
    training: Prepared
    testing: Prepared
    truth: Truth | None
    source: dict[str, Any] = field(default_factory=dict)
    device: str = "auto"
    hypotheses: int = 500  # per test image, for HCP
    training_hypotheses: int = 32  # of them drawn per sample

    @property
    def classes(self) -> tuple[str, ...]:
        """Return the class names."""
        return self.training.images.classes


@dataclass(frozen=True)
class Outcome:
    """The figures and rates of one peer; a rate is None where nothing was trained or tested."""

    figures: dict[str, Any]
    samples: int = 0
    train_samples_per_second: float | None = None
    test_images_per_second: float | None = None
    scales: tuple[int, ...] = ()
    patches: float = 0.0  # mean number per test image


def first_patches(prepared: Prepared, count: int) -> Prepared:
    """Return the images with the first `count` patches of each, which are the best ones for that number."""
    return replace(prepared, patches=[patches[:count] for patches in prepared.patches])


def network_parts(recipe: Recipe, classes: int) -> tuple[DeepPatchNet, int, FilledLayers | None]:
    """Return a network that provides backbone and patch layers, the width of its features, and the layers filled from weights."""
    torch.manual_seed(recipe.machine.seed)
    parts, filled = build_network(
        Recipe.of(backbone=recipe.model.backbone, heads=("discovery",), weights=recipe.model.weights), classes
    )
    return parts, parts.patch_features.width, filled  # type: ignore[return-value]


def train(contest: Contest, prepared: Prepared, recipe: Recipe, folder: Path, trainer: Trainer | None) -> Trainer:
    """Return the trainer after its last step; Ctrl-C ends the whole comparison, which resumes later."""
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
        recipe.total_steps * recipe.optimiser.batch_images,
        training_time(trainer.run.read_log()).samples_per_second,
        rate,
        recipe.seen_at,
        mean_patches(testing) if patches else 0.0,
    )


def model_of(contest: Contest, recipe: Recipe, network: nn.Module, kind: type[Model] = Model) -> Model:
    """Return a model that predicts as a run of this recipe does."""
    device = usable_device(contest.device)
    return kind(network, contest.classes, predict_settings(recipe), recipe_patches(recipe), device)


def measure(contest: Contest, model: Model, testing: Prepared) -> tuple[dict[str, Any], float]:
    """Return the figures of a model and its images per second, with reading and without making patches."""
    few = Prepared(testing.images.subset(range(min(4, len(testing.images)))), testing.patches[:4], [])
    list(predict_prepared(model, few, description="warming up"))  # a device chooses its kernels in the first batch
    began = time.perf_counter()
    predictions = list(predict_prepared(model, testing))
    seconds = time.perf_counter() - began
    return measure_predictions(predictions, testing.images.labels, contest.truth), len(predictions) / seconds


def mean_patches(prepared: Prepared) -> float:
    """Return the mean number of patches."""
    return sum(len(patches) for patches in prepared.patches) / len(prepared.patches)
