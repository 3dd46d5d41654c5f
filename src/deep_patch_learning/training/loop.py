"""The training loop: samples -> views -> network -> losses -> step, and a run folder that survives any kill."""

import json
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from deep_patch_learning.common.atomic_files import write_whole
from deep_patch_learning.common.errors import TrainingError
from deep_patch_learning.common.progress import bar, console
from deep_patch_learning.common.signals import stop_flag
from deep_patch_learning.data.batch import Batch, Layout, lay_out, render, shape_of
from deep_patch_learning.data.store import ImageStore, prefetch
from deep_patch_learning.model.backbone import Backbone
from deep_patch_learning.model.backbones.weights import FilledLayers
from deep_patch_learning.model.network import DeepPatchNet
from deep_patch_learning.model.patch_features import PartDropout
from deep_patch_learning.patches.prepare import Prepared
from deep_patch_learning.recipe.build import build_network, recipe_losses, recipe_optimiser, seeded
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.runs.checkpoint import (
    read_checkpoint,
    restore_network,
    restore_optimiser,
    restore_scaler,
    save_checkpoint,
)
from deep_patch_learning.runs.folder import RunFolder
from deep_patch_learning.training.kept_maps import KeptMaps
from deep_patch_learning.training.process import Ranks, TrainingOptions, make_fabric, set_up_process
from deep_patch_learning.training.samples import Sample, SamplePlan, draw_erased, draw_patches

if TYPE_CHECKING:
    from deep_patch_learning.training.early_stopping import HeldOut


class Planned(NamedTuple):
    """Which micro-batch of its step samples belong to, and which of its patches and images are theirs.

    Differs from the samples themselves where a micro-batch did not fit the memory and was halved.
    """

    number: int
    first_patch: int
    patches: int
    first_image: int
    images: int


class MicroBatch(NamedTuple):
    """Samples that go through the network together: all but their pixels."""

    layout: Layout
    labels: Tensor
    samples: list[Sample]
    planned: Planned

    @property
    def dropout_part(self) -> dict[int, tuple[int, int]]:
        """The rows of patches or images that dropout sees, by their number (see `PartDropout`); empty: all that were planned."""
        planned, patches, images = self.planned, len(self.layout.patches), len(self.samples)
        if images == planned.images:
            return {}
        of_images = {images: (planned.first_image, planned.images)}
        return of_images | {patches: (planned.first_patch, planned.patches)}


@dataclass(frozen=True)
class Progress:
    """What a training says after each step."""

    step: int
    total: int
    loss: float | None  # of the last logged step


