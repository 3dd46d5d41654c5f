"""Write the tables of README.md and docs/*.md anew from results/*.csv.

python benchmarks/tables.py
"""

import csv
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
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
    "demo": {
        "way": "mean of three seeds", "mAP": "mAP", "mAP_11pt": "mAP 11-point", "CorLoc": "CorLoc",
        "detection_mAP": "detection mAP", "instance_recall": "instance recall",
    },
}  # fmt: skip


def table(name: str) -> str:
    """Return one results file as a table of the page, with how it was made below."""
    with (ROOT / "results" / f"{name}.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    columns = COLUMNS[name]
    if name == "demo":
        rows = [row for row in rows if row["seed"] == "mean"]
    lines = ["| " + " | ".join(columns.values()) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(row[key] or "-" for key in columns) + " |" for row in rows]
    about = rows[0]
    if name == "demo":
        made = f"`python benchmarks/demo_seeds.py`, {about['machine']}, {about['date']};"
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
