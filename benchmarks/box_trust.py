"""How likely a box is right: fits the box trust of this package on VOC 2007 and shows how it carries over to other classes.

    python benchmarks/box_trust.py VOC2007

Every seventh image of trainval is predicted with the shipped model in three views. Of each tagged class the three best boxes are
held against the true ones: right is an IoU of at least 0.5; boxes on difficult ones do not count. The shipped model was trained
on the tags of these images, and on pseudo boxes that were found from tags, never on true boxes.

A logistic regression fitted on 12 classes is measured on the images' other 8 classes, and, on the 12, on images that were left
out of the fit (five folds). That is `results/box_trust.csv` and `docs/images/box_trust.svg`. The one that is shipped,
`src/deep_patch_learning/inference/box_trust.json`, is fitted on all 20 classes.
"""

import argparse
import json
from datetime import date
from pathlib import Path

import numpy as np

from deep_patch_learning.common.boxes import box_iou
from deep_patch_learning.common.devices import machine_name
from deep_patch_learning.data.dataset import PRESENT
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.truth import TrueBoxes, read_truth
from deep_patch_learning.inference.box_trust import FEATURES, FITTED, BoxTrust, TrustingModel, Views, box_features
from deep_patch_learning.inference.loading import load
from deep_patch_learning.inference.prediction import sigmoid
from rows import RESULTS, write_rows

LEFT_OUT = ("aeroplane", "bird", "boat", "bus", "cat", "cow", "dog", "train")
BOXES = 3  # of a class in an image
BINS = 10
FOLDS = 5
RIDGE = 1.0  # the penalty of squared weights
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "box_trust.svg"


def judged(views: Views, states: np.ndarray, truth: TrueBoxes) -> list[tuple[int, bool, float, np.ndarray]]:
    """Return (class, whether it is right, probability, features) of the best boxes of each tagged class."""
    found, features = views.plain, box_features(views)
    probabilities = found.box_probabilities(found.found_scores, found.found_classes)
    rows = []
    for index in np.flatnonzero(states == PRESENT):
        best = np.flatnonzero(found.found_classes == index)
        best = best[np.argsort(-found.found_scores[best], kind="stable")][:BOXES]
        own = truth.classes == index
        for row in best:
            iou = box_iou(found.found_boxes[row][None], truth.boxes[own])[0]
            right = bool((iou[~truth.difficult[own]] >= 0.5).any())
            if right or not (iou[truth.difficult[own]] >= 0.5).any():
                rows.append((int(index), right, float(probabilities[row]), features[row]))
    return rows


def collect(data: Path, stride: int, limit: int) -> dict[str, np.ndarray]:
    """Return the judged boxes as arrays `image`, `class`, `right`, `probability` (N,) and `features` (N, F)."""
    images = read_tags(data, "trainval")
    images = images.subset(range(0, len(images), stride)[:limit])
    truth = read_truth(data, images)
    assert truth is not None
    model = TrustingModel.of(load(None, "cpu"), BoxTrust(np.zeros(len(FEATURES)), 0.0))
    found = []
    for number, path in enumerate(images.paths):
        one = [model.read(path)]
        rows = judged(model.views(one, model.begin(one))[0], images.labels[number], truth[number])
        found += [(number, *row) for row in rows]
        if number % 50 == 0:
            print(f"{number} of {len(images)} images", flush=True)
    columns = [np.array(column) for column in zip(*found, strict=True)]
    return dict(zip(("image", "class", "right", "probability", "features"), columns, strict=True))


def fit(features: np.ndarray, right: np.ndarray) -> BoxTrust:
    """Return the logistic regression of `right` (N,) on features (N, F) with a small ridge penalty, by Newton's steps."""
    centre, spread = features.mean(0), features.std(0)
    inputs = np.column_stack(((features - centre) / spread, np.ones(len(features))))
    penalty = np.diag([RIDGE] * features.shape[1] + [0.0])
    weights = np.zeros(inputs.shape[1])
    for _ in range(50):
        found = sigmoid(inputs @ weights)
        gradient = inputs.T @ (found - right) + penalty @ weights
        weights = weights - np.linalg.solve((inputs * (found * (1 - found))[:, None]).T @ inputs + penalty, gradient)
    scaled = weights[:-1] / spread
    return BoxTrust(scaled, float(weights[-1] - scaled @ centre))


