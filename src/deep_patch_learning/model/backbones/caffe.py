"""Caffe's weight files: the layers of a `.caffemodel` as torch tensors.

Such a file is one protobuf message, the NetParameter of `caffe.proto`. Only the handful of its fields that hold weights are
read here, straight from the wire format: OpenCV 5 has dropped its Caffe importer, and Caffe itself is not needed for this.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from deep_patch_learning.common.errors import ModelError

_VARINT, _FIXED64, _LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5  # the wire types; Caffe has no groups (3 and 4)

# A message by field number. A value is a varint's number, or the bytes of any other field.
Fields = dict[int, list[int | memoryview]]


class _Layout(NamedTuple):
    """The numbers of the fields that one generation of layer messages has for the same things."""

    name: int
    type: int
    blobs: int


_LAYER, _LAYER_V1, _LAYER_V0 = _Layout(1, 2, 7), _Layout(4, 5, 6), _Layout(1, 2, 50)
_NET_LAYERS_V1, _NET_LAYERS = 2, 100  # in NetParameter: `layers` of old, `layer` since 2014
_V0_INSIDE_V1 = 1
_INNER_PRODUCT = (b"InnerProduct", 14, b"innerproduct")  # its type in the three generations
_INNER_PRODUCT_SETTINGS, _TRANSPOSE = 117, 6
_BLOB_SIDES, _BLOB_DATA, _BLOB_SHAPE, _BLOB_DOUBLES = (1, 2, 3, 4), 5, 7, 8


_MOST_SIDES = 32  # of a blob, as in Caffe


class _BrokenError(Exception):
    """What is wrong with the bytes; `read_caffemodel` adds the file and the fix."""


def read_caffemodel(path: Path) -> dict[str, Tensor]:
    """Return the weights of a `.caffemodel` by `<layer>.weight` and `<layer>.bias`, in torch's layout.

    A convolution's weight is (out, in / groups, height, width), an inner product's (out, in), each as Caffe keeps it; all
    three generations of the format are read. The blobs of a layer with more than two are named `<layer>.blob0` and so on.
    """
    try:
        if path.stat().st_size == 0:
            raise _BrokenError("the file is empty")
        net = _parse(memoryview(np.memmap(path, np.uint8, "r")))  # type: ignore[arg-type]
        tensors = {name: tensor for layer, layout in _layers(net) for name, tensor in _tensors(layer, layout)}
        if not tensors:
            raise _BrokenError("no layer with weights in it")
    except _BrokenError as error:
        raise ModelError(
            f"{path}: not a whole .caffemodel ({error}). Wanted the binary weights that Caffe saves; fetch the file again."
        ) from None
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror}). Give the path of a readable file.") from None
    return tensors


def _layers(net: Fields) -> Iterator[tuple[Fields, _Layout]]:
    """Yield each layer's message with the layout of its generation."""
    for message in _chunks(net, _NET_LAYERS):
        yield _parse(message), _LAYER
    for message in _chunks(net, _NET_LAYERS_V1):
        layer = _parse(message)
        if _V0_INSIDE_V1 in layer:
            yield _parse(_chunks(layer, _V0_INSIDE_V1)[-1]), _LAYER_V0
        else:
            yield layer, _LAYER_V1


def _tensors(layer: Fields, layout: _Layout) -> Iterator[tuple[str, Tensor]]:
    """Yield the name and the values of each blob of a layer."""
    blobs = _chunks(layer, layout.blobs)
    name = _text(layer, layout.name) if blobs else ""
    inner_product = layer.get(layout.type, [0])[-1] in _INNER_PRODUCT
    labels = ("weight", "bias") if len(blobs) <= 2 else tuple(f"blob{index}" for index in range(len(blobs)))
    for label, message in zip(labels, blobs, strict=False):
        try:
            values = _blob(message)
        except _BrokenError as error:
            raise _BrokenError(f"layer '{name}', {label}: {error}") from None
        if label == "bias" and values.ndim == 4:  # of old, all blobs had four sides: (1, 1, 1, out)
            values = values.reshape(-1)
        elif label == "weight" and inner_product:
            if values.ndim == 4 and values.shape[:2] == (1, 1):  # (1, 1, out, in)
                values = values[0, 0]
            if layout is _LAYER and _is_transposed(layer):
                values = np.ascontiguousarray(values.T)
        yield f"{name}.{label}", torch.from_numpy(values)


