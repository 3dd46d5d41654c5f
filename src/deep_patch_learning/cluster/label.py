"""`dpl label --engine ray`: labels of a data set of any size, in shards."""

import hashlib
from typing import Any

from deep_patch_learning.cluster.parts import Parts
from deep_patch_learning.cluster.runs import Asked, Tally, broken_of, facts_of, run_parts
from deep_patch_learning.cluster.work import FORMATS, LabelJob, must_have_ids
from deep_patch_learning.common.errors import DataError, SettingError, did_you_mean
from deep_patch_learning.inference.model import Model


def check_format(format: str) -> None:
    """Raise `SettingError` for a format that cannot be written in shards."""
    if format not in FORMATS:
        hint = did_you_mean(format, FORMATS)
        raise SettingError(f"--format {format}: not with --engine ray, which writes shards.{hint}")


def label_on_ray(job: LabelJob, parts: Parts, model: str, asked: Asked) -> dict[str, Any]:
    """Return the counts, after labelling all parts with as many processes as the cluster has room for.

    `model` is the `fingerprint` of the job's model.
    """
    if not len(parts):
        raise DataError("there are no images to label. Choose another --split.")
    if job.format == "coco" and parts.images is not None:
        must_have_ids(min(parts.images, parts.part_images), 0, f"--shard-images {parts.part_images}")
    about = {
        "what": "labels",
        "format": job.format,
        "rule": vars(job.rule),
        "model": model,
        "classes": list(job.classes),
        "parts": len(parts),
        "images_per_part": None if parts.images is None else parts.part_images,
    }
    tally = run_parts(job, parts, about, asked, "labelling")
    totals = _totals(job, parts, tally)
    broken = sum(1 for _ in broken_of(job, parts, tally))
    if tally.found < len(parts) or not job.out.index.is_file():
        job.out.close(totals, broken_of(job, parts, tally))
    return {"folder": str(job.out.folder), **totals, "broken": broken, **tally.as_dict()}  # shards: their number


def _totals(job: LabelJob, parts: Parts, tally: Tally) -> dict[str, Any]:
    """Return the counts of all parts together; the images and boxes of each part by its file."""
    sums = dict.fromkeys(("images", "images_without_boxes", "boxes", "parts", "tagged", "abstained"), 0)
    per_class = {name: {"tagged": 0, "boxes": 0, "parts": 0, "abstained": 0, "mean_score": 0.0} for name in job.classes}
    shards: list[dict[str, Any]] = []
    left_out = 0
    for facts in facts_of(job, parts, tally):
        for key in sums:
            sums[key] += facts[key]
        left_out += len(facts["left_out"])
        shards.append({"file": f"shards/{facts['file']}", "images": facts["images"], "boxes": facts["boxes"]})
        for name, row in facts["per_class"].items():
            own = per_class[name]
            for key in ("tagged", "boxes", "parts", "abstained"):
                own[key] += row[key]
            own["mean_score"] += (row["mean_score"] or 0.0) * row["boxes"]  # a sum until all are there
    means = {
        name: {**row, "mean_score": row["mean_score"] / row["boxes"] if row["boxes"] else None}
        for name, row in per_class.items()
    }
    asked = {"min_score": job.rule.min_score, "precision": job.rule.precision, "for_training": job.rule.for_training}
    return {"format": job.format, **asked, **sums, "left_out": left_out, "per_class": means, "shards": shards}


def fingerprint(model: Model) -> str:
    """Return a hash of all that decides what a model finds: its weights, settings, patches and calibration."""
    found = hashlib.blake2b(digest_size=16)
    for name, tensor in sorted(model.network.state_dict().items()):
        found.update(name.encode() + tensor.detach().cpu().contiguous().numpy().tobytes())
    lines = None if model.calibration is None else model.calibration.as_dict()
    for part in (model.settings, model.patch_generator.key(), lines):
        found.update(repr(part).encode())
    return found.hexdigest()
