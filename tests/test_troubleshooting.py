"""Every command of the troubleshooting page prints what the page says it prints."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "docs" / "troubleshooting.md"


def shown() -> list[tuple[str, str]]:
    """Return the commands of the page, each with the line it is said to print."""
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return [(command[2:], said) for command, said in zip(lines[::2], lines[1::2], strict=True)]


@pytest.fixture(scope="module")
def folder(small_world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the page's commands name."""
    place = tmp_path_factory.mktemp("trouble")
    (place / "images").mkdir()
    for number, image in enumerate(sorted((small_world.parent / "images").glob("*.jpg"))[:7]):
        shutil.copy(image, place / "images" / f"{number:06}.jpg")
    rows = [f"images/{number:06}.jpg,{tags}" for number, tags in enumerate(("bus", "bus;boat", "boat"))]
    many = [f"images/{number:06}.jpg,bus,train" for number in range(5)] + ["images/000005.jpg,bsu,train"]
    files = {
        "missing.csv": ["image,tags", *rows[:2], rows[2].replace("images/", "images/x")],
        "twice.csv": ["image,tags", *rows, rows[1]],
        "header.csv": ["photo,label", "a.jpg,dog"],
        "photos.csv": ["image,tags,split", *many[:5], "images/000005.jpg,boat,train"],
        "misspelt.csv": ["image,tags,split", *many, "images/000006.jpg,boat,train"],
    }
    for name, lines in files.items():
        (place / name).write_text("\n".join(lines) + "\n")
    (place / "empty").mkdir()
    (place / "afile").touch()
    made = run("dpl train photos.csv --recipe world --steps 2 --out runs/first", place)
    assert made.returncode == 0, made.stderr
    return place


def run(command: str, place: Path) -> subprocess.CompletedProcess:
    words = shlex.split(command)
    assert words[0] == "dpl"
    program = [sys.executable, "-m", "deep_patch_learning", *words[1:]]
    return subprocess.run(program, cwd=place, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("command", "said"), shown(), ids=lambda text: text[:40])
def test_the_page_says_what_is_printed(command: str, said: str, folder: Path) -> None:
    before = sorted(path.name for path in (folder / "runs" / "first").iterdir())
    found = run(command, folder)
    printed = " ".join(found.stderr.replace(f"{folder.resolve()}/", "").split())
    assert said in printed
    assert found.returncode == (2 if said.startswith("dpl: ") else 0)
    assert "Traceback" not in found.stderr
    assert sorted(path.name for path in (folder / "runs" / "first").iterdir()) == before
