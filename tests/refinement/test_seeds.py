"""Seeds against slow loops: best, elected, elected in turn, several apart, centres of clusters; absent classes have none."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchvision.ops import box_iou, nms

from deep_patch_learning.common import boxes as box_tools
from deep_patch_learning.common.errors import ModelError
from deep_patch_learning.refinement.seeds import (
    Best,
    Clusters,
    SeedRule,
    Several,
    Vote,
    Votes,
    find_seeds,
    seed_rule,
)
from deep_patch_learning.refinement.seeds import top_group as kept_group

COUNTS = st.lists(st.integers(0, 12), min_size=1, max_size=4).filter(any)
CHOICES = [Best(), Vote(2.0, 0.3), Votes(3, 0.3, 2.0, 0.3), Several(3, 0.5), Clusters(3)]


def some_case(counts: list[int], classes: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return boxes (I, M, 4), scores (I, M, C) without ties and which patches are there (I, M), of images side by side."""
    generator = torch.Generator().manual_seed(seed)
    most = max(counts)
    corner = torch.randint(0, 20, (len(counts), most, 2), generator=generator)
    side = torch.randint(4, 25, (len(counts), most, 2), generator=generator)
    boxes = torch.cat((corner, corner + side), dim=2).double()
    numbers = len(counts) * most * classes
    scores = (torch.randperm(numbers, generator=generator) + 1.0).double().view(len(counts), most, classes) / numbers
    there = torch.arange(most) < torch.tensor(counts)[:, None]
    return boxes * there[..., None], scores * there[..., None], there


def picked(rule: SeedRule, case: tuple, i: int, c: int) -> list[tuple[int, float]]:
    """Return the places and scores of the real picks of one image and class."""
    found = rule(*case)
    return [(int(p), float(s)) for p, s, r in zip(*(part[i, c] for part in found), strict=True) if r]


def every(counts: list[int], classes: int) -> list[tuple[int, int]]:
    return [(i, c) for i in range(len(counts)) for c in range(classes)]


@settings(max_examples=40, deadline=None)
@given(COUNTS, st.integers(1, 3), st.integers(0, 10_000))
def test_best(counts: list[int], classes: int, seed: int) -> None:
    case = _, scores, _ = some_case(counts, classes, seed)
    for i, c in every(counts, classes):
        own = scores[i, : counts[i], c].tolist()
        assert picked(Best(), case, i, c) == ([(own.index(max(own)), max(own))] if own else [])


@settings(max_examples=40, deadline=None)
@given(COUNTS, st.integers(1, 3), st.integers(0, 10_000), st.sampled_from([(1.0, 0.0), (3.0, 0.0), (0.5, 0.7)]))
def test_vote(counts: list[int], classes: int, seed: int, ways: tuple[float, float]) -> None:
    case = boxes, scores, _ = some_case(counts, classes, seed)
    for i, c in every(counts, classes):
        own, patches = scores[i, : counts[i], c].tolist(), boxes[i, : counts[i]]
        found = picked(Vote(*ways), case, i, c)
        if not own:
            assert not found
            continue
        iou = box_iou(patches, patches)
        areas = (patches[:, 2:] - patches[:, :2]).prod(dim=1).tolist()
        votes = [
            sum(iou[j, k].item() * own[k] ** ways[0] for k in range(len(own))) * areas[j] ** ways[1]
            for j in range(len(own))
        ]
        ((place, score),) = found
        assert votes[place] == pytest.approx(max(votes))
        assert score == pytest.approx(max(own))


def test_few_voters_are_the_loudest() -> None:
    boxes, scores, there = some_case([10], 1, 3)
    quiet = scores.clone()
    loud = scores[0, :, 0].topk(4).indices
    quiet[0, [j for j in range(10) if j not in loud.tolist()]] = 0
    few, all_of_them = Vote(voters=4)(boxes, scores, there), Vote()(boxes, quiet, there)
    assert torch.equal(few.places, all_of_them.places)


ELECTIONS = given(
    COUNTS, st.integers(1, 3), st.integers(0, 10_000), st.integers(1, 5), st.sampled_from([0.0, 0.5, 0.9])
)


def scores_left(boxes: torch.Tensor, scores: list[float], elected: list[int]) -> list[float]:
    """Return the score of each patch that may still vote after these were elected, else 0."""
    seeds = boxes[elected]
    shared = (
        (torch.minimum(boxes[:, None, 2:], seeds[:, 2:]) - torch.maximum(boxes[:, None, :2], seeds[:, :2]))
        .clamp(min=0)
        .prod(dim=2)
    )
    inside = shared / (boxes[:, 2:] - boxes[:, :2]).prod(dim=1, keepdim=True)
    near = ((box_iou(boxes, seeds) > 0.2) | (inside > 0.6)).any(dim=1).tolist()
    return [0.0 if gone else score for gone, score in zip(near, scores, strict=True)]


