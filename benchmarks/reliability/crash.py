"""Runs that are killed at a random moment, disks that are full, folders that are read-only, two processes on one folder."""

import os
from pathlib import Path

import numpy as np
from outcomes import Kind, Outcome, Result, Trial, dpl, run
from PIL import Image


def kinds(scratch: Path) -> dict[str, Kind]:
    """Return the kinds of trials; what they share is made in `scratch`."""
    image = scratch / "image.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (48, 64, 3), np.uint8)).save(image)
    env = {**os.environ, "DPL_CACHE": str(scratch / "cache")}

    def out_is_a_file(trial: Trial) -> Result:
        place = trial.folder / "found"
        place.write_text("mine")
        result, _ = run(dpl("predict", image, "--out", place), env)
        kept = place.read_text() == "mine"
        return result if kept else Result(Outcome.LOST_OR_CHANGED, f"{place} was changed")

    return {"predict, --out is a file": out_is_a_file}
