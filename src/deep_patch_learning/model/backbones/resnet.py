"""ResNet-50: its last stage, or its last two, run on each patch."""

from collections import OrderedDict

from torch import nn

from deep_patch_learning.model.backbone import Backbone, Trunk
from deep_patch_learning.model.patch_features import ConvolutionalStage


def resnet50(stride_in_first: bool = False, near: bool = False) -> Trunk:
    """Return ResNet-50: convolutions to layer3 at stride 16, layer4 on each patch.

    With `stride_in_first`, the stride of layers 2 to 4 sits in their first 1x1 convolution, as in the 2015 paper and the
    weights that came from it; torchvision puts it in the 3x3 one.

    A cell of layer3's maps sees some 280 pixels, half of the image. With `near`, patches are cut out of layer2's maps, at
    stride 8, whose cells see some 95, and layers 3 and 4 run on each: a patch tells what is in it from what is beside it, at
    about three times the cost.
    """
    from torchvision.models import resnet50 as torchvision_resnet50

    whole = torchvision_resnet50()
    if stride_in_first:
        for layer in (whole.layer2, whole.layer3, whole.layer4):
            layer[0].conv1.stride, layer[0].conv2.stride = (2, 2), (1, 1)
    kept = ("conv1", "bn1", "relu", "maxpool", "layer1", "layer2", *(() if near else ("layer3",)))
    body = nn.Sequential(OrderedDict((name, getattr(whole, name)) for name in kept))
    names = {f"{name}.": f"backbone.body.{name}." for name in kept}
    weights = None if stride_in_first else "ResNet50_Weights.IMAGENET1K_V1"
    if near:
        stage = ConvolutionalStage(nn.Sequential(OrderedDict(layer3=whole.layer3, layer4=whole.layer4)), 2048)
        names |= {f"{name}.": f"patch_features.stage.{name}." for name in ("layer3", "layer4")}
        return Trunk(Backbone(body, 512, 8, frozen_norm=True), 14, stage, names, weights, folded=True)
    stage = ConvolutionalStage(whole.layer4, 2048)
    names |= {"layer4.": "patch_features.stage."}
    return Trunk(Backbone(body, 1024, 16, frozen_norm=True), 7, stage, names, weights, folded=True)
