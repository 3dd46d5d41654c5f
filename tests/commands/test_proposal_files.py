"""Proposal files as patches: trained on, evaluated, labelled and predicted with; images that they lack are named."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import deep_patch_learning as dpl
from deep_patch_learning.cli.app import app, main
from deep_patch_learning.common.errors import DataError, SettingError
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.patches.generator import PatchGenerator, ProposalFile, in_full
from deep_patch_learning.patches.prepare import Prepared, prepare
from deep_patch_learning.recipe.recipe import Recipe

SETTINGS = {"recipe": "world", "device": "cpu", "steps": 2, "scales": (64,), "batch_images": 4}


def boxes_of(world: Path, split: str) -> dict[str, np.ndarray]:
    """Return a few boxes for each image of a split, by its stem."""
    random = np.random.default_rng(0)
    found = {}
    for path in read_tags(world, split).paths:
        width, height = Image.open(path).size
        low = random.integers(0, [width // 2, height // 2], (9, 2))
        found[path.stem] = np.concatenate((low, low + random.integers(20, [width // 2, height // 2], (9, 2))), axis=1)
    return found


def write(path: Path, boxes: dict[str, np.ndarray]) -> Path:
    """Write half-open boxes in the convention of the file's format."""
    if path.suffix == ".npz":
        np.savez(path, **boxes)
    elif path.suffix == ".pkl":
        inclusive = [own - [0, 0, 1, 1] for own in boxes.values()]
        path.write_bytes(pickle.dumps({"boxes": inclusive, "ids": list(boxes)}))
    else:
        io = pytest.importorskip("scipy.io", reason="the extra `mat` is not installed")
        cells, names = np.empty((1, len(boxes)), object), np.empty((len(boxes), 1), object)
        for index, (name, own) in enumerate(boxes.items()):
            cells[0, index], names[index, 0] = own[:, [1, 0, 3, 2]] + [1, 1, 0, 0], name
        io.savemat(path, {"boxes": cells, "images": names})
    return path


@pytest.mark.parametrize("suffix", [".npz", ".pkl", ".mat"])
def test_every_format_gives_the_patches_of_each_image(suffix: str, small_world: Path, tmp_path: Path) -> None:
    boxes = boxes_of(small_world, "train")
    file = ProposalFile(write(tmp_path / f"boxes{suffix}", boxes))
    assert isinstance(file, PatchGenerator)
    prepared = prepare(read_tags(small_world, "train"), file)
    assert len(prepared.images) == 24
    for path, found in zip(prepared.images.paths, prepared.patches, strict=True):
        assert found.dtype == np.uint16
        assert found.tolist() == boxes[path.stem].tolist()


