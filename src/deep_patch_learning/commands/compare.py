"""`dpl compare`: Deep Patch Learning and its peers, trained, measured and timed side by side."""

from pathlib import Path
from typing import Any, TypedDict, Unpack

from deep_patch_learning.commands.options import check_options
from deep_patch_learning.research import compare as comparison

show = comparison.show


class CompareOptions(TypedDict, total=False):
    """Beside data and splits: the `peers` and `seeds` with commas, `hypotheses` (crops of a test image, for hcp), and of every
    training `recipe`, `backbone`, `weights`, `steps`, `changes` (KEY=VALUE texts), `device`, `limit` and `workers`."""

    peers: str
    seeds: str
    hypotheses: int
    recipe: str
    backbone: str | None
    weights: str | None
    steps: int | None
    changes: list[str]
    device: str
    limit: int | None
    workers: int | None


def compare(
    data: str | Path,
    out: str | Path = "dpl-compare",
    *,
    split: str = "train",
    test_split: str = "val",
    **options: Unpack[CompareOptions],
) -> list[dict[str, Any]]:
    """Return a row of figures and rates for each peer and seed; the rows are in `out`/compare.csv too.

    Every peer trains on `split` and is measured on `test_split`. Same data, backbone and budget; only the method differs. Of
    the peers, fast-rcnn alone is trained on boxes. The same call again resumes. For `options` see `CompareOptions`.
    """
    check_options(options, CompareOptions, "compare")
    return comparison.compare(
        comparison.Options(data=Path(data), split=split, test_split=test_split, out=Path(out), **options)
    )
