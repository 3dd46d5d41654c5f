"""The peers by name: how each is trained and measured."""

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

from deep_patch_learning.common.devices import usable_device
from deep_patch_learning.common.errors import SettingError, did_you_mean
from deep_patch_learning.common.progress import bar, console
from deep_patch_learning.model.network import HEADS, DeepPatchNet
from deep_patch_learning.patches.prepare import Prepared
from deep_patch_learning.recipe.build import start_biases
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.research.peers import contest as contests
from deep_patch_learning.research.peers.contest import Contest, Outcome
from deep_patch_learning.research.peers.hcp import build_hcp
from deep_patch_learning.research.peers.plain_cnn import build_plain
from deep_patch_learning.research.peers.svm import whole_image_boxes
from deep_patch_learning.runs.checkpoint import save_checkpoint
from deep_patch_learning.runs.folder import RunFolder
from deep_patch_learning.training.loop import Trainer
from deep_patch_learning.training.process import TrainingOptions

Peer = Callable[[Contest, Recipe, Path], Outcome | None]


def both_heads(contest: Contest, recipe: Recipe, folder: Path) -> Outcome:
    """Return the outcome of Deep Patch Learning: both heads in one training."""
    return _with_heads(contest, recipe.replace(heads=HEADS), folder)


def classification_alone(contest: Contest, recipe: Recipe, folder: Path) -> Outcome:
    """Return the outcome of the classification head alone."""
    return _with_heads(contest, recipe.replace(heads=("classification",)), folder)


def discovery_alone(contest: Contest, recipe: Recipe, folder: Path) -> Outcome:
    """Return the outcome of the discovery head alone: deep multiple instance learning."""
    return _with_heads(contest, recipe.replace(heads=("discovery",)), folder)


def _with_heads(contest: Contest, recipe: Recipe, folder: Path) -> Outcome:
    trainer = contests.train(contest, contest.training, recipe, folder, None)
    return contests.outcome_of(contest, trainer, contest.testing)


def plain(contest: Contest, recipe: Recipe, folder: Path) -> Outcome:
    """Return the outcome of the plain CNN, which uses no patches; each image has one because a batch needs some."""
    training, testing = (contests.first_patches(each, 1) for each in (contest.training, contest.testing))
    recipe = recipe.replace(heads=("classification",))
    trainer = _trained(contest, training, recipe, folder, PeerNetwork(build_plain))
    return contests.outcome_of(contest, trainer, testing, patches=False)


def hcp(contest: Contest, recipe: Recipe, folder: Path) -> Outcome:
    """Return the outcome of Hypotheses-CNN-Pooling.

    A crop has one size at every scale, so one scale is used: the largest, which loses no detail.
    """
    kept = contest.hypotheses
    training, testing = (contests.first_patches(each, kept) for each in (contest.training, contest.testing))
    drawn = min(recipe.data.patches_per_sample or contest.training_hypotheses, contest.training_hypotheses)
    recipe = recipe.replace(
        heads=("discovery",), scales=(max(recipe.data.scales),), test_scales=(), patches_per_sample=drawn
    )
    trainer = _trained(contest, training, recipe, folder, PeerNetwork(build_hcp))
    return contests.outcome_of(contest, trainer, testing)


@dataclass(frozen=True)
class PeerNetwork:
    """How a peer differs from Deep Patch Learning: its network and, where it is another, its trainer.

    `build` makes the network from another one's backbone and patch layers, the width of its features and the number of classes.
    """

    build: Callable[[DeepPatchNet, int, int], nn.Module]
    trainer: Callable[..., Trainer] = Trainer


