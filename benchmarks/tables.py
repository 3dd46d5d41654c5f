"""Write the tables of README.md and docs/*.md anew from results/*.csv.

python benchmarks/tables.py
"""

import csv
import re
from pathlib import Path
from statistics import mean, stdev

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "src").rglob("MODEL_CARD.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
COLUMNS = {
    "patches_against_opencv": {
        "method": "method", "first": "first boxes", "boxes": "boxes", "seconds_median": "seconds (median)",
        "times_opencv": "times OpenCV's speed", "recall_50": "recall 0.5", "recall_70": "recall 0.7",
        "mean_best_overlap": "mean best IoU", "same_segmentations": "segmentations as OpenCV's",
    },
    "patches_voc2007_trainval": {
        "method": "method", "first": "first boxes", "boxes": "boxes", "seconds_per_image": "seconds per image and core",
        "recall_50": "recall 0.5", "recall_70": "recall 0.7", "mean_best_overlap": "mean best IoU",
    },
    "patches_steps": {
        "step": "step (each keeps those before)", "seconds": "seconds (median)", "boxes": "boxes",
        "recall_50_256": "recall 0.5, first 256", "recall_50_1000": "recall 0.5, first 1000",
        "recall_70_1000": "recall 0.7, first 1000", "recall_50_all": "recall 0.5, all", "recall_70_all": "recall 0.7, all",
    },
    "patches_profile": {"stage": "stage", "milliseconds": "ms per image"},
    "corners": {
        "patches": "patches", "scale": "longest side", "count": "number", "changed_percent": "other bins, %",
    },
    "pooling_cpu": {
        "case": "case", "patches": "patches", "torchvision_forward": "torchvision, s", "ours_forward": "ours, s",
        "forward_ratio": "times as fast", "both_ratio": "times as fast with gradients",
    },
    "memory_allocator": {
        "task": "task", "freed_blocks": "freed blocks", "user": "user time, s", "system": "system time, s",
        "system_percent_of_user": "system, % of user", "faults": "page faults", "peak_mib": "peak memory, MiB",
    },
    "gpu_speed": {
        "what": "what", "network": "network", "patches": "patches", "images_per_step": "images per step", "ours": "ours",
        "plain": "reference", "unit": "unit", "ratio": "times as fast", "share_of_matrix_rate": "share of the matrix rate",
    },
    "gpu_refinement": {
        "network": "network", "patches": "patches", "images_per_step": "images per step",
        "two_heads_ms": "two heads, ms per step", "refined_ms": "with a refinement", "added_percent": "added, %",
    },
    "gpu_profile": {"network": "network", "patches": "patches", "kind": "kind of work", "ms_per_sample": "ms per sample"},
    "gpu_memory": {
        "network": "network", "images_per_micro_batch": "images per micro-batch",
        "patches": "patches per image", "gibibytes": "GiB",
    },
    "voc2007_peers": {
        "peer": "peer", "mAP": "mAP", "mAP_11pt": "mAP 11-point", "CorLoc": "CorLoc", "detection_mAP": "detection mAP",
        "samples": "samples", "seeds": "seeds",
    },
    "voc2007_tasks": {
        "row": "heads", "mAP": "mAP", "mAP_11pt": "mAP 11-point", "CorLoc": "CorLoc", "detection_mAP": "detection mAP",
        "seeds": "seeds",
    },
    "voc2007_scales": {
        "row": "scales", "mAP": "mAP", "mAP_11pt": "mAP 11-point", "CorLoc": "CorLoc", "detection_mAP": "detection mAP",
        "seeds": "seeds",
    },
    "voc2007_patches": {
        "row": "patches", "mAP": "mAP", "mAP_11pt": "mAP 11-point", "CorLoc": "CorLoc", "detection_mAP": "detection mAP",
        "patch_seconds": "s per image to make them", "seeds": "seeds",
    },
    "voc2007_main": {
        "trained_on": "trained on", "measured_on": "measured on", "mAP": "mAP", "mAP_11pt": "mAP 11-point", "CorLoc": "CorLoc",
        "detection_mAP": "detection mAP", "seeds": "seeds",
    },
    "voc2007_parts": {
        "row": "network", "trained_on": "trained on", "measured_on": "measured on", "samples": "samples", "mAP": "mAP",
        "mAP_11pt": "mAP 11-point", "CorLoc": "CorLoc", "detection_mAP_11pt": "detection mAP 11-point", "seeds": "seeds",
    },
    "voc2007_seeds": {
        "neck": "patch layers", "seed_rule": "seed rule", "trained_on": "trained on", "measured_on": "measured on",
        "CorLoc_argmax": "CorLoc, arg-max", "CorLoc_vote": "CorLoc, vote", "CorLoc_evidence": "CorLoc, evidence",
        "detection_mAP": "detection mAP", "detection_mAP_11pt": "detection mAP 11-point", "seeds": "seeds",
    },
    "voc2007_best": {
        "network": "network", "trained_on": "trained on", "measured_on": "measured on", "mAP": "mAP",
        "mAP_11pt": "mAP 11-point", "CorLoc": "CorLoc", "detection_mAP": "detection mAP",
        "detection_mAP_11pt": "detection mAP 11-point", "recall_at_80": "recall at 80 % precision",
        "samples_in_all": "samples, all trainings", "seeds": "seeds",
    },
    "voc2007_best_parts": {
        "network": "network", "boxes_of": "pseudo boxes of", "measured_on": "measured on", "mAP": "mAP", "CorLoc": "CorLoc",
        "detection_mAP": "detection mAP", "recall_at_80": "recall at 80 % precision", "instance_recall": "recall of instances",
        "seeds": "seeds",
    },
    "voc2007_views": {
        "network": "network", "views": "views in testing", "CorLoc": "CorLoc", "detection_mAP": "detection mAP",
        "detection_mAP_11pt": "detection mAP 11-point", "seeds": "seeds",
    },
    "detector_on_labels": {
        "trained_on": "trained on", "boxes": "boxes", "measured_on": "measured on", "detection_mAP": "detection mAP",
        "detection_mAP_11pt": "detection mAP 11-point", "share_of_full": "share of full supervision",
    },
    "box_trust": {
        "boxes_of": "boxes of", "bin": "which boxes", "boxes": "boxes", "predicted": "expected share right",
        "observed": "share right", "calibration_error": "calibration error, points",
        "ranking": "ranking, AUC", "ranking_by_score": "AUC of the score alone",
        "kept_at_80": "boxes from 0.8 on", "right_at_80": "of these right, %",
    },
    "shipped_model": {
        "trained_on": "trained on", "measured_on": "measured on", "mAP": "mAP", "mAP_11pt": "mAP 11-point", "CorLoc": "CorLoc",
        "detection_mAP": "detection mAP", "recall_at_80": "recall at 80 % precision",
    },
    "shipped_mistakes": {
        "kind": "kind", "count": "boxes", "percent_of_boxes": "% of all boxes", "seen_in": "in so many images",
    },
    "own_photos": {
        "measured_on": "measured on", "mAP": "mAP", "CorLoc": "CorLoc",
        "detection_mAP": "detection mAP", "recall_at_80": "recall at 80 % precision", "seeds": "seeds",
    },
    "review_simulated": {
        "recipe": "recipe", "order": "order", "reviewed": "reviewed images", "corrected": "boxes corrected",
        "accepted": "accepted", "CorLoc_rest_before": "CorLoc of the others, before", "CorLoc_rest": "after",
        "CorLoc_val": "CorLoc on val", "detection_mAP_val": "detection mAP on val", "seeds": "seeds",
    },
    "review_interval": {
        "judged_images": "judged images", "boxes": "judged boxes", "covered": "covers the truth, % of reviews",
        "width": "its width, points", "covered_classes": "that of a class covers, %", "width_classes": "its width, points",
    },
    "own_images": {
        "image_set": "images", "way": "recipe `fast`", "mAP": "mAP", "CorLoc": "CorLoc", "detection_mAP": "detection mAP",
        "recall_at_80": "recall at 80 % precision", "seeds": "seeds",
    },
    "scale": {"what": "what", "figure": "measured", "wanted": "wanted", "setting": "setting"},
    "scale_costs": {
        "what": "what", "on": "on", "seconds_per_image": "seconds per image", "hours_per_million": "hours per million",
        "dollars_per_million": "dollars per million", "gigabytes_per_million": "GB per million", "of": "from",
    },
    "shipped_speed": {"what": "what", "seconds": "seconds per image (median)", "times_the_peer": "times SSDLite320"},
    "review": {"what": "what", "value": "measured", "unit": "unit", "detail": "how"},
    "world_boxes": {
        "world": "images", "boxes": "boxes", "mAP": "mAP", "detection_mAP": "detection mAP",
        "recall_at_80": "recall at 80 % precision", "recall_of_2": "recall of 2 per class", "recall_of_3": "of 3 per class",
        "CorLoc": "CorLoc",
    },
    "reliability": {
        "part": "part", "kind": "kind", "tried": "tried", "kills": "kills", "success": "success",
        "clean_error": "error of one line", "traceback": "traceback", "hang": "hang", "lost_or_changed": "lost or changed",
        "memory_grew": "memory grew",
    },
    "memory": {
        "kind": "kind", "images": "images", "peak_mib": "most memory, MiB", "ratio": "ratio", "ratio_to": "to",
    },
    "startup": {
        "what": "command", "version": "version", "seconds": "seconds (median)", "times_other": "times as fast as the other",
        "runs": "runs",
    },
    "onnx": {
        "runtime": "runtime", "megabytes": "MB", "time_ratio": "time, as a ratio", "largest_tags": "tags, largest difference",
        "largest_scores": "box scores", "largest_pixels": "corners, pixels", "photos_with_other_boxes": "photos with other boxes",
        "mAP": "mAP", "CorLoc": "CorLoc", "detection_mAP": "detection mAP",
    },
    "demo": {
        "way": "mean of three seeds", "mAP": "mAP", "mAP_11pt": "mAP 11-point", "CorLoc": "CorLoc",
        "detection_mAP": "detection mAP", "recall_at_80": "recall at 80 % precision",
    },
}  # fmt: skip

# Rows keep the name under which they were measured, which their command names; this is how a page calls them.
WORDS = {
    "second round": "self-training round",
    "boxes moved": "box regression",
    "places told apart": "2 x 2 cells",
    "near patches": "patches from earlier maps",
    "second round of refined": "self-training round on 2 x 2 cells",
    "long second round of both": "long self-training round 1, ensemble of two",
    "long third round": "long self-training round 2",
    "fourth round of three": "long self-training round 3, ensemble of three",
    "second round, up to three boxes per tag": "round 2, up to three boxes per tag",
    "second round, last stage on the map, 7 x 7 bins": "round 2, last stage on the map, 7 x 7 bins",
    "those trained on": "training images",
    "others": "other images",
    "the paper's": "arg-max, best-first (the paper)",
    "best-first": "vote, best-first",
    "elected": "vote, elected",
    "refined": "refinement, elected",
    "scaling images": "resizing images",
    "a larger k visits only edges the smaller one left": "a larger k processes only edges the smaller one left",
    "of it, patches": "patches alone",
    "first-1": "first network 1 of 3",
    "last": "the run's network, after the round",
    "fast": "as it is",
    "as before": "nothing erased, a sharp vote",
    "the shipped model's layers": "from the shipped model's layers",
}

# The table of the README: a label, the file, the rows of it.
SUMMARY = (
    ("the shipped model's twin, 12 MB, CPU", "shipped_model", {}),
    ("ResNet-50, the paper's two heads", "voc2007_main", {"measured_on": "val"}),
    ("the same", "voc2007_main", {"measured_on": "trainval"}),
    ("ResNet-50, shorter trainings, three self-training rounds", "voc2007_parts",
     {"row": "fourth round of three", "measured_on": "val"}),
    ("the same", "voc2007_parts", {"row": "fourth round of three", "measured_on": "trainval"}),
    ("ResNet-50, recipe `best`", "voc2007_best", {"network": "last", "measured_on": "val"}),
    ("plain ResNet-50 on the whole image", "voc2007_peers", {"peer": "plain"}),
    ("Fast R-CNN on true boxes, same backbone and patches", "voc2007_peers", {"peer": "fast-rcnn"}),
)  # fmt: skip


# Rows that differ in the seed alone become one, with the mean and the sample standard deviation.
SAME = {
    "voc2007_peers": ("peer",), "voc2007_tasks": ("row",), "voc2007_scales": ("row",), "voc2007_patches": ("row",),
    "voc2007_main": ("trained_on", "measured_on"),
    "voc2007_parts": ("row", "trained_on"), "voc2007_seeds": ("neck", "seed_rule", "trained_on"),
    "voc2007_best": ("network", "trained_on", "measured_on"),
    "voc2007_best_parts": ("network", "measured_on"),
    "voc2007_views": ("network", "views"), "world_boxes": ("world", "boxes"), "own_images": ("image_set", "way"),
    "own_photos": ("measured_on",),
    "review_simulated": ("recipe", "order", "reviewed"),
}  # fmt: skip
MEASURES = (
    "mAP",
    "mAP_11pt",
    "CorLoc",
    "CorLoc_argmax",
    "CorLoc_vote",
    "CorLoc_evidence",
    "detection_mAP",
    "detection_mAP_11pt",
    "instance_recall",
    "recall_at_80",
    "recall_of_2",
    "recall_of_3",
    "boxes_per_class",
    "accepted",
    "corrected",
    "CorLoc_rest_before",
    "CorLoc_rest",
    "CorLoc_val",
    "detection_mAP_val",
)


def over_seeds(rows: list[dict[str, str]], same: tuple[str, ...]) -> list[dict[str, str]]:
    """Return one row for each group of rows alike in `same`, measures as mean and spread, `seed` and `seeds` naming all."""
    groups: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in same), []).append(row)
    return [
        own[0] | {key: spread([row[key] for row in own]) for key in MEASURES if key in own[0]} | seeds(own)
        for own in groups.values()
    ]