@pytest.fixture(scope="module")
def trained(small_world: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The run that was trained on a file of boxes, and the file."""
    folder = tmp_path_factory.mktemp("proposals")
    file = write(folder / "train.npz", boxes_of(small_world, "train"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("deep_patch_learning.patches.prepare.PatchCache", lambda *_: pytest.fail("makes patches"))
        dpl.train(small_world, folder / "run", split="train", patches="train.npz", **SETTINGS)
    return folder / "run", file


def test_the_run_remembers_the_file_and_resumes(small_world: Path, trained: tuple[Path, Path]) -> None:
    run, file = trained
    assert Recipe.load(run / "config.toml").data.patches == str(file.resolve())
    again = dpl.train(small_world, run, split="train", patches=str(file), **SETTINGS)
    assert (again.steps, again.finished) == (2, True)
    assert dpl.load(run, "cpu").patch_generator.boxes.keys() == boxes_of(small_world, "train").keys()


def test_boxes_come_from_the_file(small_world: Path, trained: tuple[Path, Path], tmp_path: Path) -> None:
    run, file = trained
    figures = dpl.evaluate(small_world, run, split="train", device="cpu")
    assert figures["images"] == 24
    boxes = boxes_of(small_world, "train")
    for path in read_tags(small_world, "train").paths[:3]:
        found = dpl.load(run, "cpu").predict(path)
        known = {tuple(box) for box in boxes[path.stem].tolist()}
        assert len(found.found_boxes)
        assert {tuple(map(int, box)) for box in found.found_boxes.tolist()} <= known
    counts = dpl.label(small_world, run, out=tmp_path / "labels", split="train", min_score=0.0, device="cpu")
    assert counts["images"] == 24
    assert dpl.patches(small_world, method=str(file), split="train")["boxes"] == 9


def test_an_image_that_the_file_lacks_is_named_with_the_fix(
    small_world: Path, trained: tuple[Path, Path], tmp_path: Path
) -> None:
    run, file = trained
    first = read_tags(small_world, "test").paths[0]
    missing = rf"train.npz: has no boxes for the image '.*{first.stem}.*'. Give a file .*--patches selective-search"
    with pytest.raises(SettingError, match=missing):
        dpl.train(small_world, tmp_path / "other", split="test", patches=str(file), **SETTINGS)
    assert not (tmp_path / "other").exists()
    with pytest.raises(SettingError, match=missing):
        dpl.evaluate(small_world, run, split="test", device="cpu")
    with pytest.raises(SettingError, match=missing):
        list(dpl.predict([first], run, device="cpu"))
    with pytest.raises(SettingError, match="came without one"):
        dpl.load(run, "cpu").predict(np.zeros((40, 50, 3), np.uint8))


def test_other_patches_take_the_place_of_the_runs(
    small_world: Path,
    trained: tuple[Path, Path],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, _ = trained
    test = read_tags(small_world, "test")
    others = write(tmp_path / "test.pkl", boxes_of(small_world, "test"))
    words = ["evaluate", str(small_world), "--model", str(run), "--split", "test", "--device", "cpu", "--json"]
    found = CliRunner().invoke(app, [*words, "--patches", str(others)])
    assert found.exit_code == 0
    assert json.loads(found.stdout.strip().splitlines()[-1])["images"] == 8
    monkeypatch.setattr("sys.argv", ["dpl", *words])
    with pytest.raises(SystemExit) as status:
        main()
    assert status.value.code == 2
    lines = [line for line in capfd.readouterr().err.splitlines() if "has no boxes" in line]
    assert len(lines) == 1
    searched = dpl.load(run, "cpu", patches="selective-search").predict(test.paths[0])
    assert len(searched.found_boxes)
    labels = dpl.label(small_world, run, out=tmp_path / "l", split="test", patches=others, min_score=0.0, device="cpu")
    assert labels["images"] == 8


def test_names_and_boxes_that_do_not_fit(small_world: Path, tmp_path: Path) -> None:
    images = read_tags(small_world, "train")
    with pytest.raises(DataError, match=r"there is no such proposal file"):
        in_full(str(tmp_path / "none.mat"))
    with pytest.raises(DataError, match=r"Did you mean 'edge-boxes'.* A proposal file ends in .mat, .pkl, .npz"):
        in_full("edge-boxs")
    boxes = boxes_of(small_world, "train")
    boxes[images.paths[2].stem] = np.array([[0, 0, 10, 10], [5, 5, 9000, 20]])
    with pytest.raises(DataError, match=r"box 1 of image .* is \[5, 5, 9000, 20\] \(half-open\), beyond its"):
        prepare(images, ProposalFile(write(tmp_path / "wide.npz", boxes)))
    np.savez(tmp_path / "objects.npz", a=np.array([object()], object))
    with pytest.raises(DataError, match=r"not a .npz of plain arrays"):
        prepare(images, ProposalFile(tmp_path / "objects.npz"))


def test_broken_images_are_left_out(small_world: Path, tmp_path: Path) -> None:
    images = read_tags(small_world, "train").subset(range(3))
    broken = tmp_path / images.paths[1].name
    broken.write_bytes(b"no image")
    paths = (images.paths[0], broken, images.paths[2])
    with_broken = type(images)(images.classes, images.names, paths, images.labels)
    found: Prepared = prepare(with_broken, ProposalFile(write(tmp_path / "b.npz", boxes_of(small_world, "train"))))
    assert found.images.paths == (paths[0], paths[2])
    assert [path for path, _ in found.broken] == [broken]
    assert len(found.patches) == 2
