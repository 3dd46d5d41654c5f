"""Proposal files of other programs: good, hostile and broken ones."""

import pickle
import struct
import zipfile

import numpy as np
import pytest

from deep_patch_learning.common.errors import DataError, DplError
from deep_patch_learning.patches.proposals import parse_proposals, read_proposals

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
    found = parse_proposals(path)
    assert found["11"].tolist() == [[2, 3, 5, 6], [0, 0, 10, 20]]
    assert found["12"].tolist() == [[7, 8, 8, 9]]


def test_pkl_may_have_names_and_no_scores(tmp_path):
    path = tmp_path / "proposals.pkl"
    path.write_bytes(pickle.dumps({"boxes": [np.array([[0.5, 1.25, 2.5, 3.0]])], "ids": ["a/b.jpg"]}))
    assert parse_proposals(path)["a/b.jpg"].tolist() == [[0, 1, 4, 4]]


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
            parse_proposals(path)
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
        parse_proposals(path)


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
        ({"boxes": None, "ids": ["x"]}, "'boxes' is None, wanted a list"),
        ({"boxes": [None], "ids": ["x"]}, "image 'x' are"),
        ({"boxes": 5, "ids": ["x"]}, "'boxes' is 5, wanted a list"),
        ({"boxes": np.array(5.0), "ids": ["x"]}, "'boxes' is array"),
        ({"boxes": [np.zeros((1, 4))], "ids": None}, "'ids' is None, wanted a list"),
        ({"boxes": [np.zeros((1, 4))], "ids": [None]}, "None is no image's name"),
        ({"boxes": [np.zeros((1, 4))], "ids": [10**5000]}, "about 5,001 digits> is no image's name"),
        ({"boxes": [[[10**400, 0, 0, 0]]], "ids": ["x"]}, "boxes of image 'x' are not numbers"),
        ({"boxes": [np.zeros((1, 4))], "ids": ["x"], "scores": ["best"]}, "scores of image 'x' are not numbers"),
        ({"boxes": [np.zeros((1, 4))], "ids": ["x"], "scores": "best"}, "'scores' is 'best', wanted a list"),
        ({"boxes": [np.zeros((1, 4))], "ids": ["x"], "scores": [10**400]}, "scores of image 'x' are not numbers"),
        ({"boxes": [np.zeros((1, 4))], "ids": ["x"], "scores": np.zeros((2, 3))}, "2 lists for 1 images"),
        ({"boxes": [np.zeros((1, 4))], "ids": ["x"], "scores": np.zeros((1, 3))}, "3 scores for 1 boxes"),
    ],
)
def test_wrong_content_is_told(tmp_path, content, said):
    path = tmp_path / "wrong.pkl"
    path.write_bytes(pickle.dumps(content))
    with pytest.raises(DataError, match=said):
        parse_proposals(path)


def test_wrong_mat_files_are_told(tmp_path):
    path = tmp_path / "wrong.mat"
    with pytest.raises(DataError, match="no such proposal file"):
        parse_proposals(path)
    path.write_bytes(b"MATLAB 5.0 MAT-file" + bytes(200))
    with pytest.raises(DataError, match=r"wrong\.mat: not a MATLAB file"):
        parse_proposals(path)
    scipy_io.savemat(path, {"boxes": cells([np.zeros((0, 4))])})
    with pytest.raises(DataError, match=r"has no 'images'; it holds boxes"):
        parse_proposals(path)
    save_mat(path, [np.array([[1, 5, 20, 5]])], ["a", "b"])
    with pytest.raises(DataError, match="1 lists for 2 images"):
        parse_proposals(path)
    save_mat(path, [np.array([[0, 5, 20, 5]])], ["a"])
    with pytest.raises(DataError, match=r"box 0 of image 'a' is \[4.0, -1.0"):
        parse_proposals(path)


def test_mat_without_scipy_names_the_fix(tmp_path, monkeypatch):
    import sys

    path = tmp_path / "voc.mat"
    save_mat(path, [np.array([[1, 5, 20, 5]])], ["a"])
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    with pytest.raises(DplError, match=r'pip install "deep-patch-learning\[mat\]"'):
        parse_proposals(path)


