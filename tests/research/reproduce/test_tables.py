"""Which trainings there are, on which images, and what is said to differ from the paper's."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from deep_patch_learning.common.errors import DataError, SettingError
from deep_patch_learning.recipe.presets import paper
from deep_patch_learning.recipe.settings import PAPER_SCALES
from deep_patch_learning.research.reproduce import tables
from deep_patch_learning.research.reproduce.protocol import (
    Protocol,
    Splits,
    differences,
    find_protocol,
    untagged_images,
)
from deep_patch_learning.research.reproduce.results import needed
from deep_patch_learning.runs.folder import training_time

from .conftest import make_voc

PAPER_SPLITS = Splits("trainval", "test")


def protocol(year: int = 2007, has_test: bool = True) -> Protocol:
    return Protocol(Path("VOC"), year, has_test, False)


def test_tables_share_the_training_that_is_the_same() -> None:
    base = paper("vgg16")
    runs = {name: [variant.run for variant in build(base).variants] for name, build in tables.BUILDERS.items()}
    assert all(found[0] == "both-heads" for found in runs.values())
    assert len({run for found in runs.values() for run in found}) == 6
    others = base.replace(patches="edge-boxes")
    assert [variant.run for variant in tables.patches_table(others).variants] == [
        "selective-search",
        "both-heads",
        "sliding-windows",
    ]


def test_the_single_scale_is_the_papers_where_it_lies_between() -> None:
    assert tables.single_scale(PAPER_SCALES) == 600
    assert tables.single_scale((96, 128, 160)) == 128
    with pytest.raises(SettingError, match="Give several"):
        tables.scales_table(paper("vgg16").replace(scales=(600,)))


def test_without_test_images_corloc_of_the_main_table_alone_is_on_trainval() -> None:
    variant = tables.main_table(paper("vgg16")).variants[0]
    val = protocol(has_test=False)
    assert needed(val, "main", variant) == [("train", "val"), ("trainval", "trainval")]
    assert needed(val, "tasks", variant) == [("train", "val")]
    assert needed(protocol(), "tasks", variant) == [("trainval", "test"), ("trainval", "trainval")]
    assert needed(protocol(), "peers", variant) == [("trainval", "test")]
    alone = tables.tasks_table(paper("vgg16")).variants[1]
    assert needed(protocol(), "tasks", alone) == [("trainval", "test")]


def test_the_test_list_counts_only_with_its_images_and_tags(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    splits = {"train": 2, "val": 2, "test": 2}
    whole = make_voc(tmp_path / "whole", splits)
    assert find_protocol(whole, "voc2007").classification == ("trainval", "test")
    (whole / "JPEGImages" / "002001.jpg").unlink()
    found = find_protocol(whole, "voc2007")
    assert (found.has_test, found.unlabelled_test) == (False, False)
    assert "1 are not there, such as 002001" in " ".join(capsys.readouterr().err.split())
    untagged = find_protocol(make_voc(tmp_path / "untagged", splits, tagged_test=False), "voc2012")
    assert (untagged.has_test, untagged.unlabelled_test) == (False, True)
    images = untagged_images(untagged.data, "test", ("bird",))
    assert (images.names, images.labels.tolist()) == (("002000", "002001"), [[-1], [-1]])
    (whole / "ImageSets" / "Main" / "val.txt").unlink()
    with pytest.raises(DataError, match=r"val\.txt: there is no such list"):
        find_protocol(whole, "voc2007")


def test_the_papers_own_experiment_differs_in_nothing(tmp_path: Path) -> None:
    weights = tmp_path / "vgg.safetensors"
    save_file({"classifier.0.weight": torch.zeros(1)}, weights)
    recipe = paper("vgg16").replace(weights=str(weights))
    assert differences(recipe, protocol(), PAPER_SPLITS, 4952) == ""
    assert differences(recipe, protocol(), PAPER_SPLITS, 4952, ablation=True) == "the paper compares with AlexNet here"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"backbone": "alexnet"}, "torchvision's AlexNet is not the paper's CaffeNet"),
        ({"backbone": "resnet50"}, "resnet50 in place of the paper's AlexNet and VGG16"),
        ({"weights": ""}, "all layers start at random"),
        ({"weights": "imagenet"}, "torchvision's VGG16 weights, not Caffe's"),
        ({"steps": 100}, "10,200 training samples, 90,000 in the paper"),
        ({"patches_per_sample": 512}, "512 patches drawn per sample, all in the paper"),
        ({"search_mode": "fast"}, "this package's faster Selective Search"),
        ({"picking": "vote"}, "boxes by vote, the best patch in the paper"),
        ({"corners": "half-open"}, "half-open corners of patches in the SPP layer"),
        ({"momentum_convention": "torch"}, "torch's momentum, Caffe's in the paper"),
        ({"scales": (480,)}, "scales 480"),
        ({"name": "modern"}, "the modern recipe (sgd, 2 images per step)"),
    ],
)
def test_each_difference_is_said(changes: dict, words: str) -> None:
    recipe = paper("vgg16").replace(**changes)
    assert words in differences(recipe, protocol(), PAPER_SPLITS, 4952).split("; ")


def test_splits_limits_and_missing_images_are_said() -> None:
    recipe = paper("caffenet").replace(weights="x.caffemodel")
    said = differences(recipe, protocol(has_test=False), Splits("train", "val"), 2508)
    assert said == "trained on train and measured on val: not the paper's split"
    assert (
        differences(recipe, protocol(), Splits("trainval", "trainval"), 5008) == "5,008 of the 5,011 images of trainval"
    )
    assert differences(recipe, protocol(), PAPER_SPLITS, 10, limit=10) == "the first 10 images of each list"
    assert (
        differences(recipe, protocol(2012), PAPER_SPLITS, 10991, ablation=True) == "the paper compares on VOC 2007 here"
    )


@pytest.mark.parametrize(
    ("names", "distilling", "words"),
    [
        (["features.0.weight"], False, "fc6 and fc7 start at random"),
        (["patch_features.fc6.weight"], False, ""),
        (["patch_features.fc6.weight"], True, "fc6 and fc7 distilled"),
    ],
)
def test_a_weight_file_says_where_its_patch_layers_come_from(
    tmp_path: Path, names: list[str], distilling: bool, words: str
) -> None:
    save_file({name: torch.zeros(1) for name in names}, tmp_path / "weights.safetensors")
    if distilling:
        (tmp_path / "data.json").write_text(json.dumps({"distilling": {"teacher": "imagenet"}}))
    recipe = paper("vgg16").replace(weights=str(tmp_path / "weights.safetensors"))
    assert differences(recipe, protocol(), PAPER_SPLITS, 4952) == words


def test_the_time_of_a_resumed_training_is_that_of_all_its_clocks() -> None:
    def log(*entries: tuple[int, float]) -> list[dict]:
        return [{"samples": samples, "seconds": seconds} for samples, seconds in entries]

    assert training_time([]) == (0.0, None)
    assert training_time(log((10, 5.0))) == (5.0, 2.0)
    assert training_time(log((10, 5.0), (20, 7.0))) == (7.0, 5.0)  # the first entry warms up
    assert training_time(log((10, 5.0), (20, 7.0), (30, 4.0), (40, 6.0))) == (13.0, 5.0)
