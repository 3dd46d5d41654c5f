"""Exported files give what the run gives: ONNX by onnxruntime, alone and as a `Model`; programs of torch.export."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.ops import roi_pool

import deep_patch_learning as dpl
from deep_patch_learning.common.errors import DplError, RunError, SettingError
from deep_patch_learning.data.batch import lay_out, render, scaled_size
from deep_patch_learning.data.images import read_image
from deep_patch_learning.inference.calibration import Calibration
from deep_patch_learning.inference.exported.one_image import Finish, OneView, exportable
from deep_patch_learning.inference.loading import predict_settings
from deep_patch_learning.inference.model import Model
from deep_patch_learning.inference.scoring import ImageInput, head_scores
from deep_patch_learning.patches.sliding_window import SlidingWindow
from deep_patch_learning.recipe.build import build_network
from deep_patch_learning.recipe.presets import world
from deep_patch_learning.recipe.recipe import Recipe

onnx = pytest.importorskip("onnx", reason="needs the extra onnx: pip install 'deep-patch-learning[onnx]'")
onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra onnx")

EXAMPLE = Path(__file__).parents[2] / "examples" / "onnx_numpy.py"
VIEWS = {"scales": (192, 259), "flips": True}


@pytest.fixture(scope="module")
def files(small_run: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The ONNX file of a small run, seen in four views, and that with 8-bit weights."""
    return dpl.export(small_run, out=tmp_path_factory.mktemp("exported") / "small.onnx", **VIEWS)


def real_images(count: int, small_world: Path) -> list[Path]:
    """JPEGs of VOC where it is there, else those of the synthetic world."""
    import os

    folder = Path(os.environ["DPL_VOC"]) / "JPEGImages" if os.environ.get("DPL_VOC") else small_world.parent / "images"
    return sorted(folder.glob("*.jpg"))[:count]


def windows(image: np.ndarray) -> np.ndarray:
    """Return few patches, which are made at once."""
    return SlidingWindow()(image)[::5]


def run(file: Path, image: np.ndarray, patches: np.ndarray, *wanted: str) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    return session.run(wanted, {"image": image, "patches": patches.astype(np.float32)})


def compare(first: dpl.Prediction, second: dpl.Prediction, tolerance: float = 1e-4, pixels: float = 0.01) -> None:
    assert np.abs(first.probabilities - second.probabilities).max() <= tolerance
    assert np.abs(first.best_scores - second.best_scores).max() <= 10 * tolerance
    assert [box.tag for box in first.boxes] == [box.tag for box in second.boxes]
    for one, other in zip(first.boxes, second.boxes, strict=True):
        assert np.abs(np.subtract(one.box, other.box)).max() <= pixels


def test_as_a_model_it_predicts_what_the_run_does(files: list[Path], small_run: Path, small_world: Path) -> None:
    """On 100 photos of VOC, or on the 32 JPEGs of the small world."""
    images = real_images(100, small_world)
    model, other = dpl.load(small_run, "cpu", **VIEWS), dpl.load(files[0])
    assert other.scales == VIEWS["scales"]
    inputs = [ImageInput(path.name, (image := read_image(path)), windows(image), path) for path in images]
    assert len(inputs) >= 32
    for first, second in zip(model.predict_images(inputs), other.predict_images(inputs), strict=True):
        compare(first, second)


def test_from_a_file_and_in_a_stream(files: list[Path], small_run: Path, small_world: Path) -> None:
    images = sorted((small_world.parent / "images").glob("*.jpg"))[:4]
    found = list(dpl.load(files[0]).predict(images))
    for first, second in zip(dpl.load(small_run, "cpu", **VIEWS).predict(images), found, strict=True):
        compare(first, second)
        assert first.source == second.source


