"""Names and texts of settings: flat and dotted names, those of earlier versions, and values as TOML or as typed."""

from dataclasses import fields
from typing import Any

from deep_patch_learning.common.errors import SettingError, did_you_mean
from deep_patch_learning.common.progress import console
from deep_patch_learning.recipe.settings import (
    BoxSettings,
    DataSettings,
    MachineSettings,
    ModelSettings,
    OptimiserSettings,
    RefinementSettings,
    RoundSettings,
    SettingGroup,
)

GROUPS: dict[str, type[SettingGroup]] = {
    "data": DataSettings,
    "model": ModelSettings,
    "refinement": RefinementSettings,
    "rounds": RoundSettings,
    "optimiser": OptimiserSettings,
    "test": BoxSettings,
    "machine": MachineSettings,
}
# every setting by its flat name, which no other group has
GROUP_OF: dict[str, str] = {field.name: group for group, kind in GROUPS.items() for field in fields(kind)}
DEFAULTS: dict[str, Any] = {
    "name": "modern",
    **{field.name: field.default for kind in GROUPS.values() for field in fields(kind)},
}

# of earlier versions
RENAMED = {
    "images_per_pass": "images_per_micro_batch",
    "max_patches": "patches_per_sample",
    "kept_patches": "patches_per_image",
    "picking": "box_selection",
}
RENAMED_VALUES = {("box_selection", "best"): "max", ("seeds", "given"): "pseudo-boxes"}


def setting_name(key: str, source: str) -> str:
    """Return the flat name of a setting named `scales`, `data.scales` or as an earlier version did, or raise."""
    group, dot, name = key.rpartition(".")
    name = RENAMED.get(name, name)
    if dot and group not in GROUPS:
        raise SettingError(f"{source}: there is no group '{group}' of settings.{did_you_mean(group, GROUPS)}")
    if name not in DEFAULTS:
        raise SettingError(f"{source}: there is no setting '{key}'.{did_you_mean(name, DEFAULTS)}")
    if dot and GROUP_OF.get(name) != group:
        raise SettingError(f"{source}: there is no setting '{key}'. Did you mean '{full_name(name)}'?")
    return name


def full_name(name: str) -> str:
    """Return the dotted name of a setting, such as `data.scales`."""
    return f"{GROUP_OF[name]}.{name}" if name in GROUP_OF else name


def checked(values: dict[str, Any], source: str) -> dict[str, Any]:
    """Return settings by flat name, lists as tuples, after checking that each name is known and its value of its kind.

    Names and values of earlier versions are translated without a word.
    """
    known = {}
    for key, value in values.items():
        name, default = setting_name(key, source), DEFAULTS[setting_name(key, source)]
        value = tuple(value) if isinstance(value, list) else value
        if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if type(value) is not type(default):
            raise SettingError(
                f"{source}: {name} = {value!r} should be a {type(default).__name__}, such as {default!r}."
            )
        known[name] = RENAMED_VALUES.get((name, value), value)
    return known


def typed(key: str, value: Any) -> tuple[str, Any]:
    """Return the flat name and the value of a setting that a user typed; one of an earlier version gets a line of its own."""
    name = setting_name(key, "recipe")
    value = value_of_text(name, value)
    new = RENAMED_VALUES.get((name, value), value) if isinstance(value, str) else value
    if name != key.rpartition(".")[2] or new != value:
        words = f"{name}={new}" if new != value else name
        console.print(
            f"deprecated: {f'{key}={value}' if new != value else key} is now {words}", markup=False, soft_wrap=True
        )
    return name, new


def value_of_text(name: str, value: Any) -> Any:
    """Return the value of a setting that was typed as text: numbers, true and false, lists with commas."""
    default = DEFAULTS[name]
    if not isinstance(value, str) or isinstance(default, str):
        return "" if name == "weights" and value == "none" else value
    try:
        if isinstance(default, bool):
            return {"true": True, "false": False}[value.lower()]
        if isinstance(default, tuple):
            numbers = not default or isinstance(default[0], int)
            return tuple(int(part) if numbers else part for part in value.split(",") if part)
        return type(default)(value)
    except (ValueError, KeyError):
        raise SettingError(f"{name} = {value}: should be like {toml(default)}.") from None


def toml(value: Any) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, tuple):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    return repr(value)
