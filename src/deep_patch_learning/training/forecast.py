"""How long a training will take and how much memory it needs, said after its first steps."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

WARMING_UP = 3  # steps in which a device chooses its kernels and images are decoded for the first time
TIMED = 7  # steps after them


@dataclass
class ChainForecast:
    """The time of several trainings in a row, said once: `later_samples` are those that follow the one in progress."""

    name: str
    later_samples: int = 0
    said: bool = False


class Forecast:
    """Called after every step, it returns once, after `WARMING_UP` + `TIMED` of them, the seconds that are left.

    Steps differ, since their scale is drawn, so that the figure is rough. Measurements on held-out images come on top of it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._steps = 0
        self._warm = 0.0

    def after_step(self, step: int, total: int) -> float | None:
        """Return the seconds that are left after step `step` of `total`, or None where it is not the time to say so."""
        self._steps += 1
        if self._steps == WARMING_UP:
            self._warm = self._clock()
        if self._steps != WARMING_UP + TIMED or step >= total:
            return None
        return seconds_left(self._clock() - self._warm, TIMED, total - step)


def clock_of(device: torch.device) -> Callable[[], float]:
    """Return a clock that first waits until a GPU has finished its queue."""

    def now() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.monotonic()

    return now


def seconds_left(seconds: float, steps: int, steps_left: int) -> float:
    """Return how long `steps_left` steps take where `steps` took `seconds`."""
    return seconds / steps * steps_left


def in_words(seconds: float, memory: int | None, on_gpu: bool) -> str:
    """Return the forecast in one line; `memory` is in bytes, None where the system does not say."""
    said = f"about {time_in_words(seconds)} to go"
    if memory is None:
        return said
    whose = "the GPU's memory" if on_gpu else "memory"
    return f"{said}, {memory / 2**30:.1f} GiB of {whose}"


def time_in_words(seconds: float) -> str:
    """Return a time as people say it: in seconds up to a minute and a half, in minutes up to an hour and a half, in hours."""
    if seconds < 90:
        count, unit = f"{max(round(seconds), 1)}", "second"
    elif seconds < 90 * 60:
        count, unit = f"{round(seconds / 60)}", "minute"
    else:
        count, unit = f"{seconds / 3600:.1f}", "hour"
    return f"{count} {unit}" + ("" if count == "1" else "s")


def memory_used(device: torch.device) -> int | None:
    """Return the most bytes that this process has held so far: on the GPU, or on other devices in the machine's memory."""
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device)
    try:
        import resource
    except ImportError:  # not on this system
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024  # elsewhere in KiB