def test_its_own_outputs_are_those_of_a_prediction(files: list[Path], small_run: Path, small_world: Path) -> None:
    path = small_world.parent / "images" / "500000.jpg"
    model = dpl.load(small_run, "cpu", **VIEWS)
    image = model.read(path)
    found = model.predict(path)
    tags, scores, boxes, best = run(files[0], image.image, image.patches, "tags", "box_scores", "boxes", "best")
    assert np.abs(tags - found.probabilities).max() < 1e-4
    assert found.best_boxes is not None
    assert np.abs(boxes[best] - found.best_boxes).max() < 0.01
    wanted = found.box_probabilities(found.best_scores, np.arange(len(tags)))
    assert np.abs(scores.max(axis=0) - wanted).max() < 1e-3
    about = onnxruntime.InferenceSession(files[0]).get_modelmeta().custom_metadata_map
    assert json.loads(about["classes"]) == list(model.classes)
    assert json.loads(about["thresholds"]) == [0.5] * len(model.classes)


def test_the_example_needs_numpy_and_onnxruntime_alone(files: list[Path], small_world: Path, tmp_path: Path) -> None:
    image = read_image(small_world.parent / "images" / "500000.jpg")
    Image.fromarray(image).save(tmp_path / "photo.ppm")
    made = onnx.load(files[0])
    for entry in made.metadata_props:  # a training of seconds is sure of nothing: show every class
        if entry.key == "thresholds":
            entry.value = json.dumps([0.0] * len(json.loads(entry.value)))
    onnx.save(made, tmp_path / "model.onnx")
    few = windows(image)
    np.save(tmp_path / "patches.npy", few)
    alone = "import sys, runpy; sys.modules['torch'] = sys.modules['PIL'] = sys.modules['deep_patch_learning'] = None; "
    start = f"{alone}sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    for more in ([], ["patches.npy"]):
        words = [sys.executable, "-I", "-c", start, EXAMPLE, "model.onnx", "photo.ppm", *more]
        done = subprocess.run([str(word) for word in words], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        lines = [line.split() for line in done.stdout.splitlines()]
        assert len(lines) == len(json.loads(about_of(files[0])["classes"]))
    found = next(dpl.load(files[0]).predict_images([ImageInput("a", image, few)]))
    assert found.best_boxes is not None
    for (name, probability, *corners), index in zip(lines, range(len(lines)), strict=True):
        assert name == found.classes[index]
        assert float(probability) == pytest.approx(found.probabilities[index], abs=1e-3)
        assert np.abs(np.array(corners, float) - found.best_boxes[index]).max() <= 0.06
    code = [line for line in EXAMPLE.read_text().split('"""')[2].splitlines() if line.strip()]
    assert len(code) <= 32


def about_of(file: Path) -> dict[str, str]:
    return onnxruntime.InferenceSession(file).get_modelmeta().custom_metadata_map


def test_8_bit_weights(files: list[Path], small_world: Path) -> None:
    plain, small = files
    assert small.name == "small-8bit.onnx"
    assert small.stat().st_size < 0.4 * plain.stat().st_size
    weights = onnx.load(small).graph
    assert {one.data_type for one in weights.initializer if "8bit" in one.name} == {onnx.TensorProto.INT8}
    numbers = {one.name: onnx.numpy_helper.to_array(one) for one in weights.initializer}
    original = {one.name: onnx.numpy_helper.to_array(one) for one in onnx.load(plain).graph.initializer}
    layers = {node.input[1]: node for node in weights.node if node.op_type in ("Conv", "Gemm", "MatMul")}
    for node in weights.node:
        if node.op_type == "DequantizeLinear":
            (wide, scales), name = node.input, node.output[0]
            axis = next(one.i for one in node.attribute if one.name == "axis")
            assert len(numbers[scales]) == numbers[wide].shape[axis]
            if layers[name].op_type == "Conv":
                assert axis == 0  # an output channel has a scale of its own
            steps = np.moveaxis(original[name], axis, -1) / numbers[scales]
            assert np.abs(steps - np.moveaxis(numbers[wide], axis, -1)).max() <= 0.501
    images = sorted((small_world.parent / "images").glob("*.jpg"))[:8]
    pairs = zip(dpl.load(plain).predict(images), dpl.load(small).predict(images), strict=True)
    off = [np.abs(first.probabilities - second.probabilities).max() for first, second in pairs]
    assert 0 < max(off) < 0.05


def test_onnx_pools_as_torchvision_does_bit_for_bit() -> None:
    from onnx import TensorProto, helper

    draw = np.random.default_rng(0)
    maps = draw.standard_normal((1, 5, 23, 31)).astype(np.float32)
    corners = draw.uniform(-20, 520, (4000, 4)).astype(np.float32)
    corners[:2000] = np.round(corners[:2000] / 8) * 8  # halves of a cell: where rounding shows
    corners[:3000, 2:] = np.maximum(corners[:3000, 2:], corners[:3000, :2])  # the others end before they begin
    rois = np.concatenate((np.zeros((4000, 1), np.float32), corners), axis=1)
    node = helper.make_node("MaxRoiPool", ["maps", "rois"], ["bins"], pooled_shape=[3, 3], spatial_scale=1 / 16)
    kinds = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("maps", "rois", "bins")}
    graph = helper.make_graph([node], "pool", [kinds["maps"], kinds["rois"]], [kinds["bins"]])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"maps": maps, "rois": rois})
    wanted = roi_pool(torch.from_numpy(maps), torch.from_numpy(rois), (3, 3), 1 / 16).numpy()
    assert (found == 0).any()
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize(("scale", "shapes", "mirror"), [(448, 48, False), (131, 0, True), (97, 7, True)])
def test_the_graph_scales_as_the_batch_does(scale: int, shapes: int, mirror: bool) -> None:
    from onnx import helper

    from deep_patch_learning.inference.exported.onnx_file import OPSET, _scaling

    graph = _scaling(scale, shapes, mirror)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    draw = np.random.default_rng(1)
    for height, width in [(1, 9), (9, 1), (50, 50), *draw.integers(2, 120, (25, 2)).tolist()]:
        image = draw.integers(0, 256, (height, width, 3), np.uint8)
        patches = np.array([[0, 0, width, height], [0, 0, 1, 1]], np.float32)
        pixels, placed, size, pixel = session.run(None, {"image": image, "patches": patches})
        layout = lay_out([(height, width)], [patches], scale, [mirror], shapes)
        batch = render(layout, [image])
        assert tuple(size.astype(int)) == scaled_size(height, width, scale, shapes)
        assert pixels.shape == tuple(batch.images.shape)
        assert np.abs(pixels - batch.images.numpy()).max() < 0.01
        assert np.abs(placed - batch.patches.numpy()).max() < 1e-3
        assert batch.pixels is not None
        assert np.array_equal(pixel, batch.pixels.numpy())


