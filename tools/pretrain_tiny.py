"""Pretrains the tiny network on drawn objects (`data/world/school.py`) and writes the weights that the package ships.

    python tools/pretrain_tiny.py OUT.safetensors [--lessons 200000] [--steps 6000] [--seed 0]

A minute on a GPU with 16 cores for the drawing; one to two hours on two cores. The last line has the accuracy on held-out
lessons.
"""

import argparse
import json
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn

from deep_patch_learning.data.world.school import SUBJECTS, draw_lesson
from deep_patch_learning.model.backbones.tiny import tiny
from deep_patch_learning.model.pooling import SpatialPyramidPooling

SIDES = (40, 56, 72, 96)  # objects have several sizes, as patches do
HELD_OUT = 10_000_000


def draw_many(job: tuple[int, int, int, int]) -> tuple[np.ndarray, np.ndarray]:
    seed, first, count, side = job
    lessons = [draw_lesson(seed, first + i, side) for i in range(count)]
    return np.stack([image for image, _ in lessons]), np.array([label for _, label in lessons])


def draw_all(seed: int, lessons: int, first: int, workers: int) -> list[tuple[Tensor, Tensor]]:
    """Return for each side its lessons as (L, side, side, 3) uint8, and their labels (L,)."""
    per_side, block = lessons // len(SIDES), 250
    drawn = []
    with ProcessPoolExecutor(workers) as pool:
        for place, side in enumerate(SIDES):
            start = first + place * per_side
            jobs = [(seed, at, min(block, start + per_side - at), side) for at in range(start, start + per_side, block)]
            images, labels = zip(*pool.map(draw_many, jobs), strict=True)
            drawn.append((torch.from_numpy(np.concatenate(images)), torch.from_numpy(np.concatenate(labels))))
    return drawn


class Pupil(nn.Module):
    """The tiny backbone with the whole image as its only patch, and a classifier of objects."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = tiny()
        self.backbone, self.patch_features = self.trunk.backbone, self.trunk.patch_features
        self.pool = SpatialPyramidPooling(self.trunk.pooled_size, self.backbone.stride)
        self.classifier = nn.Linear(self.patch_features.width, len(SUBJECTS))

    def forward(self, images: Tensor) -> Tensor:
        side = images.shape[1]
        maps = self.backbone(images.permute(0, 3, 1, 2).float())
        patches = torch.tensor([[0.0, 0.0, side, side]], device=images.device).expand(len(images), 4)
        return self.classifier(
            self.patch_features(self.pool(maps, patches, torch.arange(len(images), device=images.device)))
        )


def share_right(pupil: Pupil, held_out: list[tuple[Tensor, Tensor]], device: str) -> float:
    pupil.eval()
    right = total = 0
    with torch.inference_mode():
        for images, labels in held_out:
            for at in range(0, len(images), 500):
                found = pupil(images[at : at + 500].to(device)).argmax(1).cpu()
                right, total = right + int((found == labels[at : at + 500]).sum()), total + len(found)
    return right / total


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--lessons", type=int, default=200_000)
    parser.add_argument("--steps", type=int, default=6_000)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=16)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    began = time.time()
    lessons = draw_all(options.seed, options.lessons, 0, options.workers)
    held_out = draw_all(options.seed, 4_000, HELD_OUT, options.workers)
    print(f"drawn in {time.time() - began:.0f} s", flush=True)
    torch.manual_seed(options.seed)
    lessons = [(images.to(device), labels.to(device)) for images, labels in lessons]
    pupil = Pupil().to(device)
    optimiser = torch.optim.AdamW(pupil.parameters(), lr=options.rate, weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, options.rate, options.steps, pct_start=0.1)
    rng = np.random.default_rng(options.seed)
    for step in range(options.steps):
        images, labels = lessons[rng.integers(len(SIDES))]
        drawn = torch.from_numpy(rng.integers(len(images), size=options.batch)).to(device)
        seen = images[drawn]
        if rng.random() < 0.5:
            seen = seen.flip(2)
        loss = F.cross_entropy(pupil(seen), labels[drawn], label_smoothing=0.05)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % 500 == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
    right = share_right(pupil.train(False), held_out, device)
    state = {
        k: v
        for part in ("backbone", "patch_features")
        for k, v in getattr(pupil, part).state_dict(prefix=f"{part}.").items()
    }
    halved = {
        k: (v if "running" in k else v.half()).cpu().contiguous() for k, v in state.items() if v.is_floating_point()
    }
    about = {"subjects": json.dumps(SUBJECTS), "held_out_right": f"{right:.4f}", "seed": str(options.seed)}
    save_file(halved, options.out, metadata=about)
    size = options.out.stat().st_size / 1e3
    print(f"{100 * right:.1f} % of held-out lessons correct; {size:.0f} kB; {time.time() - began:.0f} s")


if __name__ == "__main__":
    main()
