"""The tables of the README and the docs are those of the results files, and their links lead somewhere."""

import importlib.util
import re
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).parent.parent
CARD = ROOT / "src" / "deep_patch_learning" / "inference" / "shipped" / "MODEL_CARD.md"
PAGES = [ROOT / "README.md", CARD, *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tables_are_the_measured_ones(page: Path) -> None:
    spec = importlib.util.spec_from_file_location("tables", ROOT / "benchmarks" / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    text = page.read_text()
    assert tables.page(text) == text  # else: python benchmarks/tables.py
    expected = {
        "README.md": 2,
        "patches.md": 4,
        "speed.md": 5,
        "reproduce.md": 4,
        "boxes.md": 1,
        "labels.md": 1,
        "quickstart.md": 1,
        "better-boxes.md": 1,
        "MODEL_CARD.md": 2,
    }.get(page.name, 0)
    assert text.count("<!-- end of ") == expected


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target
            if target.endswith(".png"):
                Image.open(page.parent / target).verify()
