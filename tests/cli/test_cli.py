"""The command line: exit status, one-line fixes, JSON as the last line, and the whole way on a small world."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torchvision.ops import box_iou

import deep_patch_learning
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.truth import read_truth
from deep_patch_learning.evaluation.classification import classification_report
from deep_patch_learning.evaluation.discovery import corloc
from deep_patch_learning.patches import generator
from deep_patch_learning.patches.cache import PatchCache
from deep_patch_learning.recipe.build import recipe_patches
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.runs.folder import RunFolder

DPL = [sys.executable, "-m", "deep_patch_learning"]


def dpl(*arguments: object, expect: int = 0) -> subprocess.CompletedProcess:
    found = subprocess.run([*DPL, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert found.returncode == expect, found.stderr
    return found


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("tarin", "x"), "Did you mean 'train'"),
        (("train", "nowhere.csv", "--out", "r"), "nowhere.csv: there is no such file"),
        (("evaluate", "nowhere.csv", "--model", "r"), "r: there is no such run"),
        (("predict", "nowhere.jpg", "--model", "RUN"), "nowhere.jpg: there is no such image"),
        (("train", "WORLD", "--out", "r", "--split", "tset"), "Did you mean 'test'"),
        (("train", "WORLD", "--out", "r", "--recipe", "papr"), "Did you mean 'paper'"),
        (("train", "WORLD", "--out", "r", "--backbone", "vgg61"), "Did you mean 'vgg16'"),
        (("train", "WORLD", "--out", "r", "--set", "stpes=4"), "Did you mean 'steps'"),
        (("patches", "WORLD", "--method", "selectiv-search"), "Did you mean 'selective-search'"),
        (("evaluate", "WORLD", "--model", "RUN", "--scales", "big"), "wanted whole numbers"),
        (("report", "WORLD"), "no such run"),
        (("train", "WORLD", "--out", "r", "--device", "cdua"), "Did you mean 'cuda'"),
        (("train", "WORLD", "--out", "r", "--weights", "no.pth"), "no.pth: there is no such weight file"),
        (("evaluate", "WORLD", "--model", "RUN", "--scales", "0"), "none may be below 16"),
        (("demo", "--out", "WORLD"), "is a file"),
        (("demo", "--recipe", "paper"), "refined-world"),
        (("train", "WORLD", "--out", "r", "--val-split", "tset"), "Did you mean 'test'"),
        (
            ("train", "WORLD", "--out", "r", "--split", "test", "--val-split", "test"),
            "8 of its 8 images are in --split",
        ),
        (("train", "WORLD", "--out", "r", "--val-split", "test", "--val-share", "0.1"), "Give one of them"),
        (("train", "WORLD", "--out", "r", "--recipe", "paper"), "none come with caffenet. Give them with --weights"),
        (("calibrate", "r", "WORLD"), "there is no such run"),
    ],
)
def test_bad_input_is_one_line_with_the_fix(
    arguments: tuple[str, ...], words: str, small_world: Path, small_run: Path, tmp_path: Path
) -> None:
    places = {"WORLD": small_world, "RUN": small_run, "r": tmp_path / "r"}
    found = dpl(*(places.get(word, word) for word in arguments), expect=2)
    said = " ".join(found.stderr.replace("│", " ").split())
    assert words in said.replace(str(tmp_path) + "/", "").replace("  ", " ") or words in said
    assert "Traceback" not in found.stderr
    assert not (tmp_path / "r").exists()


def test_help_shows_examples_and_every_command_in_the_order_of_use() -> None:
    assert "dpl train photos.csv --out runs/photos" in dpl("train", "--help").stdout
    listed = [line.split()[1] for line in dpl("--help").stdout.splitlines() if line.startswith("│ ") and line[2] != " "]
    commands = [
        "demo",
        "check",
        "train",
        "calibrate",
        "predict",
        "label",
        "review",
        "evaluate",
        "report",
        "patches",
        "info",
        "export",
        "backend",
    ]
    assert [word for word in listed if not word.startswith("-")] == [*commands, "distil", "compare", "reproduce"]


def last_json(found: subprocess.CompletedProcess) -> dict:
    return json.loads(found.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def trained_once(small_world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("cli") / "run"
    found = dpl("train", small_world, "--split", "train", "--out", out, "--recipe", "world", "--steps", 3, "--json")
    log = RunFolder(out).read_log()
    assert last_json(found) == {"run": str(out), "steps": 3, "broken": 0, "loss": log[-1]["loss"]}
    return out


@pytest.fixture
def trained(trained_once: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of its own for each test, which may then change it."""
    return Path(shutil.copytree(trained_once, tmp_path_factory.mktemp("trained") / "run"))


