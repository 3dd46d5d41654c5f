"""The synthetic data set "world": images of small drawn objects with known boxes, made from a seed without any download.

Its eight classes are arrangements of the same parts in the same colours, among loose parts and clutter, so that only a whole
object shows its class.
"""

from deep_patch_learning.data.world.files import make_world
from deep_patch_learning.data.world.scene import Placed, World, draw_scene
from deep_patch_learning.data.world.shapes import CLASSES

__all__ = ["CLASSES", "Placed", "World", "draw_scene", "make_world"]
