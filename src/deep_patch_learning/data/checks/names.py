"""Classes that look like one class written in two ways."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from deep_patch_learning.data.checks.findings import Finding, Item, Severity, number_of
from deep_patch_learning.data.dataset import PRESENT

RARER = 0.2  # a slip is made now and then: the misspelt class has at most this share of the right one's images
SHORTEST = 5  # letters: below, one letter more or less is often another word (cat, car; boat, bat)
SHORTEST_FOR_TWO = 8  # letters from which two slips still look like the same word
LONGEST_FOR_TWO, LONGEST = 32, 128  # letters up to which two slips, and one, are looked for
MOST_LEFT = 500_000  # texts that are left of names: of more, fewer slips are looked for, or the memory fills
MOST_COMMON = 20  # of many names that are alike, those that each of the others is held against
MOST_PAIRS = 1000  # a finding of so many is read by nobody


def names_written_twice(classes: Sequence[str], labels: np.ndarray) -> Iterator[Finding]:
    """Yield a finding for classes that differ in case, spaces or number only, and one for those that look misspelt."""
    present = (labels == PRESENT).sum(0).tolist()
    same: list[Item] = []
    misspelt: list[Item] = []
    for i, j in _candidates(classes, present):
        if len(same) + len(misspelt) >= MOST_PAIRS:
            break
        rare, often = (i, j) if present[i] <= present[j] else (j, i)
        if spelling(classes[i]) == spelling(classes[j]) or is_plural(classes[i], classes[j]):
            found = same
        elif present[rare] <= RARER * present[often] and present[often] and looks_misspelt(classes[i], classes[j]):
            found = misspelt
        else:
            continue
        found.append(Item((classes[rare], classes[often]), f"{present[rare]} and {present[often]} images"))
    if same:
        yield Finding(
            "same_name",
            Severity.HURTS,
            f"{number_of(len(same), 'pair')} of classes differ{'s' * (len(same) == 1)} only in case, spaces or plural",
            "Give both one name: while they are two, each counts as absent where the other is tagged.",
            tuple(same),
        )
    if misspelt:
        yield Finding(
            "misspelt",
            Severity.HURTS,
            f"{number_of(len(misspelt), 'class')} look{'s' * (len(misspelt) == 1)} misspelt",
            "Correct the tag if the two are meant to be one class.",
            tuple(misspelt),
        )


@lru_cache(maxsize=1 << 16)  # each name is compared with many
def spelling(name: str) -> str:
    """Return the name without case, spaces, `_` and `-`."""
    return re.sub(r"[\s_\-]+", "", name.casefold())


def is_plural(one: str, other: str) -> bool:
    """Return whether one name is the plural of the other."""
    short, long = sorted((spelling(one), spelling(other)), key=len)
    if len(short) < 3 or not long.endswith("s") or short == long:
        return False
    endings = [short + "s"]
    if short.endswith(("s", "x", "z", "ch", "sh", "o")):
        endings.append(short + "es")
    if short.endswith("y"):
        endings.append(short[:-1] + "ies")
    return long in endings


def looks_misspelt(one: str, other: str) -> bool:
    """Return whether a slip or two make one name of the other; names that differ in a number are different names."""
    a, b = spelling(one), spelling(other)
    if re.findall(r"\d+", a) != re.findall(r"\d+", b) or min(len(a), len(b)) < 3:
        return False
    if len(a) == len(b) and sorted(a) == sorted(b):  # letters that changed places
        return edits(a, b) == 1
    shorter = min(len(a), len(b))
    allowed = 2 if shorter >= SHORTEST_FOR_TWO else 1 if shorter >= SHORTEST else 0
    if len(set(a) ^ set(b)) > 2 * allowed:  # one edit takes away a letter and brings another, at most
        return False
    return bool(allowed) and edits(a, b) <= allowed


def edits(one: str, other: str) -> int:
    """Return how many letters must be put in, left out, changed, or swapped with the next to make one of the other."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        earlier, before, row = before, row, [i]
        for j, wanted in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                cost = min(cost, earlier[j - 2] + 1)
            row.append(cost)
    return row[-1]


def _candidates(classes: Sequence[str], present: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield pairs that may be one class written twice; the number of pairs grows with the classes, not with their square.

    Two names a slip or two apart are the same once a letter or two are left out of each (Garbe's symmetric deletions), so that
    names are looked up by what is left of them. They begin with the same letter: slips seldom hit the first. Where many names
    share what is left, each is held against the most common ones: a misspelt class is the rarer one.
    """
    groups: dict[str | tuple[str, str], list[int]] = defaultdict(list)
    texts = [spelling(name) for name in classes]
    slips = _slips_looked_for(texts)
    for index, text in enumerate(texts):
        groups[_singular(text)].append(index)
        numbers = ",".join(re.findall(r"\d+", text))
        for left in _left_of(text, slips):
            groups[numbers, left].append(index)
    seen: set[tuple[int, int]] = set()
    for members in groups.values():
        if len(members) == 1:
            continue
        for i in sorted(members, key=lambda index: -present[index])[:MOST_COMMON]:
            for j in members:
                pair = min(i, j), max(i, j)
                if i != j and pair not in seen:
                    seen.add(pair)
                    yield pair


def _slips_looked_for(texts: Sequence[str]) -> int:
    """Return how many letters are left out of each name, two unless what is left of all would be too much."""
    pairs = sum(len(text) ** 2 // 2 for text in texts if SHORTEST_FOR_TWO <= len(text) <= LONGEST_FOR_TWO)
    single = sum(len(text) for text in texts if len(text) <= LONGEST)
    return 2 if single + pairs <= MOST_LEFT else 1 if single <= MOST_LEFT else 0


def _left_of(text: str, slips: int) -> set[str]:
    """Return a name and what is left of it without as many letters as slips are looked for and allowed; the first stays."""
    found = {text}
    if slips and 3 <= len(text) <= LONGEST:
        once = [text[:i] + text[i + 1 :] for i in range(1, len(text))]
        found.update(once)
        if slips > 1 and SHORTEST_FOR_TWO <= len(text) <= LONGEST_FOR_TWO:
            found.update(left[:j] + left[j + 1 :] for i, left in enumerate(once) for j in range(i + 1, len(left)))
    return found


def _singular(text: str) -> str:
    """Return what a name and its plural have in common: cherry and cherries, box and boxes, glass and glasses."""
    while text.endswith(("s", "e", "y", "i")):
        text = text[:-1]
    return text
