"""The synthetic data set on disk: JPEG images and one JSON-lines file with their tags, and their boxes for evaluation."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

from PIL import Image

from deep_patch_learning.common.atomic_files import write_whole
from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.world.scene import World, draw_scene

TEST_START = 500_000  # test images are numbered from here, so that they stay the same for any number of others
_FORMAT = 1  # raised when the same seed no longer draws the same images


def make_world(
    folder: str | Path,
    train: int = 600,
    test: int = 300,
    seed: int = 0,
    world: World | None = None,
    on_image: Callable[[int, int], None] | None = None,
) -> Path:
    """Return the path of `world.jsonl`, after writing it and its images into `folder`.

    A data set that is there with the same settings is kept as it is. `on_image(done, total)` is called after each image.
    Each line is one image: `image`, `tags`, `split`, and `boxes`, which are for evaluation only.
    """
    folder, world = Path(folder), world or World()
    listing, settings = folder / "world.jsonl", folder / "settings.json"
    wanted = {"format": _FORMAT, "train": train, "test": test, "seed": seed, **dataclasses.asdict(world)}
    text = json.dumps(wanted)
    if not settings.exists() and folder.exists() and any(folder.iterdir()):
        raise DataError(f"{folder}: holds files that are not a generated world. Choose a new or empty folder.")
    if listing.exists() and settings.read_bytes() == text.encode():
        return listing
    (folder / "images").mkdir(parents=True, exist_ok=True)
    listing.unlink(missing_ok=True)  # the listing is written last: where it is, the data set is complete
    write_whole(settings, text)
    numbers = [*range(train), *range(TEST_START, TEST_START + test)]
    lines = []
    for done, index in enumerate(numbers, 1):
        lines.append(_write_image(folder, seed, index, world))
        if on_image is not None:
            on_image(done, len(numbers))
    write_whole(listing, "".join(lines))
    return listing


def _write_image(folder: Path, seed: int, index: int, world: World) -> str:
    """Return the image's line of JSON, after writing the image."""
    image, objects = draw_scene(seed, index, world)
    name = f"images/{index:06d}.jpg"
    Image.fromarray(image).save(folder / name, quality=92)
    line = {
        "image": name,
        "tags": sorted({thing.tag for thing in objects}),
        "split": "test" if index >= TEST_START else "train",
        "boxes": [{"tag": thing.tag, "box": list(thing.box), "difficult": False} for thing in objects],
    }
    return json.dumps(line) + "\n"
