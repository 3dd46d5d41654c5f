"""What benchmarks have in common at their end: rows that go into a file, and the machine they were measured on."""

import csv
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent.parent / "results"


def this_machine() -> str:
    """Return the processor and the number of its cores in words."""
    return f"{platform.machine()}, {os.cpu_count()} cores"


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows, all with the keys of the first, as a table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