CASES = {
    "refined": {"heads": ("classification", "discovery", "refinement"), "regression": True, "two_stream_tags": True},
    "cells": {
        "heads": ("discovery", "refinement"),
        "backbone": "lite0-map",
        "refinement_cells": 3,
        "regression": False,
    },
    "refinement alone": {"heads": ("refinement",), "regression": True},
    "inclusive": {"heads": ("classification", "discovery"), "corners": "inclusive", "bands": "paper"},
}


def random_model(case: str) -> Model:
    recipe = world().replace(filters=8, refinement_width=16, refinements=2, **CASES[case])
    torch.manual_seed(3)
    network, _ = build_network(recipe, 4, pretrained=False)
    for parameter in network.parameters():
        parameter.data += 0.02 * torch.randn(parameter.shape)
    lines = np.array([[0.5, 1.5, 1, 2], [0.1, -0.2, 0, 1], [0.5, 0.4, 0.3, 0.2], [9] * 4])
    calibration = Calibration(tuple("abcd"), *lines, 9, 0.0, 0.0, box_lines=np.array([[1.5, 0.1]] * 4))
    return Model(network, "abcd", predict_settings(recipe, (96,)), SlidingWindow(), "cpu", calibration)


@pytest.mark.parametrize("case", CASES)
def test_one_view_and_its_finish_are_the_network_and_the_model(case: str) -> None:
    """Before any export: the functions that are traced compute what the package computes."""
    model = random_model(case)
    image = np.random.default_rng(2).integers(0, 256, (70, 90, 3), np.uint8)
    patches = np.array([[0, 0, 90, 70], [5, 9, 44, 60], [30, 2, 80, 33], [3, 3, 20, 20], [60, 40, 90, 70]], np.uint16)
    given = ImageInput("a", image, patches)
    view = exportable(model)
    batch = render(lay_out([image.shape[:2]], [patches], 96, None, model.settings.shapes), [image])
    assert batch.pixels is not None
    found = view(batch.images, batch.patches, batch.sizes[0].float(), batch.pixels)
    scores = model.network(batch)
    heads = dict(zip(view.heads, found[0], strict=True))
    counted = head_scores(scores, model.settings)._asdict()
    for name, value in counted.items():
        if name == "two_stream" and value is not None:
            value = scores.refinement.image
        assert (value is None) == (name not in heads)
        assert value is None or torch.allclose(heads[name], value[0], atol=1e-5)
    wanted = scores.patches if scores.refinement is None else scores.refinement.probabilities
    assert torch.allclose(found[1], wanted, atol=1e-5)
    size = torch.tensor(image.shape[:2]).float()
    tags, box_scores, boxes, best, _, _ = Finish(model, view)(torch.tensor(patches).float(), size, *found)
    prediction = model.predict_images([given])
    one = next(prediction)
    assert np.abs(tags.numpy() - one.probabilities).max() < 1e-5
    assert one.best_boxes is not None
    assert np.abs(boxes.numpy()[best.numpy()] - one.best_boxes).max() < 1e-3
    highest = one.box_probabilities(one.best_scores, np.arange(4))
    assert np.abs(box_scores.numpy().max(axis=0) - highest).max() < 1e-5


