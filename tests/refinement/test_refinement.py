"""Refinement: targets and losses against slow loops, batches that are their images, gradients that go where they should."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torchvision.ops import box_iou

from deep_patch_learning.common.boxes import decoded, encoded
from deep_patch_learning.common.errors import ModelError
from deep_patch_learning.data.batch import Batch
from deep_patch_learning.model.by_image import patch_rows
from deep_patch_learning.model.losses import HeadLosses
from deep_patch_learning.model.network import ALL_HEADS, Scores
from deep_patch_learning.recipe.build import build_network
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.refinement.heads import Refinement
from deep_patch_learning.refinement.losses import RefinedLosses, RefinementLosses, cluster_loss, offset_loss, patch_loss
from deep_patch_learning.refinement.seeds import Best, Clusters, SeedRule, Seeds, Several, Vote, find_seeds
from deep_patch_learning.refinement.targets import PatchTargets, box_targets, patch_targets

COUNTS = st.lists(st.integers(0, 8), min_size=1, max_size=4)
CHOICES = [Best(), Vote(), Several(3, 0.5), Clusters(3)]
CLASSES = 3


def some_batch(counts: list[int], seed: int) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    corner = torch.randint(0, 20, (sum(counts), 2), generator=generator)
    boxes = torch.cat((corner, corner + torch.randint(4, 25, (sum(counts), 2), generator=generator)), dim=1).double()
    image = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    pixels = torch.zeros(len(counts), 3, 64, 64)
    return Batch(pixels, torch.full((len(counts), 2), 64), boxes, image, False, tuple(counts))


def some_labels(images: int, seed: int) -> torch.Tensor:
    return torch.randint(-1, 2, (images, CLASSES), generator=torch.Generator().manual_seed(seed))


def some_refinement(seed: int, **options: int) -> Refinement:
    torch.manual_seed(seed)
    # so wide that no two patches leave all of it at 0: those would tie, and either could be the seed
    head = Refinement(5, CLASSES, hidden=32, regression=True, **options).double()
    for parameter in head.parameters():
        torch.nn.init.normal_(
            parameter, std=0.3
        )  # larger scores would give probabilities of 1 to the last bit, which tie
    return head


def scored(head: Refinement, batch: Batch, seed: int) -> Scores:
    features = torch.randn(20, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    rows = patch_rows(batch.patch_image, len(batch.images), batch.counts)
    return Scores(None, None, None, None, head(features.repeat(3, 1)[: len(batch.patches)], rows))


def some_seeds(boxes: torch.Tensor, seed: int) -> Seeds:
    """Return five seeds an image of three classes, some not real, some of them patches."""
    generator = torch.Generator().manual_seed(seed)
    places = torch.randint(boxes.shape[1], (len(boxes), 5), generator=generator)
    chosen = torch.stack([own[at] for own, at in zip(boxes, places, strict=True)])
    scores = torch.rand(len(boxes), 5, generator=generator, dtype=torch.float64)
    real = torch.rand(len(boxes), 5, generator=generator) < 0.6
    return Seeds(chosen, scores, real, torch.tensor([0, 0, 1, 2, 2]))


def slow_target(patch: torch.Tensor, seeds: Seeds, i: int, foreground: float, background: float) -> tuple:
    """Return the class, weight and seed of one patch of image `i`."""
    real = [s for s in range(5) if seeds.real[i, s]]
    iou = {s: box_iou(patch[None], seeds.boxes[i, s][None]).item() for s in real}
    mine = max(real, key=lambda s: (iou[s], seeds.scores[i, s].item()), default=None)
    if mine is None or iou[mine] < background:
        return CLASSES, 0.0, mine
    return (seeds.classes[mine].item() if iou[mine] >= foreground else CLASSES), seeds.scores[i, mine].item(), mine


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 8), st.integers(1, 3), st.integers(0, 10_000), st.sampled_from([(0.5, 0.1), (0.6, 0.0)]))
def test_targets_equal_the_slow_loop(patches: int, images: int, seed: int, edges: tuple[float, float]) -> None:
    boxes = some_batch([patches] * images, seed).patches.view(images, patches, 4)
    seeds = some_seeds(boxes, seed)
    there = torch.rand(images, patches, generator=torch.Generator().manual_seed(seed)) < 0.8
    found = patch_targets(boxes, there, seeds, CLASSES, *edges)
    offsets = box_targets(boxes, seeds, found)
    for i in range(images):
        for j in range(patches):
            wanted, weight, mine = slow_target(boxes[i, j], seeds, i, *edges)
            if not there[i, j]:
                wanted, weight = CLASSES, 0.0
            assert found.classes[i, j] == wanted
            assert found.weights[i, j].item() == pytest.approx(weight)
            assert found.foreground[i, j].item() == (wanted < CLASSES)
            if wanted < CLASSES:
                back = decoded(boxes[i, j][None], offsets[i, j].view(1, 1, 4))[0, 0]
                torch.testing.assert_close(back, seeds.boxes[i, mine])


def slow_patch_loss(scores: torch.Tensor, targets: PatchTargets) -> float:
    total = 0.0
    for i in range(len(scores)):
        counted = [j for j in range(scores.shape[1]) if targets.weights[i, j] > 0]
        own = 0.0
        for j in counted:
            exponentials = scores[i, j].detach().exp().tolist()
            own -= targets.weights[i, j].item() * math.log(exponentials[targets.classes[i, j]] / sum(exponentials))
        total += own / max(len(counted), 1)
    return total / len(scores)


def slow_cluster_loss(scores: torch.Tensor, targets: PatchTargets, seeds: Seeds) -> float:
    total = 0.0
    probabilities = scores.softmax(dim=2)
    for i in range(len(scores)):
        counted = [j for j in range(scores.shape[1]) if targets.weights[i, j] > 0]
        own = 0.0
        for s in range(5):
            bag = [j for j in counted if targets.seeds[i, j] == s and targets.foreground[i, j]]
            if bag:
                mean = sum(probabilities[i, j, seeds.classes[s]].item() for j in bag) / len(bag)
                own -= seeds.scores[i, s].item() * len(bag) * math.log(mean)
        for j in counted:
            if not targets.foreground[i, j]:
                own -= targets.weights[i, j].item() * math.log(probabilities[i, j, CLASSES].item())
        total += own / max(len(counted), 1)
    return total / len(scores)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 8), st.integers(1, 3), st.integers(0, 10_000))
def test_losses_equal_slow_loops(patches: int, images: int, seed: int) -> None:
    boxes = some_batch([patches] * images, seed).patches.view(images, patches, 4)
    seeds = some_seeds(boxes, seed)
    targets = patch_targets(boxes, torch.ones(images, patches, dtype=torch.bool), seeds, CLASSES)
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(images, patches, CLASSES + 1, generator=generator, dtype=torch.float64)
    assert patch_loss(scores, targets).item() == pytest.approx(slow_patch_loss(scores, targets))
    assert cluster_loss(scores, targets, seeds).item() == pytest.approx(slow_cluster_loss(scores, targets, seeds))


def test_offsets_are_learnt_only_on_seeds_and_are_zero_at_the_target() -> None:
    boxes = torch.tensor([[[0.0, 0, 10, 10], [1, 0, 10, 10], [5, 5, 15, 15], [30, 30, 40, 40]]])
    seeds = Seeds(boxes[:, :1], torch.tensor([[0.5]]), torch.tensor([[True]]), torch.tensor([0]))
    targets = patch_targets(boxes, torch.ones(1, 4, dtype=torch.bool), seeds, CLASSES)
    right = box_targets(boxes, seeds, targets)
    assert offset_loss(right, boxes, seeds, targets) == 0
    offsets = torch.zeros_like(right).requires_grad_()
    offset_loss(offsets, boxes, seeds, targets).backward()
    assert offsets.grad[0, 1].any()
    assert not offsets.grad[0, [0, 2, 3]].any()  # on its target already, background, far away


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_offsets_lead_back(seed: int) -> None:
    patches, boxes = some_batch([6, 6], seed).patches.split(6)
    torch.testing.assert_close(decoded(patches, encoded(patches, boxes)[:, None])[:, 0], boxes)


@pytest.mark.parametrize("by_cluster", [False, True])
@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: type(choice).__name__)
@settings(max_examples=15, deadline=None)
@given(COUNTS, st.integers(0, 10_000))
def test_a_batch_is_the_mean_of_its_images(choice: SeedRule, by_cluster: bool, counts: list[int], seed: int) -> None:
    head, batch, labels = some_refinement(seed), some_batch(counts, seed), some_labels(len(counts), seed)
    losses = RefinedLosses(HeadLosses("mean", "ignore"), RefinementLosses(choice, by_cluster=by_cluster))
    features = torch.randn(sum(counts), 5, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    rows = patch_rows(batch.patch_image, len(counts), counts)
    together = losses(Scores(None, None, None, None, head(features, rows)), labels, batch)
    assert together.keys() == {"two_stream", "refinement", "boxes"}
    alone = dict.fromkeys(together, 0.0)
    for i, (own, patches) in enumerate(zip(features.split(counts), batch.patches.split(counts), strict=True)):
        one = batch._replace(
            images=batch.images[:1], patches=patches, patch_image=torch.zeros(len(own), dtype=torch.long), counts=None
        )
        said = head(own, patch_rows(one.patch_image, 1))
        for name, term in losses(Scores(None, None, None, None, said), labels[i : i + 1], one).items():
            alone[name] += term.item() / len(counts)
    for name, term in together.items():
        assert term.item() == pytest.approx(alone[name], abs=1e-9)


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: type(choice).__name__)
def test_no_gradient_through_what_a_classifier_learns_from(choice: SeedRule) -> None:
    head, batch = some_refinement(0), some_batch([8, 5], 0)
    terms = RefinedLosses(refinement=RefinementLosses(choice))(
        scored(head, batch, 0), torch.ones(2, CLASSES).long(), batch
    )
    streams = list(head.two_stream.parameters())
    assert all(
        g is None for g in torch.autograd.grad(terms["refinement"], streams, retain_graph=True, allow_unused=True)
    )
    others = [*streams, *head.classifiers.parameters()]
    assert all(g is None for g in torch.autograd.grad(terms["boxes"], others, retain_graph=True, allow_unused=True))
    (taught,) = torch.autograd.grad(terms["refinement"], head.classifiers.weight)
    assert taught.view(3, -1).any(dim=1).all()  # each of the three learns


class Asked(TorchDispatchMode):
    """Notes the operations for which a host waits for its device."""

    WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "_unique", "bincount", "repeat_interleave")

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.name()
        masks = name == "aten::index.Tensor" and any(t is not None and t.dtype == torch.bool for t in args[1])
        if masks or any(word in name for word in self.WAITING):
            self.found.append(name)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("by_cluster", [False, True])
@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: type(choice).__name__)
def test_a_step_asks_nothing_of_the_device(choice: SeedRule, by_cluster: bool) -> None:
    head, batch, labels = some_refinement(0), some_batch([8, 0, 5], 0), some_labels(3, 0)
    losses = RefinedLosses(HeadLosses("mean", "ignore"), RefinementLosses(choice, by_cluster=by_cluster))
    features = torch.randn(13, 5, dtype=torch.float64)
    with Asked() as asked:
        rows = patch_rows(batch.patch_image, 3, batch.counts)
        terms = losses(Scores(None, None, None, None, head(features, rows)), labels, batch)
        torch.stack(list(terms.values())).sum().backward()
    assert not asked.found
    with Asked() as asked:
        labels[labels > 0].sum().item()
    assert len(asked.found) >= 2  # the check sees what it looks for


def test_each_classifier_learns_from_the_one_before() -> None:
    """The first from the two streams, the second from the first: written out without the class that does it."""
    head, batch = some_refinement(3, refinements=2), some_batch([7, 7], 3)
    labels = torch.tensor([[1, 0, 1], [0, 1, -1]])
    scores = scored(head, batch, 3)
    boxes, there = batch.patches.view(2, 7, 4), torch.ones(2, 7, dtype=torch.bool)
    shares, heads = scores.refinement.shares.view(2, 7, -1), scores.refinement.heads.view(2, 7, 2, -1)
    expected = 0.0
    for said, learning in ((shares, heads[:, :, 0]), (heads[:, :, 0].softmax(dim=2)[..., :-1], heads[:, :, 1])):
        seeds = find_seeds(Best(), boxes, said, there, labels == 1)
        expected += slow_patch_loss(learning, patch_targets(boxes, there, seeds, CLASSES))
    assert RefinementLosses()(scores.refinement, labels, batch)["refinement"].item() == pytest.approx(expected)


def test_without_present_classes_nothing_is_refined() -> None:
    head, batch = some_refinement(1), some_batch([6, 4], 1)
    terms = RefinementLosses()(scored(head, batch, 1).refinement, torch.tensor([[0, 0, -1], [-1, 0, 0]]), batch)
    assert [term.item() for term in terms.values()] == [0, 0]


@pytest.mark.parametrize("hidden", [0, 16])
def test_a_network_with_all_heads(hidden: int) -> None:
    torch.manual_seed(0)
    network = build_network(
        Recipe.of(backbone="tiny", heads=ALL_HEADS, filters=8, refinements=2, refinement_width=hidden, regression=True),
        CLASSES,
    )[0]
    batch = some_batch([3, 0, 5], 0)
    scores = network.eval()(batch._replace(patches=batch.patches.float()))
    assert scores.classification.shape == scores.discovery.shape == scores.refinement.image.shape == (3, CLASSES)
    assert scores.refinement.heads.shape == (8, 2, CLASSES + 1)
    assert scores.refinement.offsets.shape == (8, 4)
    mean = scores.refinement.heads.softmax(dim=2)[..., :CLASSES].mean(dim=1)
    torch.testing.assert_close(scores.refinement.probabilities, mean)
    assert not scores.refinement.probabilities.requires_grad
    alone = build_network(Recipe.of(backbone="tiny", heads=("refinement",), refinement_width=hidden), CLASSES)[
        0
    ].eval()(batch._replace(patches=batch.patches.float()))
    assert alone[:4] == (None,) * 4
    assert alone.refinement.offsets is None


def test_a_refinement_that_tells_places_of_a_patch_apart() -> None:
    torch.manual_seed(0)
    network = build_network(
        Recipe.of(backbone="resnet50", heads=ALL_HEADS, filters=8, refinement_width=16, refinement_cells=2), CLASSES
    )[0].eval()
    assert network.refinement.hidden[0].in_features == 4 * 2048
    pooled = torch.randn(3, 1024, 7, 7)
    with torch.no_grad():
        features, placed = network.patch_features.in_cells(pooled, 2)
        torch.testing.assert_close(features, network.patch_features(pooled))
        # four equal quarters of 4 x 4 cells: their mean is the mean of all
        torch.testing.assert_close(placed.view(3, 2048, 4).mean(dim=2), features)
        batch = some_batch([4, 3], 0)._replace(patches=some_batch([4, 3], 0).patches.float())
        whole, parts = network(batch), network(batch, chunk=3)
    torch.testing.assert_close(parts.refinement.heads, whole.refinement.heads)
    torch.testing.assert_close(parts.discovery, whole.discovery)
    for backbone, cells in (("tiny", 2), ("resnet50", 5)):
        with pytest.raises(ModelError, match="at most"):
            build_network(Recipe.of(backbone=backbone, heads=ALL_HEADS, filters=8, refinement_cells=cells), CLASSES)


def test_the_papers_heads_stay_as_they_are() -> None:
    network = build_network(Recipe.of(backbone="tiny"), CLASSES)[0]
    assert network.refinement is None
    assert not any(name.startswith("refinement") for name in network.state_dict())
    with pytest.raises(ValueError, match="needs the batch"):
        RefinedLosses()(scored(some_refinement(0), some_batch([2], 0), 0), torch.ones(1, CLASSES))
