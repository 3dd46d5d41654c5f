"""Model -> one ONNX file: an image and its patches in; tags, box scores and boxes out. And the same with 8-bit weights.

The network is traced once. Each view (a scale, mirrored or not) is a copy of its nodes on the same weights, between the nodes
that scale the image, written here as ONNX text, and those of `Finish`.
"""

import json
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from deep_patch_learning.common.atomic_files import written_afresh
from deep_patch_learning.common.errors import DplError
from deep_patch_learning.common.signals import stopped_afterwards
from deep_patch_learning.data.batch import SMALLEST
from deep_patch_learning.inference.exported.one_image import Finish, example_of, exportable
from deep_patch_learning.inference.exported.program import traced, view_program
from deep_patch_learning.inference.model import Model

OPSET = 18
OUTPUTS = ("tags", "box_scores", "boxes", "best", "head_scores", "patch_scores")
FEWEST = 256  # weights of a layer from which 8 bits are worth it
FORMAT = "deep_patch_learning.onnx/1"


def onnx_model(model: Model, about: Mapping[str, Any]) -> Any:
    """Return a model as `onnx.ModelProto`; `about` goes into its metadata as JSON, one entry for each key."""
    _require("onnx", "onnxscript")
    from onnx import checker, helper

    view = exportable(model)
    network = _translated(view_program(view))
    finish = Finish(model, view).eval().requires_grad_(False)
    dynamic = ({0: torch.export.Dim.DYNAMIC},)
    patches, size = example_of(view)[1:3]
    scores = torch.zeros(len(view.heads), len(model.classes)), torch.full((len(patches), len(model.classes)), 0.5)
    arguments = (patches, size, *scores, torch.zeros_like(patches))
    finished = _translated(traced(finish, arguments, (*dynamic, None, None, *dynamic, *dynamic)))
    graph = _linked(model, network, finished, len(view.heads))
    made = helper.make_model(graph, producer_name="deep_patch_learning", opset_imports=[helper.make_opsetid("", OPSET)])
    made.ir_version = 9  # of opset 18's time, so that older runtimes read it
    for key, value in {"format": FORMAT, **about}.items():
        made.metadata_props.add(key=key, value=value if isinstance(value, str) else json.dumps(value))
    checker.check_model(made)
    return made


def write_onnx(made: Any, path: Path) -> None:
    """Write an ONNX model, whole or not at all."""
    with written_afresh(path) as part:
        part.write_bytes(made.SerializeToString())


def _require(*packages: str) -> None:
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise DplError(
            f"ONNX files need {' and '.join(missing)}, not installed here. Install: pip install 'deep-patch-learning[onnx]'"
        )


def _translated(program: torch.export.ExportedProgram) -> Any:
    """Return a traced program as an ONNX graph."""
    with stopped_afterwards(), _quiet():
        found = torch.onnx.export(
            program,
            dynamo=True,
            opset_version=OPSET,
            custom_translation_table={torch.ops.torchvision.roi_pool.default: _roi_pool()},
            verbose=False,
        )
    assert found is not None
    return found.model_proto.graph


def _roi_pool() -> Any:
    """Return the translation of torchvision's RoI max pooling: ONNX rounds corners and cuts bins in the same way."""
    from onnxscript import opset18 as op

    def roi_pool(maps: Any, rois: Any, spatial_scale: float, pooled_height: int, pooled_width: int) -> Any:
        shape = [pooled_height, pooled_width]
        return op.MaxRoiPool(maps, rois, pooled_shape=shape, spatial_scale=spatial_scale), op.Shape(rois)

    return roi_pool


