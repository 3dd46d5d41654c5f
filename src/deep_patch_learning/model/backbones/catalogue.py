"""Each backbone by name: its convolutions, its patch layers, and where its pretrained layers go.

Torchvision and timm are imported only when one of their networks is built.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor, nn

from deep_patch_learning.common.errors import ModelError, did_you_mean
from deep_patch_learning.model.backbone import CAFFE, Backbone, Normalisation
from deep_patch_learning.model.backbones.lite import lite0_parts
from deep_patch_learning.model.patch_features import ConvolutionalStage, FullyConnected


@dataclass(frozen=True)
class Trunk:
    """What a backbone brings to the network: maps, the SPP layer's output size, and the patch layers.

    `layer_names` maps the beginning of a pretrained layer's name to its name here; `torchvision_weights` names the
    weights that `weights="imagenet"` stands for, and `shipped_weights` the files of this package by the names they go by.
    With `folded`, the frozen norms become part of the convolutions once the weights are filled in.
    """

    backbone: Backbone
    pooled_size: int
    patch_features: nn.Module
    layer_names: dict[str, str]
    torchvision_weights: str | None = None
    shipped_weights: dict[str, str] = field(default_factory=dict)
    folded: bool = False


def alexnet() -> Trunk:
    """Return torchvision's single-tower AlexNet (64-192-384-256-256), which is not the paper's."""
    from torchvision.models import alexnet as torchvision_alexnet

    features = torchvision_alexnet().features[:-1]
    names = {
        "features.": "backbone.body.",
        "classifier.1.": "patch_features.fc6.",
        "classifier.4.": "patch_features.fc7.",
    }
    layers = FullyConnected(256 * 6 * 6, 4096, 4096)
    return Trunk(Backbone(features, 256, 16), 6, layers, names, "AlexNet_Weights.IMAGENET1K_V1")


def caffenet() -> Trunk:
    """Return the paper's AlexNet: CaffeNet, two groups, LRN, 96-256-384-384-256, pixels as Caffe's weights want them."""

    def pool() -> nn.Module:
        return nn.MaxPool2d(3, 2, ceil_mode=True)

    def lrn() -> nn.Module:
        return nn.LocalResponseNorm(5, alpha=1e-4, beta=0.75)

    layers: dict[str, nn.Module] = {
        "conv1": nn.Conv2d(3, 96, 11, stride=4),
        "relu1": nn.ReLU(inplace=True),
        "pool1": pool(),
        "norm1": lrn(),
        "conv2": nn.Conv2d(96, 256, 5, padding=2, groups=2),
        "relu2": nn.ReLU(inplace=True),
        "pool2": pool(),
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


def lite0(on_map: bool = False) -> Trunk:
    """Return EfficientNet-Lite0, 4.7 million parameters: stride 16, the last five blocks on each patch.

    With `on_map` those run on the whole map, and a patch is three by three cells of it: much faster where patches are many.
    Its layers pad unevenly, so that images of one pass are of one size or come one by one.
    """
    body, stage, names = lite0_parts(on_map)
    pixels = Normalisation(mean=(127.0, 127.0, 127.0), std=(128.0, 128.0, 128.0), divisor=1.0)
    backbone = Backbone(body, 1280 if on_map else 112, 16, pixels, frozen_norm=True, guarded=False)
    layers = ConvolutionalStage(stage, 1280, 3 if on_map else 4)
    shipped = (
        {"shipped": "lite0.safetensors", "shipped-model": "../../inference/shipped/weights.safetensors"}
        if on_map
        else {}
    )
    return Trunk(backbone, 3 if on_map else 7, layers, names, shipped_weights=shipped, folded=True)


def tiny(channels: int = 48, width: int = 128) -> Trunk:
    """Return three small convolutions at stride 4, for tests and the embedded world.

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


class _StageOf(nn.Module):
    """One stage of a timm feature extractor."""

    def __init__(self, extractor: nn.Module) -> None:
        super().__init__()
        self.extractor = extractor

    def forward(self, images: Tensor) -> Tensor:
        return self.extractor(images)[0].relu()


def timm_trunk(name: str) -> Trunk:
    """Return the stride-16 stage of a timm model, with new fc6 and fc7."""
    try:
        import timm
    except ImportError:
        raise ModelError(f"backbone 'timm:{name}' needs timm: pip install 'deep-patch-learning[timm]'.") from None
    if not timm.is_model(name):
        raise ModelError(f"timm has no model '{name}'.{did_you_mean(name, timm.list_models())}")
    try:
        probe = timm.create_model(name, features_only=True)
    except RuntimeError as error:
        raise ModelError(f"timm's {name} gives no feature maps ({error}). Choose a convolutional network.") from None
    if any(key.startswith("patch_embed") or "pos_embed" in key for key in probe.state_dict()):
        raise ModelError(f"timm's {name} takes images of one size only. Choose a convolutional network.")
    reductions = probe.feature_info.reduction()
    level = max((i for i, reduction in enumerate(reductions) if reduction <= 16), default=0)
    extractor = timm.create_model(name, features_only=True, out_indices=(level,))
    channels, stride = extractor.feature_info.channels()[0], extractor.feature_info.reduction()[0]
    settings = extractor.pretrained_cfg
    pixels = Normalisation(mean=settings["mean"], std=settings["std"])
    backbone = Backbone(_StageOf(extractor), channels, stride, pixels, frozen_norm=True, guarded=False)
    return Trunk(backbone, 7, FullyConnected(channels * 49, 1024, 1024), {"": "backbone.body.extractor."})


BACKBONES: dict[str, Callable[[], Trunk]] = {
    "alexnet": alexnet,
    "caffenet": caffenet,
    "vgg16": vgg16,
    "vgg16-caffe": vgg16_caffe,
    "resnet50": resnet50,
    "resnet50-v1": lambda: resnet50(stride_in_first=True),
    "resnet50-near": lambda: resnet50(near=True),
    "resnet50-v1-near": lambda: resnet50(stride_in_first=True, near=True),
    "lite0": lite0,
    "lite0-map": lambda: lite0(on_map=True),
    "tiny": tiny,
}


def check_name(name: str) -> None:
    """Raise `ModelError` with the nearest name unless there is such a backbone; nothing is built."""
    if name not in BACKBONES and not name.startswith("timm:"):
        raise ModelError(f"there is no backbone '{name}'.{did_you_mean(name, [*BACKBONES, 'timm:NAME'])}")


def trunk(name: str) -> Trunk:
    """Return a new trunk by name; `timm:NAME` gives any timm model."""
    check_name(name)
    if name.startswith("timm:"):
        return timm_trunk(name.removeprefix("timm:"))
    return BACKBONES[name]()
