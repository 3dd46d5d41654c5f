"""The training loop: samples -> views -> network -> losses -> step, and a run folder that survives any kill."""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from deep_patch_learning.common.devices import usable_device, usable_precision
from deep_patch_learning.common.errors import TrainingError
from deep_patch_learning.common.progress import bar, console
from deep_patch_learning.data.batch import Batch, Layout, lay_out, render, shape_of
from deep_patch_learning.data.dataset import TaggedImages
from deep_patch_learning.data.store import ImageStore, prefetch
from deep_patch_learning.model.backbone import Backbone
from deep_patch_learning.model.backbones.weights import FilledLayers
from deep_patch_learning.model.network import ALL_HEADS
from deep_patch_learning.recipe.build import build_network, recipe_losses
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.runs.checkpoint import read_checkpoint, restore_network, restore_optimiser, save_checkpoint
from deep_patch_learning.runs.folder import RunFolder
from deep_patch_learning.training.early_stopping import HeldOut
from deep_patch_learning.training.ranks import Ranks
from deep_patch_learning.training.samples import Sample, SamplePlan, draw_patches

Pass = tuple[Layout, Tensor, list[Sample]]


@dataclass(frozen=True)
class Progress:
    """What a training says after each step."""

    step: int
    total: int
    loss: float | None  # of the last logged step


@dataclass(frozen=True)
class Writing:
    """When training writes: the log every `log_steps` steps, a checkpoint every `checkpoint_seconds` seconds."""

    log_steps: int = 10
    checkpoint_seconds: float = 60.0


def make_optimiser(network: nn.Module, recipe: Recipe, fused: bool = False) -> torch.optim.Optimizer:
    """Return the optimiser; each group carries `factor`, what its learning rate is multiplied by; `fused` is for a GPU.

    Biases (and norms) have no weight decay. Biases learn `bias_learning_rate` times as fast, heads `head_learning_rate`.
    """
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in network.named_parameters():
        factor = recipe.head_learning_rate if name.startswith(tuple(f"{head}." for head in ALL_HEADS)) else 1.0
        plain = parameter.ndim == 1
        if name.endswith(".bias"):
            factor *= recipe.bias_learning_rate
        groups.setdefault((factor, 0.0 if plain else recipe.weight_decay), []).append(parameter)
    parameters: list[dict[str, Any]] = [
        {"params": members, "factor": factor, "weight_decay": decay} for (factor, decay), members in groups.items()
    ]
    if recipe.optimiser == "sgd":
        return torch.optim.SGD(parameters, lr=recipe.learning_rate, momentum=recipe.momentum, fused=fused)
    return torch.optim.AdamW(parameters, lr=recipe.learning_rate, fused=fused)


