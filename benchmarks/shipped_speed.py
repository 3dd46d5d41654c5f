"""The shipped model beside torchvision's SSDLite320 with MobileNetV3 on the same photos, alternately in one process.

    python benchmarks/shipped_speed.py PHOTOS [--count 60]

From the pixels of a photo to its boxes, on two threads: ours makes patches, scores them and selects boxes. The peer's weights are
random, which does not change its time. Writes results/shipped_speed.csv.
"""

import argparse
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from statistics import median

import numpy as np
import torch
from torchvision.models.detection import ssdlite320_mobilenet_v3_large

import deep_patch_learning as dpl
from deep_patch_learning.common.devices import machine_name
from deep_patch_learning.data.images import read_image
from rows import RESULTS, write_rows

WARM = 3  # photos that are not counted: compilation and allocation


def seconds(work: Callable[[np.ndarray], object], photo: np.ndarray) -> float:
    """Return how long one photo takes."""
    began = time.perf_counter()
    work(photo)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("photos", type=Path, help="a folder of JPEGs; the first ones are taken")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    photos = [read_image(path) for path in sorted(options.photos.glob("*.jpg"))[: options.count + WARM]]
    model = dpl.load(device="cpu")
    peer = ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=21).eval()

    @torch.inference_mode()
    def beside(photo: np.ndarray) -> object:
        return peer([torch.from_numpy(photo).permute(2, 0, 1).float() / 255])

    ways = {"SSDLite320-MobileNetV3": beside, "shipped model": model.predict, "of it, patches": model.patch_generator}
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for number, photo in enumerate(photos):
        for name, work in ways.items():
            took = seconds(work, photo)
            if number >= WARM:
                spent[name].append(took)
    first = median(spent["SSDLite320-MobileNetV3"])
    about = {"photos": len(photos) - WARM, "threads": options.threads, "seed": 0}
    about |= {"command": f"python benchmarks/shipped_speed.py {options.photos.name} --count {options.count}"}
    about |= {"machine": machine_name(), "date": date.today().isoformat()}
    rows = [
        {"what": name, "seconds": round(median(took), 4), "times_the_peer": round(median(took) / first, 2)} | about
        for name, took in spent.items()
    ]
    write_rows(RESULTS / "shipped_speed.csv", rows)
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
