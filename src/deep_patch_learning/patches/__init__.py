"""Image -> patches: the boxes that may hold an object.

`generator("selective-search")` builds one of the three methods; `PatchCache` keeps what they make.
"""

from deep_patch_learning.patches.cache import CachedPatches, FillReport, PatchCache, default_folder
from deep_patch_learning.patches.generator import METHODS, PatchGenerator, generator

__all__ = [
    "METHODS",
    "CachedPatches",
    "FillReport",
    "PatchCache",
    "PatchGenerator",
    "default_folder",
    "generator",
]
