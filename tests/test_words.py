"""The words of the field: private words that were replaced do not come back into source, docs or README.

CONTRIBUTING.md has the glossary. Where an old word must stay, mostly as the name of something that an earlier version wrote,
the place is listed here.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SUFFIXES = {".py", ".md", ".j2", ".js", ".css", ".toml", ".html", ".ipynb"}

INSTEAD = {
    r"pictures?": "image",
    r"visit(s|ed|ing)?": "sample",
    r"mend(s|ed|ing)?": "fix",
    r"committees?": "ensemble",
    r"heard|unheard": "weight, weighted",
    r"told": "say what is given, known or shown",
    r"voices?": "weights",
    r"loud(ness)?": "weight",
    r"teams?": "ranks, world size",
    r"embedded world": "synthetic data set",
    r"second rounds?": "self-training round",
    r"given[ _-]boxes": "pseudo boxes",
}
# A word of a name counts too: `picture` in `picture_hash`, `visits` in `visits_per_second`.
WORD = re.compile(r"(?<![a-z])(" + "|".join(INSTEAD) + r")(?![a-z])", re.IGNORECASE)

# (file or folder, what is left there). Names of earlier versions: run folders and files that they wrote still load.
ALLOWED = [
    ("src/deep_patch_learning/inference/calibration.py", '"pictures"'),
    ("src/deep_patch_learning/recipe", '"pictures_per_pass"'),
    ("src/deep_patch_learning/recipe", '"visits"'),
    ("src/deep_patch_learning/report/charts.py", '"visits"'),
    ("src/deep_patch_learning/research/compare.py", '"visits"'),
    ("src/deep_patch_learning/research/compare.py", '"train_visits_per_second"'),
    ("src/deep_patch_learning/research/reproduce", '"pictures"'),
    ("src/deep_patch_learning/research/reproduce", '"visits"'),
    ("src/deep_patch_learning/research/reproduce", '"visits_per_second"'),
    ("src/deep_patch_learning/runs", '"visits"'),
    ("src/deep_patch_learning/runs", '"given_boxes.jsonl"'),
    ("src/deep_patch_learning/refinement/pseudo_boxes.py", "-given-boxes.jsonl"),
    ("docs/training.md", "`given_boxes.jsonl`"),
    ("docs/training.md", "`visits`"),
    ("docs/training.md", "`pictures`"),
]


def files(root: Path) -> list[Path]:
    """Return the text files of source, docs and README."""
    found = [path for folder in ("src", "docs") for path in sorted((root / folder).rglob("*")) if path.is_file()]
    return [root / "README.md", *(path for path in found if path.suffix in SUFFIXES and "vendor" not in path.parts)]


def private_words(path: Path, root: Path) -> list[str]:
    """Return `file:line: word (write: ...)` for each private word of a file that no listed place allows."""
    name, found = path.relative_to(root).as_posix(), []
    allowed = [phrase for place, phrase in ALLOWED if name == place or name.startswith(f"{place}/")]
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        for phrase in allowed:
            line = line.replace(phrase, "")
        for match in WORD.finditer(line):
            better = next(word for pattern, word in INSTEAD.items() if re.fullmatch(pattern, match[0], re.IGNORECASE))
            found.append(f"{name}:{number}: {match[0]} (write: {better})")
    return found


def test_no_private_word_is_left() -> None:
    found = [word for path in files(ROOT) for word in private_words(path, ROOT)]
    assert not found, "\n".join(found)


def test_source_docs_and_readme_are_all_read() -> None:
    names = {path.relative_to(ROOT).as_posix() for path in files(ROOT)}
    assert "README.md" in names
    assert "src/deep_patch_learning/inference/shipped/MODEL_CARD.md" in names
    assert len([name for name in names if name.startswith("src/") and name.endswith(".py")]) > 100
    assert len([name for name in names if name.startswith("docs/") and name.endswith(".md")]) > 10


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("# each picture once", ["picture"]),
        ("def Mended(picture_hash): ...", ["Mended", "picture"]),
        ("a second round on the Embedded world's VISITS", ["second round", "Embedded world", "VISITS"]),
        ("given_boxes, given-boxes, given boxes", ["given_boxes", "given-boxes", "given boxes"]),
        ("recommended, invoices, amended, untold, steam: parts of other words", []),
    ],
)
def test_a_private_word_is_found(tmp_path: Path, line: str, words: list[str]) -> None:
    (tmp_path / "src").mkdir()
    path = tmp_path / "src" / "a.py"
    path.write_text(f"first = 1\n{line}\n")
    found = private_words(path, tmp_path)
    assert [text.split(": ")[1].split(" (")[0] for text in found] == words
    assert all(text.startswith("src/a.py:2: ") for text in found)


def test_an_allowed_place_allows_its_own_words_only(tmp_path: Path) -> None:
    place, phrase = ALLOWED[0]
    path = tmp_path / place
    path.parent.mkdir(parents=True)
    path.write_text(f"saved[{phrase}]  # of every picture\n")
    assert private_words(path, tmp_path) == [f"{place}:1: picture (write: image)"]
