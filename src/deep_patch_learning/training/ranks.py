"""Several processes that train one network: each takes some passes of every step, and their gradients are added up.

A step sees the same images, patches and dropout whatever the number of processes, so that the training is the same up to the
order in which numbers are added.
"""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from deep_patch_learning.common.errors import RunError

Item = TypeVar("Item")


class Ranks:
    """The processes of one training, as Fabric started them; alone, there is nothing to agree on and nothing waits."""

    def __init__(self, fabric: Any) -> None:
        self._fabric = fabric
        self.rank: int = fabric.global_rank
        self.size: int = fabric.world_size

    @property
    def first(self) -> bool:
        """Whether this process is the one that writes and speaks."""
        return self.rank == 0

    def check(self, passes: int) -> None:
        """Raise `RunError` if a step has fewer passes than there are processes."""
        if passes < self.size:
            raise RunError(
                f"a step has {passes} passes, too few for {self.size} devices. Use fewer devices, or smaller passes: "
                "--set images_per_micro_batch=..."
            )

    def own(self, passes: Sequence[Item]) -> list[Item]:
        """Return the passes of a step that this process takes."""
        return list(passes[self.rank :: self.size])

    def number(self, own: int) -> int:
        """Return which pass of the step this process's pass number `own` is."""
        return self.rank + own * self.size

    def add_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace every gradient by its sum over the processes."""
        if self.size == 1:
            return
        given = [parameter for parameter in parameters if parameter.requires_grad]
        for parameter in given:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        flat = torch.cat([parameter.grad.flatten() for parameter in given])  # type: ignore[union-attr]
        flat = self.sum(flat)
        for parameter, part in zip(given, flat.split([p.numel() for p in given]), strict=True):
            parameter.grad.copy_(part.view_as(parameter))  # type: ignore[union-attr]

    def sum(self, values: Tensor) -> Tensor:
        """Return the sum of `values` over the processes, to all of them."""
        return values if self.size == 1 else self._fabric.all_reduce(values, reduce_op="sum")

    def any(self, *flags: bool) -> tuple[bool, ...]:
        """Return for each flag whether it is set in any process."""
        if self.size == 1:
            return flags
        found = self.sum(torch.tensor(flags, dtype=torch.float32, device=self._fabric.device))
        return tuple(value > 0 for value in found.tolist())

    def wait(self) -> None:
        """Wait until all processes have come here."""
        if self.size > 1:
            self._fabric.barrier()
