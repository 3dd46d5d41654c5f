"""Distillation of patch layers: they learn to predict for a patch what an ImageNet classifier predicts for its pixels.

For weights that hold convolutions only. No tag and no box is read, only images and their patches.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_linear_bn_eval

from deep_patch_learning.common.errors import ModelError, SettingError
from deep_patch_learning.data.batch import Batch, render
from deep_patch_learning.model.backbone import Backbone
from deep_patch_learning.model.backbones.registry import usual_weights
from deep_patch_learning.model.backbones.weights import FilledLayers
from deep_patch_learning.model.patch_features import FullyConnected, PartDropout
from deep_patch_learning.patches.prepare import Prepared
from deep_patch_learning.recipe.build import build_network, seeded
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.runs.folder import RunFolder
from deep_patch_learning.training.loop import Trainer
from deep_patch_learning.training.process import TrainingOptions
from deep_patch_learning.training.samples import Sample
from deep_patch_learning.training.teacher import Taught, teach


@dataclass(frozen=True)
class Distilling:
    """The settings of a distillation beside its recipe."""

    teacher: str = "imagenet"
    teacher_backbone: str = "resnet50"
    crop: int = 160  # pixels: the side of what the teacher sees of a patch
    temperature: float = 1.0  # above 1, the classes that the teacher thinks less likely count more
    feature_weight: float = 1.0  # of the teacher's features beside its classes
    dropout: float = 0.0  # in fc6 and fc7
    batch_norm: bool = True  # in fc6 and fc7 while they learn; worked into their weights at the end
    backbone_learning_rate: float = 0.03  # factor for the convolutions, where the recipe does not freeze them

    def __post_init__(self) -> None:
        if self.crop < 32:
            raise SettingError(f"distilling: crop = {self.crop}; it must be at least 32 pixels.")
        if not (self.temperature > 0 and math.isfinite(self.temperature)):
            raise SettingError(f"distilling: temperature = {self.temperature}; it must be above 0.")
        if not 0 <= self.dropout < 1:
            raise SettingError(f"distilling: dropout = {self.dropout}; it must be 0 or more and below 1.")
        if not (self.feature_weight >= 0 and self.backbone_learning_rate >= 0):
            raise SettingError("distilling: feature_weight and backbone_learning_rate must be 0 or more.")


def distilling(backbone: str = "vgg16", steps: int = 4_000) -> Recipe:
    """Return the recipe of a distillation: 64 patches of each of 32 images a step; the convolutions stay as they are."""
    return Recipe.of(
        name="distil",
        backbone=backbone,
        weights=usual_weights(backbone),
        scales=(480, 576, 688, 864),
        shapes=48,
        min_patch_side=8,
        patches_per_sample=64,
        steps=steps,
        freeze_backbone=True,
        batch_images=32,
        images_per_micro_batch=32,
        optimiser="adamw",
        learning_rate=1e-3,
        bias_learning_rate=1.0,
        weight_decay=0.01,
        schedule="cosine",
        drops=(),
        warmup_steps=max(1, min(200, steps // 10)),
        precision="auto",
    )


class NormedLayers(nn.Module):
    """fc6 and fc7 with batch norm before each ReLU, so that they learn whatever the scale of maps and weights.

    `plain` gives the same function without batch norm, so that the network which uses the layers needs none.
    """

    def __init__(self, layers: FullyConnected, dropout: float = 0.0, batch_norm: bool = True) -> None:
        super().__init__()
        self.fc6, self.fc7 = layers.fc6, layers.fc7
        for layer in (self.fc6, self.fc7):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
        norm = nn.BatchNorm1d if batch_norm else nn.Identity
        self.norm6, self.norm7 = norm(self.fc6.out_features), norm(self.fc7.out_features)
        self.dropout = PartDropout(dropout)
        self.width = layers.width

    def forward(self, pooled: Tensor) -> Tensor:
        """Return patch features (P, K) of pooled maps (P, D, s, s)."""
        hidden = self.dropout(torch.relu(self.norm6(self.fc6(pooled.flatten(1)))))  # (P, hidden)
        return self.dropout(torch.relu(self.norm7(self.fc7(hidden))))  # (P, K)

    @torch.no_grad()
    def plain(self) -> dict[str, Tensor]:
        """Return the tensors of fc6 and fc7 with the batch norm's scale and shift worked into them."""
        was_training = self.training
        self.eval()
        layers = {"fc6": _fused(self.fc6, self.norm6), "fc7": _fused(self.fc7, self.norm7)}
        self.train(was_training)
        return {
            f"{name}.{kind}": tensor for name, layer in layers.items() for kind, tensor in layer.state_dict().items()
        }


def _fused(layer: nn.Linear, norm: nn.Module) -> nn.Linear:
    return fuse_linear_bn_eval(layer, norm) if isinstance(norm, nn.BatchNorm1d) else layer