def test_a_program_of_torch_export(small_run: Path, small_world: Path, tmp_path: Path) -> None:
    (file,) = dpl.export(small_run, format="torch", out=tmp_path / "small.pt2")
    extra = {"deep_patch_learning.json": ""}
    program = torch.export.load(file, extra_files=extra).module()
    model = dpl.load(small_run, "cpu")
    assert json.loads(extra["deep_patch_learning.json"])["classes"] == list(model.classes)
    view = OneView(model.network, model.settings)
    pixels = torch.rand(1, 3, 77, 130) * 255
    patches = torch.tensor(
        [[0.0, 0, 130, 77], [3, 4, 60, 50], [20, 10, 90, 70], [1, 1, 9, 9], [50, 0, 130, 40], [7, 7, 80, 70]]
    )
    given = pixels, patches, torch.tensor([77.0, 130]), torch.ones(1, 2)
    for found, wanted in zip(program(*given), view(*given), strict=True):
        assert torch.allclose(found, wanted, atol=1e-4)


def test_what_cannot_be_exported_or_read(small_run: Path, files: list[Path], small_world: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="Did you mean 'onnx'"):
        dpl.export(small_run, format="onxn")
    with pytest.raises(SettingError, match=r"ends in \.onnx"):
        dpl.export(small_run, out=tmp_path / "model.bin")
    with pytest.raises(RunError, match="there is no such folder"):
        dpl.export(small_run, out=tmp_path / "none" / "model.onnx")
    with pytest.raises(RunError, match="no such run"):
        dpl.export(tmp_path / "none")
    for mine in ("mine.onnx", "other-8bit.onnx"):  # the second file that would be written counts too
        (tmp_path / mine).write_bytes(b"mine")
        with pytest.raises(DplError, match=f"{mine}: is there and is no export that dpl wrote"):
            dpl.export(small_run, out=tmp_path / mine.replace("-8bit", ""), **VIEWS)
        assert (tmp_path / mine).read_bytes() == b"mine"
    assert not (tmp_path / "other.onnx").exists()
    with pytest.raises(RunError, match="there is no such file"):
        dpl.load(tmp_path / "none.onnx")
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(files[0].read_bytes()[:1000])
    with pytest.raises(RunError, match=r"broken\.onnx: is no ONNX file that can be read"):
        dpl.load(broken)
    foreign = onnx.load(files[0])
    del foreign.metadata_props[:]
    onnx.save(foreign, tmp_path / "foreign.onnx")
    with pytest.raises(RunError, match="its format is None"):
        dpl.load(tmp_path / "foreign.onnx")
    with pytest.raises(SettingError, match="scales and flips are part of an ONNX file"):
        dpl.load(files[0], scales=(64,))
    with pytest.raises(SettingError, match="not on cuda"):
        dpl.load(files[0], device="cuda")
    with pytest.raises(SettingError, match="flips is part of an ONNX file"):
        dpl.load(files[0]).with_settings(flips=True)
    with pytest.raises(DplError, match=r"part of an ONNX file"):
        dpl.label(small_world, files[0], out=tmp_path / "labels", split="test", precision=0.5)
    assert not (tmp_path / "labels").exists()


