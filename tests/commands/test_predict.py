"""`dpl.predict`: a stream of predictions, in order, that says which files are broken."""

from pathlib import Path

import pytest

from deep_patch_learning.commands.predict import predict
from deep_patch_learning.common.errors import DataError


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


def test_the_shipped_model_is_the_default(folder: Path) -> None:
    (one,) = predict(str(folder / "a.jpg"), threshold=0.0)
    assert "sofa" in one.classes
    assert len(one.tags) == 20
