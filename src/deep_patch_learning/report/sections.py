"""The sections of the page that show images: which ones, in which words."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from deep_patch_learning.data.dataset import PRESENT, UNKNOWN, TaggedImages
from deep_patch_learning.inference.model import ImageInput, Model
from deep_patch_learning.report.budget import CROP_BYTES, CROPS_PER_FILTER, CROPS_PER_REASON, REASONS
from deep_patch_learning.report.images import CardMaker, PlacedBox, place, small
from deep_patch_learning.report.opinions import Doubt, Opinions
from deep_patch_learning.report.page import Card, CardGroup, ClassImages, Crop, FilterRow, Reason
from deep_patch_learning.report.parts import CROP_SIDE, FilterPatches, crop, strongest_patches
from deep_patch_learning.report.tables import percent
from deep_patch_learning.report.why import Reasons, reasons

Progress = Callable[[int, int], None]


def doubt_groups(maker: CardMaker, opinions: Opinions, most: int) -> tuple[CardGroup, ...]:
    """Return likely wrong tags, likely missing ones and, where there are any, those that nobody decided."""
    kinds = (
        ("Likely wrong tags", "Tagged, and the network is sure that it is not there.", opinions.likely_wrong()),
        ("Likely missing tags", "Not tagged, and the network is sure that it is there.", opinions.likely_missing()),
        ("Unknown tags", "Nobody decided; the network's surest opinions first.", opinions.unknown()),
    )
    groups = []
    for title, words, doubts in kinds:
        shown = tuple(maker.of_class(*doubt) for doubt in doubts[:most])
        note = f"{words} The {len(shown)} surest are shown." if len(doubts) > len(shown) else words
        if doubts or title != "Unknown tags":
            groups.append(CardGroup(title, note, shown, len(doubts), "None."))
    return tuple(groups)


def class_images(
    maker: CardMaker, opinions: Opinions, figures: Mapping[str, Any], most_classes: int, per_class: int
) -> tuple[ClassImages, ...]:
    """Return the best and worst images of the classes, in their order; of `most_classes` with the lowest AP."""
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


def sample_group(maker: CardMaker, most: int) -> CardGroup:
    """Return images with all of their tags, drawn at random and spread over the classes."""
    labels = maker.images.labels
    tagged = {i: np.flatnonzero(row == PRESENT).tolist() for i, row in enumerate(labels) if (row == PRESENT).any()}
    cards = tuple(maker.of_tags(image) for image in spread(tagged, most))
    note = "Drawn at random and spread over the classes: nothing is picked by its looks."
    return CardGroup("A fair sample", note, cards, len(tagged))


def spread(classes_of: Mapping[int, Sequence[int]], count: int, seed: int = 0) -> list[int]:
    """Return `count` of the images, each once, taking from the classes in turn; the same for the same input.

    `classes_of` gives the class indices that an image may stand for.
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


def to_explain(opinions: Opinions, has_patches: Sequence[bool], count: int = REASONS) -> list[Doubt]:
    """Return tags to explain: given ones drawn at random, of different classes, then some that may be missing.

    A tag is given where the class is tagged and its probability reaches the threshold; images without patches have no
    reasons.
    """
    patched = np.asarray(has_patches, bool)
    missing = [doubt for doubt in opinions.likely_missing() if patched[doubt.image]][: count // 3]
    given = (opinions.labels == PRESENT) & (opinions.certainty >= 0) & patched[:, None]  # (I, C)
    rng = np.random.default_rng(0)
    classes = np.flatnonzero(given.any(axis=0))
    wanted = min(len(classes), count - len(missing))
    chosen = [int(classes[i * len(classes) // wanted]) for i in range(wanted)]
    return [Doubt(int(rng.choice(np.flatnonzero(given[:, c]))), c) for c in chosen] + missing


def explain(
    model: Model, maker: CardMaker, patches: Sequence[np.ndarray], chosen: Sequence[Doubt], progress: Progress
) -> tuple[Reason, ...]:
    """Return why each of the chosen tags was given; the network sees their images once more."""
    made = []
    for done, doubt in enumerate(chosen, start=1):
        image = ImageInput(maker.images.names[doubt.image], maker.images.read(doubt.image), patches[doubt.image])
        made.append(_reason(image, maker.of_class(*doubt), reasons(model, image, doubt.class_index)))
        progress(done, len(chosen))
    return tuple(made)


def _reason(image: ImageInput, card: Card, why: Reasons) -> Reason:
    size = image.image.shape[1], image.image.shape[0]
    best: list[PlacedBox] = [box for box in card.boxes if box.kind != "true"]
    if why.patch is not None:
        best = [place(image.patches[why.patch], size, "found")]
    numbers: dict[int, list[str]] = {}  # of each patch: filters may agree on one
    crops = []
    for number, one in enumerate(why.speaking_for[:CROPS_PER_REASON], start=1):
        numbers.setdefault(one.patch, []).append(str(number))
        uri = small(crop(image.image, tuple(image.patches[one.patch].tolist())), CROP_SIDE, CROP_BYTES).uri
        said = f"patch {number}: filter {one.filter} adds {one.added:.2f} to the score"
        crops.append(Crop(uri, said, f"filter {one.filter}", f"{100 * one.added / why.raised:.0f}%"))
    parts = [place(image.patches[patch], size, "part", " ".join(own)) for patch, own in numbers.items()]
    return Reason(Card(card.name, card.shot, (*parts, *best), card.finds), _summary(why), tuple(crops))


def _summary(why: Reasons) -> str:
    said = []
    if why.patch_score is not None:
        said.append(f"The best patch scores {why.patch_score:.1f}.")
    if why.score is not None:
        said.append(
            f"Classification scores {why.score:.1f}: filters for it {why.raised:.1f}, against it {why.lowered:.1f}."
        )
    return " ".join(said)


def filter_rows(
    model: Model, images: TaggedImages, patches: Sequence[np.ndarray], count: int, most: int, progress: Progress
) -> tuple[FilterRow, ...]:
    """Return `count` part filters with their strongest patches, looked for in at most `most` images, spread evenly."""
    shown = min(len(images), most)
    indices = [i * len(images) // shown for i in range(shown)]

    def read() -> Iterator[ImageInput]:
        for done, index in enumerate(indices, 1):
            yield ImageInput(images.names[index], images.read(index), patches[index])
            progress(done, shown)

    found = strongest_patches(model, read(), count, CROPS_PER_FILTER)
    return tuple(_filter_row(one, images) for one in found)


def _filter_row(one: FilterPatches, images: TaggedImages) -> FilterRow:
    column = images.classes.index(one.speaks_for)
    row_of = {name: index for index, name in enumerate(images.names)}
    tagged = sum(int(images.labels[row_of[patch.image], column]) == PRESENT for patch in one.patches)
    crops = tuple(
        Crop(small(patch.crop, CROP_SIDE, CROP_BYTES).uri, f"{patch.image}, response {patch.response:.2f}")
        for patch in one.patches
    )
    note = f"{tagged} of {len(one.patches)} from images tagged {one.speaks_for}"
    return FilterRow(one.filter, one.speaks_for, column, note, crops)