def spread(values: list[str]) -> str:
    """Return numbers as their mean, with the sample standard deviation where there are several; empty where there are none."""
    numbers = [float(value) for value in values if value]
    if len(numbers) < 2:
        return f"{numbers[0]:.1f}" if numbers else ""
    return f"{mean(numbers):.1f}\u00a0±\u00a0{stdev(numbers):.1f}"  # no line break inside


def seeds(rows: list[dict[str, str]]) -> dict[str, str]:
    """Return the seeds of rows in words."""
    return {"seeds": ", ".join(row["seed"] for row in rows)}


def results(name: str) -> list[dict[str, str]]:
    """Return the rows of a results file."""
    with (ROOT / "results" / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def summary() -> str:
    """Return the README's table: one line for each of the main networks on VOC 2007."""
    heads = ("network", "trained on", "measured on", "mAP", "CorLoc", "detection mAP", "seeds")
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for label, name, wanted in SUMMARY:
        rows = [row for row in results(name) if all(row[key] == value for key, value in wanted.items())]
        on = (rows[0].get("trained_on", "train"), rows[0].get("measured_on", "val"))  # dpl compare: train and val
        figures = (spread([row[key] for row in rows]) or "-" for key in ("mAP", "CorLoc", "detection_mAP"))
        lines.append("| " + " | ".join((label, *on, *figures, str(len(rows)))) + " |")
    names = ", ".join(f"`{name}.csv`" for name in dict.fromkeys(name for _, name, _ in SUMMARY))
    return "\n".join([*lines, "", f"`results/`: {names}, with commands, machine and date."])


def table(name: str) -> str:
    """Return one results file as a table of the page, with how it was made below."""
    if name == "summary":
        return summary()
    rows = results(name)
    columns = COLUMNS[name]
    if name == "demo":
        rows = [row for row in rows if row["seed"] == "mean"]
    if name == "box_trust":
        rows = [row for row in rows if row["bin"].startswith("best")]  # the bins are in the diagram
    commands = list(dict.fromkeys(re.sub(r" --seeds \S+", "", row.get("command", "")) for row in rows))
    rows = over_seeds(rows, SAME[name]) if name in SAME else rows
    lines = ["| " + " | ".join(columns.values()) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(WORDS.get(row[key], row[key]) or "-" for key in columns) + " |" for row in rows]
    about = rows[0]
    if name == "demo":
        made = f"`python benchmarks/demo_seeds.py`, {about['machine']}, {about['date']};"
    elif name in ("memory", "reliability"):
        dates = " and ".join(sorted({row["date"] for row in rows}))
        made = f"{about['machine']}, {dates}; commands and seeds are in the file;"
    elif name in SAME:
        said = f"`{commands[0]}`, with `--seeds`" if len(commands) == 1 else "the commands are in the file"
        made = f"{about['machine']}, {about['date']}; {said};"
    elif "images" not in about:
        made = f"`{about['command']}`, seed {about['seed']}, {about['machine']}, {about['date']};"
    else:
        made = f"`{about['command']}`, {about['images']} images, seed {about['seed']}, {about['machine']}, {about['date']};"
    return "\n".join([*lines, "", f"{made} `results/{name}.csv`"])


def page(text: str) -> str:
    """Return the page's text with every table between its marks made anew."""
    for name in (*COLUMNS, "summary"):
        marks = f"<!-- {name} -->", f"<!-- end of {name} -->"
        between = re.compile(re.escape(marks[0]) + ".*?" + re.escape(marks[1]), re.DOTALL)
        text = between.sub(lambda _, name=name, marks=marks: f"{marks[0]}\n{table(name)}\n{marks[1]}", text)
    return text


if __name__ == "__main__":
    for place in PAGES:
        place.write_text(page(place.read_text()))
