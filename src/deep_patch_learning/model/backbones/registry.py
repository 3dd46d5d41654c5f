"""Every backbone by name. To add one: write a file beside this one that returns its `Trunk`, and enter it in `BACKBONES`."""

from collections.abc import Callable
from typing import NamedTuple

from deep_patch_learning.common.errors import ModelError, did_you_mean
from deep_patch_learning.model.backbones.alexnet import alexnet, caffenet
from deep_patch_learning.model.backbones.lite import lite0
from deep_patch_learning.model.backbones.resnet import resnet50
from deep_patch_learning.model.backbones.timm_models import timm_trunk
from deep_patch_learning.model.backbones.tiny import tiny
from deep_patch_learning.model.backbones.trunk import Trunk
from deep_patch_learning.model.backbones.vgg import vgg16, vgg16_caffe


class Entry(NamedTuple):
    """How a backbone is built, and the pretrained weights it starts from unless the user names others; empty: none."""

    build: Callable[[], Trunk]
    weights: str = ""


BACKBONES: dict[str, Entry] = {
    "alexnet": Entry(alexnet, "imagenet"),
    "caffenet": Entry(caffenet),
    "vgg16": Entry(vgg16, "imagenet"),
    "vgg16-caffe": Entry(vgg16_caffe),
    "resnet50": Entry(resnet50, "imagenet"),
    "resnet50-v1": Entry(lambda: resnet50(stride_in_first=True)),
    "resnet50-near": Entry(lambda: resnet50(near=True), "imagenet"),
    "resnet50-v1-near": Entry(lambda: resnet50(stride_in_first=True, near=True)),
    "lite0": Entry(lite0),
    "lite0-map": Entry(lambda: lite0(on_map=True), "shipped"),
    "tiny": Entry(tiny, "shipped"),
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
    return BACKBONES[name].build()


def usual_weights(name: str) -> str:
    """Return the pretrained weights a backbone starts from unless the user says otherwise; empty where there are none."""
    return BACKBONES[name].weights if name in BACKBONES else ""