def test_a_network_without_boxes_or_of_several_is_refused() -> None:
    model = random_model("refined")
    model.network.discovery = model.network.refinement = None
    with pytest.raises(RunError, match="only classifies"):
        exportable(model)
    model.network = torch.nn.Identity()
    with pytest.raises(RunError, match="cannot be exported: one file holds one network"):
        exportable(model)


def test_the_command_line(small_run: Path, small_world: Path, tmp_path: Path) -> None:
    image = small_world.parent / "images" / "500000.jpg"

    def ask(*words: object) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "deep_patch_learning", *map(str, words)]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    early = ask("predict", image, "--model", small_run, "--runtime", "onnx")
    assert early.returncode == 2
    assert f"Write it: dpl export {small_run}" in early.stderr.replace("\n", " ")
    done = ask("export", small_run, "--no-8-bit", "--json")
    assert done.returncode == 0, done.stderr
    (file,) = json.loads(done.stdout.splitlines()[-1])["files"]
    try:
        assert Path(file["path"]) == small_run / "model.onnx"
        found = ask("predict", image, "--model", small_run, "--runtime", "onnx", "--out", "by-onnx", "--json")
        assert found.returncode == 0, found.stderr
        plain = ask("predict", image, "--model", small_run, "--out", "by-torch", "--json", "--device", "cpu")
        first, second = (
            dpl.Prediction.from_dict(json.loads(one.stdout.splitlines()[-1])["predictions"][0])
            for one in (found, plain)
        )
        compare(first, second)
        again = ask("export", small_run, "--no-8-bit")  # its own file is replaced
        assert again.returncode == 0, again.stderr
        moved = tmp_path / "moved"
        shutil.copytree(small_run, moved)
        calibration = moved / "calibration.json"
        calibration.write_bytes(calibration.read_bytes() + b" " if calibration.exists() else b"{}")
        stale = ask("predict", image, "--model", moved, "--runtime", "onnx", "--out", "stale")
        assert stale.returncode == 2
        assert "calibrated since" in stale.stderr.replace("\n", " ")
    finally:
        Path(file["path"]).unlink()


STOPPED_WHILE_TRACING = """
import os, signal, sys, threading, time, traceback
from deep_patch_learning.cli.app import main

number = signal.Signals[sys.argv.pop(1)]

def watch(thread):
    while not traces(sys._current_frames()[thread]):
        time.sleep(0.005)
    os.kill(os.getpid(), number)

def traces(frame):
    while frame is not None and frame.f_code.co_name != "__torch_dispatch__":
        frame = frame.f_back
    return frame is not None

threading.Thread(target=watch, args=(threading.get_ident(),), daemon=True).start()
try:
    main()
except SystemExit as ended:  # torch may take what ends a process for an error of its own: it must not pass there
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(ended.__traceback__)]
    print(sum(f"{os.sep}torch{os.sep}" in name for name in files))
    raise
"""


@pytest.mark.parametrize(("sent", "status"), [("SIGINT", 130), ("SIGTERM", 143)])
@pytest.mark.parametrize("kind", ["torch", "onnx"])
def test_a_signal_while_the_network_is_traced(
    small_run: Path, tmp_path: Path, kind: str, sent: str, status: int
) -> None:
    out = tmp_path / {"torch": "model.pt2", "onnx": "model.onnx"}[kind]
    words = ["export", str(small_run), "--format", kind, "--out", str(out)]
    done = subprocess.run(
        [sys.executable, "-c", STOPPED_WHILE_TRACING, sent, *words], capture_output=True, text=True, check=False
    )
    assert done.stderr.strip() == "dpl: stopped. What is written is whole; repeat the command to go on."
    assert done.returncode == status
    assert done.stdout.split() == ["0"]
    assert list(tmp_path.iterdir()) == []