def fitted_on_others(boxes: dict[str, np.ndarray]) -> np.ndarray:
    """Return the expected precision (N,) of each box, from a fit without its image's fifth of the images."""
    found = np.zeros(len(boxes["right"]))
    for fold in range(FOLDS):
        own = boxes["image"] % FOLDS == fold
        found[own] = fit(boxes["features"][~own], boxes["right"][~own]).precision(boxes["features"][own])
    return found


def reliability(name: str, predicted: np.ndarray, right: np.ndarray) -> tuple[list[dict], float]:
    """Return a row for each bin (predicted, observed, boxes), and the expected calibration error in percent."""
    bins = np.minimum((predicted * BINS).astype(int), BINS - 1)
    rows, error = [], 0.0
    for number in range(BINS):
        own = bins == number
        if own.any():
            means = float(predicted[own].mean()), float(right[own].mean())
            error += abs(means[0] - means[1]) * float(own.mean())
            bin_name = f"{number / BINS:.1f} to {(number + 1) / BINS:.1f}"
            rows.append({"boxes_of": name, "bin": bin_name, "boxes": int(own.sum())})
            rows[-1] |= {"predicted": round(means[0], 3), "observed": round(means[1], 3)}
    return rows, 100 * error


def ranking(predicted: np.ndarray, right: np.ndarray) -> float:
    """Return how often a right box has a higher value than a wrong one, in percent (the area under the ROC curve)."""
    order = np.argsort(predicted, kind="stable")
    ranks = np.empty(len(order))
    ranks[order] = np.arange(1, len(order) + 1)
    hits = int(right.sum())
    return float(100 * (ranks[right].sum() - hits * (hits + 1) / 2) / (hits * (len(right) - hits)))


def kept_at(predicted: np.ndarray, right: np.ndarray, least: float) -> dict:
    """Return how many boxes reach an expected precision, and how many of these are right, in percent."""
    kept = predicted >= least
    return {
        "kept_at_80": int(kept.sum()),
        "right_at_80": round(100 * float(right[kept].mean()), 1) if kept.any() else "",
    }


def whole(name: str, which: str, predicted: np.ndarray, boxes: dict[str, np.ndarray], taken: np.ndarray) -> dict:
    """Return the row of all boxes that are `taken` (N,)."""
    predicted, right = predicted[taken], boxes["right"][taken]
    row = {"boxes_of": name, "bin": which, "boxes": len(right), "predicted": round(float(predicted.mean()), 3)}
    row |= {"observed": round(float(right.mean()), 3)}
    row |= {"calibration_error": round(reliability(name, predicted, right)[1], 1)}
    row |= {"ranking": round(ranking(predicted, right), 1)}
    row |= {"ranking_by_score": round(ranking(boxes["probability"][taken], right), 1)}
    return row | kept_at(predicted, right, 0.8)


