"""Every backbone by name. To add one: write a file beside this one that returns its `Trunk`, and enter it in `BACKBONES`."""

from importlib import import_module
from typing import Any, NamedTuple

from deep_patch_learning.common.errors import ModelError, did_you_mean
from deep_patch_learning.model.backbones.trunk import Trunk


class Entry(NamedTuple):
    """A backbone: the file beside this one and its function that returns the trunk, with the options it is called with.

    `weights` are the pretrained ones it starts from unless the user names others; empty: none. The file is imported when the
    backbone is built.
    """

    file: str
    function: str
    weights: str = ""
    options: dict[str, Any] = {}  # noqa: RUF012


BACKBONES: dict[str, Entry] = {
    "alexnet": Entry("alexnet", "alexnet", "imagenet"),
    "caffenet": Entry("alexnet", "caffenet"),
    "vgg16": Entry("vgg", "vgg16", "imagenet"),
    "vgg16-caffe": Entry("vgg", "vgg16_caffe"),
    "resnet50": Entry("resnet", "resnet50", "imagenet"),
    "resnet50-v1": Entry("resnet", "resnet50", options={"stride_in_first": True}),
    "resnet50-near": Entry("resnet", "resnet50", "imagenet", {"near": True}),
    "resnet50-v1-near": Entry("resnet", "resnet50", options={"stride_in_first": True, "near": True}),
    "lite0": Entry("lite", "lite0"),
    "lite0-map": Entry("lite", "lite0", "shipped", {"on_map": True}),
    "tiny": Entry("tiny", "tiny", "shipped"),
}


def check_name(name: str) -> None:
    """Raise `ModelError` with the nearest name unless there is such a backbone; nothing is built."""
    if name not in BACKBONES and not name.startswith("timm:"):
        raise ModelError(f"there is no backbone '{name}'.{did_you_mean(name, [*BACKBONES, 'timm:NAME'])}")


def trunk(name: str) -> Trunk:
    """Return a new trunk by name; `timm:NAME` gives any timm model."""
    check_name(name)
    timm = Entry("timm_models", "timm_trunk", options={"name": name.removeprefix("timm:")})
    entry = timm if name.startswith("timm:") else BACKBONES[name]
    return getattr(import_module(f"{__package__}.{entry.file}"), entry.function)(**entry.options)


def usual_weights(name: str) -> str:
    """Return the pretrained weights a backbone starts from unless the user says otherwise; empty where there are none."""
    return BACKBONES[name].weights if name in BACKBONES else ""
