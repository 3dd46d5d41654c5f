"""What the tests of `dpl check` share: a photo, a check of images at hand, and the finding that a report should hold."""

import sys
from collections.abc import Mapping, Sequence

import cv2
import numpy as np

from deep_patch_learning.data.checks.check import CheckReport, DataToCheck, check
from deep_patch_learning.data.checks.findings import Finding
from deep_patch_learning.data.dataset import TaggedImages
from deep_patch_learning.data.truth import TrueBoxes

DPL = [sys.executable, "-m", "deep_patch_learning"]


def photo(seed: int, height: int = 60, width: int = 80) -> np.ndarray:
    rng = np.random.default_rng(seed)
    soft = cv2.resize(rng.uniform(20, 200, (9, 12, 3)), (width, height), interpolation=cv2.INTER_CUBIC)
    return (soft + rng.normal(0, 6, soft.shape)).clip(0, 255).astype(np.uint8)


def report_on(
    images: TaggedImages,
    splits: Mapping[str, TaggedImages] | None = None,
    split: str | None = None,
    truth: Sequence[TrueBoxes] | None = None,
    limit: int | None = None,
) -> CheckReport:
    return check(DataToCheck(images, splits, split, truth), limit)


def finding(report: CheckReport, kind: str) -> Finding:
    return next(one for one in report.findings if one.kind == kind)
