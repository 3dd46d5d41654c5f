"""Stochastic gradient descent in Caffe's convention, in which the paper was trained."""

from collections.abc import Callable, Iterable
from typing import Any

import torch


class CaffeSGD(torch.optim.Optimizer):
    """SGD with the learning rate inside the momentum: v = momentum * v + rate * gradient; w = w - v.

    torch's SGD multiplies outside: v = momentum * v + gradient; w = w - rate * v. At a constant rate both are the same. Where the
    rate drops, the momentum that was gathered before goes on at the old rate here, and at the new one there.
    """

    def __init__(self, parameters: Iterable[Any], lr: float, momentum: float = 0.9, weight_decay: float = 0.0) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Move the weights that have a gradient once; return what `closure` returns, None without one."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            if not weights:
                continue
            for weight in weights:
                if "momentum_buffer" not in self.state[weight]:
                    self.state[weight]["momentum_buffer"] = torch.zeros_like(weight)
            velocities = [self.state[weight]["momentum_buffer"] for weight in weights]
            torch._foreach_mul_(velocities, group["momentum"])
            torch._foreach_add_(velocities, [weight.grad for weight in weights], alpha=group["lr"])
            if group["weight_decay"]:
                torch._foreach_add_(velocities, weights, alpha=group["lr"] * group["weight_decay"])
            torch._foreach_sub_(weights, velocities)
        return loss
