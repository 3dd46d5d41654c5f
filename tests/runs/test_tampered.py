"""Run folders that somebody changed: every file has one schema, and what does not fit it is one line that names the file."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from deep_patch_learning.common.atomic_files import LARGEST, UnfitError, fitting, read_json
from deep_patch_learning.common.errors import DplError, RunError, SettingError
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.inference.calibration import FORMAT, read_calibration
from deep_patch_learning.inference.loading import load
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.refinement.pseudo_boxes import read_pseudo_boxes, source_of
from deep_patch_learning.runs.checkpoint import read_checkpoint, restore_optimiser, step_of
from deep_patch_learning.runs.folder import LARGEST_LOG, RunFolder
from deep_patch_learning.runs.stages import read_record
from deep_patch_learning.training.early_stopping import read_measurements

THOUSANDS = "1" + "0" * 5000
DAMAGE = {
    "not UTF-8": b'{"classes": "\xff\xfe"}',
    "nested": b"[" * 100_000,
    "nested as deep as can be read": b"[" * 500 + b"]" * 500,
    "thousands of digits": f'{{"classes": {THOUSANDS}}}'.encode(),
    "empty": b"",
    "a list": b"[]",
    "a number": b"7",
    "nothing": b"null",
    "other keys": b'{"a": 1}',
}
READERS: dict[str, Callable[[RunFolder], Any]] = {
    "data.json": lambda run: run.describe(),
    "versions.json": lambda run: run.read_versions(),
    "calibration.json": lambda run: read_calibration(run.calibration, ["cat", "dog"]),
    "run.json": read_record,
    "held_out.json": read_measurements,
}


def run_with(folder: Path, name: str, content: bytes) -> RunFolder:
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").touch()
    (folder / "data.json").write_text('{"classes": ["cat", "dog"], "fingerprint": "0"}')
    (folder / name).write_bytes(content)
    return RunFolder(folder)


def one_line(caught: pytest.ExceptionInfo[DplError], path: Path) -> None:
    told = str(caught.value)
    assert str(path) in told
    assert "\n" not in told
    assert len(told) < 500


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_one_line(tmp_path: Path, name: str, damage: str) -> None:
    run = run_with(tmp_path / "run", name, DAMAGE[damage])
    if (name, damage) == ("versions.json", "other keys"):
        (run.folder / name).write_text('{"torch": 1}')
    with pytest.raises(RunError, match="is damaged") as caught:
        READERS[name](run)
    one_line(caught, run.folder / name)


OF_OTHER_TYPES = {
    "data.json": [
        {"classes": "cat", "fingerprint": "0"},
        {"classes": ["cat", 1], "fingerprint": "0"},
        {"classes": [], "fingerprint": "0"},
        {"classes": ["cat", "cat"], "fingerprint": "0"},
        {"classes": ["\ud800"], "fingerprint": "0"},
        {"classes": ["cat"]},
        {"classes": ["cat"], "fingerprint": "0", "path": 5},
        {"classes": ["cat"], "fingerprint": "0", "val_share": "half"},
        {"classes": ["cat"], "fingerprint": "0", "val_seed": 10**30},
        {"classes": ["cat"], "fingerprint": "0", "limit": True},
        {"classes": ["cat"], "fingerprint": "0", "distilling": []},
    ],
    "run.json": [
        {"stages": [{"name": "a"}], "judgements": [], "network": None},
        {"stages": {}, "judgements": [], "network": None},
        {"stages": [{"name": "../b", "seed": 0, "steps": 1, "samples": 1}], "judgements": [], "network": None},
        {"stages": [], "judgements": [], "network": "../../elsewhere"},
        {"stages": [], "judgements": [], "network": "/etc"},
        {"stages": [], "judgements": [1], "network": None},
    ],
    "held_out.json": [{"measurements": [{"step": "1", "mAP": 5.0}]}, {"measurements": [{"step": 1, "mAP": float("nan")}]}],
    "calibration.json": [
        {"format": FORMAT, "classes": classes, "expected_calibration_error": errors, "images": images}
        for classes, errors, images in [
            ({"cat": 1}, {"before": 0.0, "after": 0.0}, 1),
            ({"cat": {"positives": 1, "slope": "1", "bias": 0.0, "threshold": 0.5}}, {"before": 0.0, "after": 0.0}, 1),
            ({"cat": {"positives": 1, "slope": 1.0, "bias": 0.0, "threshold": 0.5}}, {"before": "0", "after": 0.0}, 1),
            ({"cat": {"positives": 1, "slope": 1.0, "bias": 0.0, "threshold": 0.5}}, {"before": 0.0, "after": 0.0}, [1]),
            ({"cat": {"positives": 1, "slope": 10**400, "bias": 0.0, "threshold": 0.5}}, {"before": 0.0, "after": 0.0}, 1),
        ]
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "index"), [(name, i) for name, values in OF_OTHER_TYPES.items() for i in range(len(values))]
)
def test_values_of_other_types_are_named(tmp_path: Path, name: str, index: int) -> None:
    run = run_with(tmp_path / "run", name, json.dumps(OF_OTHER_TYPES[name][index]).encode())
    with pytest.raises(RunError, match="is damaged") as caught:
        READERS[name](run)
    one_line(caught, run.folder / name)


@pytest.mark.parametrize(
    "line",
    [b"[1]", b'{"step": "1"}', b'{"step": 1, "seconds": "x"}', b'{"loss": 1}', b'{"step": 1, "samples": [1]}', b"7"],
)
def test_a_line_of_the_log_of_another_type_is_named(tmp_path: Path, line: bytes) -> None:
    run = run_with(tmp_path / "run", "log.jsonl", b'{"step": 1, "loss": 2.0}\n' + line + b"\n")
    with pytest.raises(RunError, match=r"log\.jsonl, line 2: is damaged") as caught:
        run.read_log()
    one_line(caught, run.log)


@pytest.mark.parametrize("line", [b"\xff\xfe", b"[" * 100_000, THOUSANDS.encode(), b'{"st'])
def test_a_log_ends_where_it_cannot_be_read(tmp_path: Path, line: bytes) -> None:
    run = run_with(tmp_path / "run", "log.jsonl", b'{"step": 1, "loss": 2.0}\n' + line)
    assert run.read_log() == [{"step": 1, "loss": 2.0}]


def test_files_that_are_none_and_files_of_gigabytes(tmp_path: Path) -> None:
    folder = tmp_path / "folder.json"
    folder.mkdir()
    with pytest.raises(RunError, match=r"is damaged \(not a file\)\. Fix it"):
        read_json(folder, list[str], RunError, "Fix it.")
    large = tmp_path / "large.json"
    with large.open("wb") as file:
        file.truncate(LARGEST + 1)  # sparse: it takes no room
    with pytest.raises(RunError, match=r"is damaged \(67,108,865 bytes, of at most"):
        read_json(large, list[str], RunError, "Fix it.")


def test_what_fits() -> None:
    assert fitting([["dog", 1, 2.5]], list[list[str | float]]) == [["dog", 1, 2.5]]
    with pytest.raises(UnfitError, match=r"^\[0\]\[1\] is None, wanted a text$"):
        fitting([["dog", None]], list[list[str | float]])
    with pytest.raises(UnfitError, match="wanted a whole number"):
        fitting(True, int)


BOXES = [
    b'{"source": {}}\n{"image": "a", "boxes": [["cat", 1, 2, 3]]}',
    b'{"source": {}}\n{"image": "a", "boxes": [["cat", 1, 2, 3, "x"]]}',
    b'{"source": {}}\n{"image": "a", "boxes": [["cat", 5, 2, 3, 4]]}',
    b'{"source": {}}\n{"image": "a", "boxes": [["cow", 1, 2, 3, 4]]}',
    b'{"source": {}}\n{"image": "a", "boxes": [[]]}',
    b'{"source": {}}\n{"image": "a", "boxes": [["cat", 1, 2, 3, 4]], "weights": []}',
    b'{"source": {}}\n{"image": "a", "boxes": [["cat", 1, 2, 3, 4]], "weights": ["x"]}',
    b'{"source": {}}\n{"image": 1, "boxes": []}',
    b'{"source": {}}\n[]',
    b"{}\n\xff",
    b"{}\n" + b"[" * 100_000,
    f'{{}}\n{{"image": "a", "boxes": [["cat", 1, 2, 3, {THOUSANDS}]]}}'.encode(),
    f'{{}}\n{{"image": "a", "boxes": [["cat", 1, 2, 3, {"9" * 400}]]}}'.encode(),
]


@pytest.mark.parametrize("content", BOXES)
def test_damaged_pseudo_boxes(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "pseudo_boxes.jsonl"
    path.write_bytes(content)
    with pytest.raises(RunError, match="is damaged or of other images") as caught:
        read_pseudo_boxes(path, ["a"], ["cat", "dog"])
    one_line(caught, path)
    assert source_of(path) == {}


RECIPES = {
    "not UTF-8": (b"name = '\xff'", "byte 8 is not UTF-8"),
    "nested": (b"a = " + b"[" * 10_000, "nested too deep"),
    "thousands of digits": (f"[data]\nscales = [{THOUSANDS}]".encode(), "thousands of digits"),
    "texts as scales": (b'[data]\nscales = ["a"]', "scales = ('a',) should be a list of int, such as [480"),
    "lists as scales": (b"[data]\nscales = [[480]]", "scales = ([480],) should be a list of int"),
    "floats as scales": (b"[data]\nscales = [480.5]", "should be a list of int"),
    "numbers as heads": (b"[model]\nheads = [1]", "heads = (1,) should be a list of str"),
    "a table as backbone": (b"[model.backbone]\na = 1", "backbone = {'a': 1} should be a str"),
    "a list as seeds": (b"[refinement]\nseeds = []", "seeds = () should be a str"),
    "a date as steps": (b"[optimiser]\nsteps = 2020-01-01", "should be a int"),
    "filters": (b"[model]\nfilters = 1000000000000", "filters = 1000000000000; it must be at most 65,536"),
    "seed of 30 digits": (b"[machine]\nseed = 1" + b"0" * 30, "each below 2 to the power of 63"),
    "rate of 400 digits": (b"[optimiser]\nlearning_rate = 1" + b"0" * 400, "learning_rate = 1000"),
    "thousands of scales": (b"[data]\nscales = [" + b"480," * 3_000 + b"]", "at most 100 numbers"),
    "a name of a mebibyte": (b"name = '" + b"a" * (1 << 20) + b"'", "bytes, of at most 16,384"),
}


@pytest.mark.parametrize(("content", "said"), RECIPES.values(), ids=RECIPES)
def test_tampered_recipes(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(content)
    with pytest.raises(SettingError) as caught:
        Recipe.load(path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.fixture
def copied(small_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(small_run, tmp_path / "run"))


@pytest.mark.parametrize(
    ("setting", "value"), [("filters = 16", "filters = 65536"), ("refinement_width = 2048", "refinement_width = 65536")]
)
def test_a_network_larger_than_its_weights_is_never_built(copied: Path, setting: str, value: str) -> None:
    config = copied / "config.toml"
    text = config.read_text()
    assert setting in text
    config.write_text(
        text.replace(setting, value).replace('heads = ["classification", "discovery"]', 'heads = ["refinement"]')
    )
    if setting.startswith("filters"):
        config.write_text(text.replace(setting, value))
    with pytest.raises(RunError, match=r"names 65,536 \w+, and no weight is of that size"):
        load(copied, "cpu")
    config.write_text(text)
    data = json.loads((copied / "data.json").read_text())
    (copied / "data.json").write_text(json.dumps(data | {"classes": [str(number) for number in range(100_000)]}))
    with pytest.raises(RunError, match=r"names 100,000 classes, and no weight"):
        load(copied, "cpu")


@pytest.mark.parametrize(
    "about",
    [
        {"step": "x"},
        {"step": THOUSANDS},
        {"step": "1.5"},
        {"numbers": "["},
        {"numbers": "[" * 100_000},
        {"numbers": '{"a": "b"}'},
    ],
)
def test_tampered_metadata_of_weights(copied: Path, about: dict[str, str]) -> None:
    path = copied / "checkpoint.safetensors"
    with safe_open(path, "pt") as stored:
        before, tensors = stored.metadata(), {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
    save_file(tensors, path, metadata=before | about)
    readers: list[Callable[[Path], Any]] = [read_checkpoint, *([step_of] if "step" in about else [])]
    for reader in readers:
        with pytest.raises(RunError, match=r"checkpoint\.safetensors: is damaged") as caught:
            reader(path)
        one_line(caught, path)


@pytest.mark.parametrize("name", ["x.momentum_buffer", "99.momentum_buffer", "0.", "0", "-1.a", "0.momentum_buffer"])
def test_an_optimiser_state_that_fits_no_parameter(tmp_path: Path, name: str) -> None:
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(3))], lr=0.1, momentum=0.9)
    with pytest.raises(RunError, match=rf"{tmp_path}: is damaged .its optimiser state"):
        restore_optimiser(optimiser, {f"optimiser.{name}": torch.zeros(7)}, {}, tmp_path)


def test_the_files_of_a_real_run_fit_their_schemas(small_run: Path, small_world: Path) -> None:
    run = RunFolder(small_run)
    assert run.describe()["classes"] == list(read_tags(small_world, "train").classes)
    assert "torch" in run.read_versions()
    assert run.read_log()[-1]["step"] == 12
    assert step_of(run.checkpoint) == 12


def of_pipe(folder: Path, name: str) -> RunFolder:
    """Return a run in which one file is a pipe, which nobody writes to."""
    run = run_with(folder, "versions.json", b"{}")
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    return run


PIPES = [
    "config.toml",
    "weights.safetensors",
    "log.jsonl",
    "reviewed.jsonl",
    "pseudo_boxes.jsonl",
    "stages/config.toml",
    "run.json",
]


@pytest.mark.parametrize("name", PIPES)
def test_a_pipe_in_place_of_a_file_is_never_waited_for(tmp_path: Path, name: str) -> None:
    run = of_pipe(tmp_path / "run", name)
    for read in (run.must_exist, run.must_be_free_or_a_run, lambda: load(run.folder, "cpu")):
        with pytest.raises(RunError, match=r"is no file, and has the name of one of a run") as caught:
            read()
        one_line(caught, run.folder / name)


READ_ALONE: dict[str, Callable[[RunFolder], Any]] = {
    "weights.safetensors": lambda run: read_checkpoint(run.weights),
    "checkpoint.safetensors": lambda run: step_of(run.checkpoint),
    "log.jsonl": lambda run: run.read_log(),
    "reviewed.jsonl": lambda run: run.must_have_reviewed(""),
    "pseudo_boxes.jsonl": lambda run: read_pseudo_boxes(run.pseudo_boxes, ["a"], ["cat"]),
    "stages/config.toml": lambda run: run.begun_with(),
}


@pytest.mark.parametrize("name", READ_ALONE)
def test_a_pipe_is_refused_by_each_reader(tmp_path: Path, name: str) -> None:
    run = of_pipe(tmp_path / "run", name)
    with pytest.raises(DplError, match=r"is damaged|is no file") as caught:
        READ_ALONE[name](run)
    one_line(caught, run.folder / name)


def test_a_log_without_end_is_refused(tmp_path: Path) -> None:
    run = run_with(tmp_path / "run", "log.jsonl", b"")
    os.truncate(run.log, LARGEST_LOG + 1)
    with pytest.raises(RunError, match=r"is damaged \(268,435,457 bytes, of at most"):
        run.read_log()
    run.log.unlink()
    run.log.symlink_to("/dev/zero")
    with pytest.raises(RunError, match="not a file"):
        run.read_log()


def test_reviews_that_are_no_text_are_one_line(tmp_path: Path) -> None:
    run = run_with(tmp_path / "run", "reviewed.jsonl", b'{"image": "\xff"}')
    with pytest.raises(RunError, match=r"is damaged \(byte 11 is not UTF-8\)") as caught:
        run.must_have_reviewed("")
    one_line(caught, run.reviewed)
