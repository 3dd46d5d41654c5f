"""Every backbone by name. To add one: write a file beside this one that returns its `Trunk`, and enter it in `BACKBONES`.

A family's file is imported when one of its backbones is built.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from deep_patch_learning.common.errors import ModelError, did_you_mean
from deep_patch_learning.model.backbone import Trunk


def _alexnet() -> Trunk:
    from deep_patch_learning.model.backbones.alexnet import alexnet

    return alexnet()


def _caffenet() -> Trunk:
    from deep_patch_learning.model.backbones.alexnet import caffenet

    return caffenet()


def _vgg16(caffe: bool = False) -> Trunk:
    from deep_patch_learning.model.backbones.vgg import vgg16, vgg16_caffe

    return vgg16_caffe() if caffe else vgg16()


def _resnet50(stride_in_first: bool = False, near: bool = False) -> Trunk:
    from deep_patch_learning.model.backbones.resnet import resnet50

    return resnet50(stride_in_first=stride_in_first, near=near)


def _lite0(on_map: bool = False) -> Trunk:
    from deep_patch_learning.model.backbones.lite import lite0

    return lite0(on_map=on_map)


def _tiny() -> Trunk:
    from deep_patch_learning.model.backbones.tiny import tiny

    return tiny()


class Entry(NamedTuple):
    """How a backbone is built, and the pretrained weights it starts from unless the user names others; empty: none."""

    build: Callable[[], Trunk]
    weights: str = ""


BACKBONES: dict[str, Entry] = {
    "alexnet": Entry(_alexnet, "imagenet"),
    "caffenet": Entry(_caffenet),
    "vgg16": Entry(_vgg16, "imagenet"),
    "vgg16-caffe": Entry(partial(_vgg16, caffe=True)),
    "resnet50": Entry(_resnet50, "imagenet"),
    "resnet50-v1": Entry(partial(_resnet50, stride_in_first=True)),
    "resnet50-near": Entry(partial(_resnet50, near=True), "imagenet"),
    "resnet50-v1-near": Entry(partial(_resnet50, stride_in_first=True, near=True)),
    "lite0": Entry(_lite0),
    "lite0-map": Entry(partial(_lite0, on_map=True), "shipped"),
    "tiny": Entry(_tiny, "shipped"),
}


def check_name(name: str) -> None:
    """Raise `ModelError` with the nearest name unless there is such a backbone; nothing is built."""
    if name not in BACKBONES and not name.startswith("timm:"):
        raise ModelError(f"there is no backbone '{name}'.{did_you_mean(name, [*BACKBONES, 'timm:NAME'])}")


def trunk(name: str) -> Trunk:
    """Return a new trunk by name; `timm:NAME` gives any timm model."""
    check_name(name)
    if name.startswith("timm:"):
        from deep_patch_learning.model.backbones.timm_models import timm_trunk

        return timm_trunk(name.removeprefix("timm:"))
    return BACKBONES[name].build()


def usual_weights(name: str) -> str:
    """Return the pretrained weights a backbone starts from unless the user says otherwise; empty where there are none."""
    return BACKBONES[name].weights if name in BACKBONES else ""
