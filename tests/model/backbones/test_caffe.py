"""Caffe's weight files, written here byte by byte and read back."""

import struct
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch

from deep_patch_learning.common.errors import ModelError
from deep_patch_learning.data.batch import Batch
from deep_patch_learning.model.backbones.caffe import read_caffemodel
from deep_patch_learning.recipe.build import build_network
from deep_patch_learning.recipe.recipe import Recipe

Layer = tuple[str, str, list[np.ndarray]]  # name, type, blobs
V1_TYPES = {"Convolution": 4, "InnerProduct": 14, "ReLU": 18}
V0_TYPES = {"Convolution": "conv", "InnerProduct": "innerproduct", "ReLU": "relu"}


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value % 128 + 128])
        value //= 128
    return out + bytes([value])


def number(field: int, value: int) -> bytes:
    return varint(field * 8) + varint(value)


def delimited(field: int, content: bytes | str) -> bytes:
    content = content.encode() if isinstance(content, str) else content
    return varint(field * 8 + 2) + varint(len(content)) + content


def values(array: np.ndarray, packed: bool = True) -> bytes:
    """Return the field `data` (5, 4 bytes a value) or `double_data` (8, 8 bytes a value) of a blob."""
    field, wire_type, letter = (8, 1, "d") if array.dtype == np.float64 else (5, 5, "f")
    if packed:
        return delimited(field, array.astype(array.dtype.newbyteorder("<")).tobytes())
    return b"".join(varint(field * 8 + wire_type) + struct.pack(f"<{letter}", value) for value in array.ravel())


def legacy_blob(array: np.ndarray, packed: bool = True) -> bytes:
    sides = (1,) * (4 - array.ndim) + array.shape
    return b"".join(number(field, side) for field, side in enumerate(sides, start=1)) + values(array, packed)


def new_blob(array: np.ndarray, packed: bool = True, packed_shape: bool = True) -> bytes:
    sides = [varint(side) for side in array.shape]
    shape = delimited(1, b"".join(sides)) if packed_shape else b"".join(number(1, side) for side in array.shape)
    return values(array, packed) + delimited(7, shape)  # shape after data: order is free


def new_net(layers: Iterable[Layer], **how: bool) -> bytes:
    out = delimited(1, "a net") + delimited(3, "data") + number(4, 10) + number(5, 1)
    for name, kind, blobs in layers:
        loss_weight, about = varint(5 * 8 + 5) + struct.pack("<f", 1.0), delimited(3, "below") + delimited(4, name)
        content = b"".join(delimited(7, new_blob(blob, **how)) for blob in blobs)
        out += delimited(100, delimited(1, name) + delimited(2, kind) + about + loss_weight + content)
    return out


def v1_net(layers: Iterable[Layer], **how: bool) -> bytes:
    out = delimited(1, "an old net")
    for name, kind, blobs in layers:
        content = b"".join(delimited(6, legacy_blob(blob, **how)) for blob in blobs)
        out += delimited(2, delimited(2, "below") + delimited(4, name) + number(5, V1_TYPES[kind]) + content)
    return out


def v0_net(layers: Iterable[Layer], **how: bool) -> bytes:
    out = b""
    for name, kind, blobs in layers:
        content = b"".join(delimited(50, legacy_blob(blob, **how)) for blob in blobs)
        out += delimited(2, delimited(1, delimited(1, name) + delimited(2, V0_TYPES[kind]) + content))
    return out


def small_layers(kind: type = np.float32) -> list[Layer]:
    random = np.random.default_rng(3)

    def some(*shape: int) -> np.ndarray:
        return random.normal(size=shape).astype(kind)

    return [
        ("conv1", "Convolution", [some(4, 3, 2, 5), some(4)]),
        ("relu1", "ReLU", []),
        ("conv2", "Convolution", [some(1, 1, 3, 3)]),  # one filter on one channel, and no bias
        ("fc6", "InnerProduct", [some(5, 12), some(5)]),
        ("fc7", "InnerProduct", [some(1, 5), some(1)]),
    ]


def wanted(layers: Iterable[Layer]) -> dict[str, np.ndarray]:
    return {
        f"{name}.{label}": blob
        for name, _, blobs in layers
        for label, blob in zip(("weight", "bias"), blobs, strict=False)
    }


def assert_same(found: Mapping[str, torch.Tensor], expected: Mapping[str, np.ndarray]) -> None:
    assert list(found) == list(expected)
    for name, tensor in found.items():
        assert tensor.numpy().dtype == expected[name].dtype
        np.testing.assert_array_equal(tensor.numpy(), expected[name], err_msg=name)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("write", [new_net, v1_net, v0_net])
def test_what_was_written_is_read(tmp_path: Path, write: Callable[..., bytes], packed: bool, kind: type) -> None:
    layers = small_layers(kind)
    file = tmp_path / "net.caffemodel"
    file.write_bytes(write(layers, packed=packed))
    assert_same(read_caffemodel(file), wanted(layers))