def draw(path: Path, parts: dict[str, list[dict]]) -> None:
    """Write the reliability diagram: predicted against observed, a circle's area in proportion to its number of boxes."""
    side, edge = 320, 48
    colours = dict(zip(parts, ("#1f6feb", "#d1600a"), strict=False))

    def at(x: float, y: float) -> tuple[float, float]:
        return edge + x * side, 12 + (1 - y) * side

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {side + edge + 160} {side + 66}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{side + edge + 160}" height="{side + 66}" fill="#ffffff"/>',
        f'<rect x="{edge}" y="12" width="{side}" height="{side}" fill="none" stroke="#888"/>',
        '<line x1="{}" y1="{}" x2="{}" y2="{}" stroke="#888" stroke-dasharray="4 4"/>'.format(*at(0, 0), *at(1, 1)),
    ]
    for tick in (0, 0.25, 0.5, 0.75, 1):
        x, y = at(tick, 0)
        lines.append(f'<text x="{x}" y="{y + 18}" text-anchor="middle">{100 * tick:.0f} %</text>')
        x, y = at(0, tick)
        lines.append(f'<text x="{x - 6}" y="{y + 4}" text-anchor="end">{100 * tick:.0f} %</text>')
    x, y = at(0.5, 0)
    lines.append(f'<text x="{x}" y="{y + 40}" text-anchor="middle">expected precision</text>')
    for number, (name, rows) in enumerate(parts.items()):
        points = [at(row["predicted"], row["observed"]) for row in rows]
        joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        lines.append(f'<polyline points="{joined}" fill="none" stroke="{colours[name]}" stroke-width="1.5"/>')
        for (x, y), row in zip(points, rows, strict=True):
            radius = max(np.sqrt(row["boxes"]) / 1.6, 2)
            lines.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{colours[name]}" fill-opacity="0.45"/>'
            )
        top = 30 + 22 * number
        lines.append(f'<circle cx="{edge + side + 16}" cy="{top - 4}" r="5" fill="{colours[name]}"/>')
        lines.append(f'<text x="{edge + side + 26}" y="{top}">{name}</text>')
    lines.append(f'<text x="{edge + side + 10}" y="{12 + side}" fill="#666">y: share that is right</text>')
    path.write_text("\n".join([*lines, "</svg>"]) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--stride", type=int, default=7, help="every so many images of trainval")
    parser.add_argument("--limit", type=int, default=450, help="only the first so many of these")
    parser.add_argument("--boxes", type=Path, help="an .npz for the judged boxes: read where it is there, else written")
    options = parser.parse_args()
    images = read_tags(options.data, "trainval")
    if options.boxes is not None and options.boxes.exists():
        boxes = dict(np.load(options.boxes))
    else:
        boxes = collect(options.data, options.stride, options.limit)
        if options.boxes is not None:
            np.savez(options.boxes, **boxes)
    outside = np.isin(boxes["class"], [images.classes.index(name) for name in LEFT_OUT])
    inner, outer = ({key: values[mask] for key, values in boxes.items()} for mask in (~outside, outside))
    expected = {
        "12 classes of the fit": (fitted_on_others(inner), inner),
        "8 other classes": (fit(inner["features"], inner["right"]).precision(outer["features"]), outer),
    }
    rows, parts = [], {}
    command = f"python benchmarks/box_trust.py {options.data.name} --stride {options.stride} --limit {options.limit}"
    made = {
        "images": len(set(boxes["image"].tolist())),
        "seed": 0,
        "command": command,
        "machine": machine_name("cpu"),
        "date": date.today().isoformat(),
    }
    for name, (predicted, own) in expected.items():
        parts[name], _ = reliability(name, predicted, own["right"])
        best = own["features"][:, FEATURES.index("further")] == 0
        rows += [
            *parts[name],
            whole(name, "best three of each tag", predicted, own, best | True),
            whole(name, "best of each tag", predicted, own, best),
        ]
        print(rows[-2], rows[-1], sep="\n")
    predicted, own = expected["8 other classes"]
    best = own["features"][:, FEATURES.index("further")] == 0
    for name in LEFT_OUT:
        mask = best & (own["class"] == images.classes.index(name))
        means = {
            "predicted": round(float(predicted[mask].mean()), 3),
            "observed": round(float(own["right"][mask].mean()), 3),
        }
        rows.append({"boxes_of": name, "bin": "of each tag", "boxes": int(mask.sum()), **means})
    empty = dict.fromkeys(("calibration_error", "ranking", "ranking_by_score", "kept_at_80", "right_at_80"), "")
    columns = ("boxes_of", "bin", "boxes", "predicted", "observed", *empty)
    write_rows(RESULTS / "box_trust.csv", [{key: {**empty, **row}[key] for key in columns} | made for row in rows])
    draw(PICTURE, parts)
    shipped = fit(boxes["features"], boxes["right"])
    about = {"classes": list(images.classes), "boxes": len(boxes["right"]), "images": len(set(boxes["image"].tolist()))}
    fitted_on = {"data": "VOC 2007 trainval, true boxes", "model": "shipped", **about}
    FITTED.write_text(json.dumps({**shipped.as_dict(), "fitted_on": fitted_on}, indent=1) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
