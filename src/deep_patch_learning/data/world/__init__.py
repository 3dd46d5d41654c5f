"""The embedded world: seeded images of small drawn objects with known boxes, made without any download.

Eight classes are arrangements of the same parts, in the same colours, among loose parts and clutter, so that only
a whole object tells its class.
"""

from deep_patch_learning.data.world.files import make_world
from deep_patch_learning.data.world.scene import Placed, World, draw_scene
from deep_patch_learning.data.world.shapes import CLASSES

__all__ = ["CLASSES", "Placed", "World", "draw_scene", "make_world"]