def test_an_unpacked_shape(tmp_path: Path) -> None:
    (tmp_path / "net.caffemodel").write_bytes(new_net(small_layers(), packed_shape=False))
    assert_same(read_caffemodel(tmp_path / "net.caffemodel"), wanted(small_layers()))


def test_old_blobs_in_new_layers(tmp_path: Path) -> None:
    """Caffe's upgrade of an old net keeps the four sides of its blobs."""
    weight, bias = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones(2, np.float32)
    blobs = delimited(7, legacy_blob(weight)) + delimited(7, legacy_blob(bias))
    (tmp_path / "net.caffemodel").write_bytes(delimited(100, delimited(1, "fc") + delimited(2, "InnerProduct") + blobs))
    assert_same(read_caffemodel(tmp_path / "net.caffemodel"), {"fc.weight": weight, "fc.bias": bias})


def test_a_transposed_inner_product_is_turned(tmp_path: Path) -> None:
    weight = np.arange(6, dtype=np.float32).reshape(3, 2)  # (in, out)
    settings = delimited(117, number(1, 2) + number(6, 1))
    layer = delimited(1, "fc") + delimited(2, "InnerProduct") + settings + delimited(7, new_blob(weight))
    (tmp_path / "net.caffemodel").write_bytes(delimited(100, layer))
    assert_same(read_caffemodel(tmp_path / "net.caffemodel"), {"fc.weight": weight.T})


def test_three_blobs_are_not_called_weight_and_bias(tmp_path: Path) -> None:
    blobs = [np.full(2, value, np.float32) for value in (1, 2, 3)]
    (tmp_path / "net.caffemodel").write_bytes(new_net([("bn", "BatchNorm", blobs)]))
    assert list(read_caffemodel(tmp_path / "net.caffemodel")) == ["bn.blob0", "bn.blob1", "bn.blob2"]


@pytest.mark.parametrize("write", [new_net, v1_net, v0_net])
def test_a_file_cut_anywhere_is_refused(tmp_path: Path, write: Callable[..., bytes]) -> None:
    """Only a cut between two layers leaves a whole net, of fewer layers."""
    layers = small_layers()
    whole, ends = write(layers), {len(write(layers[:count])) for count in range(1, len(layers) + 1)}
    file = tmp_path / "cut.caffemodel"
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        if length in ends:
            found = read_caffemodel(file)
            assert found.keys() < wanted(layers).keys()
        else:
            with pytest.raises(ModelError, match=r"cut\.caffemodel: not a whole \.caffemodel .*fetch the file again"):
                read_caffemodel(file)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the file is empty"),
        (b'name: "CaffeNet"\nlayer {\n', "wire type 6"),
        (b"<html>not found</html>", "wire type 4"),
        (b"\x89PNG\r\n\x1a\n" + bytes(200), "not a whole"),
        (b"PK\x03\x04" + bytes(range(256)), "not a whole"),
        (b"\xff" * 40, "longer than ten bytes"),
        (delimited(1, "net"), "no layer with weights"),
        (new_net([("relu", "ReLU", [])]), "no layer with weights"),
        (delimited(100, delimited(7, new_blob(np.ones(2, np.float32)))), "no readable name"),
        (
            delimited(100, delimited(1, b"\xff\xfe") + delimited(7, new_blob(np.ones(2, np.float32)))),
            "no readable name",
        ),
        (number(100, 7), "field 100 is a plain number"),
        (delimited(100, delimited(1, "c") + delimited(7, delimited(5, b"12345"))), "layer 'c', weight: 5 bytes"),
        (delimited(100, delimited(1, "c") + delimited(7, b"")), "found 0 values"),
        (
            delimited(
                100, delimited(1, "c") + delimited(7, values(np.ones(3, np.float32)) + delimited(7, number(1, 4)))
            ),
            r"found 3 values, wanted the 4 of shape \(4,\)",
        ),
    ],
)
def test_foreign_files(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "x.caffemodel").write_bytes(content)
    with pytest.raises(ModelError, match=words):
        read_caffemodel(tmp_path / "x.caffemodel")


def test_no_bytes_bring_another_error(tmp_path: Path) -> None:
    whole, random = bytearray(new_net(small_layers())), np.random.default_rng(0)
    file = tmp_path / "x.caffemodel"
    for _ in range(500):
        changed = whole.copy()
        for at in random.integers(0, len(whole), 3):
            changed[at] = random.integers(256)
        file.write_bytes(changed)
        with suppress(ModelError):  # a change inside the values goes unseen: the format has no checksum
            read_caffemodel(file)


