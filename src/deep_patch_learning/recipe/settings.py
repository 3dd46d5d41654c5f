"""The settings of a recipe in seven groups. Each group checks its own values; what spans groups is checked in `Recipe`."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from deep_patch_learning.common.errors import SettingError, did_you_mean
from deep_patch_learning.model.network import HEADS

PAPER_SCALES = (480, 576, 688, 864, 1200)
SeedsName = Literal["best", "vote", "votes", "several", "clusters", "pseudo-boxes"]
Reduction = Literal["mean", "sum"]
Unknown = Literal["absent", "ignore"]
OptimiserName = Literal["sgd", "adamw"]
Schedule = Literal["steps", "cosine"]
BoxSelectionName = Literal["max", "vote"]
FurtherBoxes = Literal["best-first", "elected"]
RoundTeachers = Literal["last", "all"]
RoundWeights = Literal["equal", "agreement"]
Bands = Literal["program", "paper"]
Corners = Literal["half-open", "inclusive"]
MomentumConvention = Literal["torch", "caffe"]
SearchMode = Literal["fast", "quality", "original"]
Precision = Literal["32-true", "bf16-mixed", "16-mixed", "64-true", "auto"]


LARGEST = 1e30  # of a setting: products of some stay within 32-bit floats
LONGEST_SIDE = 16_384  # pixels that an image can be scaled to


@dataclass(frozen=True)
class SettingGroup:
    """A group of settings, with the checks that its fields ask for."""

    choices: ClassVar[dict[str, Any]] = {}  # field -> the Literal of its values
    at_least_one: ClassVar[tuple[str, ...]] = ()
    not_negative: ClassVar[tuple[str, ...]] = ()
    shares: ClassVar[tuple[str, ...]] = ()  # from 0 to 1
    at_most: ClassVar[dict[str, int]] = {}  # far above what is of use: more only fills the memory

    def __post_init__(self) -> None:
        for field, kind in self.choices.items():
            value = getattr(self, field)
            if value not in get_args(kind):
                raise SettingError(
                    f"recipe: {field} = '{value}' is not known.{did_you_mean(str(value), get_args(kind))}"
                )
        self._check(self.at_least_one, lambda value: value >= 1, "it must be at least 1")
        self._check(self.not_negative, lambda value: value >= 0 and math.isfinite(value), "it must be 0 or more")
        self._check(self.shares, lambda value: 0 <= value <= 1, "it must be from 0 to 1")
        for field, value in vars(self).items():
            for number in value if isinstance(value, tuple) else (value,):
                if isinstance(number, float) and not abs(number) <= LARGEST:
                    raise SettingError(f"recipe: {field} = {number:g}; it must be a number of at most {LARGEST:g}.")
                if isinstance(number, int) and abs(number) >= 2**63:
                    raise SettingError(f"recipe: {field} has {len(str(abs(number)))} digits; it must be below 2**63.")
        for field, most in self.at_most.items():
            self._check((field,), lambda value, most=most: value <= most, f"it must be at most {most:,}")

    def _check(self, fields: Iterable[str], holds: Any, wanted: str) -> None:
        for field in fields:
            value = getattr(self, field)
            if not holds(value):
                raise SettingError(f"recipe: {field} = {value}; {wanted}.")


@dataclass(frozen=True)
class DataSettings(SettingGroup):
    """[data]: the size of images, and the patches of each."""

    choices: ClassVar[dict[str, Any]] = {"search_mode": SearchMode}
    not_negative = ("shapes", "patches_per_image", "patches_per_sample", "erased_regions")
    at_most: ClassVar[dict[str, int]] = {"shapes": 10_000, "erased_regions": 1_000}

    scales: tuple[int, ...] = PAPER_SCALES  # longest sides, in pixels
    test_scales: tuple[int, ...] = ()  # in prediction; empty: those of training
    flips: bool = True
    test_flips: bool = False  # in prediction each scale is seen mirrored too, and scores and boxes are averaged
    shapes: int = (
        0  # ratios of sides are rounded to multiples of 1 / shapes, so that images share sizes; 0: as they are
    )
    patches: str = "selective-search"  # a generator, or a proposal file
    search_mode: SearchMode = "fast"  # of Selective Search; original: as in the paper, at 500 pixels
    min_patch_side: int = 1  # patches with a shorter side are left out; Selective Search only
    patches_per_image: int = 0  # the first in the search's order; 0: all; Selective Search only
    patches_per_sample: int = 0  # in training, drawn anew for each sample; 0: all
    erased_regions: int = 0  # in training, rectangles of each sample's feature map that are set to 0, drawn anew

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.scales or min(self.scales) < 16:
            raise SettingError(f"recipe: scales = {list(self.scales)}; give at least one, none below 16 pixels.")
        if min(self.test_scales, default=16) < 16:
            raise SettingError(f"recipe: test_scales = {list(self.test_scales)}; none may be below 16 pixels.")
        if max(self.scales + self.test_scales) > LONGEST_SIDE:
            raise SettingError(
                f"recipe: a scale of {max(self.scales + self.test_scales):g} pixels; none may be above {LONGEST_SIDE}."
            )


@dataclass(frozen=True)
class ModelSettings(SettingGroup):
    """[model]: backbone, pretrained weights and the paper's heads."""

    choices: ClassVar[dict[str, Any]] = {"bands": Bands, "corners": Corners}
    at_least_one = ("filters",)
    at_most: ClassVar[dict[str, int]] = {"filters": 1 << 16}

    backbone: str = "vgg16"
    weights: str = ""
    heads: tuple[str, ...] = HEADS
    filters: int = 256
    bands: Bands = "program"
    corners: Corners = "half-open"  # of patches in the SPP layer; inclusive: x2 and y2 are the last pixel (the program)
    head_bias: float = 0.0  # initial bias of the class scores; below 0: that most classes are absent need not be learnt

    def __post_init__(self) -> None:
        super().__post_init__()
        if not math.isfinite(self.head_bias):
            raise SettingError(f"recipe: head_bias = {self.head_bias}; it must be a finite number.")


