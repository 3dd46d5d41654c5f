"""A stock detector trained on boxes that were found from tags, beside the same detector trained on the true boxes.

    dpl label VOC2007 --split train --model RUN --min-score 0 --out labels
    python benchmarks/detector_on_labels.py VOC2007 labels --weights resnet50_imagenet.safetensors [--stride-in-first]

Torchvision's Faster R-CNN with ResNet-50 and a feature pyramid, from ImageNet weights, both times with the same images, steps
and seed; detection mAP on val. Boxes marked difficult are left out of training. Writes results/detector_on_labels.csv: the
share of full supervision that tags buy. With --only one of the two is trained, and the other's row stays as it is in the file.
The labels of the row `tags` in results/ are those of the run "fourth round of three", seed 0, of benchmarks/voc_parts.py: its
best box for each tag.
"""

import argparse
import csv
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torchvision.models import resnet50
from torchvision.models.detection import FasterRCNN
from torchvision.models.detection.backbone_utils import BackboneWithFPN
from torchvision.ops.misc import FrozenBatchNorm2d

from deep_patch_learning.data.dataset import TaggedImages, limited
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.truth import TrueBoxes, read_truth
from deep_patch_learning.evaluation.discovery import detection_mean_ap
from written import RESULTS, this_machine, write_rows

Boxes = tuple[np.ndarray, np.ndarray]  # (B, 4) and the class of each


def found_boxes(folder: Path, images: TaggedImages) -> list[Boxes]:
    """Return the boxes that `dpl label` wrote, for each of the images."""
    (file,) = (folder / "annotations").glob("*.json")
    content = json.loads(file.read_text())
    names = {category["id"]: category["name"] for category in content["categories"]}
    column = {name: index for index, name in enumerate(images.classes)}
    places = {image["id"]: Path(image["file_name"]).stem for image in content["images"]}
    own: dict[str, list[tuple[list[float], int]]] = {stem: [] for stem in places.values()}
    for one in content["annotations"]:
        x, y, width, height = one["bbox"]
        own[places[one["image_id"]]].append(([x, y, x + width, y + height], column[names[one["category_id"]]]))
    return [_arrays(own[path.stem]) for path in images.paths]


def _arrays(rows: list[tuple[list[float], int]]) -> Boxes:
    return np.array([box for box, _ in rows], np.float32).reshape(-1, 4), np.array([c for _, c in rows], np.int64)


def true_boxes(truth: list[TrueBoxes]) -> list[Boxes]:
    """Return the true boxes that are not difficult."""
    return [(one.boxes[~one.difficult], one.classes[~one.difficult]) for one in truth]