class Student(nn.Module):
    """A network up to its patch features, with two heads for the time of distillation: classes and features of the teacher."""

    def __init__(
        self, backbone: Backbone, pool: nn.Module, patch_features: nn.Module, width: int, taught: tuple[int, int]
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.pool = pool
        self.patch_features = patch_features
        self.teacher_classes = nn.Linear(width, taught[0])
        self.teacher_features = nn.Linear(width, taught[1])
        for head in (self.teacher_classes, self.teacher_features):
            nn.init.normal_(
                head.weight, std=1e-3
            )  # near nothing at first, so that no step is spent on unlearning noise
            nn.init.zeros_(head.bias)

    def forward(self, batch: Batch) -> Taught:
        """Return the student's prediction of the teacher's output for each patch."""
        maps = self.backbone(batch.images, batch.sizes if batch.padded else None)  # (I, D, h, w)
        features = self.patch_features(self.pool(maps, batch.patches, batch.patch_image, batch.pixels))  # (P, K)
        return Taught(self.teacher_classes(features), self.teacher_features(features))

    def plain_weights(self) -> dict[str, Tensor]:
        """Return the tensors of the backbone and the patch layers under the names of a network with heads."""
        layers = self.patch_features
        inside = layers.plain() if isinstance(layers, NormedLayers) else layers.state_dict()
        tensors = {f"backbone.{name}": tensor for name, tensor in self.backbone.state_dict().items()}
        tensors |= {f"patch_features.{name}": tensor for name, tensor in inside.items()}
        return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def build_student(recipe: Recipe, settings: Distilling, taught: tuple[int, int]) -> tuple[Student, FilledLayers]:
    """Return a student whose convolutions are pretrained and whose patch layers are new, and which layers were filled.

    `taught` are the numbers of classes and of features that the teacher gives.
    """
    if not recipe.model.weights:
        raise ModelError(
            f"distilling fills the patch layers behind pretrained convolutions, and {recipe.model.backbone} has none. "
            "Give them with --weights."
        )
    model = recipe.model
    bare = Recipe.of(backbone=model.backbone, heads=("discovery",), weights=model.weights, corners=model.corners)
    network, filled = build_network(bare, 1)
    assert filled is not None  # weights were given
    if not any(name.startswith("patch_features") for name in filled.new):
        raise ModelError(
            f"{recipe.model.weights}: fills the patch layers of {recipe.model.backbone} already, so there is nothing to distil. "
            "Train from these weights."
        )
    layers = network.patch_features
    width: int = layers.width  # type: ignore[assignment]
    if isinstance(layers, FullyConnected):
        layers = NormedLayers(layers, settings.dropout, settings.batch_norm)
    new = tuple(name for name in filled.new if not name.startswith("discovery"))
    student = Student(network.backbone, network.pool, layers, width, taught)
    return student, dataclasses.replace(filled, new=new)


def distil_terms(student: Taught, teacher: Taught, settings: Distilling) -> dict[str, Tensor]:
    """Return how far the student is from the teacher: KL divergence of the classes, and 1 - cosine of the features."""
    cool = settings.temperature
    classes = F.kl_div(
        F.log_softmax(student.logits.float() / cool, dim=1),
        F.log_softmax(teacher.logits / cool, dim=1),
        reduction="batchmean",
        log_target=True,
    )
    features = 1 - F.cosine_similarity(student.features.float(), teacher.features, dim=1).mean()
    # a soft target's gradient shrinks with the square of the temperature
    return {"teacher_classes": classes * cool**2, "teacher_features": features * settings.feature_weight}


class DistilTrainer(Trainer):
    """The training of a student by a teacher. `teacher` gives `Taught` for crops and tells its `classes` and `width`."""

    def __init__(
        self,
        recipe: Recipe,
        prepared: Prepared,
        run: RunFolder,
        teacher: nn.Module,
        settings: Distilling,
        options: TrainingOptions | None = None,
    ) -> None:
        sizes: tuple[int, int] = (teacher.classes, teacher.width)  # type: ignore[assignment]
        with seeded(recipe.machine.seed):
            student, filled = build_student(recipe, settings, sizes)
        super().__init__(recipe, prepared, run, options, network=student)
        self.filled = filled
        self.settings = settings
        self.teacher = teacher.to(self.fabric.device).to(memory_format=torch.channels_last).eval()
        _slow_down(self.optimiser, self.bare.backbone, settings.backbone_learning_rate)

    def terms(self, batch: Batch, labels: Tensor, samples: Sequence[Sample]) -> dict[str, Tensor]:
        """Return the two distances between student and teacher; the labels are not read."""
        taught = teach(self.teacher, batch, self.settings.crop)
        return distil_terms(self.network(batch), taught, self.settings)

    @torch.no_grad()
    def measure(self, steps: int = 4) -> dict[str, float]:
        """Return how well the student follows the teacher on patches drawn anew from `steps` more steps.

        `agreement`: for which percentage of the patches both name the same class; `cosine`: the mean cosine of features.
        """
        self.network.eval()
        same, cosine = [], []
        for step in range(self.recipe.total_steps, self.recipe.total_steps + steps):
            for micro_batch in self._prepare(step):
                images = [self.images[sample.image] for sample in micro_batch.samples]
                batch = render(micro_batch.layout, images, self.fabric.device)
                said, taught = self.network(batch), teach(self.teacher, batch, self.settings.crop)
                same.append((said.logits.argmax(1) == taught.logits.argmax(1)).float())
                cosine.append(F.cosine_similarity(said.features.float(), taught.features, dim=1))
        self.network.train()
        return {"agreement": 100 * torch.cat(same).mean().item(), "cosine": torch.cat(cosine).mean().item()}

    def patches_seen(self) -> int:
        """Return how many patches all steps together show."""
        most = self.recipe.data.patches_per_sample
        counts = [min(len(patches), most or len(patches)) for patches in self.patches]
        steps = map(self.plan.micro_batches_of, range(self.step))
        return sum(counts[sample.image] for step in steps for samples in step for sample in samples)


def _slow_down(optimiser: torch.optim.Optimizer, part: nn.Module, factor: float) -> None:
    """Give the parameters of `part` groups of their own in `optimiser`, whose learning rate is `factor` times as high."""
    slow = set(part.parameters())
    for group in list(optimiser.param_groups):
        moved = [parameter for parameter in group["params"] if parameter in slow]
        if moved:
            group["params"] = [parameter for parameter in group["params"] if parameter not in slow]
            optimiser.param_groups.append({**group, "params": moved, "factor": group["factor"] * factor})
