"""`dpl patches --engine ray`: the patches of a data set of any size, in the patch cache that training reads."""

from typing import Any

from deep_patch_learning.cluster.folder import PartsFolder
from deep_patch_learning.cluster.parts import Parts
from deep_patch_learning.cluster.runs import Asked, broken_of, facts_of, run_parts
from deep_patch_learning.cluster.work import PatchJob
from deep_patch_learning.common.errors import DataError
from deep_patch_learning.patches.cache import cache_folder, default_folder
from deep_patch_learning.patches.generator import PatchGenerator


def patches_on_ray(parts: Parts, generator: PatchGenerator, asked: Asked, fresh: bool = False) -> dict[str, Any]:
    """Return the figures of the patches of all parts, after making those that are not in the cache.

    What is known of each part is kept beside the cache's files, so that a second start makes only what is missing. With
    `fresh` all are made anew.
    """
    if not len(parts):
        raise DataError("there is no image. Choose another --split.")
    folder = cache_folder(default_folder(), generator)
    job = PatchJob(PartsFolder(folder / "parts" / _name(parts)), generator, default_folder())
    about = {"what": "patches", "generator": generator.key(), "parts": len(parts)}
    tally = run_parts(job, parts, about, asked, "patches", fresh)
    images, boxes, seconds = 0, 0, 0.0
    for facts in facts_of(job, parts, tally):
        images, boxes, seconds = images + facts["images"], boxes + facts["boxes"], seconds + facts["patch_seconds"]
    index: dict[str, Any] = {"images": images, "boxes": boxes / images if images else 0.0}
    index["seconds_per_image"] = seconds / images if images else None
    if tally.found < len(parts) or not job.out.index.is_file():
        job.out.close(index, broken_of(job, parts, tally))
    return {**index, "broken": list(broken_of(job, parts, tally)), "folder": str(folder), **tally.as_dict()}


def _name(parts: Parts) -> str:
    """Return a name for the data set: that of its first part and how many there are."""
    return f"{parts.part(0).digest}-{len(parts)}"