@dataclass(frozen=True)
class RefinementSettings(SettingGroup):
    """[refinement]: the heads beyond the paper, where `heads` name the refinement, and what they learn from."""

    choices: ClassVar[dict[str, Any]] = {"seeds": SeedsName}
    at_least_one = ("refinements", "refinement_cells", "seeds_per_class")
    at_most: ClassVar[dict[str, int]] = {"refinements": 100, "refinement_width": 1 << 16, "seeds_per_class": 10_000}
    not_negative = ("refinement_width", "seed_sharpness", "seed_area_power")
    shares = ("seed_floor",)

    refinements: int = 3  # patch classifiers, each learning from the seeds of the one before
    refinement_width: int = 2048  # of their hidden layer; 0: none
    refinement_cells: int = 1  # cells along a patch's side whose features are read one by one; ResNet-50 and lite0
    seeds: SeedsName = "best"  # patches of a present class that a classifier learns from; pseudo-boxes: another run's
    seed_sharpness: float = 1.0  # for seeds vote or votes: the power of a patch's probability in the vote
    seed_area_power: float = 0.0  # and the power of the patch's area that votes are multiplied by
    seeds_per_class: int = 5  # at most; for seeds votes, several, clusters or pseudo-boxes
    seed_share: float = 0.15  # of an image's patches, the best, from which several seeds are taken
    seed_floor: float = 0.5  # of the best score of its class, what each of several seeds needs; 0: nothing
    foreground: float = 0.5  # IoU with a seed from which a patch is of its class
    background: float = 0.1  # IoU with a seed from which a patch counts at all
    by_cluster: bool = False  # the patches on a seed share one loss term
    regression: bool = False  # learn to move boxes, from the last classifier's seeds
    two_stream_tags: bool = False  # the image's score has the two-stream head's added

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.background <= self.foreground <= 1:
            raise SettingError(
                f"recipe: background = {self.background}, foreground = {self.foreground}; they are IoUs from 0 to 1, "
                "the second not below the first."
            )
        if not 0 < self.seed_share <= 1:
            raise SettingError(f"recipe: seed_share = {self.seed_share}; it must be above 0 and at most 1.")


