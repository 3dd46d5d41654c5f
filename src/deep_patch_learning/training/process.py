"""The process that trains: its options, devices, random numbers, and the signals that stop it."""

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from deep_patch_learning.common.devices import usable_device, usable_precision
from deep_patch_learning.recipe.recipe import Recipe


@dataclass(frozen=True)
class TrainingOptions:
    """What a training does not depend on: when it writes, and where it runs.

    The log gets a line every `log_steps` steps; a checkpoint is written every `checkpoint_seconds` seconds.
    """

    log_steps: int = 10
    checkpoint_seconds: float = 60.0
    device: str = "auto"
    devices: int = 1  # of this kind; torchrun overrides it


def make_fabric(options: TrainingOptions, precision: str) -> Any:
    """Return a launched Fabric: this process as one rank of all that train together."""
    try:
        from lightning_fabric import Fabric
    except ImportError:  # the same code comes inside the package `lightning` too
        from lightning.fabric import Fabric  # type: ignore[import-not-found,no-redef]
    device, devices, nodes = usable_device(options.device), options.devices, 1
    # its messages on precision repeat what the run folder says
    logging.getLogger(Fabric.__module__.split(".")[0]).setLevel(logging.WARNING)
    if "TORCHELASTIC_RUN_ID" in os.environ:  # started by torchrun, which says how many ranks there are
        devices = int(os.environ["LOCAL_WORLD_SIZE"])
        nodes = int(os.environ["WORLD_SIZE"]) // devices
    together = {"strategy": "ddp", "num_nodes": nodes} if devices * nodes > 1 else {}
    fabric = Fabric(accelerator=device, devices=devices, precision=usable_precision(precision, device), **together)
    fabric.launch()
    return fabric


def set_up_process(recipe: Recipe, device: torch.device) -> None:
    """Set what torch keeps for the whole process: the random seed, and on a GPU the precision of matrix products."""
    torch.manual_seed(recipe.machine.seed)
    if device.type == "cuda" and usable_precision(recipe.machine.precision, "cuda") != "32-true":
        torch.set_float32_matmul_precision("high")  # of the heads, whose features come in half precision anyway


@contextmanager
def stop_flag() -> Iterator[threading.Event]:
    """Yield a flag that Ctrl-C and a polite kill set, so that the step in progress ends whole."""
    flag = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield flag
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, lambda *_: flag.set())
    try:
        yield flag
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
