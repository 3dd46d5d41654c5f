"""The tiny network of the synthetic data set."""

from torch import nn

from deep_patch_learning.model.backbone import Backbone, Normalisation, Trunk
from deep_patch_learning.model.patch_features import FullyConnected


def tiny(channels: int = 48, width: int = 128) -> Trunk:
    """Return three small convolutions at stride 4, for tests and the synthetic data set.

    A cell of its maps sees 19 pixels, so that a patch hardly sees beyond its own border. Its shipped weights come from
    drawings of single things (`data/world/school.py`), as the paper's come from ImageNet.
    """

    def block(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> list[nn.Module]:
        convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        return [convolution, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]

    first, second = channels // 3, channels // 2
    body = nn.Sequential(
        *block(3, first, kernel=5, stride=2),
        *block(first, second),
        nn.MaxPool2d(2),
        *block(second, channels),
    )
    pixels = Normalisation(mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
    layers = FullyConnected(channels * 6 * 6, width, width, dropout=0.2)
    names = {"body.": "backbone.body.", "fc6.": "patch_features.fc6.", "fc7.": "patch_features.fc7."}
    return Trunk(Backbone(body, channels, 4, pixels), 6, layers, names, shipped_weights={"shipped": "tiny.safetensors"})
