"""The process that trains: its options, devices and random numbers, and the other ranks."""

import logging
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from deep_patch_learning.common.devices import usable_device, usable_precision
from deep_patch_learning.common.errors import SettingError
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
        _meet_after_restart(device)
    together = {"strategy": "ddp", "num_nodes": nodes} if devices * nodes > 1 else {}
    fabric = Fabric(accelerator=device, devices=devices, precision=usable_precision(precision, device), **together)
    fabric.launch()
    return fabric


def _meet_after_restart(device: str) -> None:
    """Let ranks that torchrun started again find each other.

    torchrun keeps the store with the ranks' addresses over a restart. Under the same keys they would look for each other where
    the ranks of before listened, until the time is over; so they get keys of their own.
    """
    restart, ranks = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), int(os.environ["WORLD_SIZE"])
    if restart == "0" or ranks == 1 or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    kept = torch.distributed.TCPStore(*address, ranks, is_master=False)
    torch.distributed.init_process_group(
        "nccl" if device == "cuda" else "gloo",
        store=torch.distributed.PrefixStore(f"restart-{restart}", kept),
        rank=int(os.environ["RANK"]),
        world_size=ranks,
    )


def set_up_process(recipe: Recipe, device: torch.device) -> None:
    """Set what torch keeps for the whole process: the random seed, and on a GPU the precision of matrix products."""
    torch.manual_seed(recipe.machine.seed)
    if device.type == "cuda" and usable_precision(recipe.machine.precision, "cuda") != "32-true":
        torch.set_float32_matmul_precision("high")  # of the heads, whose features come in half precision anyway


Item = TypeVar("Item")


class Ranks:
    """The ranks of one training, as Fabric started them; with a world size of 1 nothing is exchanged and nothing waits.

    Each takes some micro-batches of every step, and their gradients are added up. A step sees the same images, patches and
    dropout whatever the world size, so that the training is the same up to the order in which numbers are added.
    """

    def __init__(self, fabric: Any) -> None:
        self._fabric = fabric
        self.rank: int = fabric.global_rank
        self.size: int = fabric.world_size

    @property
    def first(self) -> bool:
        """Whether this is rank 0, which writes files and messages."""
        return self.rank == 0

    def check(self, micro_batches: int) -> None:
        """Raise `SettingError` if a step has fewer micro-batches than there are ranks."""
        if micro_batches < self.size:
            raise SettingError(
                f"a step has {micro_batches} micro-batches, too few for {self.size} devices. Use fewer devices, or smaller "
                "micro-batches: --set images_per_micro_batch=..."
            )

    def own(self, micro_batches: Sequence[Item]) -> list[Item]:
        """Return the micro-batches of a step that this rank takes."""
        return list(micro_batches[self.rank :: self.size])

    def number(self, own: int) -> int:
        """Return which micro-batch of the step this rank's micro-batch number `own` is."""
        return self.rank + own * self.size

    def add_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace every gradient by its sum over the ranks."""
        if self.size == 1:
            return
        learning = [parameter for parameter in parameters if parameter.requires_grad]
        for parameter in learning:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        flat = torch.cat([parameter.grad.flatten() for parameter in learning])  # type: ignore[union-attr]
        flat = self.sum(flat)
        for parameter, part in zip(learning, flat.split([p.numel() for p in learning]), strict=True):
            parameter.grad.copy_(part.view_as(parameter))  # type: ignore[union-attr]

    def sum(self, values: Tensor) -> Tensor:
        """Return the sum of `values` over the ranks, to all of them."""
        return values if self.size == 1 else self._fabric.all_reduce(values, reduce_op="sum")

    def any(self, *flags: bool) -> tuple[bool, ...]:
        """Return for each flag whether it is set in any rank."""
        if self.size == 1:
            return flags
        found = self.sum(torch.tensor(flags, dtype=torch.float32, device=self._fabric.device))
        return tuple(value > 0 for value in found.tolist())

    def wait(self) -> None:
        """Wait until all ranks have come here."""
        if self.size > 1:
            self._fabric.barrier()
