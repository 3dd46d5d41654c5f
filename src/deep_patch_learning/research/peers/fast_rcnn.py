"""Fast R-CNN, trained on the true boxes: the upper bound of full supervision with the same backbone and patches.

THIS IS THE ONLY TRAINING THAT READS TRUE BOXES. It is no part of Deep Patch Learning: no module of `training` imports this one,
and its network is measured under its own name.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deep_patch_learning.common.boxes import box_iou, decoded, encoded, inside, nms
from deep_patch_learning.common.boxes import flip as flip_boxes
from deep_patch_learning.data.batch import Batch
from deep_patch_learning.data.truth import TrueBoxes
from deep_patch_learning.inference.model import ImageInput, ImageScores, Model
from deep_patch_learning.inference.prediction import Prediction
from deep_patch_learning.model.backbone import Backbone
from deep_patch_learning.model.by_image import maximum_over_patches, patch_rows
from deep_patch_learning.model.network import DeepPatchNet, Scores
from deep_patch_learning.training.loop import Trainer
from deep_patch_learning.training.samples import Sample

FOREGROUND, BACKGROUND = 0.5, 0.1  # lowest IoU of an object, and of background
SAMPLED, SAMPLED_FOREGROUND = 128, 32  # of an image's patches
CANDIDATES = 200  # boxes of a class that enter NMS


class BoxHead(nn.Module):
    """Classes with background as the last, and four offsets for each class."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.classes = classes
        self.classifier = nn.Linear(width, classes + 1)
        self.regressor = nn.Linear(width, 4 * classes)
        for layer, spread in ((self.classifier, 0.01), (self.regressor, 0.001)):
            nn.init.normal_(layer.weight, std=spread)
            nn.init.zeros_(layer.bias)

    def forward(self, features: Tensor) -> Tensor:
        """Return (P, C + 1 + 4C): class scores, then offsets, from patch features (P, K)."""
        return torch.cat((self.classifier(features), self.regressor(features)), dim=1)

    def split(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return class scores (P, C + 1) and offsets (P, C, 4) of what `forward` gave."""
        return outputs[:, : self.classes + 1], outputs[:, self.classes + 1 :].view(-1, self.classes, 4)


class FastRcnn(nn.Module):
    """The backbone and patch layers of Deep Patch Learning with the head of a supervised detector.

    Of its `Scores`, `patches` (P, C) are the logits of the class probabilities, `discovery` (I, C) their maxima, and
    `parts` (P, C + 1 + 4C) the head's raw outputs.
    """

    def __init__(self, backbone: Backbone, pool: nn.Module, patch_features: nn.Module, discovery: BoxHead) -> None:
        super().__init__()
        self.backbone = backbone
        self.pool = pool
        self.patch_features = patch_features
        self.discovery = discovery

    def forward(self, batch: Batch, chunk: int | None = None) -> Scores:
        """Return the scores of a batch; the patch layers take `chunk` patches at a time, to bound memory."""
        maps = self.backbone(batch.images, batch.sizes if batch.padded else None)
        chunk = chunk or max(len(batch.patches), 1)
        parts = zip(batch.patches.split(chunk), batch.patch_image.split(chunk), strict=True)
        features = torch.cat([self.patch_features(self.pool(maps, patches, image)) for patches, image in parts])
        with torch.autocast(features.device.type, enabled=False):
            features = features if features.dtype == torch.float64 else features.float()
            outputs = self.discovery(features)  # (P, C + 1 + 4C)
            patches = probability_logits(self.discovery.split(outputs)[0])  # (P, C)
            rows = patch_rows(batch.patch_image, len(batch.images), batch.counts)
            return Scores(None, maximum_over_patches(patches, rows)[:, 0], patches, outputs)


def build_fast_rcnn(parts: DeepPatchNet, width: int, classes: int) -> FastRcnn:
    """Return the detector made of a network's backbone and patch layers, with a new head."""
    return FastRcnn(parts.backbone, parts.pool, parts.patch_features, BoxHead(width, classes))


def probability_logits(scores: Tensor) -> Tensor:
    """Return log(p / (1 - p)) of the softmax over C + 1 scores (P, C + 1), for all but the last: (P, C)."""
    everything = scores.logsumexp(dim=1, keepdim=True)
    share = (scores - everything).exp()
    best = scores.argmax(dim=1, keepdim=True)
    # 1 - p loses all digits for a p near 1, which only the best class can have: there the others are added up instead
    others = scores.scatter(1, best, -torch.inf).logsumexp(dim=1, keepdim=True)
    rest = torch.where(
        torch.arange(scores.shape[1], device=scores.device) == best,
        others,
        everything + torch.log1p(-share.clamp(max=0.5)),
    )
    return (scores - rest)[:, :-1]


class PatchTargets(NamedTuple):
    """The target of each patch: class (P,), where C is background; weight in the loss (P,); offsets (P, 4)."""

    classes: Tensor
    weights: Tensor
    offsets: Tensor


class BatchTruth(NamedTuple):
    """The true boxes of a batch: (G, 4) in pixels of its images; image index, class and whether difficult, each (G,)."""

    boxes: Tensor
    image: Tensor
    classes: Tensor
    difficult: Tensor


def patch_targets(patches: Tensor, patch_image: Tensor, images: int, truth: BatchTruth, classes: int) -> PatchTargets:
    """Return the targets of patches (P, 4).

    A patch has the class of the true box with the highest IoU, if that is at least 0.5. From 0.1 it is background; below it has
    no weight, nor has one that only a difficult object reaches. Fast R-CNN draws 128 patches per image, at most a quarter of
    them objects; here each patch is weighted by its probability of being drawn: the same expected loss, without the noise.
    """
    if not len(truth.boxes):
        nothing = torch.full_like(patch_image, classes)
        return PatchTargets(nothing, patches.new_zeros(len(patches)), torch.zeros_like(patches))
    iou = box_iou(patches, truth.boxes.to(patches)).masked_fill(patch_image[:, None] != truth.image, 0)  # (P, G)
    best, which = iou.masked_fill(truth.difficult, 0).max(dim=1)
    hidden = iou.masked_fill(~truth.difficult, 0).amax(dim=1) >= FOREGROUND
    objects = best >= FOREGROUND
    background = (best >= BACKGROUND) & ~objects & ~hidden
    wanted = torch.where(objects, truth.classes[which], classes)
    offsets = encoded(patches, truth.boxes.to(patches)[which])
    return PatchTargets(wanted, chance_of_being_drawn(objects, background, patch_image, images), offsets)


def chance_of_being_drawn(objects: Tensor, background: Tensor, patch_image: Tensor, images: int) -> Tensor:
    """Return the weight (P,) of each patch in the mean over the drawn patches of its image; they add up to 1 per image."""

    def count(mask: Tensor) -> Tensor:
        return torch.zeros(images, device=mask.device).index_add(0, patch_image, mask.float())

    there = {True: count(objects), False: count(background)}
    drawn = {True: there[True].clamp(max=SAMPLED_FOREGROUND)}
    drawn[False] = there[False].minimum(SAMPLED - drawn[True])
    total = (drawn[True] + drawn[False]).clamp(min=1)
    each = {kind: drawn[kind] / there[kind].clamp(min=1) / total for kind in there}
    return each[True][patch_image] * objects + each[False][patch_image] * background


def detection_losses(scores: Tensor, offsets: Tensor, targets: PatchTargets, images: int) -> dict[str, Tensor]:
    """Return the cross entropy of classes (P, C + 1) and the smooth L1 loss of offsets (P, C, 4), averaged over images."""
    background = offsets.shape[1]
    entropy = F.cross_entropy(scores, targets.classes, reduction="none")  # (P,)
    column = targets.classes.clamp(max=background - 1)
    chosen = offsets[torch.arange(len(offsets), device=offsets.device), column]  # (P, 4)
    distance = F.smooth_l1_loss(chosen, targets.offsets, reduction="none").sum(dim=1)  # (P,)
    distance = distance * (targets.classes < background)
    return {
        "classes": (entropy * targets.weights).sum() / images,
        "boxes": (distance * targets.weights).sum() / images,
    }


class SupervisedTrainer(Trainer):
    """A trainer with the true boxes as targets. They are also added to the patches, as in Fast R-CNN."""

    def __init__(self, *arguments: Any, truth: Sequence[TrueBoxes], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.truth = truth

    def terms(self, batch: Batch, labels: Tensor, samples: Sequence[Sample]) -> dict[str, Tensor]:
        """Return the loss terms of one micro-batch: `classes` and `boxes`."""
        truth = self.boxes_of(batch, samples)
        sure = ~truth.difficult
        batch = batch._replace(
            patches=torch.cat((batch.patches, truth.boxes[sure])),
            patch_image=torch.cat((batch.patch_image, truth.image[sure])),
            counts=None,
        )
        outputs = self.network(batch).parts
        scores, offsets = self.bare.discovery.split(outputs)
        targets = patch_targets(batch.patches, batch.patch_image, len(samples), truth, offsets.shape[1])
        return detection_losses(scores, offsets, targets, len(samples))

    def boxes_of(self, batch: Batch, samples: Sequence[Sample]) -> BatchTruth:
        """Return the true boxes of the images of a micro-batch, scaled and flipped as the images are."""
        seen = batch.sizes.tolist()
        boxes = [self._seen(sample, *size) for sample, size in zip(samples, seen, strict=True)]
        truth = [self.truth[sample.image] for sample in samples]
        device = batch.patches.device
        return BatchTruth(
            torch.from_numpy(np.concatenate(boxes)).to(device),
            torch.from_numpy(np.repeat(np.arange(len(samples)), [len(each) for each in boxes])).to(device),
            torch.from_numpy(np.concatenate([one.classes for one in truth])).to(device),
            torch.from_numpy(np.concatenate([one.difficult for one in truth])).to(device),
        )

    def _seen(self, sample: Sample, new_height: int, new_width: int) -> np.ndarray:
        height, width = self.images.sizes[sample.image]
        boxes = self.truth[sample.image].boxes * np.array([new_width / width, new_height / height] * 2, np.float32)
        return flip_boxes(boxes, new_width) if sample.flip else boxes


class Detector(Model):
    """A model with box regression: every class has its own box for each patch."""

    def begin(self, images: Sequence[ImageInput]) -> list[ImageScores]:
        """Return the scores of images that share a micro-batch."""
        return self.scores(images)

    def finish(self, images: Sequence[ImageInput], begun: list[ImageScores]) -> list[Prediction]:
        """Return the predictions of these images."""
        return [self._detection(image, scores) for image, scores in zip(images, begun, strict=True)]

    def _detection(self, image: ImageInput, scores: ImageScores) -> Prediction:
        if scores.patches is None or scores.discovery is None or scores.parts is None:
            raise ValueError("a detector needs the scores and offsets of patches")
        height, width = image.image.shape[:2]
        head: BoxHead = self.network.discovery
        _, offsets = head.split(torch.from_numpy(scores.parts) / len(self.scales))
        patches = torch.from_numpy(image.patches.astype(np.float32))
        boxes = inside(decoded(patches, offsets), height, width)  # (P, C, 4)
        logits = torch.from_numpy(scores.patches) / len(self.scales)  # (P, C)
        best = boxes[logits.argmax(dim=0), torch.arange(len(self.classes))]
        found, classes, found_scores = self._after_nms(boxes, logits)
        return Prediction(
            name=image.name,
            classes=self.classes,
            height=height,
            width=width,
            image_scores=scores.discovery,
            discovery_scores=scores.discovery,
            found_boxes=found.numpy(),
            found_classes=classes.numpy(),
            found_scores=found_scores.numpy(),
            best_boxes=best.numpy(),
        )

    def _after_nms(self, boxes: Tensor, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return boxes (B, 4), classes (B,) and scores (B,) after NMS within each class, best first."""
        top, rows = logits.topk(min(CANDIDATES, len(logits)), dim=0)  # (N, C)
        columns = torch.arange(logits.shape[1]).expand_as(rows)
        boxes, top = boxes[rows, columns].transpose(0, 1), top.T  # (C, N, 4), (C, N)
        settings = self.settings
        places, real = nms(boxes, torch.ones_like(top, dtype=torch.bool), settings.nms, settings.boxes_per_class)
        classes, kept = real.nonzero(as_tuple=True)
        places = places[classes, kept]
        order = top[classes, places].sort(descending=True, stable=True).indices
        classes, places = classes[order], places[order]
        return boxes[classes, places], classes, top[classes, places]
