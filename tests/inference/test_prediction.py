"""The result object: what it shows, how it filters, that it survives a file, and what it says of broken input."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from deep_patch_learning.common.errors import DataError, DplError
from deep_patch_learning.inference.prediction import FoundBox, Prediction, Tag

DOG, SOFA, CAT = (10, 10, 60, 60), (0, 40, 100, 80), (5, 5, 9, 9)
PARTS = {
    "name": "room.jpg",
    "classes": ("cat", "dog", "sofa"),
    "height": 80,
    "width": 100,
    "classification_scores": np.array([-3.0, 2.0, 0.5]),
    "discovery_scores": np.array([-1.0, 4.0, -0.5]),  # mean with the line above: -2, 3, 0
    "image_scores": np.array([-4.0, 6.0, 0.0]),
    "best_boxes": np.array([CAT, DOG, SOFA]),
    "found_boxes": np.array([SOFA, DOG, (20, 20, 40, 40), (70, 5, 90, 20), CAT]),
    "found_classes": np.array([2, 1, 1, 1, 0]),
    "found_scores": np.array([-0.5, 4.0, 1.0, -2.0, -1.0]),
}


@pytest.fixture
def found():
    return Prediction(**PARTS)


def sigmoid(value):
    return 1 / (1 + np.exp(-value))


def test_tags_are_the_likely_classes_likeliest_first(found):
    assert [tag.name for tag in found.tags] == ["dog", "sofa"]  # sofa: probability exactly 0.5
    assert found.tags[0].probability == pytest.approx(sigmoid(3.0))
    assert found.tags[0].score == 3.0


def test_a_network_with_one_head_takes_the_sigmoid_of_its_score(found):
    alone = replace(found, classification_scores=None, image_scores=found.discovery_scores)
    assert alone.probabilities == pytest.approx(sigmoid(np.array([-1.0, 4.0, -0.5])))
    bare = replace(found, classification_scores=None, discovery_scores=None)
    assert bare.probabilities == pytest.approx(sigmoid(np.array([-4.0, 6.0, 0.0])))


def test_boxes_are_those_of_the_tags_best_first(found):
    # Two dogs reach 0.5 and the third does not; the sofa does not either, but is its tag's best box; no cat is tagged.
    assert [(box.tag, box.score) for box in found.boxes] == [("dog", 4.0), ("dog", 1.0), ("sofa", -0.5)]
    assert found.boxes[0].box == DOG
    assert found.boxes[1].probability == pytest.approx(sigmoid(1.0))
    assert len(found) == 3
    assert found[0] == found.boxes[0]
    assert found[-1].tag == "sofa"
    assert list(found) == found.boxes


def test_boxes_whose_scores_are_calibrated(found, tmp_path):
    # the third dog's score is worth 0.73 now, but is not half as high as the best one's before
    lines = np.array([[1.0, 3.0]] * 3)
    own = replace(found, box_calibration=lines)
    assert [(box.tag, box.score) for box in own.boxes] == [("dog", 4.0), ("dog", 1.0), ("sofa", -0.5)]
    assert own.boxes[1].probability == pytest.approx(sigmoid(1.0 + 3.0))
    assert own.probabilities == pytest.approx(found.probabilities)  # those of tags stay
    assert own.best_scores.tolist() == [-1.0, 4.0, -0.5]
    assert replace(own, found_scores=np.array([-0.5, 4.0, 1.0, 0.0, -1.0])).boxes[2].score == 0.0
    assert Prediction.load(own.save(tmp_path / "own.json")) == own
    with pytest.raises(DataError, match="wanted numbers above 0"):
        replace(found, box_calibration=-lines)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [4.0, 1.0, -0.5]),
        ({"classes": "dog"}, [4.0, 1.0]),
        ({"classes": ["sofa", "cat"]}, [-0.5]),
        ({"classes": []}, []),
        ({"min_probability": 0.7}, [4.0, 1.0]),
        ({"min_probability": 0}, [4.0, 1.0, -0.5, -1.0, -2.0]),
        ({"min_probability": 1}, []),
        ({"min_score": 0}, [4.0, 1.0]),
        ({"min_score": 5}, []),
        ({"max_boxes": 2}, [4.0, 1.0]),
        ({"max_boxes": 0}, []),
        ({"min_area": 2500}, [4.0, -0.5]),  # the dog's is exactly 50 x 50
        ({"min_area": 2501}, [-0.5]),
        ({"classes": "dog", "min_probability": 0, "max_boxes": 1}, [4.0]),
    ],
)
def test_filter(found, options, expected):
    kept = found.filter(**options)
    assert [box.score for box in kept.boxes] == expected
    assert len(kept) == len(expected)
    assert kept.classes == found.classes  # class indices keep their meaning
    assert np.array_equal(kept.best_boxes, found.best_boxes)


def test_filter_by_class_limits_the_tags_too_and_can_be_repeated(found):
    assert [tag.name for tag in found.filter("sofa").tags] == ["sofa"]
    assert found.filter(["dog", "sofa"]).filter("sofa") == found.filter("sofa")
    assert found.filter("dog").filter("sofa").tags == []
    assert found.top(1).boxes == found.boxes[:1]


def test_a_misspelt_class_gets_the_nearest_name(found):
    with pytest.raises(DplError, match=r"room.jpg: there is no class 'dgo'. Did you mean 'dog'\?"):
        found.filter("dgo")


def test_prints_what_a_reader_wants(found):
    assert repr(found) == "<Prediction 'room.jpg' 100x80: dog 95%, sofa 50%; 3 boxes>"
    assert repr(found.top(1)).endswith("; 1 box>")
    assert "no tags; 0 boxes" in repr(found.filter(min_probability=1))
    assert repr(found.tags[0]) == "Tag('dog', probability=0.95, score=3.00)"
    assert repr(found[0]) == "FoundBox('dog', box=(10, 10, 60, 60), probability=0.98, score=4.00)"


def test_saving_and_loading_loses_nothing(found, tmp_path):
    path = found.filter(["dog", "sofa"], min_probability=0.3).save(tmp_path / "new folder" / "room.json")
    loaded = Prediction.load(path)
    assert loaded == found.filter(["dog", "sofa"], min_probability=0.3)
    assert loaded != found
    assert [entry.name for entry in path.parent.iterdir()] == ["room.json"]  # nothing half-written is left
    readable = json.loads(path.read_text())
    assert readable["boxes"][0]["tag"] == "dog"
    assert readable["tags"][0]["name"] == "dog"


@given(
    arrays.arrays(np.float32, 2, elements=st.floats(-(2.0**100), 2.0**100, width=32)),
    arrays.arrays(np.float32, (3, 2), elements=st.floats(0, 1, width=32)),
)
def test_any_float32_survives_a_file(scores, corners):
    boxes = np.concatenate([corners, corners + np.float32(2)], axis=1)
    source = "a/é.jpg"
    shown = Prediction("é", ("a", "b"), 9, 9, scores, boxes, np.array([0, 1, 1]), corners[:, 0], source=source)
    loaded = Prediction.from_dict(json.loads(json.dumps(shown.as_dict())))
    for name in ("image_scores", "found_boxes", "found_classes", "found_scores"):
        before, after = getattr(shown, name), getattr(loaded, name)
        assert before.dtype == after.dtype
        assert before.tobytes() == after.tobytes()
    assert loaded.source == shown.source
    assert loaded.best_boxes is None


def test_no_boxes_and_no_discovery_head(tmp_path):
    bare = Prediction("x", ("a",), 4, 5, [2.0], [], [], [])
    assert bare.found_boxes.shape == (0, 4)
    assert bare.boxes == []
    assert bare
    assert [tag.name for tag in bare.tags] == ["a"]
    assert Prediction.load(bare.save(tmp_path / "x.json")) == bare
    assert bare.to_numpy()["boxes"].shape == (0, 4)


def test_the_callers_arrays_are_copied_and_ours_cannot_be_changed():
    scores = PARTS["image_scores"].copy()
    found = Prediction(**{**PARTS, "image_scores": scores})
    scores[:] = 0
    assert found.image_scores[1] == 6
    with pytest.raises(ValueError, match="read-only"):
        found.found_boxes[0, 0] = 1


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"image_scores": np.zeros(2)}, r"image_scores is \(2,\) float64; wanted numbers of shape \(3,\)"),
        ({"image_scores": None}, "image_scores is .* object"),
        ({"discovery_scores": np.zeros((3, 1))}, r"discovery_scores is \(3, 1\)"),
        ({"best_boxes": np.zeros((3, 5))}, r"best_boxes is \(3, 5\)"),
        ({"found_boxes": np.zeros((4, 4))}, r"found_classes is \(5,\) int64; wanted numbers of shape \(4,\)"),
        ({"found_boxes": np.zeros((5, 3))}, r"found_boxes is \(5, 3\) float64; wanted numbers of shape \(5, 4\)"),
        ({"found_scores": np.array([0, 0, np.nan, 0, 0])}, r"found_scores\[2\] is nan"),
        ({"image_scores": np.array([0, 1e300, 0])}, r"image_scores\[1\] is 1e\+300; wanted finite float32"),
        ({"found_classes": np.array([0, 1, 2, 3, 0])}, r"found_classes\[3\] is 3; wanted 0 to 2"),
        ({"found_classes": np.array([0, 1, 2, -1, 0])}, r"found_classes\[3\] is -1"),
        ({"found_classes": np.array([0, 1, 2, 0.5, 0])}, "wanted whole numbers"),
        (
            {"best_boxes": np.array([CAT, DOG, (0, 0, 101, 80)])},
            r"best_boxes\[2\] is .*not inside the image of 100 x 80",
        ),
        ({"best_boxes": np.array([CAT, (5, 5, 5, 9), SOFA])}, r"best_boxes\[1\] is \[5.0, 5.0, 5.0, 9.0\], empty"),
        ({"classes": ("cat", "cat", "sofa")}, "must differ"),
        ({"threshold": 50}, "threshold is 50; wanted a probability"),
        ({"only": ("dgo",)}, "Did you mean 'dog'"),
        ({"height": 0}, "100 x 0 pixels"),
    ],
)
def test_what_does_not_fit_is_refused(changed, words):
    with pytest.raises(DplError, match=f"room.jpg: .*{words}"):
        Prediction(**{**PARTS, **changed})


def broken(change):
    saved = Prediction(**PARTS).as_dict()
    change(saved)
    return json.dumps(saved)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a JSON file"),
        ("{", "not a JSON file"),
        ("\udcff", "not a JSON file"),
        ("[]", "its format is 'list'"),
        ("{}", "its format is None; wanted 'deep_patch_learning"),
        (broken(lambda d: d.pop("width")), "no 'width'"),
        (broken(lambda d: d["raw"].pop("found_boxes")), "the key 'found_boxes' is missing"),
        (broken(lambda d: d.update(raw=None)), "broken"),
        (broken(lambda d: d.update(width="wide")), "broken"),
        (broken(lambda d: d["raw"].update(classes=5)), "broken"),
        (broken(lambda d: d["raw"].update(found_boxes=[[1], [2, 3]])), "broken"),
        (broken(lambda d: d["raw"].update(found_scores=["a"])), "found_scores is"),
        (broken(lambda d: d["raw"].update(only=["bird"])), "Choose one of: cat, dog, sofa"),
    ],
)
def test_broken_files_are_named(tmp_path, text, words):
    path = tmp_path / "bad.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(DataError, match=rf"bad\.json: .*{words}"):
        Prediction.load(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"none\.json: there is no such file"):
        Prediction.load(tmp_path / "none.json")


def test_a_save_that_fails_leaves_the_old_file(found, tmp_path, monkeypatch):
    path = found.save(tmp_path / "room.json")
    before = path.read_text()
    monkeypatch.setattr(Prediction, "as_dict", lambda self: {"x": float("nan")})
    with pytest.raises(ValueError):
        found.save(path)
    assert path.read_text() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_draw_reads_the_source_or_takes_the_image(found, tmp_path):
    grey = np.full((80, 100, 3), 128, np.uint8)
    drawn = found.draw(grey)
    assert drawn.size == (100, 80)
    assert (np.asarray(drawn) != grey).any()
    Image.fromarray(grey).save(tmp_path / "room.png")
    assert np.array_equal(replace(found, source=tmp_path / "room.png").draw(), drawn)
    with pytest.raises(DplError, match="does not know its file"):
        found.draw()
    with pytest.raises(DataError, match="is 80 x 100 pixels; the boxes were found on 100 x 80"):
        found.draw(grey.transpose(1, 0, 2))


def test_conversions(found, monkeypatch):
    coco = json.loads(json.dumps(found.to_coco(image_id=7)))
    assert coco["images"] == [{"id": 7, "file_name": "room.jpg", "width": 100, "height": 80}]
    assert coco["annotations"][0]["bbox"] == [10, 10, 50, 50]
    assert coco["annotations"][0]["area"] == 2500
    names = {category["id"]: category["name"] for category in coco["categories"]}
    assert [names[a["category_id"]] for a in coco["annotations"]] == ["dog", "dog", "sofa"]
    assert found.to_numpy()["classes"].tolist() == [1, 1, 2]

    monkeypatch.setitem(sys.modules, "supervision", None)  # as if not installed
    with pytest.raises(DplError, match="pip install supervision"):
        found.to_supervision()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(DplError, match="pip install pandas"):
        found.to_pandas()


def test_supervision_takes_the_boxes(found):
    supervision = pytest.importorskip("supervision", reason="needs supervision: pip install supervision")
    converted = found.to_supervision()
    assert isinstance(converted, supervision.Detections)
    assert [tuple(box) for box in converted.xyxy] == [one.box for one in found.boxes]
    assert converted.confidence == pytest.approx([one.probability for one in found.boxes])
    assert list(converted["class_name"]) == ["dog", "dog", "sofa"]
    assert len(converted[converted.class_id == 2]) == 1
    drawn = supervision.BoxAnnotator().annotate(np.zeros((80, 100, 3), np.uint8), converted)
    assert drawn.any()
    assert len(found.filter("dog", min_score=99).to_supervision()) == 0


def test_pycocotools_takes_the_data_set(found, tmp_path):
    from pycocotools.coco import COCO

    (tmp_path / "one.json").write_text(json.dumps(found.to_coco()))
    coco = COCO(tmp_path / "one.json")
    read = coco.loadAnns(coco.getAnnIds(imgIds=1))
    assert [coco.cats[one["category_id"]]["name"] for one in read] == ["dog", "dog", "sofa"]
    for one, box in zip(read, found.boxes, strict=True):
        x, y, width, height = one["bbox"]
        assert (x, y, x + width, y + height) == pytest.approx(box.box)


def test_pandas_takes_the_boxes(found):
    pytest.importorskip("pandas", reason="needs pandas: pip install pandas")
    table = found.to_pandas()
    assert list(table.columns) == ["image", "tag", "x1", "y1", "x2", "y2", "score", "probability", "precision"]
    for row, box in zip(table.itertuples(), found.boxes, strict=True):
        assert (row.image, row.tag, row.score) == ("room.jpg", box.tag, box.score)
        assert (row.x1, row.y1, row.x2, row.y2) == box.box
        assert row.probability == pytest.approx(box.probability)
    assert table["precision"].isna().all()
    assert table.groupby("tag").size().to_dict() == {"dog": 2, "sofa": 1}
    assert len(found.filter("dog", min_score=99).to_pandas()) == 0


def test_tags_and_boxes_unpack():
    name, probability, score = Tag("dog", 0.9, 2.2)
    tag, (x1, _, _, y2), *_ = FoundBox("dog", (1, 2, 3, 4), 2.2, 0.9)
    assert (name, probability, score, tag, x1, y2) == ("dog", 0.9, 2.2, "dog", 1, 4)