def _is_transposed(layer: Fields) -> bool:
    settings = _chunks(layer, _INNER_PRODUCT_SETTINGS)
    return bool(settings) and any(_numbers(_parse(settings[-1]), _TRANSPOSE)[-1:])


def _blob(message: memoryview) -> np.ndarray:
    """Return the values of a blob in its shape, float32, or float64 where Caffe ran in double precision."""
    fields = _parse(message)
    number, kind = (_BLOB_DATA, np.float32) if _BLOB_DATA in fields else (_BLOB_DOUBLES, np.float64)
    # Packed values come as one chunk of bytes, others as a chunk each; a writer may also mix them.
    chunks = _chunks(fields, number)
    raw = chunks[0] if len(chunks) == 1 else b"".join(chunks)
    stored = np.dtype(kind).newbyteorder("<")
    if len(raw) % stored.itemsize:
        raise _BrokenError(f"{len(raw)} bytes are no whole number of {stored.itemsize}-byte values")
    if _BLOB_SHAPE in fields:
        shape = _numbers(_parse(_chunks(fields, _BLOB_SHAPE)[-1]), 1)
    else:
        shape = [(_numbers(fields, side) or [0])[-1] for side in _BLOB_SIDES]
    if len(shape) > _MOST_SIDES:
        raise _BrokenError(f"found values in {len(shape)} dimensions, wanted at most {_MOST_SIDES}")
    count = len(raw) // stored.itemsize
    if count == 0 or math.prod(shape) != count:
        raise _BrokenError(f"found {count} values, wanted the {math.prod(shape)} of shape {tuple(shape)}")
    return np.array(np.frombuffer(raw, stored), kind).reshape(shape)


def _text(fields: Fields, number: int) -> str:
    try:
        return bytes(_chunks(fields, number)[-1]).decode()
    except (IndexError, UnicodeDecodeError):
        raise _BrokenError("a layer with weights has no readable name") from None


def _chunks(fields: Fields, number: int) -> list[memoryview]:
    """Return the bytes of each occurrence of a field that is a message, a text or numbers of fixed size."""
    found = [value for value in fields.get(number, []) if isinstance(value, memoryview)]
    if len(found) != len(fields.get(number, [])):
        raise _BrokenError(f"field {number} is a plain number, wanted bytes")
    return found


def _numbers(fields: Fields, number: int) -> list[int]:
    """Return all numbers of a field of varints, packed or not."""
    found = []
    for value in fields.get(number, []):
        if isinstance(value, int):
            found.append(value)
            continue
        at = 0
        while at < len(value):
            one, at = _varint(value, at)
            found.append(one)
    return found


def _parse(message: memoryview) -> Fields:
    """Return the fields of a message; nothing is copied."""
    fields: Fields = {}
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, wire_type = key >> 3, key & 7
        if wire_type == _VARINT:
            plain, at = _varint(message, at)
            fields.setdefault(number, []).append(plain)
            continue
        if wire_type == _LENGTH_DELIMITED:
            size, at = _varint(message, at)
        elif wire_type in (_FIXED64, _FIXED32):
            size = 8 if wire_type == _FIXED64 else 4
        else:
            raise _BrokenError(f"field {number} has wire type {wire_type}, which Caffe never writes")
        if size > len(message) - at:
            raise _BrokenError(f"it ends early: field {number} has {size} bytes and {len(message) - at} are left")
        fields.setdefault(number, []).append(message[at : at + size])
        at += size
    return fields


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """Return the number that begins at `at`, seven bits a byte with the lowest first, and where the next field begins."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            raise _BrokenError("it ends early, inside a number")
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise _BrokenError("a number is longer than ten bytes")
