"""Fuzz a reader by what it covers: atheris (libFuzzer) keeps the inputs that reach new lines, and changes those further.

pip install atheris
python benchmarks/reliability/guided.py json-lines found/ -max_total_time=600

`found/` keeps its corpus; an input that ends in anything but a `DplError` or an `OSError` is written to `crash-*`. Copy it to
`tests/corpus/KIND/`, where the tests read it from then on.
"""

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["deep_patch_learning"], enable_loader_override=False):
    from targets import CLEAN, TARGETS

    import deep_patch_learning.data.readers.label_studio
    import deep_patch_learning.data.reviewed
    import deep_patch_learning.data.shards
    import deep_patch_learning.data.truth
    import deep_patch_learning.inference.prediction
    import deep_patch_learning.patches.proposals
    import deep_patch_learning.recipe.choose  # noqa: F401

SUFFIX = {
    "csv": ".csv",
    "json-lines": ".jsonl",
    "coco": ".json",
    "label-studio": ".json",
    "cvat": ".xml",
    "recipes": ".toml",
    "set": ".txt",
    "predictions": ".json",
    "review-answers": ".jsonl",
    "pickles": ".pkl",
    "images": ".png",
    "split-lists": ".txt",
    "tar": ".tar",
    "parquet": ".parquet",
    "weights": ".pth",
}


def pickles(path: Path) -> None:
    """Parse a pickle of proposals in this process, where what is covered can be seen."""
    from deep_patch_learning.patches.proposals import parse_proposals

    parse_proposals(path)


def main() -> None:
    """Fuzz the kind that is named first until libFuzzer's own options end it."""
    kind = sys.argv.pop(1)
    read = {**TARGETS, "pickles": pickles}[kind]
    with tempfile.TemporaryDirectory(prefix="dpl-guided-") as folder:
        path = Path(folder) / f"input{SUFFIX[kind]}"
        (Path(folder) / "a.png").write_bytes(b"")
        (Path(folder) / "tags.csv").write_text("image,tags\na.png,dog\n")

        def one(content: bytes) -> None:
            path.write_bytes(content)
            try:
                read(path)
            except CLEAN:
                return

        atheris.Setup(sys.argv, one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
