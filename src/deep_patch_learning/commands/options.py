"""Options that several commands take in Python, and the error for one that none of them takes."""

from collections.abc import Mapping
from typing import Any, TypedDict

from deep_patch_learning.common.errors import SettingError, did_you_mean

ENGINES = ("local", "ray")


class Work(TypedDict, total=False):
    """How a data set is worked through.

    `limit`: only the first images. `workers`: cores that make patches, all if not given. `device`: `auto`, `cpu`, `cuda` or
    `mps`, for a model that is given as a folder.
    """

    limit: int | None
    workers: int | None
    device: str


def is_ray(engine: str, *only_ray: Any) -> bool:
    """Return whether the engine is `ray`; raise `SettingError` for an unknown one, or for options that only `ray` has."""
    if engine not in ENGINES:
        raise SettingError(f"--engine {engine}: not known.{did_you_mean(engine, ENGINES)}")
    if engine == "local" and any(one is not None for one in only_ray):
        raise SettingError("--address and --shard-images: only --engine ray has them. Add it, or leave them out.")
    return engine == "ray"


def check_options(options: Mapping[str, Any], known: type, function: str) -> None:
    """Raise `TypeError` for a keyword that the typed dictionary `known` does not have, as Python does for a parameter."""
    for name in options.keys() - known.__annotations__.keys():
        raise TypeError(f"{function}() has no option '{name}'.{did_you_mean(name, known.__annotations__)}")
