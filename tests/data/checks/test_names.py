"""Names of one class written twice: the same pairs as when every two are compared, with far fewer comparisons."""

import random
from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pytest

from deep_patch_learning.data.checks import names
from deep_patch_learning.data.checks.names import is_plural, looks_misspelt, names_written_twice, spelling

WORDS = [
    "cherry",
    "cherries",
    "bus",
    "Buses",
    "box",
    "boxes",
    "glass",
    "glasses",
    "pie",
    "pies",
    "dog",
    "dogs",
    "ski",
    "skis",
    "bee",
    "bees",
    "tractor",
    "tracter",
    "tractr",
    "die",
    "dies",
    "y",
    "ys",
    "motorbike",
    "moterbike",
    "motorbikes",
    "class1",
    "class2",
    "clas1",
    "dining_table",
    "diningtable",
    "Dining-Tables",
]


def pairs(classes: list[str], labels: np.ndarray) -> dict[str, set[frozenset[str]]]:
    return {one.kind: {frozenset(item.names) for item in one.items} for one in names_written_twice(classes, labels)}


def by_all_pairs(classes: list[str], labels: np.ndarray) -> Iterator[tuple[str, frozenset[str]]]:
    present = labels.sum(0)
    for i, j in combinations(range(len(classes)), 2):
        one, other = spelling(classes[i]), spelling(classes[j])
        if one[:1] != other[:1]:
            continue
        if one == other or is_plural(one, other):
            yield "same_name", frozenset((classes[i], classes[j]))
        elif min(present[i], present[j]) <= names.RARER * max(present[i], present[j]) and looks_misspelt(one, other):
            yield "misspelt", frozenset((classes[i], classes[j]))


@pytest.mark.parametrize("seed", range(20))
def test_no_pair_is_lost(seed: int) -> None:
    draw = random.Random(seed)
    strange = {"a" + "".join(draw.choices("abcs y-1", k=draw.randint(0, 10))) for _ in range(60)}
    classes = sorted({*draw.sample(WORDS, 18), *strange})
    labels = (np.random.default_rng(seed).random((200, len(classes))) < 0.02).astype(np.int8)
    labels[:, ::3] = np.random.default_rng(seed).random((200, len(classes[::3]))) < 0.4
    labels[0] = 1
    found = pairs(classes, labels)
    expected: dict[str, set[frozenset[str]]] = {}
    for kind, pair in by_all_pairs(classes, labels):
        expected.setdefault(kind, set()).add(pair)
    assert found == expected
    assert "same_name" in expected


@pytest.mark.parametrize("kind", ["letters", "numbers", "prefix", "spaces"])
def test_thousands_of_classes_are_not_compared_two_by_two(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(0)
    make = {
        "letters": lambda _: "c" + "".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=9)),
        "numbers": lambda number: f"class {number}",
        "prefix": lambda _: "c" * 20 + "".join(draw.choices("abcdefgh", k=8)),
        "spaces": lambda number: "a" + "_" * number,
    }[kind]
    classes = [make(number) for number in range(4_000)]
    compared = []
    monkeypatch.setattr(names, "is_plural", lambda *pair: compared.append(pair) or is_plural(*pair))
    found = list(names_written_twice(classes, np.ones((1, len(classes)), np.int8)))
    assert len(compared) < 200_000  # of 8 million
    assert sum(len(one.items) for one in found) <= names.MOST_PAIRS


@pytest.mark.parametrize(("count", "length"), [(3_000, 30), (9_000, 120)])
def test_what_is_left_of_many_long_names_does_not_fill_the_memory(
    count: int, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[int] = []
    left_of = names._left_of
    monkeypatch.setattr(
        names, "_left_of", lambda text, slips: [left.append(len(found := left_of(text, slips))), found][1]
    )
    draw = random.Random(0)
    classes = ["".join(draw.choices("abcdefghij", k=length)) for _ in range(count)]
    list(names_written_twice(classes, np.eye(count, dtype=np.int8)))
    assert sum(left) <= names.MOST_LEFT + 2 * count
