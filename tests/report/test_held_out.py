"""Whether images were trained on: found out from the run, shown first, and avoided where the data allows it."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from deep_patch_learning.commands.report import report as report_on_run
from deep_patch_learning.commands.report import spread_evenly
from deep_patch_learning.common.errors import RunError
from deep_patch_learning.data.holdout import drawn_singly, drawn_together, read_apart
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.report.build import RunImages, held_out_split, images_of_run, notice
from deep_patch_learning.runs.folder import RunFolder
from deep_patch_learning.training.fit import train_prepared


@pytest.fixture
def photos(tmp_path):
    """A CSV of 12 images, four of each of the splits train, test and val."""
    rows = []
    for number in range(12):
        Image.fromarray(np.full((40, 50, 3), 20 * number, np.uint8)).save(tmp_path / f"{number}.png")
        rows.append((f"{number}.png", "cat" if number % 2 else "dog", ("train", "test", "val")[number % 3]))
    with (tmp_path / "photos.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("image", "tags", "split"), *rows])
    return tmp_path / "photos.csv"


def test_a_validation_split_is_preferred_and_none_that_shares_images(photos):
    assert held_out_split(photos, read_tags(photos, "train")) == "val"
    assert held_out_split(photos, read_tags(photos, "val")) == "test"
    assert held_out_split(photos, read_tags(photos)) is None


@pytest.mark.parametrize(
    ("split", "words", "kind"),
    [
        ("val", "None of these images", "good"),
        ("train", "All images here", "careful"),
        (None, "4 of the 12", "careful"),
    ],
)
def test_what_is_shown_first(photos, split, words, kind):
    shown = notice(RunImages(read_tags(photos, "train"), None), read_tags(photos, split))
    assert shown.text.startswith(words)
    assert shown.kind == kind


def test_not_known_is_shown_as_such(photos):
    assert "not known" in notice(None, read_tags(photos)).text


def test_the_images_of_a_run_are_those_it_was_trained_on(photos, small_recipe, tmp_path):
    run = RunFolder(tmp_path / "run")
    trained, held_out = read_apart(photos, None, None, 0.25, small_recipe.machine.seed)
    source = {"path": str(photos), "split": None, "limit": None, "val_split": None, "val_share": 0.25}
    run.begin(small_recipe, trained, source)
    seen = images_of_run(run)
    assert seen.trained.names == trained.names
    assert seen.held_out.names == held_out.names
    photos.rename(tmp_path / "elsewhere.csv")
    assert images_of_run(run) is None
    assert images_of_run(RunFolder(tmp_path)) is None


def test_a_run_keeps_what_it_held_out(photos, small_recipe, tmp_path):
    run = RunFolder(tmp_path / "run")
    assert run.drawing(0.25) is drawn_together
    trained, held_out = read_apart(photos, None, None, 0.25, seed=7)  # not what the recipe's seed would draw
    source = {"path": str(photos), "split": None, "limit": None, "val_split": None, "val_share": 0.25}
    run.begin(small_recipe, trained, source, held_out)
    assert read_apart(photos, None, None, 0.25, draw=run.drawing(0.25))[1].names == held_out.names
    assert images_of_run(run).held_out.names == held_out.names
    assert read_apart(photos, None, None, 0.25)[1].names != held_out.names
    assert run.drawing(0.5) is drawn_together  # another share is another holdout, which the run refuses
    run.held_out_images.unlink()
    assert run.drawing(0.25) is drawn_singly  # as earlier versions, which kept no list, drew them
    run.held_out_images.write_text("[")
    with pytest.raises(RunError, match=r"held_out_images\.json: is damaged"):
        run.drawing(0.25)


def test_the_first_of_several_trainings_says_what_is_held_out(photos, small_recipe, tmp_path):
    trained, held_out = read_apart(photos, None, None, 0.25, seed=7)
    source = {"path": str(photos), "split": None, "limit": None, "val_split": None, "val_share": 0.25}
    RunFolder(tmp_path / "run" / "stages" / "first").begin(small_recipe, trained, source, held_out)
    draw = RunFolder(tmp_path / "run").drawing(0.25)
    assert read_apart(photos, None, None, 0.25, draw=draw)[1].names == held_out.names


def test_few_images_are_spread_over_all():
    images = read_like(10)
    assert spread_evenly(images, 4).names == ("0", "2", "5", "7")
    assert spread_evenly(images, 10) is spread_evenly(images, None) is images


def read_like(count):
    from deep_patch_learning.data.dataset import TaggedImages

    names = tuple(map(str, range(count)))
    return TaggedImages(("a",), names, tuple(map(Path, names)), np.ones((count, 1), np.int8))


@pytest.fixture
def trained(small_world, small_prepared, small_recipe, tmp_path):
    """A run that knows that it was trained on the split train of the small world."""
    folder = tmp_path / "run"
    train_prepared(small_prepared, small_recipe, folder, {"path": str(small_world), "split": "train"}, device="cpu")
    return folder


def test_a_run_is_measured_on_what_was_held_out(trained, tmp_path):
    page = report_on_run(trained, out=tmp_path / "page.html", limit=6, device="cpu").read_text()
    assert "None of these images was trained on" in page
    assert "6 images of the split “world.jsonl test”" in page
    titles = re.findall("<h2>(.*?)</h2>", page)
    assert {"Can I trust it?", "Class by class", "Tags to check", "Best and worst images"} <= set(titles)
    page = report_on_run(trained, split="train", out=tmp_path / "page.html", limit=6, device="cpu").read_text()
    assert "All images here were trained on" in page


def test_a_run_that_does_not_say_where_its_images_are(small_run):
    with pytest.raises(RunError, match="Give images with --data"):
        report_on_run(small_run, device="cpu")
