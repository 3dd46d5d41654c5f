"""Image -> patches: the boxes that may hold an object.

`generator("selective-search")` builds one of the three methods; `PatchCache` keeps what they make.
"""

from deep_patch_learning.patches.cache import CachedPatches, FillReport, PatchCache, default_folder
from deep_patch_learning.patches.edge_boxes.search import EdgeBoxes
from deep_patch_learning.patches.generator import METHODS, PatchGenerator, generator
from deep_patch_learning.patches.selective_search.search import SelectiveSearch
from deep_patch_learning.patches.sliding_window import SlidingWindow

__all__ = [
    "METHODS",
    "CachedPatches",
    "EdgeBoxes",
    "FillReport",
    "PatchCache",
    "PatchGenerator",
    "SelectiveSearch",
    "SlidingWindow",
    "default_folder",
    "generator",
]
