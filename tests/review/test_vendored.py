"""What is vendored is what its maker built: checksums, and a licence for every part."""

import hashlib
from pathlib import Path

from deep_patch_learning.review.server import STATIC

VENDOR = STATIC / "vendor"


def test_vendored_files_are_unchanged() -> None:
    lines = (VENDOR / "SHA256SUMS").read_text().splitlines()
    wanted = {name: digest for digest, name in (line.split() for line in lines)}
    files = {path.name for path in VENDOR.iterdir()} - {"SHA256SUMS", "README.md"}
    assert wanted.keys() == files
    for name, digest in wanted.items():
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == digest, name


def test_every_vendored_part_has_its_licence() -> None:
    text = (VENDOR / "LICENSE.txt").read_text()
    for part in (
        "@annotorious/annotorious",
        "@annotorious/core",
        "svelte",
        "rbush",
        "quickselect",
        "dequal",
        "uuid",
        "nanoevents",
    ):
        assert part in text


def test_the_page_loads_nothing_from_elsewhere() -> None:
    own = [path for path in STATIC.rglob("*") if path.suffix in {".html", ".css", ".js"} and VENDOR not in path.parents]
    assert len(own) > 6
    assert [path.name for path in own if "//" in without_comments(path)] == []


def without_comments(path: Path) -> str:
    lines = path.read_text().splitlines()
    return "\n".join(line.partition("// ")[0].replace("http://www.w3.org/2000/svg", "") for line in lines)
