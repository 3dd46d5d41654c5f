"""`dpl.predict`: a stream of predictions, in order, that says which files are broken."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deep_patch_learning.commands.predict import Outputs, predict
from deep_patch_learning.common.errors import DataError
from deep_patch_learning.inference.prediction import Prediction


@pytest.fixture
def folder(small_world: Path, tmp_path: Path) -> Path:
    """Two images, and between them a file that is none."""
    place = tmp_path / "images"
    place.mkdir()
    for name, number in (("a.jpg", 500_000), ("c.jpg", 500_001)):
        (place / name).write_bytes((small_world.parent / "images" / f"{number}.jpg").read_bytes())
    (place / "b.jpg").write_text("no image")
    return place


def test_a_folder_is_predicted_as_its_files_are(folder: Path, small_run: Path, tmp_path: Path) -> None:
    from deep_patch_learning.inference.loading import load

    model = load(small_run, "cpu")
    found = predict(folder, model, out=tmp_path / "found")
    predictions = list(found)
    assert [one.name for one in predictions] == ["a.jpg", "c.jpg"]
    assert [path for path, _ in found.broken] == [folder / "b.jpg"]
    assert found.count == 3
    for one in predictions:
        assert one.source == folder / one.name
        alone = model.predict(folder / one.name)  # the sums of another number of threads differ in the last digits
        assert one.image_scores == pytest.approx(alone.image_scores, abs=1e-5)
    written = sorted(path.name for path in (tmp_path / "found").iterdir())
    assert written == ["a.json", "a.png", "c.json", "c.png"]


def test_each_prediction_is_written_when_it_is_ready(folder: Path, small_run: Path, tmp_path: Path) -> None:
    found = predict([folder / "a.jpg", folder / "c.jpg"], small_run, out=tmp_path / "out", draw=False, device="cpu")
    assert list((tmp_path / "out").iterdir()) == []
    next(found)
    assert (tmp_path / "out" / "a.json").exists()
    assert len(list(found)) == 1


def test_nothing_but_broken_files_is_an_error(folder: Path, small_run: Path) -> None:
    with pytest.raises(DataError, match="none of the 1 images could be read"):
        list(predict(folder / "b.jpg", small_run, device="cpu"))


def test_no_file_gives_no_prediction(small_run: Path) -> None:
    assert list(predict([], small_run, device="cpu")) == []


def test_the_shipped_model_is_the_default(folder: Path) -> None:
    (one,) = predict(str(folder / "a.jpg"), threshold=0.0)
    assert "sofa" in one.classes
    assert len(one.tags) == 20


@pytest.mark.parametrize(
    ("names", "stems"),
    [
        (("a.jpg", "a.png", "a_2.jpg"), ["a", "a_3", "a_2"]),
        (("a_2.jpg", "a.jpg", "b/a.png", "c/a.jpg"), ["a_2", "a", "a_3", "a_4"]),
        (("A.jpg", "a.png"), ["A", "a_2"]),
        (("x" * 245 + ".jpg", "x" * 244 + "y.jpg"), ["x" * 200 + "-becad1fd", "x" * 200 + "-4f953aac"]),
    ],
)
def test_every_image_has_outputs_of_its_own(names: tuple[str, ...], stems: list[str], tmp_path: Path) -> None:
    assert Outputs(tmp_path, [Path(name) for name in names], draw=True).stems == stems


def test_what_was_not_written_here_is_never_changed(folder: Path, small_run: Path, tmp_path: Path) -> None:
    image, out = folder / "a.jpg", tmp_path / "out"

    def again() -> list[Prediction]:
        return list(predict(image, small_run, out=out, device="cpu"))

    again()
    again()  # its own files are replaced
    for name, content in (("a.json", b'{"format": "mine"}'), ("a.png", image.read_bytes())):
        (out / name).write_bytes(content)
        with pytest.raises(DataError, match=rf"{name}: is there and was not written by dpl predict"):
            again()
        assert (out / name).read_bytes() == content
        (out / name).unlink()
        (tmp_path / "mine").write_text("mine")
        (out / name).symlink_to(tmp_path / "mine")
        with pytest.raises(DataError, match=f"{name}: is there"):
            again()
        assert (tmp_path / "mine").read_text() == "mine"
        (out / name).unlink()


def test_odd_names_end_nothing_and_reach_no_terminal(folder: Path, small_run: Path, tmp_path: Path) -> None:
    """Names that are not UTF-8, that are very long, or that a terminal would obey, in a terminal that knows ASCII alone."""
    photo, odd = folder / "a.jpg", tmp_path / "odd"
    odd.mkdir()
    names = [b"\xff.jpg", b"x" * 245 + b".jpg", b"\x1b]0;title\x07\x1b[2J.jpg", b"two\nlines.jpg", "ü.jpg".encode()]
    for name in names:
        shutil.copyfile(photo, os.path.join(os.fsencode(odd), name))  # noqa: PTH118
    (odd / "\x1b[31mbroken.jpg").write_text("no image")
    command = [
        sys.executable,
        "-m",
        "deep_patch_learning",
        "predict",
        odd,
        "--model",
        small_run,
        "--out",
        tmp_path / "o",
    ]
    done = subprocess.run(
        [*command, "--device", "cpu", "--no-draw"],
        env={**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "10"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not set(done.stdout + done.stderr) & {0x1B, 0x07}
    assert b"5 images in" in done.stdout
    assert len(done.stdout.splitlines()) == 6
    saved = [Prediction.load(file) for file in (tmp_path / "o").iterdir()]
    assert {os.fsencode(one.source.name) for one in saved} == set(names)


def test_a_link_that_leads_to_itself_is_no_prediction(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "found"
    out.mkdir()
    (out / "a.json").symlink_to("a.json")
    with pytest.raises(DataError, match=r"a\.json: is there and was not written by dpl predict"):
        Outputs(out, [folder / "a.jpg"], draw=False)
