"""The devices of this machine, and its name."""

import os
import platform

from deep_patch_learning.common.errors import SettingError, did_you_mean

DEVICES = ("auto", "cpu", "cuda", "mps")


def usable_device(name: str) -> str:
    """Return `cpu`, `cuda` or `mps` for a name the user gave, after making sure that this machine has it."""
    import torch

    has = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return next(device for device in ("cuda", "mps", "cpu") if has[device])
    if name not in has:
        raise SettingError(f"there is no device '{name}'.{did_you_mean(name, DEVICES)}")
    if not has[name]:
        raise SettingError(f"this machine has no usable {name} device. Leave --device out, or give cpu.")
    return name


def usable_precision(name: str, device: str) -> str:
    """Return the precision that `auto` stands for on a device, or `name` itself."""
    if name != "auto":
        return name
    import torch

    return "bf16-mixed" if device == "cuda" and torch.cuda.is_bf16_supported() else "32-true"


def machine_name(device: str = "cpu") -> str:
    """Return the machine in words: its usable cores and, if not the CPU, the device: `x86_64, 16 cores, NVIDIA H200`."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        cores = os.cpu_count() or 1
    name, used = f"{platform.machine()}, {cores} cores", usable_device(device)
    if used == "cuda":
        import torch

        return f"{name}, {torch.cuda.get_device_name()}"
    return name if used == "cpu" else f"{name}, {used}"