def detector(classes: int, weights: Path, size: int, stride_in_first: bool) -> FasterRCNN:
    """Return the detector with its first two stages frozen."""
    body = resnet50(norm_layer=FrozenBatchNorm2d)
    if stride_in_first:
        for layer in (body.layer2, body.layer3, body.layer4):
            layer[0].conv1.stride, layer[0].conv2.stride = (2, 2), (1, 1)
    kept = body.state_dict()
    state = {name: tensor.float() for name, tensor in load_file(weights).items() if name in kept}
    missing = body.load_state_dict(state, strict=False).missing_keys
    if any(not name.startswith("fc.") for name in missing):
        raise SystemExit(f"{weights}: lacks {missing[:3]}")
    for name, parameter in body.named_parameters():
        parameter.requires_grad_(name.startswith(("layer2", "layer3", "layer4")))
    layers = {f"layer{n}": str(n - 1) for n in range(1, 5)}
    trunk = BackboneWithFPN(body, layers, [256, 512, 1024, 2048], 256)
    return FasterRCNN(trunk, classes + 1, min_size=size, max_size=size * 5 // 3)


def batches(count: int, together: int, steps: int, seed: int) -> Iterator[list[tuple[int, bool]]]:
    """Yield which images a step sees, and whether mirrored."""
    random = np.random.default_rng(seed)
    order: list[int] = []
    for _ in range(steps):
        while len(order) < together:
            order += random.permutation(count).tolist()
        yield [(index, bool(random.integers(2))) for index in order[:together]]
        del order[:together]


def train(
    model: FasterRCNN, images: list[Tensor], boxes: list[Boxes], options: argparse.Namespace, device: str
) -> None:
    """Train on images that have a box."""
    usable = [index for index, (own, _) in enumerate(boxes) if len(own)]
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    rate = 0.02 * options.batch / 16
    optimiser = torch.optim.SGD(learning, lr=rate, momentum=0.9, weight_decay=1e-4)
    warm = max(1, min(200, options.steps // 5))
    schedule = torch.optim.lr_scheduler.SequentialLR(
        optimiser,
        [
            torch.optim.lr_scheduler.LinearLR(optimiser, 0.01, total_iters=warm),
            torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, max(options.steps - warm, 1)),
        ],
        [warm],
    )
    model.train()
    for step, seen in enumerate(batches(len(usable), options.batch, options.steps, options.seed)):
        views, targets = [], []
        for place, flip in seen:
            image, (own, classes) = images[usable[place]], boxes[usable[place]]
            pixels = image.to(device).permute(2, 0, 1).float() / 255
            where = torch.from_numpy(own).to(device)
            if flip:
                pixels = pixels.flip(2)
                where = torch.stack(
                    (image.shape[1] - where[:, 2], where[:, 1], image.shape[1] - where[:, 0], where[:, 3]), 1
                )
            views.append(pixels)
            targets.append({"boxes": where, "labels": torch.from_numpy(classes + 1).to(device)})
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            loss = sum(model(views, targets).values())
        loss.backward()
        nn.utils.clip_grad_norm_(learning, 10.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        schedule.step()
        if step % 100 == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)


@torch.inference_mode()
def detections(model: FasterRCNN, images: list[Tensor], device: str) -> list[SimpleNamespace]:
    """Return the boxes found in each image."""
    model.eval()
    found = []
    for at in range(0, len(images), 16):
        views = [image.to(device).permute(2, 0, 1).float() / 255 for image in images[at : at + 16]]
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            outputs = model(views)
        for one in outputs:
            arrays = {f"found_{key}": one[key].float().cpu().numpy() for key in ("boxes", "scores")}
            found.append(SimpleNamespace(**arrays, found_classes=one["labels"].cpu().numpy() - 1))
    return found


def keep(path: Path, row: dict) -> None:
    """Put a row into the table, in place of one of the same kind; the shares follow once both are there."""
    rows = {"tags": None, "true boxes": None}
    if path.exists():
        with path.open(newline="") as file:
            rows |= {kept["trained_on"]: kept for kept in csv.DictReader(file)}
    rows[row["trained_on"]] = row
    there = [kept for kept in rows.values() if kept is not None]
    if len(there) == len(rows) and len({kept["command"] for kept in there}) == 1:
        full = float(rows["true boxes"]["detection_mAP"])
        for kept in there:
            kept["share_of_full"] = round(float(kept["detection_mAP"]) / full, 3) if full else ""
    write_rows(path, there)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("labels", type=Path, help="what dpl label wrote for the images of train, in the COCO format")
    parser.add_argument("--weights", type=Path, required=True, help="ResNet-50 on ImageNet, torchvision's names")
    parser.add_argument(
        "--stride-in-first", action="store_true", help="the weights' strides are those of the 2015 paper"
    )
    parser.add_argument("--steps", type=int, default=750)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--size", type=int, default=480, help="the shorter side of images")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, help="only the first images, to see that it runs")
    parser.add_argument("--only", choices=("tags", "true boxes"), help="train this one, and keep the other's row")
    parser.add_argument("--out", type=Path, default=RESULTS / "detector_on_labels.csv")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    training, testing = (limited(read_tags(options.data, split), options.limit) for split in ("train", "val"))
    truth, tested = read_truth(options.data, training), read_truth(options.data, testing)
    assert truth is not None
    assert tested is not None
    with ThreadPoolExecutor() as pool:
        images, test_images = (
            [torch.from_numpy(image) for image in pool.map(each.read, range(len(each)))] for each in (training, testing)
        )
    machine = torch.cuda.get_device_name() if device == "cuda" else this_machine()
    settings = f"--steps {options.steps} --batch {options.batch} --size {options.size} --seed {options.seed}"
    weights = f"--weights {options.weights.name}{' --stride-in-first' * options.stride_in_first}"
    command = f"python benchmarks/detector_on_labels.py {options.data.name} {options.labels.name} {weights} {settings}"
    given = {"tags": found_boxes(options.labels, training), "true boxes": true_boxes(truth)}
    for name, boxes in given.items():
        if options.only not in (None, name):
            continue
        torch.manual_seed(options.seed)
        model = detector(len(training.classes), options.weights, options.size, options.stride_in_first).to(device)
        train(model, images, boxes, options, device)
        report = detection_mean_ap(detections(model, test_images, device), tested, testing.classes)
        row = {"trained_on": name, "boxes": sum(len(own) for own, _ in boxes), "images": len(training)}
        row |= {"detection_mAP": round(report.mean_ap, 2), "detection_mAP_11pt": round(report.mean_ap_11_point, 2)}
        row |= {"measured_on": "val", "steps": options.steps, "images_per_step": options.batch, "size": options.size}
        row |= {"seed": options.seed, "command": command, "machine": machine, "date": date.today().isoformat()}
        row |= {"share_of_full": ""}
        print(row, flush=True)
        keep(options.out, row)
        del model


if __name__ == "__main__":
    main()