@settings(max_examples=40, deadline=None)
@ELECTIONS
def test_votes_are_elections_in_turn(counts: list[int], classes: int, seed: int, most: int, floor: float) -> None:
    case = boxes, scores, _ = some_case(counts, classes, seed)
    for i, c in every(counts, classes):
        own, patches = scores[i, : counts[i], c].tolist(), boxes[i, : counts[i]]
        found = picked(Votes(most, floor), case, i, c)
        assert len(found) <= most
        assert found[:1] == picked(Vote(), case, i, c)
        if not own:
            continue
        iou, places = box_iou(patches, patches), [place for place, _ in found]
        for number, (place, score) in enumerate(found):
            left = scores_left(patches, own, places[:number])
            free = (iou[:, places[:number]] <= 0.2).all(dim=1)
            votes = (iou @ torch.tensor(left).double()).masked_fill(~free, -1)
            assert votes[place].item() == pytest.approx(votes.max().item())
            assert score == pytest.approx(max(left))
            assert score >= floor * max(own)
        left = scores_left(patches, own, places)
        assert len(found) == most or max(left) == 0 or max(left) < floor * max(own)  # none is left out


@settings(max_examples=40, deadline=None)
@ELECTIONS
def test_votes_do_not_overlap(counts: list[int], classes: int, seed: int, most: int, floor: float) -> None:
    case = boxes, _, _ = some_case(counts, classes, seed)
    for i, c in every(counts, classes):
        seeds = boxes[i, [place for place, _ in picked(Votes(most, floor), case, i, c)]]
        assert (box_iou(seeds, seeds).fill_diagonal_(0) <= 0.2).all()


def test_votes_do_not_overlap_where_voters_surround_a_seed() -> None:
    first, between = (
        [[100, 100, 200, 200]] * 3,
        [[160, 100, 260, 200]],
    )  # IoU 0.25; the voters have at most 0.2 with `first`
    voters = [[172, 74, 233, 223], [153, 128, 271, 187], [155, 70, 288, 201], [156, 96, 282, 228], [163, 116, 261, 170]]
    boxes = torch.tensor(first + between + voters + [[173, 118, 242, 215]]).double()[None]
    scores = torch.tensor([1.0] * 3 + [0.01] + [0.6] * 6).double()[None, :, None]
    places = Votes(2)(boxes, scores, torch.ones(1, 10, dtype=torch.bool)).places[0, 0].tolist()
    votes_left = box_iou(boxes[0], boxes[0, 4:]).sum(dim=1)
    assert places[0] < 3
    assert votes_left.argmax() == 3  # the patch with the most votes overlaps the first seed
    assert places[1] > 3


def test_two_objects_have_a_seed_each_and_their_parts_none() -> None:
    objects = torch.tensor([[0, 0, 100, 100], [300, 0, 400, 100]])
    parts = torch.tensor([[10, 10, 50, 50], [310, 10, 350, 50]])  # inside, with an IoU of 0.16
    boxes = torch.cat((objects, parts)).double()[None]
    scores = torch.tensor([0.8, 0.7, 0.75, 0.65], dtype=torch.float64)[None, :, None]
    case = boxes, scores, torch.ones(1, 4, dtype=torch.bool)
    assert picked(Votes(5), case, 0, 0) == [(0, 0.8), (1, 0.7)]
    assert picked(Votes(5, floor=0.9), case, 0, 0) == [(0, 0.8)]


@settings(max_examples=60, deadline=None)
@given(
    COUNTS,
    st.integers(1, 3),
    st.integers(0, 10_000),
    st.sampled_from([0.15, 0.5, 1.0]),
    st.integers(1, 6),
    st.sampled_from([0.0, 0.8]),
)
def test_several_are_those_of_torchvisions_suppression(
    counts: list[int], classes: int, seed: int, share: float, most: int, floor: float
) -> None:
    case = boxes, scores, _ = some_case(counts, classes, seed)
    for i, c in every(counts, classes):
        own = scores[i, : counts[i], c]
        count = max(math.ceil(round(share * len(own), 6)), 1) if len(own) else 0
        top = own.topk(count).indices
        top = top[own[top] >= floor * own[top[:1]]]
        kept = top[nms(boxes[i, top], own[top], 0.2)][:most]
        assert [place for place, _ in picked(Several(most, share, floor), case, i, c)] == kept.tolist()


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 25), st.integers(1, 25), st.integers(0, 10_000), st.sampled_from([0.0, 0.2, 0.5]))
def test_fixed_rounds_equal_torchvisions_suppression(count: int, most: int, seed: int, overlap: float) -> None:
    boxes, scores, _ = some_case([count], 1, seed)
    order = scores[0, :, 0].argsort(descending=True)
    places, real = box_tools.nms(boxes[0, order], torch.ones(count, dtype=torch.bool), overlap, most)
    expected = nms(boxes[0, order], scores[0, order, 0], overlap)[:most]
    assert places[real].tolist() == expected.tolist()
    assert real.tolist() == [place < len(expected) for place in range(most)]  # those that are not real come last


