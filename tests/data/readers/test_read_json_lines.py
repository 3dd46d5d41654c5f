import csv
import io
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.readers.read import read_tags


def lines(*rows: object) -> str:
    return "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)


def test_good_lines(make: Callable[..., Path], told: Callable) -> None:
    text = "\ufeff" + lines(
        {"image": "a.jpg", "tags": ["dog", " sofa "], "unknown": ["cat"], "split": "train"},
        {"image": " sub/b.png ", "tags": [], "boxes": "not looked at", "split": None, "by": "Ann"},
    )
    images = read_tags(make("a.jpg", "sub/b.png", files={"t.jsonl": text + "\n\n"}))
    assert told(images) == {"a.jpg": {"dog": "present", "sofa": "present", "cat": "unknown"}, "sub/b.png": {}}
    assert images.classes == ("cat", "dog", "sofa")


def test_split_key(make: Callable[..., Path]) -> None:
    text = lines(
        {"image": "a.jpg", "tags": ["dog"], "split": "train"}, {"image": "b.jpg", "tags": ["cat"], "split": "val"}
    )
    path = make("a.jpg", "b.jpg", files={"t.jsonl": text})
    assert read_tags(path, "val").names == ("b.jpg",)
    assert read_tags(path, "val").classes == ("cat", "dog")


GOOD = lines({"image": "a.jpg", "tags": ["dog"]})
BROKEN = [
    ("empty", "", ["the file is empty", '{"image": "a.jpg", "tags": ["dog"]}']),
    ("broken json", GOOD + '\n{"image": "b.jpg", "tags": [}', ["line 2, column 29", "not JSON", "Fix"]),
    ("a list", "[1, 2]", ["line 1", "found '[1, 2]'", "wanted a line such as"]),
    ("no image", '{"tags": ["dog"]}', ["line 1", "there is no 'image'"]),
    ("no tags", GOOD + '\n\n{"image": "b.jpg"}', ["line 3", "there is no 'tags'"]),
    ("misspelt key", '{"image": "a.jpg", "tgas": []}', ["line 1", "'tgas'", "Did you mean 'tags'?"]),
    ("tags a string", lines({"image": "a.jpg", "tags": "dog;cat"}), ["'tags' is 'dog;cat'", "a list of strings"]),
    ("a number for tag", lines({"image": "a.jpg", "tags": [3]}), ["'tags' is [3]", "a list of strings"]),
    ("unknown null", lines({"image": "a.jpg", "tags": [], "unknown": None}), ["'unknown' is None"]),
    ("image a number", lines({"image": 3, "tags": []}), ["line 1", "'image' is 3", "the path of an image"]),
    ("split a number", lines({"image": "a.jpg", "tags": ["dog"], "split": 3}), ["'split' is 3", '"train"']),
    ("both states", lines({"image": "a.jpg", "tags": ["dog"], "unknown": ["dog"]}), ["'dog' is both"]),
    ("duplicate", GOOD + "\n" + GOOD, ["line 2", "'a.jpg'", "already at line 1"]),
    ("missing image", lines({"image": "q.jpg", "tags": ["dog"]}), ["1 of 1 images", "'q.jpg' (line 1)"]),
    ("latin-1", '{"image": "a.jpg", "tags": ["é"]}'.encode("latin-1"), ["line 1", "byte 0xe9", "UTF-8"]),
    ("nested too deep", "[" * 100_000, ["nested too deep"]),
]


@pytest.mark.parametrize(("text", "fragments"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_broken_lines(make: Callable[..., Path], text: str | bytes, fragments: list[str]) -> None:
    path = make("a.jpg", "b.jpg", files={"t.jsonl": text})
    with pytest.raises(DataError) as caught:
        read_tags(path)
    for fragment in [str(path), *fragments]:
        assert fragment in str(caught.value)


tag = st.text(st.characters(exclude_characters=";\0", exclude_categories=["Cs"]), min_size=1).filter(
    lambda text: text == text.strip()
)
row = st.fixed_dictionaries(
    {"tags": st.lists(tag, max_size=3, unique=True), "unknown": st.lists(tag, max_size=2, unique=True)}
).filter(lambda row: not set(row["tags"]) & set(row["unknown"]))


@settings(max_examples=60, deadline=None)
@given(st.lists(row, min_size=1, max_size=4).filter(lambda rows: any(r["tags"] or r["unknown"] for r in rows)))
def test_csv_and_json_lines_of_the_same_content_read_alike(rows: list[dict[str, list[str]]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        table = io.StringIO()
        writer = csv.writer(table)
        writer.writerow(["image", "tags", "split", "unknown"])
        for index, found in enumerate(rows):
            found |= {"image": f"{index}.jpg", "split": "ab"[index % 2]}
            (root / f"{index}.jpg").touch()  # opened lazily: reading tags needs the file only to be there
            writer.writerow([found["image"], ";".join(found["tags"]), found["split"], "; ".join(found["unknown"])])
        (root / "t.csv").write_bytes(table.getvalue().encode())
        (root / "t.jsonl").write_bytes(lines(*rows).encode())
        for split in (None, "a"):
            first, second = read_tags(root / "t.csv", split), read_tags(root / "t.jsonl", split)
            assert (first.classes, first.names, first.paths) == (second.classes, second.names, second.paths)
            assert first.labels.tolist() == second.labels.tolist()
