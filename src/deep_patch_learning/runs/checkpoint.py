"""Checkpoints: weights, optimiser state and step in one safetensors file, renamed into place when whole."""

import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from deep_patch_learning.common.atomic_files import UnfitError, fitting, parsed, written_whole
from deep_patch_learning.common.errors import RunError, short
from deep_patch_learning.runs.folder import AGAIN


def save_checkpoint(
    path: Path,
    step: int,
    network: nn.Module,
    optimiser: torch.optim.Optimizer | None = None,
    scaler: torch.amp.GradScaler | None = None,
) -> None:
    """Write the state after `step` steps. Without an optimiser, the weights alone; `scaler` is that of half precision."""
    tensors = {f"network.{name}": tensor for name, tensor in network.state_dict().items()}
    numbers: dict[str, float] = {}
    if optimiser is not None:
        for index, state in optimiser.state_dict()["state"].items():
            for key, value in state.items():
                if isinstance(value, Tensor):
                    tensors[f"optimiser.{index}.{key}"] = value
                elif value is not None:
                    numbers[f"{index}.{key}"] = value
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        with written_whole(path) as part:
            save_file(whole, part, metadata={"step": str(step), "numbers": json.dumps(numbers), **_of_scaler(scaler)})
            _in_one_order(part)
    except (OSError, SafetensorError) as error:
        raise RunError(
            f"{path}: could not be written ({error}). What was saved before it is whole; make room and repeat."
        ) from None


def _in_one_order(path: Path) -> None:
    """Sort the metadata in a file's header, which is written in any order: equal states are then equal files."""
    with path.open("r+b") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
        content = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        if len(content) <= size:
            file.seek(8)
            file.write(content.ljust(size))


def _of_scaler(scaler: torch.amp.GradScaler | None) -> dict[str, str]:
    return {} if scaler is None else {"scaler": json.dumps(scaler.state_dict())}


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Hold a file of weights open; a pipe or a device, which would be waited for without end, raises `RunError`."""
    if path.exists() and not path.is_file():
        raise RunError(f"{path}: is damaged (not a file). {AGAIN}")
    with safe_open(path, "pt") as stored:
        yield stored


def restore_scaler(scaler: torch.amp.GradScaler, path: Path) -> None:
    """Put the stored scale of gradients, and the steps since it last changed, back; earlier versions did not store them."""
    with _opened(path) as stored:
        text = (stored.metadata() or {}).get("scaler", "{}")
    try:
        state = fitting(parsed(text), dict[str, float])
        if state:
            scaler.load_state_dict(state)
    except (UnfitError, KeyError, RuntimeError) as error:
        raise RunError(f"{path}: is damaged (scaler: {error}). {AGAIN}") from None


def read_checkpoint(path: Path) -> tuple[int, dict[str, Tensor], dict[str, float]]:
    """Return the step, the tensors by their full names and the optimiser's plain numbers."""
    try:
        with _opened(path) as stored:
            about = stored.metadata() or {}
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 (not a dict)
            numbers = fitting(parsed(about.get("numbers", "{}")), dict[str, float])
            return fitting(parsed(about.get("step", "0")), int), tensors, numbers
    except FileNotFoundError:
        raise RunError(f"{path}: there are no weights yet. Let the training finish, or repeat its command.") from None
    except (SafetensorError, UnfitError) as error:
        raise RunError(f"{path}: is damaged ({error}). {AGAIN}") from None


def step_of(path: Path) -> int:
    """Return the step that a file of weights is of; no weights are read."""
    try:
        with _opened(path) as stored:
            return fitting(parsed((stored.metadata() or {}).get("step", "0")), int)
    except (SafetensorError, UnfitError) as error:
        raise RunError(f"{path}: is damaged ({error}). {AGAIN}") from None


def restore_network(network: nn.Module, tensors: dict[str, Tensor], path: Path) -> None:
    """Put stored weights into a network of the same kind."""
    state = {name.removeprefix("network."): tensor for name, tensor in tensors.items() if name.startswith("network.")}
    try:
        network.load_state_dict(state)
    except RuntimeError as error:
        differences = [line.strip() for line in str(error).splitlines()[1:]] or [str(error)]
        raise RunError(
            f"{path}: its weights do not fit this run's network: {differences[0]} ({len(differences)} differences in all). "
            "Restore the file, or train again in a new folder."
        ) from None


def restore_optimiser(
    optimiser: torch.optim.Optimizer, tensors: dict[str, Tensor], numbers: dict[str, float], path: Path
) -> None:
    """Put stored momenta back into an optimiser made with the same parameters."""
    state: dict[int, dict[str, object]] = {}
    parameters = [one for group in optimiser.param_groups for one in group["params"]]
    stored = {name.removeprefix("optimiser."): part for name, part in tensors.items() if name.startswith("optimiser.")}
    for name, part in (*stored.items(), *numbers.items()):
        index, _, key = name.partition(".")
        known = index.isascii() and index.isdigit() and len(index) < 10 and int(index) < len(parameters) and key
        if not known or (isinstance(part, Tensor) and part.shape not in (parameters[int(index)].shape, ())):
            raise RunError(f"{path}: is damaged (its optimiser state {short(name)} fits no parameter). {AGAIN}")
        state.setdefault(int(index), {})[key] = part
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