def _trained(contest: Contest, training: Prepared, recipe: Recipe, folder: Path, peer: PeerNetwork) -> Trainer:
    """Return the trainer of a peer after its last step."""
    classes = len(contest.classes)
    parts, width, filled = contests.network_parts(recipe, classes)
    network = peer.build(parts, width, classes)
    start_biases(network, recipe.model.head_bias)
    options = TrainingOptions(device=contest.device)
    trainer = peer.trainer(recipe, training, RunFolder(folder), options, network=network)
    if filled is not None:
        own = {name.rpartition(".")[0] for name, _ in network.named_parameters()}
        trainer.filled = dataclasses.replace(filled, new=tuple(sorted(own.difference(filled.filled))))
    return contests.train(contest, training, recipe, folder, trainer)


def svm(contest: Contest, recipe: Recipe, folder: Path) -> Outcome:
    """Return the outcome of linear support vector machines on frozen features; a sample is an image at one scale."""
    from deep_patch_learning.research.peers.svm import build_frozen, features_of, machines

    device = usable_device(contest.device)
    images = contest.training.images
    parts, _, _ = contests.network_parts(recipe, len(contest.classes))
    network = build_frozen(parts)
    model = contests.model_of(contest, recipe, network)
    run = RunFolder(folder)
    run.begin(recipe, images, contest.source)
    began = time.perf_counter()
    found = []
    with bar(folder.name) as show:
        for feature in features_of(model, images):
            found.append(feature)
            show(len(found), len(images))
    features = torch.from_numpy(np.stack(found)).to(device)
    network.classification, cost = machines(features, torch.from_numpy(images.labels).to(device), recipe.machine.seed)
    network.to(device)
    samples = len(images) * len(recipe.data.scales)
    rate = samples / (time.perf_counter() - began)
    save_checkpoint(run.weights, 0, network)
    run.cut_log(-1)
    run.append_log({"step": 0, "samples": samples, "cost": cost})
    console.print(f"cost {cost:g}, chosen by cross-validation on the training images", markup=False)
    testing = contests.first_patches(contest.testing, 1)
    figures, test_rate = contests.measure(contest, model, testing)
    return Outcome(figures, samples, rate, test_rate, recipe.data.scales)


def whole_image(contest: Contest, recipe: Recipe, folder: Path) -> Outcome | None:
    """Return the CorLoc of the whole image as the box of every class; None without true boxes."""
    from deep_patch_learning.evaluation.discovery import corloc

    if contest.truth is None:
        console.print("whole-image is skipped: the test images have no true boxes", style="yellow")
        return None
    boxes = whole_image_boxes(contest.testing.images.paths, len(contest.classes))
    return Outcome(corloc(boxes, contest.truth, contest.classes).as_dict(), patches=1.0)


def fast_rcnn(contest: Contest, recipe: Recipe, folder: Path) -> Outcome | None:
    """Return the outcome of Fast R-CNN, the only peer that trains on true boxes; None without them."""
    from deep_patch_learning.data.truth import read_truth
    from deep_patch_learning.research.peers.fast_rcnn import Detector, SupervisedTrainer, build_fast_rcnn

    truth = read_truth(contest.data, contest.training.images)
    if truth is None:
        console.print("fast-rcnn is skipped: the training images have no true boxes", style="yellow")
        return None
    recipe = recipe.replace(heads=("discovery",))
    peer = PeerNetwork(build_fast_rcnn, partial(SupervisedTrainer, truth=truth))
    trainer = _trained(contest, contest.training, recipe, folder, peer)
    return contests.outcome_of(contest, trainer, contest.testing, Detector)


PEERS: dict[str, Peer] = {
    "dpl": both_heads,
    "classification": classification_alone,
    "discovery": discovery_alone,
    "plain": plain,
    "hcp": hcp,
    "svm": svm,
    "whole-image": whole_image,
    "fast-rcnn": fast_rcnn,
}


def chosen_peers(text: str) -> tuple[str, ...]:
    """Return the peers named in a comma-separated text, each once; an unknown name raises `RunError`."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        if name not in PEERS:
            raise SettingError(f"there is no peer '{name}'.{did_you_mean(name, PEERS)}")
    if not names:
        raise SettingError(f"no peer is named.{did_you_mean('', PEERS)}")
    return names
