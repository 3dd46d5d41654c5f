"""`dpl reproduce` from end to end on a miniature VOC: every table, once, on the right images."""

import csv
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from deep_patch_learning.cli.app import app
from deep_patch_learning.common.errors import DplError
from deep_patch_learning.research.reproduce import results as rows
from deep_patch_learning.research.reproduce.plan import TABLES

from .conftest import make_voc

Arguments = Callable[..., list[str]]


def run(arguments: list[str]) -> Result:
    return CliRunner().invoke(app, arguments)


def answer(arguments: list[str]) -> dict:
    found = run(arguments)
    if found.exception is not None:
        raise found.exception
    return json.loads(found.stdout.splitlines()[-1])


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def made(mini_voc: Path, arguments: Arguments, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result, dict]:
    out = tmp_path_factory.mktemp("reproduced") / "out"
    found = run(arguments("voc2007", "--data", mini_voc, "--out", out))
    assert found.exit_code == 0, found.exception
    return out, found, json.loads(found.stdout.splitlines()[-1])


def test_every_table_is_filled(made: tuple[Path, Result, dict]) -> None:
    out, _, found = made
    assert tuple(found["tables"]) == TABLES
    for name, table in found["tables"].items():
        assert read(out / f"voc2007_{name}.csv"), name
        assert all(row.get("mAP") is not None or row["row"] == "whole image" for row in table["rows"]), name
    tasks = {row["row"]: row for row in found["tables"]["tasks"]["rows"]}
    assert tasks["both heads"]["paper"] == {"mAP": 85.3, "CorLoc": 43.5, "seconds": 0.35, "seconds_with_patches": 1.85}
    assert "CorLoc" not in tasks["classification alone"]
    assert {claim["verdict"] for claim in found["tables"]["tasks"]["claims"]} == {
        "one seed, so no spread to judge it by"
    }
    assert [row["row"] for row in found["tables"]["scales"]["rows"]] == ["two scales", "one scale (64)"]
    assert next(row["row"] for row in found["tables"]["peers"]["rows"]) == "both heads"
    assert found["tables"]["time"]["rows"][0]["training_hours"] > 0


def test_people_see_ours_beside_the_papers(made: tuple[Path, Result, dict]) -> None:
    said = made[1].stdout
    assert all(figure in said for figure in ("94.6", "98.0", "77.1", "43.5", "45.4", "28.00"))
    assert "What differs from the paper: trained on train and measured on val: not the paper's split; " in said
    assert "tiny in place of the paper's AlexNet and VGG16" in said


def test_the_csv_has_its_columns(made: tuple[Path, Result, dict]) -> None:
    out, _, found = made
    main = read(out / "voc2007_main.csv")
    assert tuple(main[0]) == rows.COLUMNS
    first, second = main
    assert (first["trained_on"], first["measured_on"], first["images"]) == ("train", "val", "8")
    assert float(first["mAP"]) == pytest.approx(found["tables"]["main"]["rows"][0]["mAP"], abs=0.01)
    assert (first["samples"], first["backbone"], first["weights"], first["scales"]) == ("8", "tiny", "shipped", "48 64")
    assert float(first["test_images_per_second"]) > 0
    # tags that were trained on are not measured
    assert (second["trained_on"], second["measured_on"], second["mAP"]) == ("trainval", "trainval", "")
    assert float(second["CorLoc"]) == pytest.approx(found["tables"]["main"]["rows"][0]["CorLoc"], abs=0.01)
    by_class = read(out / "voc2007_per_class.csv")
    assert tuple(by_class[0])[:5] == ("row", "seed", "measure", "class", "value")
    assert {row["row"] for row in by_class} == {
        "both heads", "classification alone", "discovery alone", "one scale 64", "edgeboxes", "sliding windows",
    }  # fmt: skip


def test_without_test_images_nothing_is_called_test(made: tuple[Path, Result, dict]) -> None:
    out, found, answered = made
    for table in TABLES:
        for row in read(out / f"voc2007_{table}.csv"):
            assert "test" not in " ".join(row.values()), row
            assert row["measured_on"] in ("val", "trainval")
    said = "\n".join(found.stdout.splitlines()[:-1])
    assert "test" not in said.replace("fastest", "")
    assert answered["measured_on"] == "val"