@dataclass(frozen=True)
class RoundSettings(SettingGroup):
    """[rounds]: trainings in a row, each on the pseudo boxes of those before it; `training/rounds.py` does them."""

    choices: ClassVar[dict[str, Any]] = {"round_teachers": RoundTeachers, "round_weights": RoundWeights}
    at_least_one = ("first_networks", "round_boxes")
    at_most: ClassVar[dict[str, int]] = {"rounds": 1_000, "first_networks": 1_000, "round_boxes": 10_000}
    not_negative = ("rounds", "round_steps")

    rounds: int = 0  # self-training rounds; 0: one training and nothing else
    first_networks: int = 1  # trained from the tags alone, each with a seed of its own; together they teach round 1
    round_steps: int = 0  # of each round; 0: as many as `steps`
    round_boxes: int = 1  # at most so many pseudo boxes of a tag
    round_teachers: RoundTeachers = "last"  # of later rounds: the round before, or all: it and the first networks
    round_weights: RoundWeights = "equal"  # of pseudo boxes in the loss; agreement: as far as teachers agree on each
    box_scales: tuple[int, ...] = ()  # at which pseudo boxes are found; empty: those of prediction
    stop_rounds: bool = True  # a round that makes boxes worse is undone and is the last

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.box_scales, default=16) < 16:
            raise SettingError(f"recipe: box_scales = {list(self.box_scales)}; none may be below 16 pixels.")
        if self.first_networks > 1 and not self.rounds:
            raise SettingError(
                f"recipe: first_networks = {self.first_networks} without rounds: only a self-training round learns from several. "
                "Use --set rounds=1, or --set first_networks=1."
            )


@dataclass(frozen=True)
class OptimiserSettings(SettingGroup):
    """[optimiser]: how the weights move, for how long, and what stays frozen.

    A step sees `batch_images` images, `images_per_micro_batch` of them at a time.
    """

    choices: ClassVar[dict[str, Any]] = {
        "optimiser": OptimiserName,
        "schedule": Schedule,
        "reduction": Reduction,
        "unknown": Unknown,
        "momentum_convention": MomentumConvention,
    }
    at_least_one = ("steps", "batch_images", "images_per_micro_batch")
    at_most: ClassVar[dict[str, int]] = {"batch_images": 1 << 20, "images_per_micro_batch": 1 << 20}
    not_negative = ("head_first_steps", "warmup_steps", "weight_decay", "clip_norm", "momentum", "frozen_stages")

    optimiser: OptimiserName = "sgd"
    learning_rate: float = 1e-3
    head_learning_rate: float = 1.0  # factor for the heads
    bias_learning_rate: float = 2.0  # factor for biases, which have no weight decay
    momentum: float = 0.9
    momentum_convention: MomentumConvention = "torch"  # of sgd; caffe: the learning rate is inside the momentum
    weight_decay: float = 5e-4
    clip_norm: float = 0.0  # 0: no clipping
    schedule: Schedule = "steps"
    drops: tuple[int, ...] = (30_000,)  # steps at which the rate falls to a tenth
    warmup_steps: int = 0
    steps: int = 40_000
    head_first_steps: int = 0  # come first and train the heads alone
    freeze_backbone: bool = False  # leave the convolutions as they were pretrained
    keep_maps: bool = False  # compute the maps of frozen convolutions once for each image, scale and flip, in 8 bits
    frozen_stages: int = 0  # leave the first stages as pretrained: they cost most and depend least on the classes
    batch_images: int = 2
    images_per_micro_batch: int = 1
    reduction: Reduction = "mean"
    unknown: Unknown = "absent"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.learning_rate > 0 and math.isfinite(self.learning_rate)):
            raise SettingError(f"recipe: learning_rate = {self.learning_rate}; it must be above 0.")


@dataclass(frozen=True)
class BoxSettings(SettingGroup):
    """[test]: which patches become the boxes of a class in prediction."""

    choices: ClassVar[dict[str, Any]] = {"box_selection": BoxSelectionName, "boxes": FurtherBoxes}
    not_negative = ("vote_sharpness", "area_power")
    shares = ("part_weight",)

    box_selection: BoxSelectionName = "max"  # the first box of a class: that of the highest score, or of a vote
    vote_sharpness: float = 1.0  # a patch votes with the exponential of this times its score
    area_power: float = 0.0  # votes are multiplied by the patch's area to this power
    boxes: FurtherBoxes = "best-first"  # further boxes of a class where there is a vote: by score, or elected too
    part_weight: float = 0.2  # in elections, the weight of the patches inside an elected box


@dataclass(frozen=True)
class MachineSettings(SettingGroup):
    """[machine]: number format and random seed."""

    choices: ClassVar[dict[str, Any]] = {"precision": Precision}
    not_negative = ("seed",)

    precision: Precision = "32-true"  # auto: bf16-mixed on a GPU that has it, else 32-true
    seed: int = 0
