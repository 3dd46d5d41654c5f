"""A network and what follows it as functions of tensors alone, for one image: what exporters can follow.

`OneView` is `DeepPatchNet.forward` for one image at one scale, without the choices of kernels and memory that a machine needs.
`Finish` is what `Model` does with the scores of all views, up to the first box of each class. Tests compare both with them.
"""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deep_patch_learning.common.boxes import decoded
from deep_patch_learning.common.errors import RunError
from deep_patch_learning.inference.model import Model
from deep_patch_learning.inference.scoring import PredictSettings
from deep_patch_learning.model.network import DeepPatchNet
from deep_patch_learning.model.pooling import SpatialPyramidPooling, inclusive_corners
from deep_patch_learning.refinement.heads import Refinement
from deep_patch_learning.refinement.selection import SMALLEST, elected_first


class OneView(nn.Module):
    """One image at one scale -> scores of the heads that count for its tags (K, C), of its patches (P, C), and offsets (P, 4).

    `heads` names the K heads. Patch scores are a refinement's probabilities where there is one, else the discovery head's.
    """

    def __init__(self, network: DeepPatchNet, settings: PredictSettings) -> None:
        super().__init__()
        self.network = network
        paper = [name for name in ("classification", "discovery") if getattr(network, name) is not None]
        counts = network.refinement is not None and (settings.two_stream_tags or not paper)
        self.heads = (*paper, *(["two_stream"] if counts else []))
        self.moves = getattr(network.refinement, "regressor", None) is not None

    def forward(self, pixels: Tensor, patches: Tensor, size: Tensor, pixel: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return head scores, patch scores and offsets of pixels (1, 3, h, w), RGB 0 to 255, and patches (P, 4) in them.

        `size` (2,) is the view's height and width without padding, `pixel` (1, 2) how high and wide a pixel of the original is.
        """
        network = self.network
        features, placed = self._features(network.backbone(pixels), patches, pixel)
        heads, patch_scores = [], None
        if network.classification is not None:
            heads.append(self._classification(features, patches, size))
        if network.discovery is not None:
            patch_scores = network.discovery.patch_classifier(features)  # (P, C)
            heads.append(patch_scores.amax(dim=0))
        offsets = torch.zeros_like(patches)
        if network.refinement is not None:
            block = cast(Refinement, network.refinement)
            hidden = block.hidden(placed)  # (P, H)
            if "two_stream" in self.heads:
                streams = block.two_stream
                shares = streams.class_stream(hidden).softmax(dim=1) * streams.detection_stream(hidden).softmax(dim=0)
                heads.append(shares.sum(dim=0))
            scores = block.classifiers(hidden).view(-1, *block.shape)  # (P, K, C + 1)
            patch_scores = scores.softmax(dim=2)[..., :-1].mean(dim=1)  # (P, C)
            offsets = offsets if block.regressor is None else block.regressor(hidden)
        assert patch_scores is not None  # see `exportable`
        return torch.stack(heads), patch_scores, offsets

    def _features(self, maps: Tensor, patches: Tensor, pixel: Tensor) -> tuple[Tensor, Tensor]:
        pool, layers = cast(SpatialPyramidPooling, self.network.pool), self.network.patch_features
        image = torch.zeros_like(patches[:, 0])
        if pool.inclusive:
            patches = inclusive_corners(patches, image.long(), pixel)
        rois = torch.cat((image[:, None], patches), dim=1)  # (P, 5)
        pooled = torch.ops.torchvision.roi_pool(maps, rois, 1.0 / pool.stride, pool.size, pool.size)[0]
        if self.network.cells > 1:
            return layers.in_cells(pooled, self.network.cells)  # type: ignore[operator]
        features = layers(pooled)
        return features, features

    def _classification(self, features: Tensor, patches: Tensor, size: Tensor) -> Tensor:
        head = self.network.classification
        assert head is not None
        encoded = F.linear(features, head.part_filters.weight, head.part_filters.bias)  # (P, N)
        x1, y1, x2, y2 = patches.unbind(1)
        held = head.pyramid.cells_of(
            torch.stack(((x1 + x2) / (2 * size[1]), (y1 + y2) / (2 * size[0])), dim=1)
        )  # (P, 3)
        cells = torch.arange(head.pyramid.cells)
        member = (held[:, :, None] == cells).any(dim=1)  # (P, 8)
        rows = [encoded.masked_fill(~member[:, cell, None], -torch.inf).amax(dim=0) for cell in range(len(cells))]
        found = torch.stack(rows).masked_fill(~member.any(dim=0)[:, None], 0)  # (8, N), an empty cell gives 0
        return head.classifier(found.flatten()[None])[0]


class Finish(nn.Module):
    """Scores summed over views -> tag probabilities (C,), box scores (P, C), boxes (P, 4) and the best box of each class (C,)."""

    slopes: Tensor
    box_slopes: Tensor

    def __init__(self, model: Model, view: OneView) -> None:
        super().__init__()
        self.views = len(model.settings.views)
        self.selection = model.settings.box_selection
        self.refined = view.network.refinement is not None
        self.two_stream = "two_stream" in view.heads
        self.moves = view.moves
        count = len(model.classes)
        plain = torch.tensor([[1.0, 0.0]]).expand(count, 2)
        known = model.calibration
        lines = plain if known is None else torch.tensor([*zip(known.slopes, known.biases, strict=True)])
        box_lines = lines if known is None or known.box_lines is None else torch.tensor(known.box_lines)
        self.register_buffer("slopes", lines.float().clone())
        self.register_buffer("box_slopes", box_lines.float().clone())

    def forward(
        self, patches: Tensor, size: Tensor, heads: Tensor, patch_scores: Tensor, offsets: Tensor
    ) -> tuple[Tensor, ...]:
        """Return tags, box scores, boxes, best boxes, and the means over views of head scores (K, C) and patch scores (P, C).

        `patches` (P, 4) are those of the original image, whose height and width are `size` (2,).
        """
        heads, mean = heads / self.views, patch_scores / self.views
        counted = heads
        if self.two_stream:
            counted = torch.cat((heads[:-1], _logit(heads[-1:])))
        tags = torch.sigmoid(self.slopes[:, 0] * counted.mean(dim=0) + self.slopes[:, 1])  # (C,)
        scores = _logit(mean) if self.refined else mean  # (P, C)
        log_weights = mean.clamp(SMALLEST, 1 - SMALLEST).log() if self.refined else mean
        boxes = self._boxes(patches, size, offsets / self.views)
        best = elected_first(boxes, log_weights, self.selection) if self.selection.vote else scores.argmax(dim=0)
        box_scores = torch.sigmoid(self.box_slopes[:, 0] * scores + self.box_slopes[:, 1])
        return tags, box_scores, boxes, best, heads, mean

    def _boxes(self, patches: Tensor, size: Tensor, offsets: Tensor) -> Tensor:
        if not self.moves:
            return patches * 1.0
        height, width = size.unbind(0)
        x1, y1, x2, y2 = decoded(patches, offsets[:, None])[:, 0].unbind(1)  # as `inside`, of sizes that are tensors
        x1, y1 = x1.clamp(min=0).minimum(width - 1), y1.clamp(min=0).minimum(height - 1)
        return torch.stack((x1, y1, x2.minimum(width).maximum(x1 + 1), y2.minimum(height).maximum(y1 + 1)), dim=1)


def _logit(probabilities: Tensor) -> Tensor:
    kept = probabilities.clamp(SMALLEST, 1 - SMALLEST)
    return (kept / (1 - kept)).log()


def exportable(model: Model) -> OneView:
    """Return the network of a model as a function of one view; `RunError` where it is several networks or finds no boxes."""
    network = model.network
    if not isinstance(network, DeepPatchNet):
        raise RunError(
            f"a {type(network).__name__.lower()} cannot be exported: one file holds one network. Give one run folder, or distil "
            "the ensemble into one run with a self-training round (dpl train --rounds 1)."
        )
    if network.discovery is None and network.refinement is None:
        raise RunError("the run only classifies and finds no boxes. Train one with --heads both or discovery.")
    return OneView(network, model.settings).eval().requires_grad_(False)


def example_of(view: OneView) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return arguments of a view to trace it with: pixels, patches, size and pixel."""
    height, width = 240, 320
    corners = torch.tensor([[0.0, 0, 320, 240], [10, 20, 110, 140], [100, 60, 300, 220], [40, 80, 90, 230]])
    pixels = torch.linspace(0, 255, 3 * height * width).view(1, 3, height, width)
    return pixels, corners, torch.tensor([240.0, 320.0]), torch.ones(1, 2)
