"""Elections against a slow reference: each box from the votes that are left, the first as in a single vote."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from deep_patch_learning.common.boxes import area, box_iou
from deep_patch_learning.common.errors import SettingError
from deep_patch_learning.recipe.build import recipe_box_selection
from deep_patch_learning.recipe.presets import world
from deep_patch_learning.refinement.selection import HEADS_VOTE, INSIDE, BoxSelection, Ranked, elect, other_way, voted

LEFT, RIGHT = [0, 0, 40, 40], [60, 0, 100, 40]


def slow(boxes: np.ndarray, scores: np.ndarray, most: int, part_weight: float, overlap: float) -> list[tuple]:
    """Return (row, score) of one class as `elect` should, in float64 and one patch at a time."""
    iou, areas = box_iou(boxes, boxes), area(boxes)
    standing, lowered, found = set(range(len(boxes))), set(), []
    for _ in range(min(most, len(boxes))):
        if not standing:
            break
        weights = {j: math.exp(scores[j] - scores.max()) * (part_weight if j in lowered else 1) for j in standing}
        votes = {i: sum(iou[i, j] * weights[j] for j in sorted(standing)) for i in sorted(standing)}
        best = max(votes.values())
        row = next(i for i in sorted(standing) if votes[i] >= best * (1 - 1e-9))
        taken = {j for j in standing if j == row or iou[row, j] > overlap}
        own = max(scores[j] + (math.log(part_weight) if j in lowered else 0) for j in taken)
        found.append((row, own if found else np.nextafter(scores.max(), np.inf)))
        standing -= taken
        for j in range(len(boxes)):
            shared = iou[row, j] / (1 + iou[row, j]) * (areas[row] + areas[j])
            if shared / areas[j] > INSIDE - 1e-9:
                lowered.add(j)
    return sorted(found, key=lambda pair: -pair[1])


def of_class(ranked: Ranked, index: int = 0) -> list[tuple]:
    pairs = zip(ranked.rows[index].tolist(), ranked.scores[index].tolist(), strict=True)
    return [(row, score) for row, score in pairs if score > -math.inf]


@st.composite
def patches(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    count = draw(st.integers(1, 12))
    random = np.random.default_rng(draw(st.integers(0, 10_000)))
    corner = random.integers(0, 30, (count, 2))
    boxes = np.concatenate([corner, corner + random.integers(3, 40, (count, 2))], axis=1)
    return boxes.astype(np.float64), random.normal(0, draw(st.sampled_from([0.1, 1.0, 4.0])), (count, 3))


@settings(max_examples=150, deadline=None)
@given(patches(), st.integers(1, 6), st.sampled_from([0.05, 0.2, 1.0]), st.sampled_from([0.23, 0.41]))
def test_is_the_slow_election(drawn: tuple, most: int, part_weight: float, overlap: float) -> None:
    boxes, scores = drawn
    tensors = torch.tensor(boxes), torch.tensor(scores)
    found = elect(*tensors, tensors[1], BoxSelection(True, elections=most, part_weight=part_weight, overlap=overlap))
    for c in range(3):
        expected = slow(boxes, scores[:, c], most, part_weight, overlap)
        assert [row for row, _ in of_class(found, c)] == [row for row, _ in expected]
        assert [score for _, score in of_class(found, c)] == pytest.approx([score for _, score in expected], abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(patches(), st.sampled_from([(1.0, 0.0), (0.5, 0.25), (3.0, 0.7)]), st.integers(1, 5))
def test_the_first_box_is_the_one_a_vote_elects(drawn: tuple, way: tuple[float, float], scales: int) -> None:
    boxes, totals = (torch.tensor(part).float() for part in drawn)
    chances = totals.sigmoid() * scales
    alone, elected = BoxSelection(True, *way), BoxSelection(True, *way, elections=4)
    for one, several in (
        (alone.rank_scores(boxes, totals, scales), elected.rank_scores(boxes, totals, scales)),
        (alone.rank_probabilities(boxes, chances, scales), elected.rank_probabilities(boxes, chances, scales)),
    ):
        assert torch.equal(one.rows[:, 0], several.rows[:, 0])
        torch.testing.assert_close(one.scores[:, 0], several.scores[:, 0])
        assert (several.scores[:, :-1] >= several.scores[:, 1:]).all()
    winners = voted(boxes, totals / scales, totals / scales, alone).argmax(dim=0)
    assert torch.equal(winners, elected.rank_scores(boxes, totals, scales).rows[:, 0])


def test_the_mean_over_scales_keeps_the_elected_patch_on_top() -> None:
    """One third of a number and of the next one above it may be the same float: the best patch would come first again."""
    boxes = torch.tensor([[40, 40, 50, 50], [10, 10, 90, 90], [12, 10, 90, 92], [8, 9, 88, 90]]).float()
    for top in torch.linspace(1, 2, 50):
        totals = torch.stack([top, top - 0.1, top - 0.2, top - 0.2])[:, None]
        for scales in (1, 3, 5):
            assert BoxSelection(True).rank_scores(boxes, totals, scales).rows[0, 0] == 1


def test_two_objects_come_before_the_part_of_one() -> None:
    """The wheel scores above the second car; best-first ranks it second, an election third."""
    wheel = [5, 25, 17, 37]
    boxes = torch.tensor([LEFT, [1, 0, 41, 40], [0, 1, 39, 41], wheel, RIGHT, [61, 0, 100, 41]]).float()
    scores = torch.tensor([[3.0], [2.8], [2.9], [2.5], [1.8], [1.7]])
    by_score = BoxSelection(True).rank_scores(boxes, scores, 1).rows[0].tolist()
    found = of_class(BoxSelection(True, elections=5).rank_scores(boxes, scores, 1))
    assert by_score.index(3) < by_score.index(4)
    assert [row for row, _ in found] == [0, 4, 3]
    assert found[2][1] == pytest.approx(2.5 + math.log(0.2))


def test_an_elected_box_takes_the_best_score_of_what_it_explains() -> None:
    boxes = torch.tensor([LEFT, [60, 0, 100, 28], RIGHT, [60, 2, 102, 42], [58, 0, 98, 42]]).float()
    scores = torch.tensor([[3.0], [2.0], [1.5], [1.5], [1.5]])
    found = dict(of_class(BoxSelection(True, elections=3).rank_scores(boxes, scores, 1)))
    assert found[2 if 2 in found else 3 if 3 in found else 4] == 2.0
    assert 1 not in found


def test_of_equal_votes_the_first_patch_wins() -> None:
    boxes = torch.tensor([RIGHT, LEFT, [0, 60, 40, 100]]).float()
    found = elect(boxes, torch.zeros(3, 2), torch.zeros(3, 2), BoxSelection(True, elections=3))
    assert found.rows.tolist() == [[0, 1, 2], [0, 1, 2]]


def test_fewer_boxes_than_asked_for_leave_no_score() -> None:
    boxes, scores = torch.tensor([LEFT, LEFT, RIGHT]).float(), torch.ones(3, 1)
    found = elect(boxes, scores, scores, BoxSelection(True, elections=3))
    assert [row for row, _ in of_class(found)] == [0, 2]
    assert found.scores[0, 2] == -math.inf


def test_elections_need_a_vote() -> None:
    with pytest.raises(ValueError, match="Give vote=True, or elections=0"):
        BoxSelection(vote=False, elections=3)


def test_a_recipe_says_which_way() -> None:
    assert recipe_box_selection(world().replace(boxes="best-first")).elections == 0
    elected = recipe_box_selection(world().replace(boxes="elected", part_weight=0.5, vote_sharpness=2.0))
    assert (elected.vote, elected.elections, elected.part_weight, elected.sharpness) == (True, 10, 0.5, 2.0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"boxes": "electd"}, "Did you mean 'elected'"),
        ({"part_weight": 1.5}, "part_weight = 1.5; it must be from 0 to 1"),
        ({"part_weight": math.nan}, "it must be from 0 to 1"),
    ],
)
def test_recipes_that_make_no_sense(changes: dict, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        world().replace(**changes)


@pytest.mark.parametrize(
    ("changes", "elections"),
    [({}, 10), ({"boxes": "best-first"}, 0), ({"picking": "best"}, 0)],
)
def test_a_recipe_elects_boxes_only_where_there_is_a_vote(changes: dict, elections: int) -> None:
    found = recipe_box_selection(world().replace(**changes))
    assert found.elections == elections
    assert found.vote == (changes.get("picking") != "best")


@settings(max_examples=60, deadline=None)
@given(patches(), st.integers(1, 5))
def test_the_other_way_is_arg_max_for_a_vote_and_a_vote_for_arg_max(drawn: tuple, scales: int) -> None:
    boxes, totals = (torch.tensor(part).float() for part in drawn)
    assert torch.equal(other_way(boxes, totals, scales, HEADS_VOTE), totals.argmax(dim=0))
    winners = HEADS_VOTE.rank_scores(boxes, totals, scales).rows[:, 0]
    assert torch.equal(other_way(boxes, totals, scales, BoxSelection()), winners)
