"""All peers in one run: a row each, skipped when repeated, and nothing written over."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from deep_patch_learning.common.errors import RunError, SettingError
from deep_patch_learning.data.truth import read_truth
from deep_patch_learning.evaluation.discovery import corloc
from deep_patch_learning.patches.prepare import Prepared
from deep_patch_learning.recipe.presets import world
from deep_patch_learning.recipe.recipe import RENAMED, Recipe
from deep_patch_learning.research.compare import (
    COLUMNS,
    Comparison,
    Options,
    check_settings,
    compare_peers,
    read_rows,
    rows_to_csv,
)
from deep_patch_learning.research.peers.catalogue import PEERS, chosen_peers, svm
from deep_patch_learning.research.peers.contest import Contest, first_patches
from deep_patch_learning.research.peers.svm import whole_image_boxes
from deep_patch_learning.runs.folder import training_time

COMMAND = [sys.executable, "-m", "deep_patch_learning", "compare"]
SETTINGS = [
    "batch_images=2",
    "images_per_micro_batch=2",
    "patches_per_sample=8",
    "scales=64,80",
    "patches=sliding-window",
]


def options(out: Path) -> list[str]:
    changes = [word for setting in SETTINGS for word in ("--set", setting)]
    numbers = ["--steps", "2", "--limit", "4", "--hypotheses", "5"]
    return [
        "--test-split",
        "test",
        "--recipe",
        "world",
        *numbers,
        *changes,
        "--device",
        "cpu",
        "--json",
        "--out",
        str(out),
    ]


@pytest.fixture(scope="module")
def compared(small_world: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    out = tmp_path_factory.mktemp("compare") / "out"
    found = subprocess.run([*COMMAND, str(small_world), *options(out)], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    return out, json.loads(found.stdout.splitlines()[-1])


def the_recipe() -> Recipe:
    changed = {"batch_images": 2, "images_per_micro_batch": 2, "patches_per_sample": 8, "scales": (64, 80)}
    return world(steps=2).replace(patches="sliding-window", **changed)


def test_every_peer_has_its_row(compared: tuple[Path, dict]) -> None:
    out, last = compared
    rows = {row["peer"]: row for row in last["rows"]}
    assert list(rows) == list(PEERS)
    assert last["csv"] == str(out / "compare.csv")
    with (out / "compare.csv").open() as file:
        assert tuple(csv.DictReader(file).fieldnames or ()) == COLUMNS
    assert read_rows(out / "compare.csv") == last["rows"]
    boxes = {"dpl", "discovery", "hcp", "whole-image", "fast-rcnn"}
    for name, row in rows.items():
        assert (row["CorLoc"] is not None) == (name in boxes), name
        assert (row["mAP"] is None) == (name == "whole-image"), name
        trained = name not in ("whole-image", "svm")
        assert row["samples"] == (4 if trained else {"svm": 8, "whole-image": 0}[name])
        if name != "whole-image":
            assert row["train_samples_per_second"] > 0
            assert row["test_images_per_second"] > 0
            assert (out / f"{name}-seed0" / "weights.safetensors").exists()
        assert row["command"].startswith("dpl compare")
    assert rows["hcp"]["scales"] == "80"
    assert rows["dpl"]["scales"] == "64 80"
    assert rows["hcp"]["patches"] == 5
    assert rows["plain"]["patches"] == 0


def test_what_is_finished_is_skipped_and_the_rest_is_done(compared: tuple[Path, dict], small_world: Path) -> None:
    out, last = compared
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()}
    again = (small_world, "train", "test", the_recipe(), ("dpl", "plain"), out)
    rows = compare_peers(Comparison(*again, device="cpu", limit=4, hypotheses=5))
    assert rows == [row for row in last["rows"] if row["peer"] in ("dpl", "plain")]
    assert before == {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()}
    kept = [row for row in last["rows"] if row["peer"] != "plain"]  # as if the run had been stopped before plain's row
    (out / "compare.csv").write_text(rows_to_csv(kept))
    rows = compare_peers(Comparison(*again, device="cpu", limit=4, hypotheses=5))
    assert [row["peer"] for row in rows] == ["dpl", "plain"]
    figures = ("mAP", "mAP_11pt", "samples")
    assert [rows[1][key] for key in figures] == [
        row[key] for row in last["rows"] if row["peer"] == "plain" for key in figures
    ]


def test_other_settings_and_other_files_are_refused(
    compared: tuple[Path, dict], small_world: Path, tmp_path: Path
) -> None:
    out, _ = compared
    other = the_recipe().replace(steps=3)
    with pytest.raises(RunError, match=r"steps was 2, now 3.*new folder with --out"):
        compare_peers(Comparison(small_world, "train", "test", other, ("dpl",), out, limit=4, hypotheses=5))
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(RunError, match="holds other files and no comparison"):
        compare_peers(Comparison(small_world, "train", "test", the_recipe(), ("dpl",), tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_misspelt_peer_gets_a_hint(small_world: Path, tmp_path: Path) -> None:
    command = [*COMMAND, str(small_world), "--peers", "dpl,fast-rccn", "--out", str(tmp_path / "out")]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert found.stderr.strip() == "dpl: there is no peer 'fast-rccn'. Did you mean 'fast-rcnn'?"
    assert not (tmp_path / "out").exists()
    with pytest.raises(SettingError, match="no peer is named"):
        chosen_peers(" , ")
    assert chosen_peers("hcp, dpl,hcp") == ("hcp", "dpl")


def test_without_boxes_two_peers_are_left_out_and_said_so(
    small_prepared: Prepared, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    few = Prepared(small_prepared.images.subset(range(3)), small_prepared.patches[:3], [])
    table = tmp_path / "tags.csv"
    table.write_text("image,tags\n" + "".join(f"{path},{few.images.classes[0]}\n" for path in few.images.paths))
    contest = Contest(table, few, few, None, device="cpu")
    for name in ("whole-image", "fast-rcnn"):
        assert PEERS[name](contest, the_recipe(), tmp_path / name) is None
        assert f"{name} is skipped" in capsys.readouterr().err


def test_svm_is_the_same_for_the_same_seed(small_prepared: Prepared, tmp_path: Path) -> None:
    few = first_patches(Prepared(small_prepared.images.subset(range(6)), small_prepared.patches[:6], []), count=1)
    contest = Contest(tmp_path, few, few, None, device="cpu")
    first, second = (svm(contest, the_recipe(), tmp_path / name) for name in ("one", "two"))
    assert first.figures == second.figures
    assert first.samples == 12


def test_whole_images_are_the_boxes(small_world: Path, small_prepared: Prepared, tmp_path: Path) -> None:
    turned = Image.new("RGB", (40, 30))
    exif = turned.getexif()
    exif[0x0112] = 6  # lies on its side
    turned.save(tmp_path / "turned.jpg", exif=exif)
    Image.new("RGB", (40, 30)).save(tmp_path / "plain.png")
    boxes = whole_image_boxes([tmp_path / "turned.jpg", tmp_path / "plain.png"], 2)
    assert boxes.tolist() == [[[0, 0, 30, 40]] * 2, [[0, 0, 40, 30]] * 2]
    images = small_prepared.images
    truth = read_truth(small_world, images)
    assert truth is not None
    height, width = images.read(0).shape[:2]
    by_hand = np.broadcast_to(np.array([0, 0, width, height]), (len(images), len(images.classes), 4))
    found = corloc(whole_image_boxes(images.paths, len(images.classes)), truth, images.classes)
    assert found.as_dict() == corloc(by_hand, truth, images.classes).as_dict()


def test_rates_leave_out_the_start_and_breaks() -> None:
    def samples_per_second(log: list[dict]) -> float | None:
        return training_time(log).samples_per_second

    assert samples_per_second([]) is None
    assert samples_per_second([{"samples": 80, "seconds": 20.0}]) == 4
    steady = [{"samples": 80, "seconds": 20.0}, {"samples": 160, "seconds": 24.0}]
    assert samples_per_second(steady) == 20
    resumed = [*steady, {"samples": 240, "seconds": 9.0}, {"samples": 320, "seconds": 13.0}]
    assert samples_per_second(resumed) == 20


def test_a_comparison_of_an_earlier_version_is_read(compared: tuple[Path, dict], tmp_path: Path) -> None:
    out, _ = compared
    text = (out / "compare.csv").read_text(encoding="utf-8")
    header, rows = text.split("\n", 1)
    (tmp_path / "compare.csv").write_text(header.replace("samples", "visits") + "\n" + rows, encoding="utf-8")
    assert read_rows(tmp_path / "compare.csv") == read_rows(out / "compare.csv") != []
    settings = json.loads((out / "settings.json").read_text(encoding="utf-8"))
    old = {new: name for name, new in RENAMED.items()}
    (tmp_path / "settings.json").write_text(json.dumps({old.get(key, key): value for key, value in settings.items()}))
    assert "picking" in (tmp_path / "settings.json").read_text()
    check_settings(tmp_path, settings)


def test_the_command_in_the_rows_has_the_options_that_were_given() -> None:
    given = Options(Path("/data/VOC2007"), test_split="test", weights="/w/net.pth", steps=5, changes=("scales=64",))
    assert given.command() == "dpl compare VOC2007 --test-split test --weights net.pth --steps 5 --set scales=64"
