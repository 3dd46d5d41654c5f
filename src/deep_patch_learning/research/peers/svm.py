"""Frozen features of the whole image and linear support vector machines: what the pretrained network knows by itself.

One machine a class, against all others, with the squared hinge. Unknown labels are left out of the machine of their class.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deep_patch_learning.data.batch import Batch
from deep_patch_learning.data.dataset import PRESENT, UNKNOWN, TaggedImages
from deep_patch_learning.data.images import image_size
from deep_patch_learning.evaluation.classification import classification_report
from deep_patch_learning.inference.model import ImageInput, Model
from deep_patch_learning.model.network import DeepPatchNet
from deep_patch_learning.research.peers.plain_cnn import PlainCnn

COSTS = (0.01, 0.1, 1.0, 10.0, 100.0)
FOLDS = 3


class FrozenCnn(PlainCnn):
    """The plain CNN with features of length 1, so that the mean over scales of its scores is the score of the mean feature."""

    def features(self, batch: Batch) -> Tensor:
        """Return one feature vector of length 1 for each whole image: (I, K)."""
        return F.normalize(super().features(batch).float(), dim=1)


def build_frozen(parts: DeepPatchNet) -> FrozenCnn:
    """Return the network whose scores are its features themselves, until it is given the classifier of `machines`."""
    network = FrozenCnn(parts.backbone, parts.pool, parts.patch_features, nn.Identity())
    network.requires_grad_(False)
    return network


def features_of(model: Model, images: TaggedImages, images_per_micro_batch: int = 4) -> Iterator[np.ndarray]:
    """Yield the features (K,) of each image, in the mean over the model's scales; the model's scores must be features."""
    for first in range(0, len(images), images_per_micro_batch):
        together = range(first, min(first + images_per_micro_batch, len(images)))
        pixels = [images.read(index) for index in together]
        ready = [
            ImageInput(images.names[index], image, np.array([[0, 0, image.shape[1], image.shape[0]]]))
            for index, image in zip(together, pixels, strict=True)
        ]
        for scores in model.scores(ready):
            if scores.classification is None:
                raise ValueError("the model's network gives no features as its classification scores")
            yield scores.classification


def machines(
    features: Tensor, labels: Tensor, seed: int = 0, costs: Sequence[float] = COSTS
) -> tuple[nn.Linear, float]:
    """Return the linear machines of all classes and the one of `costs` that cross-validation chose for them."""
    cost = choose_cost(features, labels, seed, costs)
    weight, bias = fit(features, labels, cost)
    linear = nn.Linear(*weight.shape[::-1])
    linear.weight.data, linear.bias.data = weight.float(), bias.float()
    return linear.requires_grad_(False), cost


def fit(features: Tensor, labels: Tensor, cost: float, steps: int = 300) -> tuple[Tensor, Tensor]:
    """Return weights (C, K) and biases (C,) of one machine a class: the least |w|^2 / 2 + cost * sum max(0, 1 - y s)^2.

    `features` (I, K); `labels` (I, C) hold 1 present, 0 absent, -1 unknown. Biases are not held back. A class of which no
    image is known to be present (or absent) gets the constant score -1 (or 1).
    """
    features, labels = features.double(), labels.to(features.device)
    sign = torch.where(labels == PRESENT, 1.0, -1.0).double()  # (I, C)
    known = (labels != UNKNOWN).double()
    weight = torch.zeros(labels.shape[1], features.shape[1], dtype=torch.float64, device=features.device)
    bias = torch.zeros(labels.shape[1], dtype=torch.float64, device=features.device)
    weight.requires_grad_(True)
    bias.requires_grad_(True)
    solver = torch.optim.LBFGS(
        [weight, bias],
        max_iter=steps,
        max_eval=2 * steps,
        history_size=20,
        tolerance_grad=1e-6,
        tolerance_change=1e-12,
        line_search_fn="strong_wolfe",
    )

    def objective() -> Tensor:
        solver.zero_grad()
        short = F.relu(1 - sign * (features @ weight.T + bias)) * known
        value = weight.square().sum() / 2 + cost * short.square().sum()
        value.backward()
        return value

    solver.step(objective)
    return weight.detach(), bias.detach()


def choose_cost(features: Tensor, labels: Tensor, seed: int = 0, costs: Sequence[float] = COSTS) -> float:
    """Return the cost with the best mean average precision on training images that were held out in turn."""
    fold = torch.from_numpy(np.random.default_rng(seed).permutation(len(features)) % FOLDS).to(features.device)
    labels = labels.to(features.device)
    found = []
    for cost in costs:
        scores = torch.zeros(labels.shape, dtype=torch.float64, device=features.device)
        for number in range(FOLDS):
            held, kept = fold == number, fold != number
            weight, bias = fit(features[kept], labels[kept], cost, steps=100)
            scores[held] = features[held].double() @ weight.T + bias
        names = [str(index) for index in range(labels.shape[1])]
        report = classification_report(scores.cpu().numpy(), labels.cpu().numpy(), names)
        found.append(report.mean_ap)
    return costs[int(np.argmax(np.nan_to_num(found)))]


def whole_image_boxes(paths: Sequence[Path], classes: int) -> np.ndarray:
    """Return the box of each class in each image (I, C, 4): all of the image."""
    sizes = [image_size(path) for path in paths]
    boxes = np.array([[0, 0, width, height] for height, width in sizes], np.float32).reshape(-1, 1, 4)
    return np.repeat(boxes, classes, axis=1)
