"""How many patches pool other cells of the map with half-open corners than with inclusive ones, as the paper's program has them.

    python benchmarks/corners.py VOC2007 [--split trainval] [--limit 100] [--seed 0]

For the patches of the recipe `paper` (the original Selective Search) and for random boxes in the same images, at the paper's
smallest and largest scale. Writes results/corners.csv.
"""

import argparse
from datetime import date
from pathlib import Path

import numpy as np
import torch

from deep_patch_learning.common.devices import machine_name
from deep_patch_learning.data.batch import lay_out
from deep_patch_learning.data.dataset import limited
from deep_patch_learning.data.images import read_image
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.model.kernels.pooling_loops import bin_bounds
from deep_patch_learning.model.pooling import inclusive_corners
from deep_patch_learning.patches.prepare import prepare
from deep_patch_learning.recipe.build import recipe_patches
from deep_patch_learning.recipe.presets import paper
from rows import RESULTS, write_rows

STRIDE, SIZE = 16, 7
CELLS = 1200 // STRIDE + 1  # of a map that no patch leaves


def changed(boxes: np.ndarray, size: tuple[int, int], scale: int) -> np.ndarray:
    """Return for each half-open box (P, 4) of an image whether its bins are others with inclusive corners."""
    layout = lay_out([size], [boxes], scale)
    inclusive = inclusive_corners(layout.patches, layout.patch_image, torch.tensor(layout.pixels))
    first, second = (_bins(patches) for patches in (layout.patches, inclusive))
    return (first != second).any(axis=(1, 2, 3))


def _bins(patches: torch.Tensor) -> np.ndarray:
    rois = torch.cat((torch.zeros(len(patches), 1), patches), dim=1).numpy()
    return bin_bounds(rois, rois.dtype.type(1 / STRIDE), SIZE, CELLS, CELLS)


def random_boxes(count: int, size: tuple[int, int], generator: np.random.Generator) -> np.ndarray:
    """Return boxes (count, 4) between random corners of an image of (height, width), none without a pixel."""
    limits = np.array(size)[::-1]
    corners = np.sort(generator.random((2, count, 2)) * limits, axis=0).astype(int)
    return np.concatenate((corners[0], np.maximum(corners[1], corners[0] + 1)), axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--split", default="trainval")
    parser.add_argument("--limit", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    wanted = parser.parse_args()
    prepared = prepare(limited(read_tags(wanted.data, wanted.split), wanted.limit), recipe_patches(paper()))
    sizes = [read_image(path).shape[:2] for path in prepared.images.paths]
    generator = np.random.default_rng(wanted.seed)
    searched = [np.asarray(prepared.patches[index]) for index in range(len(sizes))]
    kinds = {
        "Selective Search, original": searched,
        "random boxes": [
            random_boxes(len(boxes), size, generator) for boxes, size in zip(searched, sizes, strict=True)
        ],
    }
    rows = []
    for name, boxes in kinds.items():
        for scale in (480, 1200):
            found = np.concatenate([changed(own, size, scale) for own, size in zip(boxes, sizes, strict=True)])
            rows.append(
                {
                    "patches": name,
                    "scale": scale,
                    "count": len(found),
                    "changed_percent": f"{100 * found.mean():.1f}",
                    "images": len(sizes),
                    "command": f"python benchmarks/corners.py VOC2007 --limit {wanted.limit}",
                    "seed": wanted.seed,
                    "machine": machine_name(),
                    "date": date.today().isoformat(),
                }
            )
            print(f"{name}, {scale} pixels: {rows[-1]['changed_percent']} % of {len(found):,} patches")
    write_rows(RESULTS / "corners.csv", rows)


if __name__ == "__main__":
    main()
