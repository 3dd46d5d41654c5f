"""A recipe: every number that training needs, readable as TOML, and the parts that some of them stand for."""

import dataclasses
import math
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from deep_patch_learning.common.errors import RunError, did_you_mean
from deep_patch_learning.model.losses import Reduction, Unknown
from deep_patch_learning.model.network import HEADS
from deep_patch_learning.refinement.seeds import SeedsName

PAPER_SCALES = (480, 576, 688, 864, 1200)
Optimiser = Literal["sgd", "adamw"]
Schedule = Literal["steps", "cosine"]
BoxSelection = Literal["best", "vote"]
Boxes = Literal["best-first", "elected"]
Bands = Literal["program", "paper"]
SearchMode = Literal["fast", "quality", "original"]
Precision = Literal["32-true", "bf16-mixed", "16-mixed", "64-true", "auto"]

# names of earlier versions
RENAMED = {
    "images_per_pass": "images_per_micro_batch",
    "max_patches": "patches_per_sample",
    "kept_patches": "patches_per_image",
    "picking": "box_selection",
}


@dataclass(frozen=True)
class Recipe:
    """All settings of a training. A step sees `batch_images` images, `images_per_micro_batch` of them at a time."""

    name: str = "modern"
    backbone: str = "vgg16"
    weights: str = ""
    heads: tuple[str, ...] = HEADS
    filters: int = 256
    bands: Bands = "program"
    head_bias: float = (
        0.0  # where the heads' class scores start; below 0: that most classes are absent need not be learnt
    )
    # images and patches
    scales: tuple[int, ...] = PAPER_SCALES
    test_scales: tuple[int, ...] = ()  # what a trained network looks at; those of training if none
    flips: bool = True
    shapes: int = (
        0  # ratios of sides are rounded to multiples of 1 / shapes, so that images share sizes; 0: kept as they are
    )
    patches: str = "selective-search"
    search_mode: SearchMode = "fast"  # of Selective Search; original: as in the paper, at 500 pixels
    min_patch_side: int = 1  # patches with a shorter side are left out; Selective Search only
    patches_per_image: int = 0  # of each image, the first in the search's order; 0 means all; Selective Search only
    patches_per_sample: int = 0  # in training, drawn anew at each sample; 0 means all
    box_selection: BoxSelection = "best"  # how the box of a class is picked in testing
    vote_sharpness: float = 1.0  # a patch votes with the exponential of this times its score
    area_power: float = 0.0  # votes are multiplied by the patch's area to this power
    boxes: Boxes = (
        "best-first"  # how further boxes of a class are picked where there is a vote: by score, or elected too
    )
    part_weight: float = 0.2  # in elections, what the patches inside an elected box still count
    # refinement, where `heads` name it
    refinements: int = 3  # classifiers of patches, each learning from the seeds of the one before
    refinement_width: int = 2048  # of their hidden layer; 0 means none
    refinement_cells: int = 1  # places along a patch's side whose features it reads one by one; ResNet-50 and lite0
    seeds: SeedsName = (
        "best"  # the patches of a present class that a classifier learns from; given: another run's boxes
    )
    seed_sharpness: float = 1.0  # for seeds by vote: a patch votes with its probability to this power
    seed_area_power: float = 0.0  # and votes are multiplied by the patch's area to this one
    seeds_per_class: int = 5  # at most; for seeds that are several, clusters or given
    seed_share: float = 0.15  # of an image's patches, the best, from which several seeds are taken
    seed_floor: float = 0.5  # of the best score of its class, what each of several seeds needs; 0 means nothing
    foreground: float = 0.5  # IoU with a seed from which a patch is of its class
    background: float = 0.1  # IoU with a seed from which a patch counts at all
    by_cluster: bool = False  # the patches on a seed answer for its class together
    regression: bool = False  # learn to move boxes, from the last classifier's seeds
    two_stream_tags: bool = False  # the image's score has the two-stream head's added
    # loss
    reduction: Reduction = "mean"
    unknown: Unknown = "absent"
    # steps
    steps: int = 40_000
    head_first_steps: int = 0  # come first and train the heads alone
    freeze_backbone: bool = False  # leave the convolutions as they were pretrained
    frozen_stages: int = 0  # leave the first stages as pretrained: they cost most and tell least of the classes
    batch_images: int = 2
    images_per_micro_batch: int = 1
    # optimiser
    optimiser: Optimiser = "sgd"
    learning_rate: float = 1e-3
    head_learning_rate: float = 1.0  # factor for the heads
    bias_learning_rate: float = 2.0  # factor for biases, which have no weight decay
    momentum: float = 0.9
    weight_decay: float = 5e-4
    clip_norm: float = 0.0  # 0 means no clipping
    # schedule
    schedule: Schedule = "steps"
    drops: tuple[int, ...] = (30_000,)  # steps at which the rate falls to a tenth
    warmup_steps: int = 0
    # machine
    precision: Precision = "32-true"  # auto: bf16-mixed on a GPU that has it, else 32-true
    seed: int = 0

    def __post_init__(self) -> None:
        choices = {"optimiser": Optimiser, "schedule": Schedule, "reduction": Reduction, "unknown": Unknown}
        choices |= {
            "box_selection": BoxSelection,
            "boxes": Boxes,
            "precision": Precision,
            "bands": Bands,
            "search_mode": SearchMode,
            "seeds": SeedsName,
        }
        for field, kind in choices.items():
            value = getattr(self, field)
            if value not in get_args(kind):
                raise RunError(f"recipe: {field} = '{value}' is not known.{did_you_mean(str(value), get_args(kind))}")
        for field in (
            "steps",
            "batch_images",
            "images_per_micro_batch",
            "filters",
            "refinements",
            "refinement_cells",
            "seeds_per_class",
        ):
            if getattr(self, field) < 1:
                raise RunError(f"recipe: {field} = {getattr(self, field)}; it must be at least 1.")
        for field in (
            "patches_per_image",
            "patches_per_sample",
            "head_first_steps",
            "warmup_steps",
            "weight_decay",
            "clip_norm",
            "seed",
            "momentum",
            "shapes",
            "frozen_stages",
            "vote_sharpness",
            "area_power",
            "seed_sharpness",
            "seed_area_power",
            "refinement_width",
        ):
            if not (getattr(self, field) >= 0 and math.isfinite(getattr(self, field))):
                raise RunError(f"recipe: {field} = {getattr(self, field)}; it must be 0 or more.")
        if not 0 <= self.background <= self.foreground <= 1:
            raise RunError(
                f"recipe: background = {self.background}, foreground = {self.foreground}; they are overlaps from 0 to 1, "
                "the second not below the first."
            )
        if not 0 <= self.part_weight <= 1:
            raise RunError(f"recipe: part_weight = {self.part_weight}; it must be from 0 to 1.")
        if not 0 <= self.seed_floor <= 1:
            raise RunError(f"recipe: seed_floor = {self.seed_floor}; it must be from 0 to 1.")
        if not 0 < self.seed_share <= 1:
            raise RunError(f"recipe: seed_share = {self.seed_share}; it must be above 0 and at most 1.")
        if self.seeds == "given" and "refinement" not in self.heads:
            raise RunError(
                "recipe: another run's boxes are for a refinement to learn from. Use --recipe refined, or --heads all."
            )
        if self.seeds == "given" and (self.two_stream_tags or not set(HEADS) & set(self.heads)):
            raise RunError(
                "recipe: with another run's boxes the two-stream head does not learn, and tags need another one. Use --heads all "
                "without two_stream_tags."
            )
        if not self.scales or min(self.scales) < 16:
            raise RunError(f"recipe: scales = {list(self.scales)}; give at least one, none below 16 pixels.")
        if min(self.test_scales, default=16) < 16:
            raise RunError(f"recipe: test_scales = {list(self.test_scales)}; none may be below 16 pixels.")
        if not math.isfinite(self.head_bias):
            raise RunError(f"recipe: head_bias = {self.head_bias}; it must be a finite number.")
        if not (self.learning_rate > 0 and math.isfinite(self.learning_rate)):
            raise RunError(f"recipe: learning_rate = {self.learning_rate}; it must be above 0.")

    @property
    def total_steps(self) -> int:
        """All steps, those of the heads alone included."""
        return self.head_first_steps + self.steps

    @property
    def seen_at(self) -> tuple[int, ...]:
        """The scales at which a trained network looks at images."""
        return self.test_scales or self.scales

    def rate_at(self, step: int) -> float:
        """Return the learning rate at `step` (from 0), before the factors for heads and biases."""
        main = step - self.head_first_steps
        if main < 0:
            return self.learning_rate
        warm = min((main + 1) / self.warmup_steps, 1.0) if self.warmup_steps else 1.0
        if self.schedule == "steps":
            return warm * self.learning_rate * 0.1 ** sum(main >= drop for drop in self.drops)
        span = max(self.steps - self.warmup_steps, 1)
        share = min(max(main - self.warmup_steps, 0) / span, 1.0)
        return warm * self.learning_rate * 0.5 * (1 + math.cos(math.pi * share))

    def to_toml(self) -> str:
        """Return the recipe as TOML."""
        return "".join(f"{field.name} = {toml(getattr(self, field.name))}\n" for field in dataclasses.fields(self))

    @classmethod
    def from_toml(cls, text: str, source: str = "recipe") -> "Recipe":
        """Return the recipe that `to_toml` wrote; a key that is not known or a broken file raises `RunError`."""
        try:
            values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise RunError(f"{source}: not readable as TOML ({error}).") from None
        return cls(**checked(values, source))

    @classmethod
    def load(cls, path: Path) -> "Recipe":
        """Return the recipe stored in a file."""
        return cls.from_toml(path.read_text(encoding="utf-8"), str(path))

    def replace(self, **changes: Any) -> "Recipe":
        """Return the recipe with some settings changed."""
        return dataclasses.replace(self, **checked(changes, "recipe"))


def checked(values: dict[str, Any], source: str) -> dict[str, Any]:
    """Return settings with lists as tuples, after checking that each name is known and its value of the right kind."""
    defaults = {field.name: field.default for field in dataclasses.fields(Recipe)}
    known = {}
    for key, value in values.items():
        key = RENAMED.get(key, key)
        if key not in defaults:
            raise RunError(f"{source}: there is no setting '{key}'.{did_you_mean(key, defaults)}")
        value = tuple(value) if isinstance(value, list) else value
        default = defaults[key]
        if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if type(value) is not type(default):
            raise RunError(f"{source}: {key} = {value!r} should be a {type(default).__name__}, such as {default!r}.")
        known[key] = value
    return known


def toml(value: Any) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, tuple):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    return repr(value)