def slow_centres(boxes: torch.Tensor, scores: list[float], group: list[int], most: int) -> list[tuple[int, float]]:
    left, found = sorted(group, key=lambda j: -scores[j]), []
    iou = box_iou(boxes, boxes)
    while left and len(found) < most:
        clusters = {j: [k for k in left if k == j or iou[j, k] > 0.4] for j in left}
        centre = max(left, key=lambda j: len(clusters[j]))  # the first, which has the highest score, of equal ones
        found.append((centre, max(scores[k] for k in clusters[centre])))
        left = [k for k in left if k not in clusters[centre]]
    return found


@settings(max_examples=60, deadline=None)
@given(COUNTS, st.integers(1, 3), st.integers(0, 10_000), st.integers(1, 5))
def test_clusters(counts: list[int], classes: int, seed: int, most: int) -> None:
    case = boxes, scores, there = some_case(counts, classes, seed)
    group = kept_group(scores, there)
    for i, c in every(counts, classes):
        own = scores[i, : counts[i], c].tolist()
        members = [j for j in range(len(own)) if group[i, j, c]]
        found = picked(Clusters(most), case, i, c)
        assert found == slow_centres(boxes[i, : counts[i]], own, members, most)
        assert bool(found) == bool(own)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=15))
def test_top_group_is_a_top_and_stands_still(values: list[float]) -> None:
    scores, there = torch.tensor(values).double().view(1, -1, 1), torch.ones(1, len(values), dtype=torch.bool)
    group = kept_group(scores, there, rounds=50)[0, :, 0].tolist()
    inside = [value for value, member in zip(values, group, strict=True) if member]
    outside = [value for value, member in zip(values, group, strict=True) if not member]
    assert max(values) in inside
    assert not outside or max(outside) <= min(inside)


def test_top_group_of_three_plain_groups() -> None:
    scores = torch.tensor([0.9, 0.01, 0.5, 0.02, 0.95, 0.55]).view(1, 6, 1)
    group = kept_group(scores, torch.ones(1, 6, dtype=torch.bool))
    assert group[0, :, 0].tolist() == [True, False, False, False, True, False]


@pytest.mark.parametrize("rule", CHOICES, ids=lambda rule: type(rule).__name__)
@settings(max_examples=30, deadline=None)
@given(COUNTS, st.integers(1, 3), st.integers(0, 10_000))
def test_together_is_one_by_one_and_only_present_classes_have_seeds(
    rule: SeedRule, counts: list[int], classes: int, seed: int
) -> None:
    boxes, scores, there = some_case(counts, classes, seed)
    labels = torch.randint(-1, 2, (len(counts), classes), generator=torch.Generator().manual_seed(seed))
    seeds = find_seeds(rule, boxes, scores, there, labels == 1)
    for i, count in enumerate(counts):
        own = seeds.real[i]
        assert set(seeds.classes[own].tolist()) == set(
            ((labels[i] == 1).nonzero().flatten() if count else own[:0]).tolist()
        )
        if not count:
            continue
        one = slice(i, i + 1)
        alone = find_seeds(rule, boxes[one, :count], scores[one, :count], there[one, :count], labels[one] == 1)
        assert torch.equal(alone.real[0], own)
        assert torch.equal(alone.boxes[0][own], seeds.boxes[i][own])
        torch.testing.assert_close(alone.scores[0][own], seeds.scores[i][own])


@pytest.mark.parametrize("rule", CHOICES, ids=lambda rule: type(rule).__name__)
def test_no_gradient_reaches_the_scores(rule: SeedRule) -> None:
    boxes, scores, there = some_case([5, 3], 2, 0)
    seeds = find_seeds(rule, boxes, scores.requires_grad_(), there, torch.ones(2, 2, dtype=torch.bool))
    assert not seeds.scores.requires_grad
    assert not seeds.boxes.requires_grad


def test_names() -> None:
    assert seed_rule("several", most=7, share=0.3, floor=0.1) == Several(7, 0.3, 0.1)
    assert seed_rule("vote", sharpness=2.0, area_power=0.5) == Vote(2.0, 0.5)
    assert seed_rule("votes", most=3, floor=0.4, sharpness=2.0, area_power=0.5) == Votes(3, 0.4, 2.0, 0.5)
    assert (seed_rule("best"), seed_rule("clusters")) == (Best(), Clusters())
    with pytest.raises(ModelError, match="Did you mean 'clusters'"):
        seed_rule("cluster")