def test_recipes_go_through_the_file(files: list[Path], small_recipe: Recipe) -> None:
    assert Recipe.from_toml(about_of(files[0])["recipe"]).model.heads == small_recipe.model.heads


def with_metadata(file: Path, out: Path, **changed: str) -> Path:
    """Write an ONNX file that says other things about itself."""
    made = onnx.load(file)
    about = {entry.key: entry.value for entry in made.metadata_props} | changed
    del made.metadata_props[:]
    for key, value in about.items():
        made.metadata_props.add(key=key, value=value)
    onnx.save(made, out)
    return out


NESTED = "[" * 100_000
METADATA = {
    "settings that are a number": {"settings": "5"},
    "nested settings": {"settings": NESTED},
    "scales that are a text": {"settings": '{"scales": "480", "box_selection": {}}'},
    "flips that are a text": {"settings": '{"scales": [480], "box_selection": {}, "flips": "no"}'},
    "box selection that is a list": {"settings": '{"scales": [480], "box_selection": []}'},
    "settings that are not known": {"settings": '{"scales": [480], "box_selection": {}, "other": 1}'},
    "no scale": {"settings": '{"scales": [], "box_selection": {}}'},
    "nested classes": {"classes": NESTED},
    "classes of two types": {"classes": '["a", 5]'},
    "a class twice": {"classes": '["a", "a"]'},
    "no class": {"classes": "[]"},
    "half of a character": {"classes": '["\\ud800"]'},
    "heads that are numbers": {"heads": "[1]"},
    "heads that are not known": {"heads": '["x"]'},
    "no heads": {"heads": "[]"},
    "calibration that is a list": {"calibration": '{"format": "deep_patch_learning.calibration/1", "classes": []}'},
    "nested calibration": {"calibration": NESTED},
    "calibration that is a number": {"calibration": "5"},
    "a recipe that is none": {"recipe": "a = 1"},
    "a nested recipe": {"recipe": "a = " + NESTED},
}


@pytest.mark.parametrize("changed", METADATA.values(), ids=METADATA)
def test_metadata_that_no_export_writes_is_one_line(files: list[Path], tmp_path: Path, changed: dict[str, str]) -> None:
    path = with_metadata(files[0], tmp_path / "a.onnx", **changed)
    with pytest.raises(RunError, match=r"a\.onnx: what it says about itself is broken") as caught:
        dpl.load(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 700


def test_a_graph_of_another_program_is_one_line(files: list[Path], tmp_path: Path) -> None:
    made = onnx.load(files[0])
    about = {entry.key: entry.value for entry in made.metadata_props}
    kinds = (("image", onnx.TensorProto.UINT8, 3), ("patches", onnx.TensorProto.FLOAT, 2))
    inputs = [onnx.helper.make_tensor_value_info(name, kind, [None] * rank) for name, kind, rank in kinds]
    names = ("head_scores", "patch_scores", "boxes")
    outputs = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None, None]) for name in names]
    nodes = [onnx.helper.make_node("Identity", ["patches"], [name]) for name in names]
    image = ImageInput("a", np.zeros((60, 80, 3), np.uint8), np.array([[0, 0, 80, 60], [5, 5, 40, 40], [0, 9, 9, 30]]))
    for given, said in ((inputs[1:], "its graph makes"), (inputs, "its graph gives scores of shapes")):
        graph = onnx.helper.make_graph(nodes, "other", given, outputs)
        onnx.save(
            onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9),
            tmp_path / "b",
        )
        path = with_metadata(tmp_path / "b", tmp_path / "a.onnx", **about)
        with pytest.raises(RunError, match=rf"a\.onnx: .*{said}"):
            list(dpl.load(path).predict_images([image]))