def test_images_are_written(made: tuple[Path, Result, dict]) -> None:
    files = [Path(file) for file in made[2]["files"] if file.endswith(".png")]
    assert [file.name for file in files] == ["voc2007_tiny-modern_patterns.png", "voc2007_tiny-modern_discoveries.png"]
    for file in files:
        with Image.open(file) as image:
            assert image.width > 1000


def state(out: Path) -> dict[Path, tuple[int, int]]:
    return {file: (file.stat().st_mtime_ns, file.stat().st_size) for file in out.rglob("*") if file.is_file()}


def test_a_repeated_command_trains_and_measures_nothing_anew(
    made: tuple[Path, Result, dict], mini_voc: Path, arguments: Arguments
) -> None:
    out, _, before = made
    files = state(out)
    again = answer(arguments("voc2007", "--data", mini_voc, "--out", out))
    assert again == before
    assert state(out) == files


def test_other_settings_are_refused_before_anything_is_done(
    made: tuple[Path, Result, dict], mini_voc: Path, arguments: Arguments
) -> None:
    files = state(made[0])
    found = run(arguments("voc2007", "--data", mini_voc, "--out", made[0], filters=8))
    assert isinstance(found.exception, DplError)
    assert "filters was 16, now 8" in str(found.exception)
    assert state(made[0]) == files


def test_with_test_images_all_is_as_in_the_paper(tmp_path: Path, arguments: Arguments) -> None:
    data = make_voc(tmp_path / "VOC2007", {"train": 6, "val": 6, "test": 6})
    out = tmp_path / "out"
    found = answer(arguments("voc2007", "--data", data, "--out", out, "--table", "tasks", "--seeds", "0,1"))
    assert found["measured_on"] == "test"
    table = read(out / "voc2007_tasks.csv")
    assert {(row["trained_on"], row["measured_on"]) for row in table} == {
        ("trainval", "test"), ("trainval", "trainval"),
    }  # fmt: skip
    alone = [row["measured_on"] for row in table if row["row"] == "classification alone"]
    assert alone == ["test", "test"]  # it finds no boxes
    assert len(list((out / "runs").glob("*/*_trainval_seed*"))) == 6
    assert not list((out / "runs").glob("*/*_train_seed*"))
    row = found["tables"]["tasks"]["rows"][0]
    assert row["CorLoc_measured_on"] == "trainval"
    assert row["deviation"]["mAP"] >= 0
    assert "not the paper's split" not in row["differs"]


def test_test_images_without_tags_go_to_the_server(tmp_path: Path, arguments: Arguments) -> None:
    data = make_voc(tmp_path / "VOC2012", {"train": 6, "val": 6, "test": 4}, tagged_test=False)
    found = answer(arguments("voc2012", "--data", data, "--out", tmp_path / "out", "--table", "main"))
    assert found["measured_on"] == "val"
    archive = next(file for file in found["files"] if file.endswith(".tar.gz"))
    with tarfile.open(archive) as packed:
        listing = packed.extractfile("results/VOC2012/Main/comp2_cls_test_bird.txt")
        assert listing is not None
        assert [line.split()[0] for line in listing.read().decode().splitlines()] == [
            f"{n:06d}" for n in range(2000, 2004)
        ]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("voc2008",), "Did you mean 'voc20"),
        (("voc2007", "--table", "task"), "Did you mean 'tasks'"),
        (("voc2007", "--seeds", "one"), "wanted whole numbers"),
        (("voc2007", "--seeds", "-1"), "wanted whole numbers"),
        (("voc2007", "--data", "FOLDERS"), "is a folder per class. Give the folder of VOC2007"),
        (("voc2007", "--set", "stpes=4"), "Did you mean 'steps'"),
    ],
)
def test_mistakes_are_told_at_once(
    given: tuple[str, ...], words: str, tmp_path: Path, mini_voc: Path, arguments: Arguments
) -> None:
    folders = tmp_path / "classes"
    (folders / "dog").mkdir(parents=True)
    Image.new("RGB", (40, 40)).save(folders / "dog" / "a.jpg")
    data = () if "--data" in given else ("--data", mini_voc)
    found = run(
        arguments(*(folders if word == "FOLDERS" else word for word in given), *data, "--out", tmp_path / "out")
    )
    assert isinstance(found.exception, DplError), found.exception
    assert words in str(found.exception)
    assert not (tmp_path / "out").exists()
