"""Proposal files of other programs: good, hostile and broken ones."""

import pickle
import struct

import numpy as np
import pytest

from deep_patch_learning.common.errors import DataError, DplError
from deep_patch_learning.patches.proposals import read_proposals

scipy_io = pytest.importorskip("scipy.io")


def cells(values):
    array = np.empty((1, len(values)), object)
    for index, value in enumerate(values):
        array[0, index] = value
    return array


def save_mat(path, boxes, names, **more):
    scipy_io.savemat(path, {"boxes": cells(boxes), "images": cells(names).T, **more})


def test_mat_boxes_are_turned_and_counted_from_0(tmp_path):
    path = tmp_path / "voc.mat"
    # y1, x1, y2, x2 from 1 with inclusive corners: rows 1 to 20, columns 5 to 5
    save_mat(path, [np.array([[1, 5, 20, 5], [3, 4, 30, 40]], np.uint16), np.zeros((0, 4))], ["000005", "000007"])
    found = read_proposals(path)
    assert found["000005"].tolist() == [[4, 0, 5, 20], [3, 2, 40, 30]]
    assert found["000005"].dtype == np.uint16
    assert found["000007"].shape == (0, 4)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, np.uint16, ">f4"])
def test_pkl_boxes_come_best_first(tmp_path, protocol, kind):
    path = tmp_path / "proposals.pkl"
    boxes = [np.array([[0, 0, 9, 19], [2, 3, 4, 5]], kind), np.asfortranarray(np.array([[7, 8, 7, 8]], kind))]
    content = {"boxes": boxes, "indexes": np.array([11, 12]), "scores": [np.array([0.1, 0.9]), np.array([[0.5]])]}
    path.write_bytes(pickle.dumps(content, protocol))
    found = read_proposals(path)
    assert found["11"].tolist() == [[2, 3, 5, 6], [0, 0, 10, 20]]
    assert found["12"].tolist() == [[7, 8, 8, 9]]


def test_pkl_may_have_names_and_no_scores(tmp_path):
    path = tmp_path / "proposals.pkl"
    path.write_bytes(pickle.dumps({"boxes": [np.array([[0.5, 1.25, 2.5, 3.0]])], "ids": ["a/b.jpg"]}))
    assert read_proposals(path)["a/b.jpg"].tolist() == [[0, 1, 4, 4]]


class Evil:
    def __init__(self, function, *arguments):
        self.parts = function, arguments

    def __reduce__(self):
        return self.parts


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pkl_that_runs_code_is_refused_before_it_runs(tmp_path, protocol):
    import os

    proof = tmp_path / "proof"
    for number, evil in enumerate([Evil(os.system, f"touch {proof}"), Evil(eval, f"open({str(proof)!r}, 'w')"),
                                   Evil(np.fromfile, "/etc/passwd"), Evil(np.save, str(proof), [1])]):  # fmt: skip
        path = tmp_path / f"{number}.pkl"
        path.write_bytes(pickle.dumps({"boxes": [evil], "ids": [1]}, protocol))
        with pytest.raises(DataError, match=r"Do not trust this file"):
            read_proposals(path)
    assert not proof.exists()


HOSTILE = {
    "dotted name": b"\x80\x04\x8c\x05numpy\x8c\x0bcore.os.popn\x93.",
    "module that looks like numpy": b"cmultiarray\n_reconstruct\n.",
    "outside reference": b"Pthing\n.",
    "extension": b"\x80\x02\x82\x01.",
    "truncated": pickle.dumps({"boxes": [np.zeros((3, 4))], "ids": [1]})[:-20],
    "empty": b"",
    "text": b"hello",
    "build on an array": b"cnumpy\nndarray\n(tR(I1\n(I1\nI4\ntcnumpy\ndtype\n(S'f8'\ntRI00\nS'short'\ntb.",
    "object array": b"cnumpy\ndtype\n(S'V8'\ntR.",
    "huge count": b"\x80\x04\x8e" + struct.pack("<Q", 1 << 62) + b".",
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_and_broken_pickles_are_told(tmp_path, content):
    path = tmp_path / "bad.pkl"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"bad\.pkl"):
        read_proposals(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([1, 2], "holds a list"),
        ({"boxes": []}, "has no 'ids'; it holds boxes"),
        ({"boxes": [np.zeros((1, 4))], "ids": [1, 2]}, "1 lists for 2 images"),
        ({"boxes": [np.zeros((1, 5))], "ids": ["x"]}, r"image 'x' are \(1, 5\)"),
        ({"boxes": ["text"], "ids": ["x"]}, "not numbers"),
        ({"boxes": [np.array([[0, 0, 5, 5], [4, 4, 1, 9]])], "ids": ["x"]}, r"box 1 of image 'x' is \[4.0, 4.0, 2.0"),
        ({"boxes": [np.array([[0, 0, np.nan, 5]])], "ids": ["x"]}, "is no box"),
        ({"boxes": [np.array([[-1, 0, 5, 5]])], "ids": ["x"]}, "is no box"),
        ({"boxes": [np.array([[0, 0, 70000, 5]])], "ids": ["x"]}, "is no box"),
        ({"boxes": [np.zeros((2, 4))], "ids": ["x"], "scores": [np.zeros(3)]}, "3 scores for 2 boxes"),
    ],
)
def test_wrong_content_is_told(tmp_path, content, said):
    path = tmp_path / "wrong.pkl"
    path.write_bytes(pickle.dumps(content))
    with pytest.raises(DataError, match=said):
        read_proposals(path)


def test_wrong_mat_files_are_told(tmp_path):
    path = tmp_path / "wrong.mat"
    with pytest.raises(DataError, match="no such proposal file"):
        read_proposals(path)
    path.write_bytes(b"MATLAB 5.0 MAT-file" + bytes(200))
    with pytest.raises(DataError, match=r"wrong\.mat: not a MATLAB file"):
        read_proposals(path)
    scipy_io.savemat(path, {"boxes": cells([np.zeros((0, 4))])})
    with pytest.raises(DataError, match=r"has no 'images'; it holds boxes"):
        read_proposals(path)
    save_mat(path, [np.array([[1, 5, 20, 5]])], ["a", "b"])
    with pytest.raises(DataError, match="1 lists for 2 images"):
        read_proposals(path)
    save_mat(path, [np.array([[0, 5, 20, 5]])], ["a"])
    with pytest.raises(DataError, match=r"box 0 of image 'a' is \[4.0, -1.0"):
        read_proposals(path)


def test_mat_without_scipy_names_the_fix(tmp_path, monkeypatch):
    import sys

    path = tmp_path / "voc.mat"
    save_mat(path, [np.array([[1, 5, 20, 5]])], ["a"])
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    with pytest.raises(DplError, match=r'pip install "deep-patch-learning\[mat\]"'):
        read_proposals(path)


def test_other_suffixes_are_told(tmp_path):
    path = tmp_path / "boxes.json"
    path.write_text("{}")
    with pytest.raises(DataError, match=r"\.mat, \.pkl, \.npz files"):
        read_proposals(path)
