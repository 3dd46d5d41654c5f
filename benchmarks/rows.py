"""Writes the rows of a benchmark as CSV."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent.parent / "results"


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows, all with the keys of the first, as a CSV."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
