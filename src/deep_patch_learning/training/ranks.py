"""Several ranks that train one network: each takes some micro-batches of every step, and their gradients are added up.

A step sees the same images, patches and dropout whatever the world size, so that the training is the same up to the order in
which numbers are added.
"""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from deep_patch_learning.common.errors import SettingError

Item = TypeVar("Item")


class Ranks:
    """The ranks of one training, as Fabric started them; with a world size of 1 nothing is exchanged and nothing waits."""

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