class Trainer:
    """One training: the network, its optimiser and the data, moved forward step by step.

    Another `network` can be handed in: anything with a `backbone` and `patch_features` whose forward takes a `Batch`. Where it
    gives something else than `Scores`, a subclass says what its loss is in `terms`.

    With `held_out` images the weights that do well on them (see `early_stopping.py`) become the run's, and training may end
    early.
    """

    def __init__(
        self,
        recipe: Recipe,
        prepared: Prepared,
        run: RunFolder,
        options: TrainingOptions | None = None,
        network: nn.Module | None = None,
        held_out: "HeldOut | None" = None,
    ) -> None:
        images = prepared.images
        if not len(images):
            raise TrainingError("there is no image to train on. Check --split and the data set.")
        self.recipe, self.dataset, self.patches, self.run = recipe, images, prepared.patches, run
        self.options = options or TrainingOptions()
        self.held_out = held_out
        self.labels = torch.from_numpy(images.labels)
        self.losses = recipe_losses(recipe)
        self.filled: FilledLayers | None = None
        if network is None:
            with seeded(recipe.machine.seed):
                network, self.filled = build_network(recipe, len(images.classes))
        self.bare = cast(Any, network)
        freeze(self.bare.backbone, recipe)
        self.fabric = make_fabric(self.options, recipe.machine.precision)
        self.ranks = Ranks(self.fabric)
        self.images = ImageStore(images, self.fabric.device)
        rounded = recipe.data.shapes
        shapes = [shape_of(*size, rounded) for size in self.images.sizes] if rounded else None
        self.plan = SamplePlan(len(images), recipe, shapes, self.entries())
        self.ranks.check(len(self.plan.micro_batches_of(0)))
        plan = recipe.optimiser
        keeps = plan.keep_maps and plan.freeze_backbone and isinstance(self.bare, DeepPatchNet)
        self.maps = KeptMaps(self.bare.backbone, self.images, rounded) if keeps else None
        on_gpu = self.fabric.device.type == "cuda"
        if on_gpu:
            self.bare.to(memory_format=torch.channels_last)
        self.network, self.optimiser = self.fabric.setup(self.bare, recipe_optimiser(self.bare, recipe, fused=on_gpu))
        # half precision needs one, so that small gradients do not vanish; other formats have none
        self.scaler: torch.amp.GradScaler | None = getattr(self.fabric._precision, "scaler", None)
        self.step = 0
        self.ends_early = held_out is not None and held_out.has_fallen
        self._since_log: list[dict[str, Tensor]] = []
        self._said: set[str] = set()
        self._most_images: int | None = None  # of a micro-batch, once a larger one did not fit the memory
        self._dropouts = [layer for layer in self.bare.modules() if isinstance(layer, PartDropout)]
        self._logged_at, self._started = 0, time.monotonic()

    def resume(self) -> int:
        """Go to where the run's last checkpoint is, if it has one, and return the step."""
        if self.run.checkpoint.exists():
            self.step, tensors, numbers = read_checkpoint(self.run.checkpoint)
            restore_network(self.bare, tensors, self.run.checkpoint)
            restore_optimiser(self.optimiser, tensors, numbers, self.run.checkpoint)
            if self.scaler is not None:
                restore_scaler(self.scaler, self.run.checkpoint)
        if self.held_out is not None:  # another process may have gone on since
            self.held_out.read_again()
            self.ends_early = self.held_out.has_fallen
        self.ranks.wait()  # until all have read what the first may soon write over
        if self.ranks.first:
            self.run.cut_log(self.step)
        self._logged_at = self.step
        return self.step

    @property
    def finished(self) -> bool:
        """Whether no step is left: all are done, or the held-out images ended the training."""
        return self.ends_early or self.step >= self.recipe.total_steps

    def fit(self, on_step: Callable[[Progress], None] | None = None) -> bool:
        """Train to the end and return True, or False when asked to stop early; the state is saved either way."""
        set_up_process(self.recipe, self.fabric.device)
        with self.run.locked() if self.ranks.first else nullcontext():
            return self._fit(on_step)

    def _fit(self, on_step: Callable[[Progress], None] | None) -> bool:
        if self.finished and self.run.weights.exists():
            return True  # nothing left to do, and nothing is written again
        if self.ranks.first and self.filled is not None:
            write_whole(self.run.layers, json.dumps(self.filled.details(), indent=1))
        self.network.train()
        last_saved = time.monotonic()
        loss: float | None = None
        with bar("decoding") as show:
            self.images.fill(show)
        self._fill_maps()
        with stop_flag() as stop:
            # where nothing has to be decoded, threads would only take the interpreter from the one that feeds the device
            threads = 4 if self.fabric.device.type == "cuda" and self.images.place == "host" else 0
            self._measure_if_due()  # a kill may have come between the step and its measurement
            steps = range(self.step, self.step if self.finished else self.recipe.total_steps)
            for micro_batches in prefetch(self._prepare, steps, threads=threads):
                self._take_step(micro_batches)
                to_log = self.step % self.options.log_steps == 0 or self.step == self.recipe.total_steps
                if to_log:
                    loss = self._log()
                if on_step is not None:
                    on_step(Progress(self.step, self.recipe.total_steps, loss))
                self._measure_if_due()
                if self.finished:
                    break
                due = time.monotonic() - last_saved >= self.options.checkpoint_seconds
                if self.ranks.size == 1 or to_log:  # several ranks agree now and then only, since it costs a wait
                    stopping, due = self.ranks.any(stop.is_set(), due)
                    if stopping:
                        break
                    if due:
                        self.save()
                        last_saved = time.monotonic()
        self.save()
        if not self.finished:
            return False
        if self.ranks.first:
            if self.held_out is None:
                save_checkpoint(self.run.weights, self.step, self.bare)
            else:
                self.held_out.keep_best()
        self.ranks.wait()
        return True

    def _fill_maps(self) -> None:
        """Compute the maps that samples will need, if most of them are still to come: then all steps take equally long."""
        if self.maps is None or self.finished:
            return
        data, plan = self.recipe.data, self.recipe.optimiser
        flips = (False, True) if data.flips else (False,)
        views = [(index, scale, flip) for scale in data.scales for flip in flips for index in range(len(self.dataset))]
        if len(views) <= (self.recipe.total_steps - self.step) * plan.batch_images:
            with bar("maps") as show:
                self.maps.fill(views, show)

    def _measure_if_due(self) -> None:
        """Measure on held-out tags where it is the time for it, and note whether training ends.

        The checkpoint comes first: no measurement is of a step that a resumed training has before it.
        """
        if self.held_out is None or not self.held_out.is_due(self.step):
            return
        self.save()
        if self.ranks.first:
            self.held_out.take(self.step, self.bare)
        self.ends_early = self.ranks.any(self.held_out.has_fallen)[0]

    def save(self) -> None:
        """Write a checkpoint of this moment, unless the losses since the last one are not finite."""
        self._must_be_finite()
        if self.ranks.first:
            save_checkpoint(self.run.checkpoint, self.step, self.bare, self.optimiser, self.scaler)

    def _prepare(self, step: int) -> list[MicroBatch]:
        own = self.ranks.own(self.plan.micro_batches_of(step))
        return [self._lay_out(samples, self.ranks.number(number)) for number, samples in enumerate(own)]

    def _lay_out(self, samples: list[Sample], number: int) -> MicroBatch:
        patches = [self.patches_of(sample) for sample in samples]
        originals = [_size(self.images[sample.image]) for sample in samples]
        flips = [sample.flip for sample in samples]
        layout = lay_out(originals, patches, samples[0].scale, flips, self.recipe.data.shapes)
        erased = draw_erased(layout.sizes, samples, self.recipe)
        if erased is not None:
            layout = layout._replace(erased=torch.from_numpy(erased))
        labels = self.labels[[sample.image for sample in samples]]
        planned = Planned(number, 0, len(layout.patches), 0, len(samples))
        return MicroBatch(_pinned(layout, self.fabric.device), labels, samples, planned)

    def entries(self) -> Sequence[int] | None:
        """Return the images of an epoch where some are shown several times; None: each once."""
        return None

    def patches_of(self, sample: Sample) -> np.ndarray:
        """Return the patches that a sample uses, in pixels of the image."""
        return draw_patches(self.patches[sample.image], self.recipe, sample.number)

    def _take_step(self, micro_batches: list[MicroBatch]) -> None:
        """Move the weights once, by the mean gradient over the images of all micro-batches."""
        heads_alone = self.step < self.recipe.optimiser.head_first_steps
        self.bare.patch_features.requires_grad_(not heads_alone)
        self.bare.backbone.let_learn(not (heads_alone or self.recipe.optimiser.freeze_backbone))
        for group in self.optimiser.param_groups:
            group["lr"] = self.recipe.rate_at(self.step) * group["factor"]
        logged = len(self._since_log)
        micro_batches = self._that_fit(micro_batches)
        while True:
            try:
                for micro_batch in micro_batches:
                    self._seed_dropout(micro_batch)
                    with self.fabric.no_backward_sync(self.network, enabled=self.ranks.size > 1):
                        self._add_gradient(micro_batch)
                break
            except torch.cuda.OutOfMemoryError as error:
                why = str(error)
            del self._since_log[logged:]
            self._expect_less(micro_batches, why)
            micro_batches = self._that_fit(micro_batches)
        self.ranks.add_gradients(self.bare.parameters())
        if self.recipe.optimiser.clip_norm:
            self.fabric.clip_gradients(
                self.network, self.optimiser, max_norm=self.recipe.optimiser.clip_norm, error_if_nonfinite=False
            )
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.step += 1

    def _add_gradient(self, micro_batch: MicroBatch) -> None:
        """Add the gradient of one micro-batch."""
        labels, samples = micro_batch.labels, micro_batch.samples
        batch = self._batch(micro_batch.layout, samples)
        terms = self.terms(batch, labels.to(self.fabric.device, non_blocking=True), samples)
        share = len(labels) / self.recipe.optimiser.batch_images
        self.fabric.backward(torch.stack(list(terms.values())).sum() * share)
        self._since_log.append({name: term.detach() * share for name, term in terms.items()})

    def _batch(self, layout: Layout, samples: list[Sample]) -> Batch:
        """Return the batch of a layout: with pixels, or with maps where they are kept."""
        if self.maps is not None:
            return self.maps.batch(layout, samples, self.fabric.device)
        return render(layout, [self.images[sample.image] for sample in samples], self.fabric.device)

    def _seed_dropout(self, micro_batch: MicroBatch) -> None:
        """Seed dropout by the step and the planned micro-batch.

        A resumed run drops what the unbroken one did, and the halves of a micro-batch what the whole one would.
        """
        torch.manual_seed(_dropout_seed(self.recipe.machine.seed, self.step, micro_batch.planned.number))
        for layer in self._dropouts:
            layer.part = micro_batch.dropout_part

    def _expect_less(self, micro_batches: list[MicroBatch], why: str) -> None:
        """Halve the most images of a micro-batch, from now on, and forget the gradients so far."""
        self.optimiser.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
        largest = max(len(one.samples) for one in micro_batches)
        if largest == 1:
            patches = max(len(one.layout.patches) for one in micro_batches)
            raise TrainingError(
                f"the device's memory does not hold one image with {patches} patches ({why.split('.')[0]}). "
                f"Use fewer, --set patches_per_sample={max(patches // 2, 1)}, or smaller --scales."
            )
        self._most_images = -(-largest // 2)
        self._say_once(f"a micro-batch of {largest} images does not fit the device's memory: it is halved from now on")

    def _that_fit(self, micro_batches: list[MicroBatch]) -> list[MicroBatch]:
        """Return the micro-batches of a step, halved until none has more images than are known to fit the memory."""
        most = self._most_images
        if most is None:
            return micro_batches
        found = []
        for one in micro_batches:
            found += [one] if len(one.samples) <= most else self._that_fit(self._halves(one))
        return found

    def _halves(self, micro_batch: MicroBatch) -> list[MicroBatch]:
        """Return a micro-batch in two, which know their places in it."""
        middle, planned, found = len(micro_batch.samples) // 2, micro_batch.planned, []
        for samples in (micro_batch.samples[:middle], micro_batch.samples[middle:]):
            half = self._lay_out(samples, planned.number)
            found.append(half._replace(planned=planned))
            patches, images = planned.first_patch + len(half.layout.patches), planned.first_image + len(samples)
            planned = planned._replace(first_patch=patches, first_image=images)
        return found

    def _say_once(self, words: str) -> None:
        if words not in self._said:
            self._said.add(words)
            console.print(words, markup=False, soft_wrap=True, style="yellow")

    def terms(self, batch: Batch, labels: Tensor, samples: Sequence[Sample]) -> dict[str, Tensor]:
        """Return the named loss terms of one micro-batch; their sum is what training minimises."""
        return self.losses(self.network(batch), labels, batch)

    def _log(self) -> float:
        self._must_be_finite()
        steps = self.step - self._logged_at
        names = list(self._since_log[-1])
        sums = torch.stack([torch.stack([terms[name] for terms in self._since_log]).sum() for name in names])
        means = {name: total / steps for name, total in zip(names, self.ranks.sum(sums).tolist(), strict=True)}
        self._since_log, self._logged_at = [], self.step
        entry = {
            "step": self.step,
            "samples": self.step * self.recipe.optimiser.batch_images,
            "loss": sum(means.values()),
            **means,
            "learning_rate": self.recipe.rate_at(self.step - 1),
            "seconds": round(time.monotonic() - self._started, 3),
        }
        if self.ranks.first:
            self.run.append_log(entry)
        return entry["loss"]

    def _must_be_finite(self) -> None:
        losses = [term for terms in self._since_log for term in terms.values()]
        # least and greatest show every infinity and NaN, and nothing of the parameters' size is made
        ends = [end for weight in self.bare.parameters() if weight.numel() for end in torch.aminmax(weight.detach())]
        finite = bool(torch.isfinite(torch.stack([value.double() for value in losses + ends])).all())
        if self.ranks.any(not finite)[0]:
            kept = (
                "The last checkpoint is kept."
                if self.run.checkpoint.exists()
                else "No checkpoint had been written yet."
            )
            rate, lower = self.recipe.rate_at(self.step - 1), self.recipe.optimiser.learning_rate / 10
            raise TrainingError(
                f"the loss is no longer finite near step {self.step} (learning rate {rate:.2g}). "
                f"Lower it, e.g. --set learning_rate={lower:.2g}, in a new --out folder. {kept}"
            )


def freeze(backbone: Backbone, recipe: Recipe) -> None:
    """Freeze the batch norms and the stages of a backbone that a recipe leaves as pretrained."""
    backbone.frozen_norm |= recipe.optimiser.freeze_backbone
    frozen, stages = recipe.optimiser.frozen_stages, len(backbone.stages())
    if frozen > stages:
        raise TrainingError(
            f"frozen_stages = {frozen}, but {recipe.model.backbone} has {stages} stages. "
            "To leave them all as they are, use --set freeze_backbone=true."
        )
    backbone.freeze(frozen)


def _size(image: Tensor) -> tuple[int, int]:
    return image.shape[0], image.shape[1]


def _pinned(layout: Layout, device: torch.device) -> Layout:
    """Return the layout with its tensors in memory that the device can fetch while the host goes on."""
    if device.type != "cuda":
        return layout
    return layout._replace(patches=layout.patches.pin_memory(), patch_image=layout.patch_image.pin_memory())


def _dropout_seed(seed: int, step: int, number: int) -> int:
    return int(np.random.SeedSequence((seed, step, number)).generate_state(1, np.uint64)[0]) >> 1
