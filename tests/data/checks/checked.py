"""What the tests of `dpl check` share: a photo to look at, and the finding that a report should hold."""

import sys

import cv2
import numpy as np

from deep_patch_learning.data.checks.check import Report
from deep_patch_learning.data.checks.findings import Finding

DPL = [sys.executable, "-m", "deep_patch_learning"]


def photo(seed: int, height: int = 60, width: int = 80) -> np.ndarray:
    rng = np.random.default_rng(seed)
    soft = cv2.resize(rng.uniform(20, 200, (9, 12, 3)), (width, height), interpolation=cv2.INTER_CUBIC)
    return (soft + rng.normal(0, 6, soft.shape)).clip(0, 255).astype(np.uint8)


def finding(report: Report, kind: str) -> Finding:
    return next(one for one in report.findings if one.kind == kind)