def test_the_same_command_again_has_nothing_left_to_do(trained: Path, small_world: Path) -> None:
    before = (trained / "weights.safetensors").read_bytes()
    found = dpl("train", small_world, "--split", "train", "--out", trained, "--recipe", "world", "--steps", 3)
    assert "resumed at step 3 of 3" in " ".join(found.stderr.split())
    assert (trained / "weights.safetensors").read_bytes() == before


def test_steps_follow_from_the_images_unless_they_are_given(tmp_path: Path) -> None:
    listing = tmp_path / "photos.csv"
    listing.write_text("image,tags\n" + "".join(f"{number}.jpg,dog\n" for number in range(900)))
    for number in range(900):
        (tmp_path / f"{number}.jpg").write_text("no image")
    found = dpl("train", listing, "--out", tmp_path / "run", expect=2)
    said = " ".join(found.stderr.split())
    assert "900 images: 600 steps of 8 images, 5.3 samples of each; --steps changes it" in said
    assert "none of the images can be read" in said
    given = dpl("train", listing, "--out", tmp_path / "run", "--steps", 50, expect=2)
    assert "samples of each" not in given.stderr


def test_a_run_of_default_length_keeps_its_steps(small_world: Path, tmp_path: Path) -> None:
    small = ("--backbone", "tiny", "--scales", 64, "--limit", 4, "--device", "cpu")
    dpl("train", small_world, "--out", tmp_path / "run", *small, "--steps", 1)
    again = dpl("train", small_world, "--out", tmp_path / "run", *small)
    assert "resumed at step 1 of 1" in " ".join(again.stderr.split())


def test_held_out_images_choose_the_weights_and_calibrate(small_world: Path, tmp_path: Path) -> None:
    run, image = tmp_path / "run", small_world.parent / "images" / "500000.jpg"
    command = ("train", small_world, "--val-split", "test", "--recipe", "world", "--steps", 8, "--out", run, "--json")
    first = dpl(*command)
    figures = json.loads(first.stdout.splitlines()[-1])
    measured = {row["step"]: row["mAP"] for row in json.loads((run / "held_out.json").read_text())["measurements"]}
    assert figures["held_out_mAP"] == measured[figures["kept_step"]]
    assert f"kept the weights of step {figures['kept_step']}" in " ".join(first.stderr.split())
    stored = (run / "calibration.json").read_bytes()
    assert json.loads(dpl(*command).stdout.splitlines()[-1]) == figures
    assert (run / "calibration.json").read_bytes() == stored

    fitted = json.loads(dpl("calibrate", run, small_world, "--split", "test", "--json").stdout.splitlines()[-1])
    assert fitted == figures["calibration"]
    thresholds = [row["threshold"] for row in fitted["classes"].values()]
    for options, expected in (((), thresholds), (("--threshold", 0.25), 0.25)):
        shown = dpl("predict", image, "--model", run, "--out", tmp_path / "found", "--json", *options)
        raw = json.loads(shown.stdout.splitlines()[-1])["predictions"][0]["raw"]
        assert raw["threshold"] == expected
        assert len(raw["calibration"]) == len(thresholds)


def test_a_share_of_the_images_is_held_out(small_world: Path, tmp_path: Path) -> None:
    command = ("train", small_world, "--val-share", 0.25, "--recipe", "world", "--steps", 2, "--out", tmp_path / "run")
    found = dpl(*command, "--json")
    held_out = json.loads(found.stdout.splitlines()[-1])["calibration"]["images"]
    assert f"trained 2 steps on {32 - held_out} images" in " ".join(found.stderr.split())
    other = dpl(*command, "--seed", 1, expect=2)
    assert "seed was 0, now 1" in " ".join(other.stderr.split())