def test_other_suffixes_are_told(tmp_path):
    path = tmp_path / "boxes.json"
    path.write_text("{}")
    with pytest.raises(DataError, match=r"\.mat, \.pkl, \.npz files"):
        parse_proposals(path)


def test_scores_in_one_array_are_read(tmp_path):
    path = tmp_path / "proposals.pkl"
    boxes = [np.array([[0, 0, 9, 19], [2, 3, 4, 5]])]
    path.write_bytes(pickle.dumps({"boxes": boxes, "ids": ["a"], "scores": np.array([[0.1, 0.9]])}))
    assert read_proposals(path)["a"].tolist() == [[2, 3, 5, 6], [0, 0, 10, 20]]


def test_a_pickle_that_repeats_its_parts_ends_soon(tmp_path):
    shared: list = []
    for _ in range(60):
        shared = [shared, shared]
    path = tmp_path / "bomb.pkl"
    path.write_bytes(pickle.dumps({"boxes": shared, "ids": ["x"]}))
    assert path.stat().st_size < 1000
    with pytest.raises(DataError, match=r"bomb\.pkl: repeats its own parts"):
        parse_proposals(path)


def test_sparse_and_odd_mat_files_are_told(tmp_path):
    sparse = pytest.importorskip("scipy.sparse")
    path = tmp_path / "odd.mat"
    scipy_io.savemat(path, {"boxes": sparse.csc_matrix(np.eye(4)), "images": cells(["a"])})
    with pytest.raises(DataError, match=r"odd\.mat: 'boxes' is a csc_\w+, wanted a cell array"):
        parse_proposals(path)
    scipy_io.savemat(path, {"boxes": np.zeros((4, 4)), "images": np.zeros((4, 4))})
    with pytest.raises(DataError, match=r"odd\.mat: 'images' holds .*0\.0.*, wanted names"):
        parse_proposals(path)
    save_mat(path, [sparse.csc_matrix(np.eye(4))], ["a"])
    with pytest.raises(DataError, match=r"odd\.mat: the boxes of image 'a' are"):
        parse_proposals(path)


def test_an_npz_that_unpacks_to_gigabytes_is_refused_before(tmp_path):
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as parts, parts.open("a.npy", "w", force_zip64=True) as array:
        np.lib.format.write_array_header_1_0(array, {"descr": "<f8", "fortran_order": False, "shape": (1 << 20, 4)})
        for _ in range(32):
            array.write(bytes(1 << 20))
    assert path.stat().st_size < 1 << 16
    with pytest.raises(DataError, match=r"bomb\.npz: 'a\.npy' unpacks to 33,554,\d+ bytes. Do not trust"):
        parse_proposals(path)


def test_what_crashes_or_swells_the_process_that_reads_is_one_line_here(tmp_path):
    swells = tmp_path / "swells.pkl"
    swells.write_bytes(b"\x80\x04]r\xff\xff\xff\x7f.")  # a place in the memo that needs 32 GiB
    with pytest.raises(DataError, match=r"swells\.pkl: reading it takes more memory than there is"):
        read_proposals(swells)
    damaged = tmp_path / "damaged.mat"
    save_mat(damaged, [np.array([[1, 5, 20, 5]])], ["a"])
    good = damaged.read_bytes()
    for at in range(128, len(good), 8):  # a tag says what comes and how long it is: the longest of every kind
        if good[at] in (1, 5, 6, 14):
            damaged.write_bytes(good[: at + 4] + b"\xff\xff\xff\x7f" + good[at + 8 :])
            with pytest.raises(DataError, match=r"damaged\.mat: "):
                read_proposals(damaged)
            break


def test_the_process_that_reads_sees_no_module_of_the_working_folder(tmp_path, monkeypatch):
    (tmp_path / "scipy.py").write_text("raise SystemExit('ran')")
    (tmp_path / "numpy.py").write_text("raise SystemExit('ran')")
    monkeypatch.chdir(tmp_path)
    np.savez(tmp_path / "boxes.npz", a=np.array([[0, 0, 3, 4]]))
    assert read_proposals("boxes.npz")["a"].tolist() == [[0, 0, 3, 4]]
