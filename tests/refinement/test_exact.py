"""What people said takes the place of the seeds that the network would choose, and of nothing else."""

import numpy as np
import pytest
import torch

from deep_patch_learning.data.batch import Batch, lay_out
from deep_patch_learning.data.reviewed import ReviewedImage, nothing_said
from deep_patch_learning.refinement.exact import Exact, added_patches, exact_among
from deep_patch_learning.refinement.losses import RefinementLosses
from deep_patch_learning.refinement.pseudo_boxes import PseudoBoxes, seeds_among
from deep_patch_learning.refinement.seeds import Best, SeedRule, Seeds, Vote, Votes, find_seeds
from deep_patch_learning.refinement.targets import PatchTargets

CAT, DOG, BACK = 0, 1, 2
LEFT, RIGHT, MIDDLE, CORNER = [0, 0, 40, 40], [60, 0, 100, 40], [30, 0, 70, 40], [90, 90, 100, 100]
PATCHES = np.array([LEFT, RIGHT, MIDDLE, CORNER], np.float32)


def said(
    boxes: list = (), classes: list = (), rejected: list = (), kinds: list = (), done: bool = False
) -> ReviewedImage:  # type: ignore[assignment]
    return ReviewedImage(
        np.array(boxes, np.float32).reshape(-1, 4),
        np.array(classes, np.int64),
        np.array(rejected, np.float32).reshape(-1, 4),
        np.array(kinds, np.int64),
        done=done,
    )


def known(*images: ReviewedImage, flip: bool = False, long_side: int = 100) -> tuple[Exact, torch.Tensor, list[int]]:
    """Return what is known of images of 100 x 100 pixels with the patches above, all patches (P, 4), and how many each has."""
    patches = [np.concatenate((PATCHES, added_patches(one))) for one in images]
    layout = lay_out([(100, 100)] * len(images), patches, long_side, [flip] * len(images))
    counts = [len(each) for each in patches]
    boxes = [PseudoBoxes(one.boxes, one.classes) for one in images]
    seeds = seeds_among(layout.patches, counts, boxes, 2)
    return exact_among(layout.patches, counts, images, seeds), layout.patches, counts


def targets_of(one: ReviewedImage, scores: list[list[float]], present: tuple[bool, bool]) -> tuple[Seeds, PatchTargets]:
    """Return seeds and targets of one image whose first four patches have these scores of cat and dog."""
    exact, patches, counts = known(one)
    rows = torch.tensor(scores + [[0.0, 0.0]] * (counts[0] - 4))[None]
    there = torch.ones(1, counts[0], dtype=torch.bool)
    return RefinementLosses(Best())._targets(patches[None], rows[None], there, torch.tensor([present]), None, exact)


CAT_LEFT = [[0.9, 0.1], [0.2, 0.8], [0.3, 0.3], [0.1, 0.1]]  # cat where it is LEFT, dog where it is RIGHT


def test_without_a_word_the_seeds_are_those_that_would_be_found() -> None:
    seeds, targets = targets_of(nothing_said(), CAT_LEFT, (True, True))
    rows = torch.tensor(CAT_LEFT)[None]
    there = torch.ones(1, 4, dtype=torch.bool)
    found = find_seeds(Best(), torch.from_numpy(PATCHES)[None], rows, there, torch.tensor([[True, True]]))
    assert torch.equal(seeds.boxes[seeds.real], found.boxes[found.real])
    assert targets.classes[0, :4].tolist() == [CAT, DOG, BACK, BACK]
    assert targets.weights[0, 3] == 0  # far from both: it does not count


def test_an_exact_box_is_the_only_seed_of_its_class_and_another_class_keeps_its_own() -> None:
    seeds, targets = targets_of(said([RIGHT], [CAT]), CAT_LEFT, (True, False))
    assert seeds.boxes[seeds.real].tolist() == [RIGHT]
    assert seeds.scores[seeds.real].tolist() == [1]
    assert targets.classes[0].tolist() == [BACK, CAT, BACK, BACK, CAT]  # the last is the exact box itself
    seeds, _ = targets_of(said([MIDDLE], [CAT]), CAT_LEFT, (True, True))
    assert sorted(seeds.boxes[seeds.real].tolist()) == sorted([MIDDLE, RIGHT])


