"""Held-out tags, measured a few times in a training: good weights are kept, and a training that got worse is stopped.

With a learning rate that falls to nothing, the measure rises again towards the end, and a pause in the middle says little. So a
training is stopped only when the measure has fallen clearly and stayed there. For the same reason, and since boxes go on getting
better when tags do not, of weights that chance alone may have set apart the last are kept. All that is decided is a function of
the measurements so far, which lie in a file of the run.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import nn

from deep_patch_learning.errors import RunError
from deep_patch_learning.progress import console
from deep_patch_learning.training.checkpoint import save_checkpoint
from deep_patch_learning.training.run import RunFolder
from deep_patch_learning.whole_files import write_whole

MEASUREMENTS = 8  # in a training that goes to its end
PATIENCE = 3  # measurements in a row
CLEARLY = 2.0  # points of mAP, on `SURE` pictures or more; on fewer more points are chance
SURE = 400


@dataclass(frozen=True)
class Measurement:
    """The mean average precision on held-out tags, in percent, after a step."""

    step: int
    mean_ap: float


class Measure(Protocol):
    """What gives the mAP of a network, in percent, on a number of pictures, and leaves the network as it was."""

    pictures: int

    def __call__(self, network: nn.Module) -> float:
        """Return the mAP of a network."""
        ...


def measured_at(total_steps: int) -> tuple[int, ...]:
    """Return the steps after which held-out tags are measured: evenly spread, the last one among them."""
    return tuple(sorted({max(total_steps * number // MEASUREMENTS, 1) for number in range(1, MEASUREMENTS + 1)}))


def kept_of(measurements: Sequence[Measurement], chance: float) -> Measurement:
    """Return the last measurement that lies less than `chance` points below the highest up to it."""
    highest = -math.inf
    kept = measurements[0]
    for measured in measurements:
        highest = max(highest, measured.mean_ap)
        if measured.mean_ap > highest - chance:
            kept = measured
    return kept


def clear_fall(pictures: int) -> float:
    """Return by how many points the mAP on this many pictures must fall before it means anything."""
    return CLEARLY * max(math.sqrt(SURE / pictures), 1.0)


def has_fallen(measurements: Sequence[Measurement], fall: float) -> bool:
    """Return whether the last `PATIENCE` measurements all lie `fall` points or more below the best one before them."""
    before, after = measurements[:-PATIENCE], measurements[-PATIENCE:]
    return bool(before) and max(m.mean_ap for m in after) <= max(m.mean_ap for m in before) - fall


class HeldOut:
    """The held-out measurements of one run: when they are due, whose weights are kept, and whether training should end."""

    def __init__(self, run: RunFolder, total_steps: int, measure: Measure) -> None:
        self.run, self._measure = run, measure
        self._steps = frozenset(measured_at(total_steps))
        self.measurements = read_measurements(run)

    @property
    def kept(self) -> Measurement:
        """Return the measurement so far whose weights are kept; there must be one."""
        return self._kept_of(self.measurements)

    def _kept_of(self, measurements: Sequence[Measurement]) -> Measurement:
        return kept_of(measurements, clear_fall(self._measure.pictures) / 2)

    @property
    def has_fallen(self) -> bool:
        """Return whether training should stop."""
        return has_fallen(self.measurements, clear_fall(self._measure.pictures))

    def is_due(self, step: int) -> bool:
        """Return whether a measurement belongs after this step and is not there yet."""
        return step in self._steps and step not in {measured.step for measured in self.measurements}

    def take(self, step: int, network: nn.Module) -> None:
        """Measure the network after `step` steps, keep its weights if they are good, and write the measurement down.

        The weights come first: a kill between the two leads to the same measurement again.
        """
        found = Measurement(step, self._measure(network))
        measurements = [*self.measurements, found]
        if self._kept_of(measurements) is found:
            save_checkpoint(self.run.best, step, network)
        self.measurements = measurements
        rows = [{"step": measured.step, "mAP": measured.mean_ap} for measured in self.measurements]
        write_whole(self.run.held_out, json.dumps({"measurements": rows}, indent=1))
        console.print(
            f"step {step}: mAP {found.mean_ap:.1f} on {self._measure.pictures} held-out pictures", markup=False
        )

    def keep_best(self) -> None:
        """Make the weights that were kept the run's weights."""
        try:
            self.run.best.replace(self.run.weights)
        except FileNotFoundError:
            raise RunError(f"{self.run.best}: is gone. Restore it, or train again in a new folder.") from None


def read_measurements(run: RunFolder) -> list[Measurement]:
    """Return the held-out measurements of a run, in their order; none where nothing was held out."""
    try:
        rows = json.loads(run.held_out.read_text(encoding="utf-8"))["measurements"]
        return [Measurement(int(row["step"]), float(row["mAP"])) for row in rows]
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"{run.held_out}: is damaged ({error}). Restore it, or train again in a new folder.") from None
