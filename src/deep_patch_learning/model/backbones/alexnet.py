"""AlexNet: torchvision's, and CaffeNet, which is the paper's.

Both are padded as in the authors' program: conv1 by 5, pool1 and pool2 by 1, both pools rounding up. Cell k of the map is then
centred on pixel 16 k, which is what the SPP layer takes it for, and every patch inside the image has its cells on the map. With
the padding that classifiers have, cells lie about one cell further right and down, and patches at those edges pool zeros.
"""

from collections import OrderedDict

from torch import nn

from deep_patch_learning.model.backbone import CAFFE, Backbone, Trunk
from deep_patch_learning.model.patch_features import FullyConnected

CONV1_PADDING = 5


def _pool() -> nn.MaxPool2d:
    return nn.MaxPool2d(3, 2, padding=1, ceil_mode=True)


def alexnet() -> Trunk:
    """Return torchvision's single-tower AlexNet (64-192-384-256-256), which is not the paper's, padded as CaffeNet is."""
    from torchvision.models import alexnet as torchvision_alexnet

    features = torchvision_alexnet().features[:-1]
    features[0].padding = (CONV1_PADDING, CONV1_PADDING)
    features[2], features[5] = _pool(), _pool()
    names = {
        "features.": "backbone.body.",
        "classifier.1.": "patch_features.fc6.",
        "classifier.4.": "patch_features.fc7.",
    }
    layers = FullyConnected(256 * 6 * 6, 4096, 4096)
    return Trunk(Backbone(features, 256, 16), 6, layers, names, "AlexNet_Weights.IMAGENET1K_V1")


def caffenet() -> Trunk:
    """Return the paper's AlexNet: CaffeNet, two groups, LRN, 96-256-384-384-256, pixels as Caffe's weights want them."""

    def lrn() -> nn.Module:
        return nn.LocalResponseNorm(5, alpha=1e-4, beta=0.75)

    layers: dict[str, nn.Module] = {
        "conv1": nn.Conv2d(3, 96, 11, stride=4, padding=CONV1_PADDING),
        "relu1": nn.ReLU(inplace=True),
        "pool1": _pool(),
        "norm1": lrn(),
        "conv2": nn.Conv2d(96, 256, 5, padding=2, groups=2),
        "relu2": nn.ReLU(inplace=True),
        "pool2": _pool(),
        "norm2": lrn(),
        "conv3": nn.Conv2d(256, 384, 3, padding=1),
        "relu3": nn.ReLU(inplace=True),
        "conv4": nn.Conv2d(384, 384, 3, padding=1, groups=2),
        "relu4": nn.ReLU(inplace=True),
        "conv5": nn.Conv2d(384, 256, 3, padding=1, groups=2),
        "relu5": nn.ReLU(inplace=True),
    }
    names = {f"conv{n}.": f"backbone.body.conv{n}." for n in range(1, 6)}
    names |= {f"{fc}.": f"patch_features.{fc}." for fc in ("fc6", "fc7")}
    body = nn.Sequential(OrderedDict(layers))
    return Trunk(Backbone(body, 256, 16, CAFFE), 6, FullyConnected(256 * 6 * 6, 4096, 4096), names)