def test_a_rejected_box_is_no_seed_and_is_background() -> None:
    seeds, targets = targets_of(said(rejected=[LEFT], kinds=[CAT]), CAT_LEFT, (True, False))
    assert seeds.boxes[seeds.real].tolist() == [MIDDLE]  # the next best cat
    assert targets.classes[0, 0] == BACK
    assert targets.weights[0, 0] == 1


@pytest.mark.parametrize("rule", [Vote(), Votes()])
def test_a_rejected_box_is_not_elected_by_its_neighbours(rule: SeedRule) -> None:
    exact, patches, _ = known(said(rejected=[[5, 0, 45, 40]], kinds=[CAT]))
    boxes = torch.cat((patches, torch.tensor([[30.0, 0, 70, 40], [28, 0, 68, 40]])))[None]
    scores = torch.tensor([0.9, 0.1, 0.5, 0.1, 0.9, 0.4, 0.4])[None, :, None].repeat(1, 1, 2)
    there, present = torch.ones(1, 7, dtype=torch.bool), torch.tensor([[True, False]])
    free = exact.without_rejected(boxes, scores)
    assert (free[0, [0, 4], CAT] < 0).all()
    seeds = find_seeds(rule, boxes, free, there, present)
    assert not any(box in (LEFT, [5, 0, 45, 40]) for box in seeds.boxes[seeds.real].tolist())
    nothing = find_seeds(rule, boxes, torch.full_like(scores, -1), there, present)
    assert not nothing.real.any()  # where all are rejected there is no seed


def test_a_box_that_is_rejected_for_one_class_may_be_of_another() -> None:
    seeds, targets = targets_of(said([LEFT], [DOG], [LEFT], [CAT]), CAT_LEFT, (True, True))
    assert [LEFT, DOG] in [[box, int(c)] for box, c in zip(seeds.boxes[0].tolist(), seeds.classes, strict=True)]
    assert targets.classes[0, 0] == DOG


def test_a_rejected_box_beside_an_exact_one_of_its_class_takes_nothing_from_it() -> None:
    _, targets = targets_of(said([LEFT], [CAT], [[0, 0, 40, 36]], [CAT]), CAT_LEFT, (True, True))
    assert targets.classes[0].tolist() == [CAT, DOG, BACK, BACK, CAT, CAT]


def test_of_an_image_that_is_done_all_the_rest_is_background() -> None:
    _, open_targets = targets_of(said([LEFT], [CAT]), CAT_LEFT, (True, True))
    assert open_targets.weights[0, 3] == 0
    seeds, targets = targets_of(said([LEFT], [CAT], done=True), CAT_LEFT, (True, True))
    assert seeds.boxes[seeds.real].tolist() == [LEFT]  # there is no dog, whatever its tag
    assert targets.classes[0].tolist() == [CAT, BACK, BACK, BACK, CAT]
    assert targets.weights[0].tolist() == [1] * 5
    assert targets.counted.tolist() == [5]


def test_boxes_are_scaled_and_mirrored_with_their_image() -> None:
    exact, _, _ = known(said([LEFT], [DOG], [RIGHT], [CAT]), nothing_said(), flip=True, long_side=200)
    assert exact.seeds.boxes[0][exact.seeds.real[0]].tolist() == [[120, 0, 200, 80]]
    assert exact.rejected[0][exact.rejects[0]].tolist() == [[0, 0, 80, 80]]
    assert exact.known.tolist() == [[False, True], [False, False]]
    assert not exact.rejects[1].any()


def test_each_classifier_has_the_same_exact_seeds() -> None:
    exact, patches, counts = known(said([RIGHT], [CAT]))
    twice = exact.repeated(2)
    assert torch.equal(twice.seeds.boxes[0], twice.seeds.boxes[1])
    assert twice.known.shape == (2, 2)
    batch = Batch(
        torch.zeros(1, 3, 100, 100), torch.tensor([[100, 100]]), patches, torch.zeros(counts[0]).long(), False
    )
    assert len(batch.patches) == counts[0]