class Trainer:
    """One training: the network, its optimiser and the data, moved forward step by step.

    Another `network` can be handed in: anything with a `backbone` and `patch_features` whose forward takes a `Batch`. Where it
    gives something else than `Scores`, a subclass says what its loss is in `terms`.

    With `held_out` the weights that do well there (see `early_stop.py`) become the run's, and training may end early.
    """

    def __init__(
        self,
        recipe: Recipe,
        images: TaggedImages,
        patches: Sequence[np.ndarray],
        run: RunFolder,
        device: str = "auto",
        writing: Writing | None = None,
        network: nn.Module | None = None,
        devices: int = 1,
        held_out: HeldOut | None = None,
    ) -> None:
        if not len(images):
            raise TrainingError("there is no image to train on. Check --split and the data set.")
        self.recipe, self.dataset, self.patches, self.run = recipe, images, patches, run
        self.writing = writing or Writing()
        self.held_out = held_out
        self.labels = torch.from_numpy(images.labels)
        self.losses = recipe_losses(recipe)
        torch.manual_seed(recipe.seed)
        self.filled: FilledLayers | None = None
        if network is None:
            network, self.filled = build_network(
                recipe.backbone,
                len(images.classes),
                recipe.heads,
                recipe.filters,
                recipe.bands,
                recipe.weights or None,
                recipe.head_bias,
                recipe.refinements,
                recipe.refinement_width,
                recipe.regression,
                recipe.refinement_cells,
            )
        self.bare = cast(Any, network)
        backbone: Backbone = self.bare.backbone
        backbone.frozen_norm |= recipe.freeze_backbone
        if recipe.frozen_stages > len(backbone.stages()):
            raise TrainingError(
                f"frozen_stages = {recipe.frozen_stages}, but {recipe.backbone} has {len(backbone.stages())} stages. "
                "To leave them all as they are, use --set freeze_backbone=true."
            )
        backbone.freeze(recipe.frozen_stages)
        self.fabric = _fabric(device, recipe.precision, devices)
        self.ranks = Ranks(self.fabric)
        self.images = ImageStore(images, self.fabric.device)
        shapes = [shape_of(*size, recipe.shapes) for size in self.images.sizes] if recipe.shapes else None
        self.plan = SamplePlan(len(images), recipe, shapes)
        self.ranks.check(len(self.plan.passes_of(0)))
        on_gpu = self.fabric.device.type == "cuda"
        if on_gpu:
            self.bare.to(memory_format=torch.channels_last)
            if usable_precision(recipe.precision, "cuda") != "32-true":
                torch.set_float32_matmul_precision("high")  # of the heads, whose features come in half precision anyway
        self.network, self.optimiser = self.fabric.setup(self.bare, make_optimiser(self.bare, recipe, fused=on_gpu))
        self.step = 0
        self.ends_early = held_out is not None and held_out.has_fallen
        self._since_log: list[dict[str, Tensor]] = []
        self._said: set[str] = set()
        self._logged_at, self._started = 0, time.monotonic()

    def resume(self) -> int:
        """Go to where the run's last checkpoint is, if it has one, and return the step."""
        if self.run.checkpoint.exists():
            self.step, tensors, numbers = read_checkpoint(self.run.checkpoint)
            restore_network(self.bare, tensors, self.run.checkpoint)
            restore_optimiser(self.optimiser, tensors, numbers)
        self.ranks.wait()  # until all have read what the first may soon write over
        if self.ranks.first:
            self.run.cut_log(self.step)
        self._logged_at = self.step
        return self.step

    @property
    def finished(self) -> bool:
        """Whether no step is left to do: all are done, or the held-out tags ended the training."""
        return self.ends_early or self.step >= self.recipe.total_steps

    def fit(self, on_step: Callable[[Progress], None] | None = None) -> bool:
        """Train to the end and return True, or False when asked to stop early; the state is saved either way."""
        with self.run.locked() if self.ranks.first else nullcontext():
            return self._fit(on_step)

    def _fit(self, on_step: Callable[[Progress], None] | None) -> bool:
        if self.finished and self.run.weights.exists():
            return True  # nothing left to do, and nothing is written again
        self.network.train()
        last_saved = time.monotonic()
        loss: float | None = None
        with bar("decoding") as show:
            self.images.fill(show)
        with _stop_flag() as stop:
            # where nothing has to be decoded, threads would only take the interpreter from the one that feeds the device
            threads = 4 if self.fabric.device.type == "cuda" and self.images.place == "host" else 0
            self._measure_if_due()  # a kill may have come between the step and its measurement
            steps = range(self.step, self.step if self.finished else self.recipe.total_steps)
            for passes in prefetch(self._prepare, steps, threads=threads):
                self._take_step(passes)
                to_log = self.step % self.writing.log_steps == 0 or self.step == self.recipe.total_steps
                if to_log:
                    loss = self._log()
                if on_step is not None:
                    on_step(Progress(self.step, self.recipe.total_steps, loss))
                self._measure_if_due()
                if self.finished:
                    break
                due = time.monotonic() - last_saved >= self.writing.checkpoint_seconds
                if self.ranks.size == 1 or to_log:  # several processes agree now and then only, since it costs a wait
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
            save_checkpoint(self.run.checkpoint, self.step, self.bare, self.optimiser)

    def _prepare(self, step: int) -> list[Pass]:
        return [self._lay_out(samples) for samples in self.ranks.own(self.plan.passes_of(step))]

    def _lay_out(self, samples: list[Sample]) -> Pass:
        """Return all of a pass but its pixels."""
        patches = [self.patches_of(sample) for sample in samples]
        originals = [_size(self.images[v.image]) for v in samples]
        layout = lay_out(originals, patches, samples[0].scale, [v.flip for v in samples], self.recipe.shapes)
        return _pinned(layout, self.fabric.device), self.labels[[v.image for v in samples]], samples

    def patches_of(self, sample: Sample) -> np.ndarray:
        """Return the patches that a sample looks at, in pixels of the image."""
        return draw_patches(self.patches[sample.image], self.recipe, sample.number)

    def _take_step(self, passes: list[Pass]) -> None:
        """Move the weights once, by the mean gradient over the images of all passes."""
        heads_alone = self.step < self.recipe.head_first_steps
        self.bare.patch_features.requires_grad_(not heads_alone)
        self.bare.backbone.let_learn(not (heads_alone or self.recipe.freeze_backbone))
        for group in self.optimiser.param_groups:
            group["lr"] = self.recipe.rate_at(self.step) * group["factor"]
        logged = len(self._since_log)
        while True:
            try:
                for number, made in enumerate(passes):
                    # dropout is seeded by the step, so that a resumed run drops what the unbroken one did
                    torch.manual_seed(_dropout_seed(self.recipe.seed, self.step, self.ranks.number(number)))
                    with self.fabric.no_backward_sync(self.network, enabled=self.ranks.size > 1):
                        self._take_pass(*made)
                break
            except torch.cuda.OutOfMemoryError as error:
                why = str(error)
            del self._since_log[logged:]
            passes = self._halved(passes, why)
        self.ranks.add_gradients(self.bare.parameters())
        if self.recipe.clip_norm:
            self.fabric.clip_gradients(
                self.network, self.optimiser, max_norm=self.recipe.clip_norm, error_if_nonfinite=False
            )
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.step += 1

    def _take_pass(self, layout: Layout, labels: Tensor, samples: list[Sample]) -> None:
        """Add the gradient of one pass."""
        batch = render(layout, [self.images[v.image] for v in samples], self.fabric.device)
        terms = self.terms(batch, labels.to(self.fabric.device, non_blocking=True), samples)
        share = len(labels) / self.recipe.batch_images
        self.fabric.backward(torch.stack(list(terms.values())).sum() * share)
        self._since_log.append({name: term.detach() * share for name, term in terms.items()})

    def _halved(self, passes: list[Pass], why: str) -> list[Pass]:
        """Return the passes of a step again, each in two, and forget what was begun of the step."""
        self.optimiser.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
        largest = max(passes, key=lambda made: len(made[2]))
        if len(largest[2]) == 1:
            patches = max(len(made[0].patches) for made in passes)
            raise TrainingError(
                f"the device's memory does not hold one image with {patches} patches ({why.split('.')[0]}). "
                f"Use fewer, --set patches_per_sample={max(patches // 2, 1)}, or smaller --scales."
            )
        self._say_once(f"{len(largest[2])} images do not fit the device's memory at once: they pass in halves")
        halves = [[v[: len(v) // 2], v[len(v) // 2 :]] for _, _, v in passes]
        return [self._lay_out(part) for pair in halves for part in pair if part]

    def _say_once(self, words: str) -> None:
        if words not in self._said:
            self._said.add(words)
            console.print(words, markup=False, style="yellow")

    def terms(self, batch: Batch, labels: Tensor, samples: Sequence[Sample]) -> dict[str, Tensor]:
        """Return the named loss terms of one pass; their sum is what training minimises."""
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
            "samples": self.step * self.recipe.batch_images,
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
        # a sum is finite only if every number in it is
        sums = losses + [parameter.detach().double().sum() for parameter in self.bare.parameters()]
        finite = bool(torch.isfinite(torch.stack([value.double() for value in sums])).all())
        if self.ranks.any(not finite)[0]:
            kept = (
                "The last checkpoint is kept."
                if self.run.checkpoint.exists()
                else "No checkpoint had been written yet."
            )
            raise TrainingError(
                f"the loss is no longer finite near step {self.step} (learning rate {self.recipe.rate_at(self.step - 1):.2g}). "
                f"Lower it, e.g. --set learning_rate={self.recipe.learning_rate / 10:.2g}, in a new --out folder. {kept}"
            )


def _size(image: Tensor) -> tuple[int, int]:
    return image.shape[0], image.shape[1]


def _pinned(layout: Layout, device: torch.device) -> Layout:
    """Return the layout with its tensors in memory that the device can fetch while the host goes on."""
    if device.type != "cuda":
        return layout
    return layout._replace(patches=layout.patches.pin_memory(), patch_image=layout.patch_image.pin_memory())


def _dropout_seed(seed: int, step: int, number: int) -> int:
    return int(np.random.SeedSequence((seed, step, number)).generate_state(1, np.uint64)[0] >> 1)


def _fabric(device: str, precision: str, devices: int = 1) -> Any:
    try:
        from lightning_fabric import Fabric
    except ImportError:  # the same code comes inside the package `lightning` too
        from lightning.fabric import Fabric  # type: ignore[import-not-found,no-redef]
    device = usable_device(device)
    # its words on precision are said in the run folder
    logging.getLogger(Fabric.__module__.split(".")[0]).setLevel(logging.WARNING)
    nodes = 1
    if "TORCHELASTIC_RUN_ID" in os.environ:  # started by torchrun, which says how many there are
        devices = int(os.environ["LOCAL_WORLD_SIZE"])
        nodes = int(os.environ["WORLD_SIZE"]) // devices
    together = {"strategy": "ddp", "num_nodes": nodes} if devices * nodes > 1 else {}
    fabric = Fabric(accelerator=device, devices=devices, precision=usable_precision(precision, device), **together)
    fabric.launch()
    return fabric


@contextmanager
def _stop_flag() -> Iterator[threading.Event]:
    """Yield a flag that Ctrl-C and a polite kill set, so that the step in progress ends whole."""
    flag = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield flag
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, lambda *_: flag.set())
    try:
        yield flag
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
