"""A recipe: every setting of a training in seven groups, kept as TOML in the run folder.

Settings have flat and dotted names, and some had others in earlier versions; values come as TOML or as typed.
"""

import dataclasses
import json
import math
import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, get_args

from deep_patch_learning.common.errors import SettingError, did_you_mean, short
from deep_patch_learning.common.progress import console
from deep_patch_learning.model.network import HEADS
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

ELEMENTS: dict[str, type] = {
    field.name: get_args(field.type)[0]
    for kind in GROUPS.values()
    for field in fields(kind)
    if isinstance(field.default, tuple)
}  # of the settings that are lists
MOST_ELEMENTS = 100
LARGEST = 1 << 14  # bytes of a config.toml, which has some 3,000: the time to parse one may grow with their square

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
        if isinstance(default, float) and type(value) is int and abs(value) < 2**63:
            value = float(value)
        elements = value if isinstance(value, tuple) else (value,)
        wanted = ELEMENTS.get(name, type(default))
        if type(value) is not type(default) or any(type(one) is not wanted for one in elements):
            several = f"list of {wanted.__name__}" if name in ELEMENTS else wanted.__name__
            raise SettingError(f"{source}: {name} = {short(value)} should be a {several}, such as {toml(default)}.")
        if len(elements) > MOST_ELEMENTS or any(type(one) is int and abs(one) >= 2**63 for one in elements):
            raise SettingError(
                f"{source}: {name} = {short(value)}; at most {MOST_ELEMENTS} numbers, each below 2 to the power of 63."
            )
        if any("\ud800" <= letter <= "\udfff" for letter in "".join(map(str, elements))):
            raise SettingError(f"{source}: {name} = {value!r} holds letters that are not UTF-8. Give another text.")
        known[name] = RENAMED_VALUES.get((name, value), value) if isinstance(value, str) else value
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
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, tuple):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    return repr(value)


@dataclass(frozen=True)
class Recipe:
    """All settings of a training. `recipe.data.scales` reads one; `recipe.replace(scales=...)` changes one by its flat name."""

    name: str = "modern"
    data: DataSettings = field(default_factory=DataSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    refinement: RefinementSettings = field(default_factory=RefinementSettings)
    rounds: RoundSettings = field(default_factory=RoundSettings)
    optimiser: OptimiserSettings = field(default_factory=OptimiserSettings)
    test: BoxSettings = field(default_factory=BoxSettings)
    machine: MachineSettings = field(default_factory=MachineSettings)

    def __post_init__(self) -> None:
        of_another_run = self.refinement.seeds == "pseudo-boxes"
        if not (of_another_run or self.rounds.rounds):
            return
        if of_another_run and self.rounds.rounds:
            raise SettingError(
                f"recipe: rounds = {self.rounds.rounds} find their pseudo boxes themselves. Leave out --pseudo-boxes-from, or "
                "use --set rounds=0 --set first_networks=1."
            )
        if "refinement" not in self.model.heads:
            whose = "another run's boxes" if of_another_run else f"the pseudo boxes of rounds = {self.rounds.rounds}"
            raise SettingError(
                f"recipe: {whose} are for a refinement to learn from. Use --recipe refined, or --heads all."
            )
        if self.refinement.two_stream_tags or not set(HEADS) & set(self.model.heads):
            raise SettingError(
                "recipe: with pseudo boxes the two-stream head does not learn, and tags need another one. Use --heads all "
                "without two_stream_tags."
            )

    @classmethod
    def of(cls, name: str = "modern", **settings: Any) -> "Recipe":
        """Return the recipe with these settings, by flat names, and the defaults of all others."""
        return cls(name).replace(**settings)

    @property
    def total_steps(self) -> int:
        """All steps, those of the heads alone included."""
        return self.optimiser.head_first_steps + self.optimiser.steps

    @property
    def seen_at(self) -> tuple[int, ...]:
        """The scales of prediction."""
        return self.data.test_scales or self.data.scales

    def rate_at(self, step: int) -> float:
        """Return the learning rate at `step` (from 0), before the factors for heads and biases."""
        plan = self.optimiser
        main = step - plan.head_first_steps
        if main < 0:
            return plan.learning_rate
        warm = min((main + 1) / plan.warmup_steps, 1.0) if plan.warmup_steps else 1.0
        if plan.schedule == "steps":
            return warm * plan.learning_rate * 0.1 ** sum(main >= drop for drop in plan.drops)
        span = max(plan.steps - plan.warmup_steps, 1)
        share = min(max(main - plan.warmup_steps, 0) / span, 1.0)
        return warm * plan.learning_rate * 0.5 * (1 + math.cos(math.pi * share))

    def settings(self) -> dict[str, Any]:
        """Return every setting by its flat name, the recipe's name first."""
        return {"name": self.name} | {key: getattr(getattr(self, group), key) for key, group in GROUP_OF.items()}

    def replace(self, **changes: Any) -> "Recipe":
        """Return the recipe with some settings changed, by their flat names."""
        parts: dict[str, Any] = {}
        by_group: dict[str, dict[str, Any]] = {}
        for key, value in checked(changes, "recipe").items():
            if key in GROUP_OF:
                by_group.setdefault(GROUP_OF[key], {})[key] = value
            else:
                parts[key] = value
        for group, values in by_group.items():
            parts[group] = dataclasses.replace(getattr(self, group), **values)
        return dataclasses.replace(self, **parts)

    def to_toml(self) -> str:
        """Return the recipe as TOML, a table for each group."""
        lines = [f"name = {toml(self.name)}\n"]
        for group in GROUPS:
            lines.append(f"\n[{group}]\n")
            lines += [f"{key} = {toml(value)}\n" for key, value in vars(getattr(self, group)).items()]
        return "".join(lines)

    @classmethod
    def from_toml(cls, text: str, source: str = "recipe") -> "Recipe":
        """Return the recipe that `to_toml` wrote, or an earlier version without tables; what cannot be read raises."""
        try:
            values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise SettingError(f"{source}: not readable as TOML ({error}).") from None
        except RecursionError:
            raise SettingError(f"{source}: not readable as TOML (nested too deep).") from None
        except ValueError:  # what Python refuses to convert, since it would take long
            raise SettingError(
                f"{source}: not readable as TOML (a number of thousands of digits, or no date)."
            ) from None
        flat: dict[str, Any] = {}
        for key, value in values.items():
            flat |= {f"{key}.{inner}": one for inner, one in value.items()} if isinstance(value, dict) else {key: value}
        return cls().replace(**checked(flat, source))

    @classmethod
    def load(cls, path: Path) -> "Recipe":
        """Return the recipe stored in a file."""
        if path.exists() and not path.is_file():
            raise SettingError(f"{path}: is no file, wanted the settings of a training. Remove it.")
        if path.is_file() and path.stat().st_size > LARGEST:
            raise SettingError(f"{path}: {path.stat().st_size:,} bytes, of at most {LARGEST:,}. It is no recipe.")
        try:
            return cls.from_toml(path.read_bytes().decode(), str(path))
        except UnicodeDecodeError as error:
            raise SettingError(f"{path}: byte {error.start} is not UTF-8. Save it as UTF-8.") from None
