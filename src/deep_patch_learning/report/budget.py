"""How many images a page shows and how large, so that it stays below a limit whatever the number of classes."""

from dataclasses import dataclass

PAGE_BYTES = 5_000_000
CROP_BYTES = 3_500  # of one patch of a part filter
CROPS_PER_FILTER = 6
CROPS_PER_REASON = 4
SAMPLE = 12  # images drawn at random
REASONS = 9

# what the rest takes, in bytes of HTML: measured on pages and rounded up
_FRAME = 450_000  # style, script, settings, the two curves
_TABLE_ROW = 3_000  # of a class, in both tables and the choice of classes
_CAPTION = 1_100  # of a card, without its image
_LEAST_IMAGE = 2_600  # below that, fewer are shown
_MOST_IMAGE = 24_000

# the longest side that looks well at so many bytes
_SIDES = ((16_000, 320), (10_000, 264), (6_000, 216), (3_800, 176), (0, 144))


@dataclass(frozen=True)
class Plan:
    """How much a page shows: best and as many worst images of each of `classes` classes, doubts of each kind, filters.

    `side` is the longest side of an image in pixels, `image_bytes` the most that its JPEG may take.
    """

    classes: int
    per_class: int
    doubts: int
    filters: int
    side: int
    image_bytes: int


def make_plan(classes: int, per_class: int = 12, doubts: int = 16, page_bytes: int = PAGE_BYTES) -> Plan:
    """Return the plan for so many classes; fewer and smaller images of each the more there are.

    When even two best and two worst of each class do not fit, `classes` is how many have images of their own.
    """
    filters = min(max(classes, 12), 24)
    crops = filters * CROPS_PER_FILTER + REASONS * CROPS_PER_REASON
    left = page_bytes - _FRAME - classes * _TABLE_ROW - crops * (_embedded(CROP_BYTES) + 200)
    others = 3 * doubts + SAMPLE + REASONS
    least = _embedded(_LEAST_IMAGE) + _CAPTION
    shown = classes
    while per_class > 2 and left < least * (2 * per_class * shown + others):
        per_class -= 1
    if left < least * (2 * per_class * shown + others):
        shown = max(0, int(left / least - others) // (2 * per_class))
    each = left / (2 * per_class * shown + others)
    image_bytes = max(500, min(_MOST_IMAGE, int((each - _CAPTION) * 3 / 4)))
    side = next(side for least_bytes, side in _SIDES if image_bytes >= least_bytes)
    return Plan(shown, per_class, doubts, filters, side, image_bytes)


def _embedded(size: int) -> int:
    """Return how many characters so many bytes take in base64."""
    return size * 4 // 3 + 4