def caffe_layers(state: Mapping[str, torch.Tensor], names: Mapping[str, str]) -> list[Layer]:
    return [
        (
            theirs,
            "Convolution" if theirs.startswith("conv") else "InnerProduct",
            [state[f"{ours}.weight"].numpy(), state[f"{ours}.bias"].numpy()],
        )
        for theirs, ours in names.items()
    ]


def a_batch() -> Batch:
    images = torch.randint(0, 256, (1, 3, 96, 128), generator=torch.Generator().manual_seed(2)).float()
    patches = torch.tensor([[0.0, 0.0, 128.0, 96.0], [16.0, 8.0, 80.0, 90.0]])
    return Batch(images, torch.tensor([[96, 128]]), patches, torch.zeros(2, dtype=torch.long))


def test_caffenet_is_filled_whole(tmp_path: Path) -> None:
    torch.manual_seed(1)
    original = build_network(Recipe.of(backbone="caffenet"), 3)[0].eval()
    state = original.state_dict()
    names = {f"conv{n}": f"backbone.body.conv{n}" for n in range(1, 6)}
    names |= {fc: f"patch_features.{fc}" for fc in ("fc6", "fc7")}
    fc8 = ("fc8", "InnerProduct", [np.zeros((10, 4096), np.float32), np.zeros(10, np.float32)])
    file = tmp_path / "bvlc_reference_caffenet.caffemodel"
    file.write_bytes(v1_net([*caffe_layers(state, names), fc8]))

    network, report = build_network(Recipe.of(backbone="caffenet", weights=str(file)), 3)
    assert set(report.filled) == set(names.values())
    assert report.unused == ("fc8",)
    assert set(report.new) == {"classification.part_filters", "classification.classifier", "discovery.patch_classifier"}
    for head in ("classification", "discovery"):
        getattr(network, head).load_state_dict(getattr(original, head).state_dict())
    with torch.no_grad():
        for ours, theirs in zip(network.eval()(a_batch())[:4], original(a_batch())[:4], strict=True):
            assert torch.equal(ours, theirs)


VGG_LAYERS = [
    f"conv{block}_{n}" for block, count in ((1, 2), (2, 2), (3, 3), (4, 3), (5, 3)) for n in range(1, count + 1)
]
VGG_PLACES = (0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28)


def test_vgg16_of_caffe(tmp_path: Path) -> None:
    """Its layers go where torchvision's go, and its pixels are turned to BGR without a scale."""
    from torchvision.models.vgg import cfgs, make_layers

    torch.manual_seed(4)
    features = make_layers(cfgs["D"])[:-1]
    names = {theirs: str(place) for theirs, place in zip(VGG_LAYERS, VGG_PLACES, strict=True)}
    file = tmp_path / "VGG_ILSVRC_16_layers.caffemodel"
    file.write_bytes(v1_net(caffe_layers(features.state_dict(), names)))

    network, report = build_network(Recipe.of(backbone="vgg16-caffe", weights=str(file)), 3)
    assert set(report.filled) == {f"backbone.body.{place}" for place in VGG_PLACES}
    assert {"patch_features.fc6", "patch_features.fc7"} <= set(report.new)
    assert network.patch_features.fc6.weight.shape == (4096, 25088)
    images = a_batch().images
    pixels = images[:, [2, 1, 0]] - torch.tensor([103.939, 116.779, 123.68]).view(1, 3, 1, 1)
    with torch.no_grad():
        torch.testing.assert_close(network.backbone(images), features(pixels), rtol=1e-4, atol=1e-3)


def test_which_backbone_caffe_weights_want(tmp_path: Path) -> None:
    (tmp_path / "x.caffemodel").write_bytes(new_net(small_layers()))
    with pytest.raises(ModelError, match=r"none of its 7 tensors .* go into caffenet or vgg16-caffe"):
        build_network(Recipe.of(backbone="alexnet", weights=str(tmp_path / "x.caffemodel")), 3)
    with pytest.raises(ModelError, match=r"conv1\.weight is \(4, 3, 2, 5\)"):
        build_network(Recipe.of(backbone="caffenet", weights=str(tmp_path / "x.caffemodel")), 3)
    with pytest.raises(ModelError, match="there is no such weight file"):
        build_network(Recipe.of(backbone="caffenet", weights=str(tmp_path / "none.caffemodel")), 3)
    with pytest.raises(ModelError, match=r"no torchvision weights. Give the path of a .*\.caffemodel"):
        build_network(Recipe.of(backbone="vgg16-caffe", weights="imagenet"), 3)


def test_a_blob_of_seventy_dimensions_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "deep.caffemodel"
    one = np.ones(1, np.float32)
    blob = values(one) + delimited(7, delimited(1, bytes([1]) * 70))
    layer = delimited(1, "conv1") + delimited(2, "Convolution") + delimited(7, blob)
    path.write_bytes(delimited(100, layer))
    with pytest.raises(ModelError, match="70 dimensions"):
        read_caffemodel(path)
