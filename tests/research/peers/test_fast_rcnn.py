"""PatchTargets against a slow loop, boxes that follow scale and mirror, offsets that lead back, and who may import this."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from deep_patch_learning.common.boxes import box_iou, decoded, encoded, inside
from deep_patch_learning.data.batch import Batch, collate, make_view
from deep_patch_learning.data.truth import read_truth
from deep_patch_learning.inference.model import ImageInput, PredictSettings
from deep_patch_learning.model.network import DeepPatchNet
from deep_patch_learning.patches import generator
from deep_patch_learning.patches.prepare import Prepared
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.research.peers.fast_rcnn import (
    BatchTruth,
    Detector,
    FastRcnn,
    SupervisedTrainer,
    build_fast_rcnn,
    detection_losses,
    patch_targets,
    probability_logits,
)
from deep_patch_learning.runs.folder import RunFolder
from deep_patch_learning.training.fit import train_prepared
from deep_patch_learning.training.process import TrainingOptions
from deep_patch_learning.training.samples import Sample


def random_boxes(count: int, seed: int) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    corners = torch.rand(count, 2, generator=random) * 60
    return torch.cat((corners, corners + 10 + torch.rand(count, 2, generator=random) * 40), dim=1)


def test_targets_are_those_of_a_loop() -> None:
    images, classes = 3, 4
    patches, patch_image = random_boxes(300, 0), torch.arange(300) % images
    truth = BatchTruth(
        random_boxes(9, 1),
        torch.tensor([0, 0, 0, 0, 1, 1, 1, 1, 1]),
        torch.arange(9) % classes,
        torch.arange(9) % 4 == 3,
    )
    found = patch_targets(patches, patch_image, images, truth, classes)
    overlap = box_iou(patches.numpy(), truth.boxes.numpy())
    kinds: list[list[str]] = [[] for _ in range(images)]
    for p in range(300):
        sure = [g for g in range(9) if truth.image[g] == patch_image[p] and not truth.difficult[g]]
        unsure = [g for g in range(9) if truth.image[g] == patch_image[p] and truth.difficult[g]]
        best = max(sure, key=lambda g: overlap[p, g], default=None)
        highest = overlap[p, best] if best is not None else 0.0
        if best is not None and highest >= 0.5:
            kind, wanted = "object", int(truth.classes[best])
            torch.testing.assert_close(found.offsets[p], encoded(patches[p : p + 1], truth.boxes[best : best + 1])[0])
        else:
            hidden = any(overlap[p, g] >= 0.5 for g in unsure)
            kind, wanted = ("background" if highest >= 0.1 and not hidden else "nothing"), classes
        assert found.classes[p] == wanted
        kinds[int(patch_image[p])].append(kind)
        assert (found.weights[p] > 0) == (kind != "nothing")
    assert {kind for each in kinds for kind in each} == {"object", "background", "nothing"}
    for image, each in enumerate(kinds):
        there = each.count("object"), each.count("background")
        drawn = min(there[0], 32), min(there[1], 128 - min(there[0], 32))
        weights = found.weights[patch_image == image]
        objects = weights[torch.tensor([kind == "object" for kind in each], dtype=torch.bool)].sum().item()
        assert objects == pytest.approx(drawn[0] / max(sum(drawn), 1), abs=1e-5)
        assert weights.sum().item() == pytest.approx(1.0 if sum(drawn) else 0.0, abs=1e-5)


def test_no_true_box_gives_no_loss() -> None:
    patches = random_boxes(5, 0)
    empty = BatchTruth(
        torch.zeros(0, 4), torch.zeros(0).long(), torch.zeros(0).long(), torch.zeros(0, dtype=torch.bool)
    )
    targets = patch_targets(patches, torch.zeros(5).long(), 1, empty, 3)
    losses = detection_losses(torch.randn(5, 4), torch.randn(5, 3, 4), targets, 1)
    assert losses["classes"] == losses["boxes"] == 0


def test_losses_are_those_of_a_loop() -> None:
    patches, image = random_boxes(40, 0), torch.arange(40) % 2
    truth = BatchTruth(
        random_boxes(4, 1), torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 2, 0]), torch.zeros(4, dtype=torch.bool)
    )
    targets = patch_targets(patches, image, 2, truth, 3)
    scores, offsets = torch.randn(40, 4), torch.randn(40, 3, 4)
    expected = {"classes": 0.0, "boxes": 0.0}
    for p in range(40):
        expected["classes"] -= float(targets.weights[p] * scores[p].log_softmax(0)[targets.classes[p]]) / 2
        if targets.classes[p] < 3:
            away = (offsets[p, targets.classes[p]] - targets.offsets[p]).abs()
            smooth = torch.where(away < 1, away.square() / 2, away - 0.5).sum()
            expected["boxes"] += float(targets.weights[p] * smooth) / 2
    found = detection_losses(scores, offsets, targets, 2)
    assert {name: term.item() for name, term in found.items()} == pytest.approx(expected, rel=1e-4)


def test_offsets_lead_back_to_the_box() -> None:
    patches, boxes = random_boxes(50, 0), random_boxes(50, 1)
    back = decoded(patches, encoded(patches, boxes)[:, None])[:, 0]
    torch.testing.assert_close(back, boxes, rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(decoded(patches, torch.zeros(50, 2, 4))[:, 1], patches, rtol=1e-4, atol=1e-4)


def test_boxes_are_cut_at_the_edge_and_never_empty() -> None:
    wild = torch.tensor([[-5.0, -5.0, 300.0, 4.0], [100.0, 90.0, 90.0, 80.0], [200.0, 200.0, 210.0, 210.0]])
    found = inside(wild, height=90, width=120)
    assert found.tolist() == [[0, 0, 120, 4], [100, 89, 101, 90], [119, 89, 120, 90]]


def test_logits_are_those_of_the_softmax_even_where_it_is_sure() -> None:
    scores = torch.randn(200, 6, dtype=torch.float64) * 3
    share = scores.softmax(dim=1)[:, :-1]
    torch.testing.assert_close(probability_logits(scores), (share / (1 - share)).log(), rtol=1e-6, atol=1e-8)
    sure = torch.tensor([[90.0, 1.0, 0.0], [60.0, 0.0, 59.0]])
    assert probability_logits(sure)[0, 0].item() == pytest.approx(90 - np.log(np.e + 1), rel=1e-5)
    assert torch.isfinite(probability_logits(sure)).all()


@pytest.fixture
def trainer(
    small_prepared: Prepared, small_recipe: Recipe, small_world: Path, parts: DeepPatchNet, tmp_path: Path
) -> SupervisedTrainer:
    images = small_prepared.images
    recipe = small_recipe.replace(steps=2, freeze_backbone=False, warmup_steps=1, heads=("discovery",))
    network = build_fast_rcnn(parts, 128, len(images.classes))
    return SupervisedTrainer(
        *(recipe, small_prepared, RunFolder(tmp_path / "run"), TrainingOptions(device="cpu")),
        network=network,
        truth=read_truth(small_world, images),
    )


def test_true_boxes_follow_scale_and_mirror(trainer: SupervisedTrainer) -> None:
    samples = [Sample(0, 96, False, 0), Sample(1, 96, True, 1), Sample(2, 96, True, 2)]
    views = [make_view(trainer.dataset.read(v.image), trainer.truth[v.image].boxes, v.scale, v.flip) for v in samples]
    batch = collate(views)
    truth = trainer.boxes_of(batch, samples)
    torch.testing.assert_close(truth.boxes, batch.patches)
    assert torch.equal(truth.image, batch.patch_image)
    assert truth.classes.tolist() == [c for v in samples for c in trainer.truth[v.image].classes]


def test_the_mirrored_patch_has_the_same_class(trainer: SupervisedTrainer) -> None:
    patches = trainer.patches[0]
    found = []
    for flip in (False, True):
        batch = collate([make_view(trainer.dataset.read(0), patches, 128, flip)])
        truth = trainer.boxes_of(batch, [Sample(0, 128, flip, 0)])
        found.append(patch_targets(batch.patches, batch.patch_image, 1, truth, 8))
    assert torch.equal(found[0].classes, found[1].classes)
    assert (found[0].classes < 8).any()
    objects = found[0].classes < 8
    mirror = torch.tensor([-1.0, 1.0, 1.0, 1.0])
    torch.testing.assert_close(found[0].offsets[objects] * mirror, found[1].offsets[objects], rtol=1e-3, atol=1e-3)


def test_training_moves_every_part_and_names_its_terms(trainer: SupervisedTrainer, small_prepared: Prepared) -> None:
    before = {name: value.clone() for name, value in trainer.bare.named_parameters()}
    train_prepared(small_prepared, trainer.recipe, trainer.run.folder, device="cpu", trainer=trainer)
    moved = {n.split(".")[0] for n, value in trainer.bare.named_parameters() if not torch.equal(value, before[n])}
    assert moved == {"backbone", "patch_features", "discovery"}
    last = trainer.run.read_log()[-1]
    assert last["loss"] == pytest.approx(last["classes"] + last["boxes"])


def test_it_learns_to_move_boxes(trainer: SupervisedTrainer) -> None:
    """One image again and again: the loss of classes and of boxes falls."""
    samples = [Sample(0, 96, False, 0)]
    batch = collate([make_view(trainer.dataset.read(0), trainer.patches[0][:60], 96)])
    optimiser = torch.optim.AdamW(trainer.bare.parameters(), lr=2e-3)
    losses = []
    for _ in range(20):
        terms = trainer.terms(batch, torch.zeros(1, 8), samples)
        losses.append({name: term.item() for name, term in terms.items()})
        optimiser.zero_grad()
        torch.stack(list(terms.values())).sum().backward()
        optimiser.step()
    assert losses[-1]["classes"] < 0.5 * losses[0]["classes"]
    assert losses[-1]["boxes"] < 0.8 * losses[0]["boxes"]


def test_a_padded_batch_equals_its_images_one_by_one(parts: DeepPatchNet, batch: Batch, alone: list[Batch]) -> None:
    network = build_fast_rcnn(parts, 128, 5).eval()
    torch.nn.init.normal_(network.discovery.classifier.weight, std=0.3)
    together = network(batch)
    for i, one in enumerate(alone):
        found, mine = network(one, chunk=2), batch.patch_image == i
        torch.testing.assert_close(found.patches, together.patches[mine], rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(found.parts, together.parts[mine], rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(found.discovery[0], together.discovery[i], rtol=1e-3, atol=1e-3)


def test_a_detector_moves_its_patches(parts: DeepPatchNet) -> None:
    """A head that always asks for the same shift gets boxes shifted so, in the original pixels."""
    network: FastRcnn = build_fast_rcnn(parts, 128, 2)
    torch.nn.init.zeros_(network.discovery.regressor.weight)
    with torch.no_grad():
        network.discovery.regressor.bias.copy_(
            torch.tensor([2.0, 0, 0, 0, 0, 0, 0, 0])
        )  # 0.2 sides to the right, class 0
    image = np.random.default_rng(0).integers(0, 256, (100, 140, 3), np.uint8)
    patches = np.array([[10, 10, 60, 60], [40, 20, 90, 90]])
    model = Detector(network, ("a", "b"), PredictSettings((96, 128)), generator("sliding-window"), "cpu")  # type: ignore[arg-type]
    found = next(model.predict_images([ImageInput("one", image, patches)]))
    assert found.best_boxes is not None
    shifted = patches + np.array([[10, 0, 10, 0]])
    assert min(np.abs(shifted - found.best_boxes[0]).max(axis=1)) < 1e-3
    assert min(np.abs(patches - found.best_boxes[1]).max(axis=1)) < 1e-3
    assert found.image_scores.shape == (2,)


def test_only_who_asks_for_it_imports_it() -> None:
    code = (
        "import pkgutil, sys, importlib, deep_patch_learning.training as training, deep_patch_learning.training.fit;"
        "[importlib.import_module(f'deep_patch_learning.training.{m.name}') for m in pkgutil.iter_modules(training.__path__)];"
        "print([m for m in sys.modules if m.endswith(('data.truth', 'peers.fast_rcnn')) or '.peers' in m])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
