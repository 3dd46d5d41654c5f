"""`dpl compare`: Deep Patch Learning and its peers, trained, measured and timed side by side."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deep_patch_learning.recipe.presets import choose, seed_numbers
from deep_patch_learning.research import compare as comparison
from deep_patch_learning.research.peers.catalogue import chosen_peers

__all__ = ["command_line", "compare", "seed_numbers", "show"]

show = comparison.show

ALL_PEERS = "dpl,classification,discovery,plain,hcp,svm,whole-image,fast-rcnn"


def compare(
    data: str | Path,
    out: str | Path = "dpl-compare",
    *,
    splits: tuple[str, str] = ("train", "val"),
    peers: str = ALL_PEERS,
    seeds: Sequence[int] = (0,),
    **settings: Any,
) -> list[dict[str, Any]]:
    """Return a row of figures and rates for each peer and seed; rows are in `out`/compare.csv too.

    Every peer trains on the first of `splits` and is measured on the second, with the same images, backbone and budget; of
    them, fast-rcnn alone is trained on boxes. `peers` are names with commas. The same call again resumes. `settings` are
    `recipe` (a name, `modern` if not given), `hypotheses` (crops of a test image for hcp), `limit`, `workers`, `device`,
    `command` (a text for the table) and flat settings of the recipe.
    """
    recipe = settings.pop("recipe", "modern")
    names = ("device", "limit", "workers", "hypotheses", "command")
    options = {key: settings.pop(key) for key in names if key in settings}
    chosen = choose(recipe, "both", 0, [], settings)
    return comparison.compare(Path(data), *splits, chosen, chosen_peers(peers), Path(out), seeds, **options)


def command_line() -> str:
    """Return the command that was typed, for the table: paths by their last part, the rest says nothing to another machine."""
    return shlex.join(["dpl", *(Path(word).name if Path(word).is_absolute() else word for word in sys.argv[1:])])