@contextmanager
def _quiet() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _linked(model: Model, network: Any, finished: Any, heads: int) -> Any:
    """Return one graph: for each view the nodes that scale and those of the network; their sums; those of `Finish`."""
    from onnx import TensorProto, helper

    graph = _Linker()
    totals: list[list[str]] = [[], [], []]
    for number, (scale, mirror) in enumerate(model.settings.views):
        made = _scaling(scale, model.settings.shapes, mirror)
        view = graph.add(made, f"view{number}.", {"image": "image", "patches": "patches"}, ("image", "patches"))
        inputs = dict(zip([one.name for one in network.input], view, strict=True))
        found = graph.add(network, f"view{number}.network.", inputs, shared="network.")
        for total, name in zip(totals, found, strict=True):
            total.append(name)
    sums = [graph.node("Sum", names) if len(names) > 1 else names[0] for names in totals]
    size = graph.node("Cast", [graph.node("Shape", ["image"], start=0, end=2)], to=TensorProto.FLOAT)
    inputs = dict(zip([one.name for one in finished.input], ["patches", size, *sums], strict=True))
    outputs = graph.add(finished, "finish.", inputs)
    for name, wanted in zip(outputs, OUTPUTS, strict=True):
        graph.nodes.append(helper.make_node("Identity", [name], [wanted]))
    count, boxes = len(model.classes), "patches"
    shapes: dict[str, list[Any]] = {
        "tags": [count], "box_scores": [boxes, count], "boxes": [boxes, 4], "best": [count],
        "head_scores": [heads, count], "patch_scores": [boxes, count],
    }  # fmt: skip
    kinds = {"best": TensorProto.INT64}
    asked = [
        helper.make_tensor_value_info("image", TensorProto.UINT8, ["height", "width", 3]),
        helper.make_tensor_value_info("patches", TensorProto.FLOAT, [boxes, 4]),
    ]
    given = [helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), shapes[name]) for name in OUTPUTS]
    used = {name for node in graph.nodes for name in node.input}
    constants = [constant for constant in graph.constants if constant.name in used]
    return helper.make_graph(graph.nodes, "deep_patch_learning", asked, given, constants)


class _Linker:
    """Nodes and constants of several graphs, under names of their own."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._held: set[str] = set()

    def node(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Return the name of a new node's output."""
        from onnx import helper

        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def add(
        self, graph: Any, prefix: str, inputs: Mapping[str, str], given: Sequence[str] = (), shared: str = ""
    ) -> list[str]:
        """Return the names of a graph's outputs, after adding its nodes under `prefix`, its constants under `shared` if given."""
        names = {"": "", **inputs, **{name: name for name in given}}
        for constant in graph.initializer:
            names[constant.name] = (shared or prefix) + constant.name
            if names[constant.name] not in self._held:
                self._held.add(names[constant.name])
                copy = type(constant)()
                copy.CopyFrom(constant)
                copy.name = names[constant.name]
                self.constants.append(copy)
        for node in graph.node:
            copy = type(node)()
            copy.CopyFrom(node)
            copy.name = f"{prefix}{node.name}" if node.name else ""
            del copy.input[:], copy.output[:], copy.metadata_props[:]
            copy.doc_string = ""
            copy.input.extend(names[name] for name in node.input)
            for name in node.output:
                names[name] = prefix + name if name else ""
            copy.output.extend(names[name] for name in node.output)
            self.nodes.append(copy)
        return [names[one.name] for one in graph.output]


