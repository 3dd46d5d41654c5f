"""Tables show the figures given: none lost, none made up."""

import math

import numpy as np

from deep_patch_learning.report.opinions import Opinions
from deep_patch_learning.report.tables import NOTHING, class_table, comparison_table, trust_table

CLASSES = ("cat", "dog")
TAGS = {"images": 9, "mAP": 60.0, "AP": {"cat": 70.25, "dog": None}, "positives": {"cat": 4, "dog": 0}}
BOXES = {"CorLoc": 33.3, "CorLoc_per_class": {"cat": 33.34, "dog": None}}


def texts(row):
    return [cell.text for cell in row]


def test_class_table_with_boxes():
    table = class_table(CLASSES, TAGS | BOXES)
    assert table.columns == ("class", "AP", "CorLoc", "images")
    assert [texts(row) for row in table.rows] == [["cat", "70.2", "33.3", "4"], ["dog", NOTHING, NOTHING, "0"]]
    assert texts(table.mean) == ["all", "60.0", "33.3", "9"]


def test_without_true_boxes_there_is_no_column_for_them():
    assert class_table(CLASSES, TAGS).columns == ("class", "AP", "images")


def test_comparison_marks_the_highest_and_dashes_the_missing():
    rows = [
        {"name": "both", "mAP": 95.04, "CorLoc": 80.0, "images": 300},
        {"name": "classification", "mAP": 96.0, "images": 300},
        {"name": "centre box", "CorLoc": 12.3, "mAP": math.nan, "seconds": 1.25},
    ]
    table = comparison_table(rows)
    assert table.columns == ("", "mAP", "CorLoc", "images", "seconds")
    assert [texts(row) for row in table.rows] == [
        ["both", "95.0", "80.0", "300", NOTHING],
        ["classification", "96.0", NOTHING, "300", NOTHING],
        ["centre box", NOTHING, "12.3", NOTHING, "1.2"],
    ]
    assert [[cell.kind == "best" for cell in row] for row in table.rows] == [
        [False, False, True, False, False],
        [False, True, False, False, False],
        [False, False, False, False, False],
    ]


def test_trust_table_counts_sure_unsure_and_against():
    probabilities = np.array([[0.9, 0.1], [0.5, 0.2], [0.1, 0.9], [0.9, 0.6]])
    labels = np.array([[1, 0], [1, 0], [1, 0], [-1, 0]])
    table = trust_table(CLASSES, TAGS | BOXES, Opinions(probabilities, np.full((4, 2), 0.5), labels))
    assert table.columns == ("class", "AP", "CorLoc", "with the tag", "without it")
    assert [texts(row) for row in table.rows] == [
        ["cat", "70.2", "33.3", "1 · 1 · 1", NOTHING],
        ["dog", NOTHING, NOTHING, NOTHING, "2 · 1 · 1"],
    ]
    assert texts(table.mean) == ["all", "60.0", "33.3", "1 · 1 · 1", "2 · 1 · 1"]
    assert "width:50.0%" in table.rows[1][-1].bar
    assert table.rows[0][-1].bar == ""
