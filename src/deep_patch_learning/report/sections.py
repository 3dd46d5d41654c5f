"""The sections of the page that show images: which images, how many, how large, and their texts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deep_patch_learning.data.dataset import PRESENT, UNKNOWN, TaggedImages
from deep_patch_learning.inference.model import ImageInput, Model
from deep_patch_learning.inference.part_filters import (
    CROP_SIDE,
    Explanation,
    FilterPatches,
    crop,
    explain,
    strongest_patches,
)
from deep_patch_learning.report.images import CardMaker, PlacedBox, place, small
from deep_patch_learning.report.opinions import Doubt, Opinions
from deep_patch_learning.report.page import Card, CardGroup, ClassImages, Crop, ExplainedTag, FilterRow
from deep_patch_learning.report.tables import percent

Progress = Callable[[int, int], None]

PAGE_BYTES = 5_000_000
CROP_BYTES = 3_500  # one patch of a part filter
CROPS_PER_FILTER = 6
CROPS_PER_EXPLANATION = 4
RANDOM_IMAGES = 12
EXPLAINED = 9

# the rest of the page in bytes of HTML: measured and rounded up
_FRAME = 450_000  # style, script, settings, the two curves
_TABLE_ROW = 3_000  # a class in both tables and the menu
_CAPTION = 1_100  # a card without its image
_LEAST_IMAGE = 2_600  # with less room, fewer are shown
_MOST_IMAGE = 24_000

# the longest side that looks good at this many bytes
_SIDES = ((16_000, 320), (10_000, 264), (6_000, 216), (3_800, 176), (0, 144))


@dataclass(frozen=True)
class PageBudget:
    """How much a page shows: best and as many worst images of each of `classes` classes, doubts of each kind, filters.

    `side` is the longest side of an image in pixels, `image_bytes` the most that its JPEG may take.
    """

    classes: int
    per_class: int
    doubts: int
    filters: int
    side: int
    image_bytes: int


def page_budget(classes: int, per_class: int = 12, doubts: int = 16, page_bytes: int = PAGE_BYTES) -> PageBudget:
    """Return the budget for so many classes: the more there are, the fewer and smaller the images of each.

    When even two best and two worst images of each class do not fit, only `classes` classes have images.
    """
    filters = min(max(classes, 12), 24)
    crops = filters * CROPS_PER_FILTER + EXPLAINED * CROPS_PER_EXPLANATION
    left = page_bytes - _FRAME - classes * _TABLE_ROW - crops * (_embedded(CROP_BYTES) + 200)
    others = 3 * doubts + RANDOM_IMAGES + EXPLAINED
    least = _embedded(_LEAST_IMAGE) + _CAPTION
    shown = classes
    while per_class > 2 and left < least * (2 * per_class * shown + others):
        per_class -= 1
    if left < least * (2 * per_class * shown + others):
        shown = max(0, int(left / least - others) // (2 * per_class))
    each = left / (2 * per_class * shown + others)
    image_bytes = max(500, min(_MOST_IMAGE, int((each - _CAPTION) * 3 / 4)))
    side = next(side for least_bytes, side in _SIDES if image_bytes >= least_bytes)
    return PageBudget(shown, per_class, doubts, filters, side, image_bytes)


def _embedded(size: int) -> int:
    """Return the length in base64 of this many bytes."""
    return size * 4 // 3 + 4


def doubt_groups(maker: CardMaker, opinions: Opinions, most: int) -> tuple[CardGroup, ...]:
    """Return likely wrong tags, likely missing ones and, where there are any, unknown ones."""
    kinds = (
        ("Likely wrong tags", "Tagged; the network is sure that the class is absent.", opinions.likely_wrong()),
        (
            "Likely missing tags",
            "Not tagged; the network is sure that the class is present.",
            opinions.likely_missing(),
        ),
        ("Unknown tags", "Neither present nor absent in the data; the surest predictions first.", opinions.unknown()),
    )
    groups = []
    for title, text, doubts in kinds:
        shown = tuple(maker.of_class(*doubt) for doubt in doubts[:most])
        note = f"{text} The {len(shown)} surest are shown." if len(doubts) > len(shown) else text
        if doubts or title != "Unknown tags":
            groups.append(CardGroup(title, note, shown, len(doubts), "None."))
    return tuple(groups)


def class_images(
    maker: CardMaker, opinions: Opinions, figures: Mapping[str, Any], most_classes: int, per_class: int
) -> tuple[ClassImages, ...]:
    """Return the best and worst images of each class; where there are more than `most_classes`, of those with the lowest AP."""
    names = maker.images.classes
    ap = [figures.get("AP", {}).get(name) for name in names]
    lowest = sorted(range(len(names)), key=lambda c: (ap[c] is None, ap[c] or 0.0))[:most_classes]
    return tuple(
        ClassImages(
            names[c],
            c,
            _class_facts(names[c], figures, int((opinions.labels[:, c] == PRESENT).sum())),
            CardGroup(
                "Best",
                "tagged, the highest probability first",
                tuple(maker.of_class(image, c) for image in opinions.best(c, per_class)),
                int((opinions.labels[:, c] == PRESENT).sum()),
                empty="No image here has this tag.",
            ),
            CardGroup(
                "Worst",
                "tagged with the lowest probability, then not tagged with the highest",
                tuple(maker.of_class(image, c) for image in opinions.worst(c, per_class)),
                int((opinions.labels[:, c] != UNKNOWN).sum()),
            ),
        )
        for c in sorted(lowest)
    )


def _class_facts(name: str, figures: Mapping[str, Any], tagged: int) -> str:
    per_class = {"AP": figures.get("AP", {}), "CorLoc": figures.get("CorLoc_per_class", {})}
    facts = [f"{title} {percent(known[name])}" for title, known in per_class.items() if known.get(name) is not None]
    return " · ".join([*facts, f"{tagged:,} tagged"])


def random_group(maker: CardMaker, most: int) -> CardGroup:
    """Return images with all of their tags, drawn at random and spread over the classes."""
    labels = maker.images.labels
    tagged = {i: np.flatnonzero(row == PRESENT).tolist() for i, row in enumerate(labels) if (row == PRESENT).any()}
    cards = tuple(maker.of_tags(image) for image in spread(tagged, most))
    note = "Drawn at random, spread over the classes."
    return CardGroup("Random images", note, cards, len(tagged))


def spread(classes_of: Mapping[int, Sequence[int]], count: int, seed: int = 0) -> list[int]:
    """Return `count` of the images, each once, taken from the classes in turn; deterministic.

    `classes_of` has the class indices of each image.
    """
    shuffled = np.random.default_rng(seed).permutation(list(classes_of)).tolist()
    waiting: dict[int, list[int]] = {}
    for image in shuffled:
        for index in classes_of[image]:
            waiting.setdefault(index, []).append(image)
    chosen: dict[int, None] = {}  # a set that keeps its order
    while len(chosen) < count and any(waiting.values()):
        for index in sorted(waiting):
            left = [image for image in waiting[index] if image not in chosen]
            if left and len(chosen) < count:
                chosen[left[0]] = None
            waiting[index] = left[1:]
    return list(chosen)


def to_explain(opinions: Opinions, has_patches: Sequence[bool], count: int = EXPLAINED) -> list[Doubt]:
    """Return tags to explain: predicted ones drawn at random, of different classes, then some that are likely missing.

    A tag counts as predicted where it is present and its probability reaches the threshold. Images without patches are left out.
    """
    patched = np.asarray(has_patches, bool)
    missing = [doubt for doubt in opinions.likely_missing() if patched[doubt.image]][: count // 3]
    given = (opinions.labels == PRESENT) & (opinions.certainty >= 0) & patched[:, None]  # (I, C)
    rng = np.random.default_rng(0)
    classes = np.flatnonzero(given.any(axis=0))
    wanted = min(len(classes), count - len(missing))
    chosen = [int(classes[i * len(classes) // wanted]) for i in range(wanted)]
    return [Doubt(int(rng.choice(np.flatnonzero(given[:, c]))), c) for c in chosen] + missing


def explained_tags(
    model: Model, maker: CardMaker, patches: Sequence[np.ndarray], chosen: Sequence[Doubt], progress: Progress
) -> tuple[ExplainedTag, ...]:
    """Return each of the chosen tags with its explanation; the network predicts their images once more."""
    made = []
    for done, doubt in enumerate(chosen, start=1):
        image = ImageInput(maker.images.names[doubt.image], maker.images.read(doubt.image), patches[doubt.image])
        made.append(_explained(image, maker.of_class(*doubt), explain(model, image, doubt.class_index)))
        progress(done, len(chosen))
    return tuple(made)


def _explained(image: ImageInput, card: Card, why: Explanation) -> ExplainedTag:
    size = image.image.shape[1], image.image.shape[0]
    best: list[PlacedBox] = [box for box in card.boxes if box.kind != "true"]
    if why.patch is not None:
        best = [place(image.patches[why.patch], size, "found")]
    numbers: dict[int, list[str]] = {}  # of each patch: several filters may have the same one
    crops = []
    for number, one in enumerate(why.raising[:CROPS_PER_EXPLANATION], start=1):
        numbers.setdefault(one.patch, []).append(str(number))
        uri = small(crop(image.image, tuple(image.patches[one.patch].tolist())), CROP_SIDE, CROP_BYTES).uri
        text = f"patch {number}: filter {one.filter} adds {one.added:.2f} to the score"
        crops.append(Crop(uri, text, f"filter {one.filter}", f"{100 * one.added / why.raised:.0f}%"))
    parts = [place(image.patches[patch], size, "part", " ".join(own)) for patch, own in numbers.items()]
    return ExplainedTag(Card(card.name, card.thumbnail, (*parts, *best), card.tags), _summary(why), tuple(crops))


def _summary(why: Explanation) -> str:
    text = []
    if why.patch_score is not None:
        text.append(f"The best patch has a discovery score of {why.patch_score:.1f}.")
    if why.score is not None:
        text.append(f"The classification score is {why.score:.1f}: part filters raise it by {why.raised:.1f}")
        text.append(f"and lower it by {why.lowered:.1f}.")
    return " ".join(text)


def filter_rows(
    model: Model, images: TaggedImages, patches: Sequence[np.ndarray], count: int, most: int, progress: Progress
) -> tuple[FilterRow, ...]:
    """Return `count` part filters with their strongest patches in at most `most` images, spread evenly."""
    shown = min(len(images), most)
    indices = [i * len(images) // shown for i in range(shown)]

    def read() -> Iterator[ImageInput]:
        for done, index in enumerate(indices, 1):
            yield ImageInput(images.names[index], images.read(index), patches[index])
            progress(done, shown)

    found = strongest_patches(model, read(), count, CROPS_PER_FILTER)
    return tuple(_filter_row(one, images) for one in found)


def _filter_row(one: FilterPatches, images: TaggedImages) -> FilterRow:
    column = images.classes.index(one.class_name)
    row_of = {name: index for index, name in enumerate(images.names)}
    tagged = sum(int(images.labels[row_of[patch.image], column]) == PRESENT for patch in one.patches)
    crops = tuple(
        Crop(small(patch.crop, CROP_SIDE, CROP_BYTES).uri, f"{patch.image}, response {patch.response:.2f}")
        for patch in one.patches
    )
    note = f"{tagged} of {len(one.patches)} from images tagged {one.class_name}"
    return FilterRow(one.filter, one.class_name, column, note, crops)
