"""The page's tables are those of the results files."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_the_pages_tables_are_the_measured_ones():
    spec = importlib.util.spec_from_file_location("patches_tables", ROOT / "benchmarks" / "patches_tables.py")
    assert spec is not None
    assert spec.loader is not None
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    text = tables.PAGE.read_text()
    assert tables.page(text) == text  # else: python benchmarks/patches_tables.py
    assert text.count("| recall 0.5 |") == 2
