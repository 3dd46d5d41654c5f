"""Each derivative that the paper states, written out by hand from its equations, against autograd in float64."""

import pytest
import torch

from deep_patch_learning.model.by_image import patch_rows
from deep_patch_learning.model.classification import ClassificationHead, SpatialPyramid
from deep_patch_learning.model.discovery import DiscoveryHead
from deep_patch_learning.model.losses import tag_loss

IMAGES, PATCHES, WIDTH, FILTERS, CLASSES = 3, 17, 6, 5, 4
CELLS = 8


@pytest.fixture
def case() -> dict[str, torch.Tensor]:
    torch.manual_seed(3)
    return {
        "features": torch.randn(PATCHES, WIDTH, dtype=torch.float64),
        "centres": torch.rand(PATCHES, 2, dtype=torch.float64),
        "patch_image": torch.randint(IMAGES, (PATCHES,)),
        "labels": torch.randint(0, 2, (IMAGES, CLASSES)),
    }


def head(kind: type, **options: int) -> torch.nn.Module:
    made = kind(WIDTH, CLASSES, **options).double()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter)
    return made


def sigmoid_minus_label(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """dG/ds = sigma(s) - y, the paper's equation for the loss; over I images as in its equations for the weights."""
    return (1 / (1 + torch.exp(-scores)) - labels) / len(scores)


def test_loss(case: dict[str, torch.Tensor]) -> None:
    scores = torch.randn(IMAGES, CLASSES, dtype=torch.float64, requires_grad=True)
    tag_loss(scores, case["labels"], reduction="sum").backward()
    torch.testing.assert_close(scores.grad, sigmoid_minus_label(scores.detach(), case["labels"]))


def test_mean_over_classes_is_the_sum_divided_by_their_number(case: dict[str, torch.Tensor]) -> None:
    scores = torch.randn(IMAGES, CLASSES, dtype=torch.float64)
    summed, mean = (tag_loss(scores, case["labels"], reduction=r) for r in ("sum", "mean"))
    torch.testing.assert_close(mean, summed / CLASSES)


def winners(values: torch.Tensor, groups: list[list[int]]) -> torch.Tensor:
    """Return (groups, columns): the patch with the greatest value in each group, -1 where the group is empty."""
    columns = range(values.shape[1])
    return torch.tensor(
        [[max(group, key=lambda j, c=c: values[j, c].item()) if group else -1 for c in columns] for group in groups]
    )


def test_classifier_and_part_filters(case: dict[str, torch.Tensor]) -> None:
    module = head(ClassificationHead, filters=FILTERS)
    scores, encoded = module(case["features"], case["centres"], patch_rows(case["patch_image"], IMAGES))
    tag_loss(scores, case["labels"], reduction="sum").backward()
    cells = module.pyramid.cells_of(case["centres"])
    groups = [
        [j for j in range(PATCHES) if case["patch_image"][j] == i and cell in cells[j].tolist()]
        for i in range(IMAGES)
        for cell in range(CELLS)
    ]
    winner = winners(encoded.detach(), groups).view(IMAGES, CELLS, FILTERS)
    d_scores = sigmoid_minus_label(scores.detach(), case["labels"])  # (I, C)
    representation = torch.zeros(IMAGES, CELLS * FILTERS, dtype=torch.float64)
    d_filters = torch.zeros(FILTERS, WIDTH, dtype=torch.float64)
    weights = module.classifier.weight.detach()
    for i in range(IMAGES):
        for r in range(CELLS * FILTERS):  # r runs cell by cell: m = r div N, n = r mod N
            m, n = divmod(r, FILTERS)
            j = winner[i, m, n].item()
            if j < 0:
                continue
            representation[i, r] = encoded[j, n].detach()
            for c in range(CLASSES):
                d_filters[n] += d_scores[i, c] * weights[c, r] * case["features"][j]
    torch.testing.assert_close(module.classifier.weight.grad, d_scores.T @ representation)
    torch.testing.assert_close(module.part_filters.weight.grad, d_filters)


def test_patch_classifier_and_maximum(case: dict[str, torch.Tensor]) -> None:
    module = head(DiscoveryHead)
    scores, patch_scores = module(case["features"], patch_rows(case["patch_image"], IMAGES))
    tag_loss(scores, case["labels"], reduction="sum").backward()
    groups = [[j for j in range(PATCHES) if case["patch_image"][j] == i] for i in range(IMAGES)]
    winner = winners(patch_scores.detach(), groups)
    d_scores = sigmoid_minus_label(scores.detach(), case["labels"])
    expected = torch.zeros(CLASSES, WIDTH, dtype=torch.float64)
    for i in range(IMAGES):
        for c in range(CLASSES):
            if winner[i, c] >= 0:
                expected[c] += d_scores[i, c] * case["features"][winner[i, c]]
    torch.testing.assert_close(module.patch_classifier.weight.grad, expected)


def test_pyramid_maximum_by_finite_differences(case: dict[str, torch.Tensor]) -> None:
    pyramid = SpatialPyramid()
    encoded = torch.randn(PATCHES, FILTERS, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda e: pyramid(e, case["centres"], patch_rows(case["patch_image"], IMAGES)), (encoded,)
    )


def test_heads_by_finite_differences(case: dict[str, torch.Tensor]) -> None:
    features = case["features"].requires_grad_()
    for module, extra in ((head(ClassificationHead, filters=FILTERS), (case["centres"],)), (head(DiscoveryHead), ())):
        assert torch.autograd.gradcheck(
            lambda f, module=module, extra=extra: module(f, *extra, patch_rows(case["patch_image"], IMAGES))[0],
            (features,),
        )
