"""VGG16, for torchvision's weights and for those of its authors."""

from torch import nn

from deep_patch_learning.model.backbone import CAFFE, Backbone, Trunk
from deep_patch_learning.model.patch_features import FullyConnected


def vgg16() -> Trunk:
    """Return VGG16: 13 convolutions at stride 16, fc6 and fc7."""
    from torchvision.models.vgg import cfgs, make_layers

    features = make_layers(cfgs["D"])[:-1]
    names = {
        "features.": "backbone.body.",
        "classifier.0.": "patch_features.fc6.",
        "classifier.3.": "patch_features.fc7.",
    }
    layers = FullyConnected(512 * 7 * 7, 4096, 4096)
    return Trunk(Backbone(features, 512, 16), 7, layers, names, "VGG16_Weights.IMAGENET1K_V1")


def vgg16_caffe() -> Trunk:
    """Return VGG16 for the weights its authors trained with Caffe: layers conv1_1 to conv5_3, BGR pixels from 0 to 255."""
    from torchvision.models.vgg import cfgs, make_layers

    features = make_layers(cfgs["D"])[:-1]
    for layer in features:
        if isinstance(layer, nn.MaxPool2d):
            layer.ceil_mode = True  # Caffe rounds the sizes of its maps up
    places = [index for index, layer in enumerate(features) if isinstance(layer, nn.Conv2d)]
    theirs = [f"conv{block}_{n}." for block, count in enumerate((2, 2, 3, 3, 3), start=1) for n in range(1, count + 1)]
    names = {name: f"backbone.body.{place}." for name, place in zip(theirs, places, strict=True)}
    names |= {f"{fc}.": f"patch_features.{fc}." for fc in ("fc6", "fc7")}
    return Trunk(Backbone(features, 512, 16, CAFFE), 7, FullyConnected(512 * 7 * 7, 4096, 4096), names)
