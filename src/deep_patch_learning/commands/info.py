"""`dpl info`: what a bug report should say of the machine: versions, device, cache, shipped model."""

import os
from pathlib import Path
from typing import Any

from rich.table import Table

from deep_patch_learning.common.devices import usable_device
from deep_patch_learning.common.progress import out as stdout
from deep_patch_learning.inference.loading import SHIPPED
from deep_patch_learning.patches.cache import default_folder
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.runs.folder import RunFolder, versions


def info() -> dict[str, Any]:
    """Return versions, device, the cache folder with its size in bytes, and the shipped model."""
    import torch

    device = usable_device("auto")
    cache = default_folder()
    files = [path for path in cache.rglob("*") if path.is_file()] if cache.is_dir() else []
    shipped = RunFolder(SHIPPED)
    recipe = Recipe.load(shipped.config)
    return {
        "versions": versions(("torch", "torchvision", "numpy", "numba", "opencv-python-headless", "typer", "rich")),
        "device": device,
        "device_name": torch.cuda.get_device_name() if device == "cuda" else None,
        "cores": os.cpu_count(),
        "package": str(Path(__file__).parent.parent),
        "cache": {"folder": str(cache), "files": len(files), "bytes": sum(path.stat().st_size for path in files)},
        "shipped_model": {
            "folder": str(shipped.folder),
            "recipe": recipe.name,
            "backbone": recipe.model.backbone,
            "classes": len(shipped.describe()["classes"]),
            "bytes": shipped.weights.stat().st_size,
        },
    }


def show(found: dict[str, Any]) -> None:
    """Print what `info` returns as a table of names and values."""
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, version in found["versions"].items():
        table.add_row(name, version)
    device = f"{found['device']} {found['device_name'] or ''}".strip()
    table.add_row("device", f"{device}, {found['cores']} cores")
    table.add_row("package", found["package"])
    cache, shipped = found["cache"], found["shipped_model"]
    table.add_row("cache", f"{cache['folder']}: {cache['files']:,} files, {cache['bytes'] / 1e6:,.1f} MB")
    table.add_row(
        "shipped model",
        f"{shipped['backbone']}, recipe {shipped['recipe']}, {shipped['classes']} classes, {shipped['bytes'] / 1e6:.1f} MB",
    )
    stdout.print(table, soft_wrap=True)