def test_evaluate(trained: Path, small_world: Path) -> None:
    found = dpl("evaluate", small_world, "--split", "test", "--model", trained, "--json", "--device", "cpu")
    figures = last_json(found)
    images = read_tags(small_world, "test")
    one_by_one = [deep_patch_learning.load(trained, "cpu").predict(path) for path in images.paths]
    scores = np.stack([prediction.image_scores for prediction in one_by_one])
    expected = classification_report(scores, images.labels, images.classes).as_dict()
    assert figures["images"] == 8
    assert figures["AP"] == pytest.approx(expected["AP"], nan_ok=True)
    assert (figures["mAP"], figures["mAP_11pt"]) == pytest.approx((expected["mAP"], expected["mAP_11pt"]))
    truth = read_truth(small_world, images)
    assert truth is not None
    best = np.stack([prediction.best_boxes for prediction in one_by_one])
    assert figures["CorLoc"] == pytest.approx(corloc(best, truth, images.classes).as_dict()["CorLoc"])
    assert figures["detection_mAP"] == pytest.approx(
        np.mean([value for value in figures["detection_AP"].values() if value is not None])
    )
    row = next(line for line in found.stdout.splitlines() if "tractor" in line)
    assert f"{figures['AP']['tractor']:.1f}" in row


def test_predict(trained: Path, small_world: Path, tmp_path: Path) -> None:
    images = tmp_path / "images"
    images.mkdir()
    for number in (500_000, 500_001):
        source = small_world.parent / "images" / f"{number}.jpg"
        (images / source.name).write_bytes(source.read_bytes())
    (images / "broken.jpg").write_text("no image")
    found = dpl("predict", images, "--model", trained, "--out", tmp_path / "found", "--threshold", 0, "--json")
    last = json.loads(found.stdout.splitlines()[-1])
    assert [one["name"] for one in last["predictions"]] == ["500000.jpg", "500001.jpg"]
    assert last["broken"] == [str(images / "broken.jpg")]
    assert "broken.jpg" in found.stderr.replace("\n", "")
    written = sorted(path.name for path in (tmp_path / "found").iterdir())
    assert written == ["500000.json", "500000.png", "500001.json", "500001.png"]


def test_predict_never_writes_over_a_users_image(trained: Path, small_world: Path, tmp_path: Path) -> None:
    from PIL import Image

    image = tmp_path / "mine.png"
    Image.open(small_world.parent / "images" / "500000.jpg").save(image)
    before = image.read_bytes()
    found = dpl("predict", tmp_path, "--model", trained, "--out", tmp_path, expect=2)
    assert "would be written over" in " ".join(found.stderr.split())
    assert image.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["mine.png"]


def test_class_names_are_shown_as_they_are(tmp_path: Path, small_world: Path, capsys) -> None:
    from deep_patch_learning.commands.evaluate import show

    names = ["[red]", "a [b]", "[/x]"]
    show({"images": 1, "mAP": 1.0, "AP": dict.fromkeys(names, 1.0)}, "data")
    said = capsys.readouterr().out
    assert all(name in said for name in names)


def test_patches_of_a_proposal_file(small_world: Path, tmp_path: Path) -> None:
    import pickle

    names = [json.loads(line)["image"] for line in small_world.read_text().splitlines()][:3]
    boxes = [np.array([[0, 0, 159, 127], [0, 0, 79, 63]], np.float32) for _ in names]
    (tmp_path / "p.pkl").write_bytes(pickle.dumps({"boxes": boxes, "indexes": names}))
    found = dpl("patches", small_world, "--limit", 3, "--method", tmp_path / "p.pkl", "--json")
    assert json.loads(found.stdout.splitlines()[-1])["boxes"] == 2