# `scaled_size` and `lay_out` of data/batch.py, in double precision as there: `Round` takes halves to even, as Python's does
_BY_FACTOR = """
    factor = Div (long, longest)
    product = Mul (original, factor)
    rounded = Round (product)
    scaled = Max (rounded, one)
"""
_BY_SHAPE = """
    shortest = ReduceMin <keepdims=1> (original)
    ratio = Div (shortest, longest)
    exact_steps = Mul (ratio, shapes)
    rounded_steps = Round (exact_steps)
    steps = Max (rounded_steps, one)
    product = Mul (long, steps)
    exact = Div (product, shapes)
    rounded = Round (exact)
    short = Max (rounded, one)
    is_long = Equal (original, longest)
    scaled = Where (is_long, long, short)
"""
_MIRROR = """
    last = Constant <value_ints=[-1]> ()
    beyond = Constant <value_ints=[-9223372036854775807]> ()
    axis = Constant <value_ints=[3]> ()
    seen = Slice (resized, last, beyond, axis, last)
    x1, y1, x2, y2 = Split <axis=1, num_outputs=4> (moved)
    width = Gather (size, one_index)
    left = Sub (width, x2)
    right = Sub (width, x1)
    placed = Concat <axis=1> (left, y1, right, y2)
"""
_AS_IT_IS = """
    seen = Identity (resized)
    placed = Identity (moved)
"""
_SCALING = """
<ir_version: 8, opset_import: ["" : {opset}]>
scaling (uint8[H, W, 3] image, float[P, 4] patches)
    => (float[1, 3, h, w] pixels, float[P, 4] placed, float[2] size, float[1, 2] pixel)
<double[1] long = {{{scale}}}, double[1] shapes = {{{shapes}}}, double[1] one = {{1}}, int64[1] zero = {{0}},
 int64[1] one_index = {{1}}, int64[4] width_first = {{1, 0, 1, 0}}, int64[2] colours = {{1, 3}},
 int64[6] none = {{0, 0, 0, 0, 0, 0}}, int64[1] least = {{{least}}}>
{{
    shape = Shape <start=0, end=2> (image)
    original = Cast <to=11> (shape)
    longest = ReduceMax <keepdims=1> (original)
{scaled}
    sides = Cast <to=7> (scaled)
    size = Cast <to=1> (scaled)
    growth = Div (scaled, original)
    grown = Cast <to=1> (growth)
    pixel = Unsqueeze (grown, zero)
    across = Gather (grown, width_first)
    moved = Mul (patches, across)
    planes = Transpose <perm=[2, 0, 1]> (image)
    numbers = Cast <to=1> (planes)
    batch = Unsqueeze (numbers, zero)
    target = Concat <axis=0> (colours, sides)
    resized = Resize <mode="linear", coordinate_transformation_mode="half_pixel"> (batch, absent, absent, target)
{mirrored}
    missing = Sub (least, sides)
    more = Max (missing, zero)
    padding = Concat <axis=0> (none, more)
    pixels = Pad (seen, padding)
}}
"""


def _scaling(scale: int, shapes: int, mirror: bool) -> Any:
    """Return the graph that scales an image and its patches to one view."""
    from onnx import parser

    text = _SCALING.format(
        opset=OPSET,
        scale=scale,
        shapes=shapes,
        least=SMALLEST,
        scaled=_BY_SHAPE if shapes else _BY_FACTOR,
        mirrored=_MIRROR if mirror else _AS_IT_IS,
    )
    graph = parser.parse_model(text).graph
    for node in graph.node:
        for place, name in enumerate(node.input):
            if name == "absent":
                node.input[place] = ""
    return graph


def with_8_bit_weights(made: Any) -> Any:
    """Return the same model with the weights of its layers as 8-bit numbers and a scale for each output channel.

    Runtimes turn them into single precision: the file is a quarter as large, and what is computed stays in single precision.
    """
    from onnx import ModelProto, helper, numpy_helper

    small = ModelProto()
    small.CopyFrom(made)
    graph = small.graph
    axes = _output_axes(graph)
    nodes, constants = [], []
    for constant in graph.initializer:
        axis = axes.get(constant.name)
        values = numpy_helper.to_array(constant)
        if axis is None or values.size < FEWEST:
            constants.append(constant)
            continue
        others = tuple(place for place in range(values.ndim) if place != axis)
        largest = np.abs(values).max(axis=others, keepdims=True)
        scales = np.where(largest > 0, largest, 1).astype(np.float32) / np.float32(127)
        rounded = np.clip(np.rint(values / scales), -127, 127).astype(np.int8)
        names = f"{constant.name}.8bit", f"{constant.name}.scales"
        constants += [numpy_helper.from_array(rounded, names[0]), numpy_helper.from_array(scales.ravel(), names[1])]
        nodes.append(helper.make_node("DequantizeLinear", names, [constant.name], axis=axis))
    nodes += graph.node
    del graph.initializer[:], graph.node[:]
    graph.initializer.extend(constants)
    graph.node.extend(nodes)
    return small


def _output_axes(graph: Any) -> dict[str, int]:
    """Return for each weight of a layer the axis of its output channels."""
    axes = {}
    for node in graph.node:
        if node.op_type in ("Conv", "Gemm", "MatMul") and len(node.input) > 1:
            turned = any(one.name == "transB" and one.i for one in node.attribute)
            axes[node.input[1]] = 0 if node.op_type == "Conv" or turned else 1
    return {one.name: axes[one.name] for one in graph.initializer if one.name in axes and one.data_type == 1}
