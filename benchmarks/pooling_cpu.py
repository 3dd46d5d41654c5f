"""Times RoI max-pooling on the CPU against torchvision's and writes results/pooling_cpu.csv: a row per case.

    python benchmarks/pooling_cpu.py [--seed 0] [--repeats 10]

Both are timed in turn, and the best of each counts, so that what else runs on the machine falls on neither.
"""

import argparse
import csv
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import torch
from torch import Tensor
from torchvision.ops import roi_pool

from deep_patch_learning.model.kernels.pooling_cpu import roi_max_pool
from written import this_machine

RESULTS = Path(__file__).parent.parent / "results" / "pooling_cpu.csv"
# images, channels, height and width of the maps; patches in all; bins to a side; pixels to a cell
CASES = {
    "VGG16, one image of 800 x 608": (1, 512, 38, 50, 2000, 7, 16),
    "VGG16, four images of 480 x 352": (4, 512, 22, 30, 2000, 7, 16),
    "ResNet-50, one image of 800 x 608": (1, 1024, 38, 50, 300, 14, 16),
    "tiny, 16 images of 160 x 160, 32 patches each": (16, 48, 40, 40, 512, 6, 4),
    "tiny, 16 images, 8 patches each": (16, 48, 40, 40, 128, 6, 4),
    "tiny, 16 images, 2 patches each": (16, 48, 40, 40, 32, 6, 4),
    "tiny, 16 images, 1 patch each": (16, 48, 40, 40, 16, 6, 4),
    "tiny, one image, 32 patches": (1, 48, 40, 40, 32, 6, 4),
    "tiny, one image, 1 patch": (1, 48, 40, 40, 1, 6, 4),
}
Pool = Callable[[Tensor, Tensor, int, float], Tensor]
POOLS: dict[str, Pool] = {"torchvision": roi_pool, "ours": roi_max_pool}


def make(case: tuple[int, ...], seed: int) -> tuple[Tensor, Tensor]:
    images, depth, height, width, patches, _, stride = case
    generator = torch.Generator().manual_seed(seed)
    maps = torch.randn(images, depth, height, width, generator=generator).relu()
    corners = torch.rand(patches, 2, 2, generator=generator).sort(1).values * torch.tensor([width, height]) * stride
    image = torch.arange(patches) % images
    return maps, torch.cat((image[:, None], corners.reshape(patches, 4)), dim=1)


def forward(pool: Pool, maps: Tensor, rois: Tensor, size: int, scale: float, _: Tensor) -> float:
    began = time.perf_counter()
    with torch.no_grad():
        pool(maps, rois, size, scale)
    return time.perf_counter() - began


def both(pool: Pool, maps: Tensor, rois: Tensor, size: int, scale: float, gradient: Tensor) -> float:
    leaf = maps.clone().requires_grad_()
    began = time.perf_counter()
    torch.autograd.grad(pool(leaf, rois, size, scale), leaf, gradient)
    return time.perf_counter() - began


def compare(case: tuple[int, ...], seed: int, repeats: int) -> dict[str, float]:
    maps, rois = make(case, seed)
    size, scale = case[5], 1 / case[6]
    gradient = torch.ones_like(roi_pool(maps, rois, size, scale))
    best: dict[str, float] = {}
    for repeat in range(repeats + 1):
        for way in (forward, both):
            for name, pool in POOLS.items():
                seconds = way(pool, maps, rois, size, scale, gradient)
                if repeat:  # the first compiles
                    key = f"{name}_{way.__name__}"
                    best[key] = min(best.get(key, seconds), seconds)
    for way in (forward, both):
        best[f"{way.__name__}_ratio"] = best[f"torchvision_{way.__name__}"] / best[f"ours_{way.__name__}"]
    return best


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=10)
    given = parser.parse_args()
    common = {
        "command": f"python benchmarks/pooling_cpu.py --seed {given.seed} --repeats {given.repeats}",
        "seed": given.seed,
        "machine": this_machine(),
        "date": date.today().isoformat(),
    }
    columns = [f"{name}_{part}" for part in ("forward", "both") for name in ("torchvision", "ours")]
    columns = ["case", "patches", *columns[:2], "forward_ratio", *columns[2:], "both_ratio", *common]
    rows = []
    for name, case in CASES.items():
        repeats = given.repeats if case[4] > 500 else 5 * given.repeats
        seconds = compare(case, given.seed, repeats)
        figures = {key: f"{value:.2f}" if key.endswith("ratio") else f"{value:.5f}" for key, value in seconds.items()}
        rows.append({"case": name, "patches": case[4], **figures, **common})
        print(name, {key: rows[-1][key] for key in columns[2:8]}, flush=True)
    with RESULTS.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