def test_report(trained: Path, small_world: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    dpl("report", trained, "--data", small_world, "--split", "test", "--out", page)
    text = page.read_text()
    assert "CorLoc" in text
    assert "http://" not in text.replace("http://www.w3.org", "")
    dpl("report", trained, "--data", small_world, "--split", "test", "--out", page)  # its own page is replaced
    mine = tmp_path / "tags.csv"
    mine.write_text("image,tags\n")
    link = tmp_path / "link.html"
    link.symlink_to(page)
    for place in (mine, link):
        failed = dpl("report", trained, "--out", place, expect=2)
        assert "is no report that dpl wrote" in " ".join(failed.stderr.split())
    assert (mine.read_text(), page.read_text()) == ("image,tags\n", text)


def test_a_self_training_round_learns_from_the_boxes_of_a_run(trained: Path, small_world: Path, tmp_path: Path) -> None:
    words = ("train", small_world, "--split", "train", "--steps", 2, "--out", tmp_path / "second")
    dpl(*words, "--recipe", "refined-world", "--pseudo-boxes-from", trained)
    assert "boxes" in RunFolder(tmp_path / "second").read_log()[-1]
    assert RunFolder(tmp_path / "second").describe()["boxes_from"] == [str(trained.resolve())]
    for changed, word in (
        (("--recipe", "world", "--pseudo-boxes-from", trained), "--recipe refined"),
        (("--recipe", "refined-world", "--pseudo-boxes-from", tmp_path / "none"), "no such run"),
        (("--recipe", "refined-world", "--set", "seeds=given"), "boxes-from RUN"),
    ):
        failed = dpl(*words[:-1], tmp_path / "third", *changed, expect=2)
        assert word in " ".join(failed.stderr.split())
        assert not (tmp_path / "third").exists()


@pytest.mark.parametrize("source", ["recipe", "model"])
def test_patches_made_before_are_found_by_a_training_and_by_a_run(
    trained: Path, small_world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    monkeypatch.setenv("DPL_CACHE", str(tmp_path / "cache"))
    made = {"recipe": Recipe.of("world"), "model": Recipe.load(RunFolder(trained).config)}[source]
    paths = read_tags(small_world).paths[:5]
    asked = ("--recipe", "world") if source == "recipe" else ("--model", trained)
    figures = last_json(dpl("patches", small_world, *asked, "--limit", 5, "--json"))
    report = PatchCache(None, recipe_patches(made)).fill(paths)
    assert (report.made, report.found) == (0, 5)
    alone = last_json(dpl("patches", small_world, "--limit", 5, "--json"))
    assert alone["boxes"] != figures["boxes"]  # `dpl patches` alone makes others, to measure recall


def test_patches_of_two_sources_are_refused(trained: Path, small_world: Path, tmp_path: Path) -> None:
    for words in (
        ("--recipe", "fast", "--model", trained),
        ("--recipe", "fast", "--method", "edge-boxes"),
        ("--model", trained, "--mode", "quality"),
    ):
        assert "Give one of them" in " ".join(dpl("patches", small_world, *words, expect=2).stderr.split())
    assert "no such run" in dpl("patches", small_world, "--model", tmp_path / "none", expect=2).stderr


def test_patches(small_world: Path) -> None:
    found = dpl("patches", small_world, "--method", "sliding-window", "--limit", 5, "--json")
    figures = last_json(found)
    images = read_tags(small_world).subset(range(5))
    truth = read_truth(small_world, images)
    assert truth is not None
    best = []
    patches = [generator("sliding-window")(images.read(index)) for index in range(5)]
    for own, one in zip(patches, truth, strict=True):
        ious = box_iou(torch.as_tensor(one.boxes[~one.difficult]).float(), torch.as_tensor(own).float())
        best += ious.max(dim=1).values.tolist()
    assert figures["boxes"] == pytest.approx(np.mean([len(own) for own in patches]))
    assert figures["mean_best_overlap"] == pytest.approx(np.mean(best), abs=1e-4)
    assert figures["recall_50"] == pytest.approx(np.mean(np.array(best) >= 0.5), abs=1e-4)
    assert figures["recall_70"] == pytest.approx(np.mean(np.array(best) >= 0.7), abs=1e-4)
    assert figures["seconds_per_image"] > 0
    row = next(line for line in found.stdout.splitlines() if line.startswith("│") and " all " in line)
    assert row.replace("│", " ").split() == [
        "all",
        *(f"{figures[key]:.3f}" for key in ("recall_50", "recall_70", "mean_best_overlap")),
    ]
