"""Write the tables of README.md and docs/*.md anew from results/*.csv.

python benchmarks/tables.py
"""

import csv
import re
from pathlib import Path
from statistics import mean, stdev

ROOT = Path(__file__).parent.parent
CARD = ROOT / "src" / "deep_patch_learning" / "shipped" / "MODEL_CARD.md"
PAGES = [ROOT / "README.md", CARD, *sorted((ROOT / "docs").glob("*.md"))]
COLUMNS = {
    "patches_against_opencv": {
        "method": "method", "first": "first boxes", "boxes": "boxes", "seconds_median": "seconds (median)",
        "times_opencv": "times OpenCV's speed", "recall_50": "recall 0.5", "recall_70": "recall 0.7",
        "mean_best_overlap": "mean best overlap",
    },
    "patches_voc2007_trainval": {
        "method": "method", "first": "first boxes", "boxes": "boxes", "seconds_per_image": "seconds per image and core",
        "recall_50": "recall 0.5", "recall_70": "recall 0.7", "mean_best_overlap": "mean best overlap",
    },
    "patches_steps": {
        "step": "step (each keeps those before)", "seconds": "seconds (median)", "boxes": "boxes",
        "recall_50_256": "recall 0.5, first 256", "recall_50_1000": "recall 0.5, first 1000",
        "recall_70_1000": "recall 0.7, first 1000", "recall_50_all": "recall 0.5, all", "recall_70_all": "recall 0.7, all",
    },
    "patches_profile": {"stage": "stage", "milliseconds": "ms per image"},
    "pooling_cpu": {
        "case": "case", "patches": "patches", "torchvision_forward": "torchvision, s", "ours_forward": "ours, s",
        "forward_ratio": "times as fast", "both_ratio": "times as fast with gradients",
    },
    "gpu_speed": {
        "what": "what", "network": "network", "patches": "patches", "images_per_step": "images at once", "ours": "ours",
        "plain": "beside it", "unit": "unit", "ratio": "times as fast", "share_of_matrix_rate": "share of the matrix rate",
    },
    "gpu_refinement": {
        "network": "network", "patches": "patches", "images_per_step": "images at once", "two_heads_ms": "two heads, ms a step",
        "refined_ms": "with a refinement", "added_percent": "added, %",
    },
    "gpu_profile": {"network": "network", "patches": "patches", "kind": "kind of work", "ms_per_sample": "ms a sample"},
    "gpu_memory": {
        "network": "network", "images_per_micro_batch": "images at once", "patches": "patches of each", "gibibytes": "GiB",
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
        "patch_seconds": "s to make an image's", "seeds": "seeds",
    },
    "voc2007_main": {
        "trained_on": "trained on", "measured_on": "measured on", "mAP": "mAP", "mAP_11pt": "mAP 11-point", "CorLoc": "CorLoc",
        "detection_mAP": "detection mAP", "seeds": "seeds",
    },
    "voc2007_parts": {
        "row": "network", "trained_on": "trained on", "measured_on": "measured on", "samples": "samples", "mAP": "mAP",
        "mAP_11pt": "mAP 11-point", "CorLoc": "CorLoc", "detection_mAP_11pt": "detection mAP 11-point", "seeds": "seeds",
    },
    "detector_on_labels": {
        "trained_on": "trained on", "boxes": "boxes", "measured_on": "measured on", "detection_mAP": "detection mAP",
        "detection_mAP_11pt": "detection mAP 11-point", "share_of_full": "share of full supervision",
    },
    "shipped_model": {
        "trained_on": "trained on", "measured_on": "measured on", "mAP": "mAP", "mAP_11pt": "mAP 11-point", "CorLoc": "CorLoc",
        "detection_mAP": "detection mAP", "recall_at_80": "recall at 80 % precision",
    },
    "own_photos": {
        "layers": "layers it begins with", "measured_on": "measured on", "mAP": "mAP", "CorLoc": "CorLoc",
        "detection_mAP": "detection mAP", "recall_at_80": "recall at 80 % precision",
    },
    "shipped_speed": {"what": "what", "seconds": "seconds a photo (median)", "times_the_peer": "times SSDLite320"},
    "world_boxes": {
        "world": "images", "boxes": "boxes", "mAP": "mAP", "detection_mAP": "detection mAP",
        "recall_at_80": "recall at 80 % precision", "recall_of_2": "recall of 2 a class", "recall_of_3": "of 3 a class",
        "CorLoc": "CorLoc",
    },
    "demo": {
        "way": "mean of three seeds", "mAP": "mAP", "mAP_11pt": "mAP 11-point", "CorLoc": "CorLoc",
        "detection_mAP": "detection mAP", "recall_at_80": "recall at 80 % precision",
    },
}  # fmt: skip


# Rows that differ in the seed alone become one, with the mean and the sample standard deviation.
SAME = {
    "voc2007_peers": ("peer",), "voc2007_tasks": ("row",), "voc2007_scales": ("row",), "voc2007_patches": ("row",),
    "voc2007_main": ("trained_on", "measured_on"),
    "voc2007_parts": ("row", "trained_on"), "world_boxes": ("world", "boxes"),
}  # fmt: skip
MEASURES = (
    "mAP",
    "mAP_11pt",
    "CorLoc",
    "detection_mAP",
    "detection_mAP_11pt",
    "instance_recall",
    "recall_at_80",
    "recall_of_2",
    "recall_of_3",
    "boxes_per_class",
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
    return f"{mean(numbers):.1f} ± {stdev(numbers):.1f}"


def seeds(rows: list[dict[str, str]]) -> dict[str, str]:
    """Return the seeds of rows in words."""
    return {"seeds": ", ".join(row["seed"] for row in rows)}


def table(name: str) -> str:
    """Return one results file as a table of the page, with how it was made below."""
    with (ROOT / "results" / f"{name}.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    columns = COLUMNS[name]
    if name == "demo":
        rows = [row for row in rows if row["seed"] == "mean"]
    commands = list(dict.fromkeys(re.sub(r" --seeds \S+", "", row.get("command", "")) for row in rows))
    rows = over_seeds(rows, SAME[name]) if name in SAME else rows
    lines = ["| " + " | ".join(columns.values()) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(row[key] or "-" for key in columns) + " |" for row in rows]
    about = rows[0]
    if name == "demo":
        made = f"`python benchmarks/demo_seeds.py`, {about['machine']}, {about['date']};"
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
    for name in COLUMNS:
        marks = f"<!-- {name} -->", f"<!-- end of {name} -->"
        between = re.compile(re.escape(marks[0]) + ".*?" + re.escape(marks[1]), re.DOTALL)
        text = between.sub(lambda _, name=name, marks=marks: f"{marks[0]}\n{table(name)}\n{marks[1]}", text)
    return text


if __name__ == "__main__":
    for place in PAGES:
        place.write_text(page(place.read_text()))
