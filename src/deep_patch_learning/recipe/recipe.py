"""A recipe: every setting of a training in seven groups, kept as TOML in the run folder."""

import dataclasses
import math
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deep_patch_learning.common.errors import SettingError
from deep_patch_learning.model.network import HEADS
from deep_patch_learning.recipe.names import GROUP_OF, GROUPS, checked, toml
from deep_patch_learning.recipe.settings import (
    BoxSettings,
    DataSettings,
    MachineSettings,
    ModelSettings,
    OptimiserSettings,
    RefinementSettings,
    RoundSettings,
)


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
        flat: dict[str, Any] = {}
        for key, value in values.items():
            flat |= {f"{key}.{inner}": one for inner, one in value.items()} if isinstance(value, dict) else {key: value}
        return cls().replace(**checked(flat, source))

    @classmethod
    def load(cls, path: Path) -> "Recipe":
        """Return the recipe stored in a file."""
        return cls.from_toml(path.read_text(encoding="utf-8"), str(path))
