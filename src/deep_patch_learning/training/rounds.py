"""First networks and self-training rounds in a row, as one run: plan, training of each, pseudo boxes between them, judgement."""

import gc
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from deep_patch_learning.common.errors import SettingError
from deep_patch_learning.common.progress import console
from deep_patch_learning.patches.prepare import Prepared
from deep_patch_learning.recipe.presets import self_training_round
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.recipe.settings import RoundSettings
from deep_patch_learning.runs.folder import RunFolder
from deep_patch_learning.runs.stages import StageRecord, Stages
from deep_patch_learning.training.fit import ChainForecast, train_prepared
from deep_patch_learning.training.judgement import Judge, as_dict
from deep_patch_learning.training.process import TrainingOptions
from deep_patch_learning.training.self_training import PseudoBoxSource, find_pseudo_boxes

if TYPE_CHECKING:  # not loaded where nobody said anything about boxes
    from deep_patch_learning.data.reviewed import ReviewedImage

FIRST, ROUND = 0, 1  # kinds of stages, in the numbers that seeds are derived from


@dataclass(frozen=True)
class Stage:
    """One training of several: its name, what it is called, its recipe, and the stages whose pseudo boxes it learns from."""

    name: str
    title: str
    recipe: Recipe
    teachers: tuple[str, ...] = ()

    @property
    def samples(self) -> int:
        """The samples that it takes if it goes to its end."""
        return self.recipe.total_steps * self.recipe.optimiser.batch_images


def stages_of(recipe: Recipe) -> list[Stage]:
    """Return the trainings that a recipe with rounds asks for, in their order; each has a recipe without rounds."""
    chosen, plain = recipe.rounds, replace(recipe, rounds=RoundSettings())
    stages = []
    for number in range(1, chosen.first_networks + 1):
        title = f"first network {number} of {chosen.first_networks}"
        own = plain.replace(seed=stage_seed(recipe.machine.seed, FIRST, number))
        stages.append(Stage(f"first-{number}", title, own))
    first = tuple(stage.name for stage in stages)
    taught = self_training_round(plain).replace(seeds_per_class=chosen.round_boxes)
    taught = of_length(taught, chosen.round_steps or recipe.optimiser.steps)
    for number in range(1, chosen.rounds + 1):
        own = taught.replace(seed=stage_seed(recipe.machine.seed, ROUND, number))
        before = first if number == 1 else (stages[-1].name, *(first if chosen.round_teachers == "all" else ()))
        stages.append(Stage(f"round-{number}", f"round {number} of {chosen.rounds}", own, before))
    return stages


def stage_seed(seed: int, kind: int, number: int) -> int:
    """Return the seed of one training of a run: trainings of one run, and runs with other seeds, share none."""
    return int(np.random.SeedSequence((seed, kind, number)).generate_state(1, np.uint64)[0] >> 11)


def of_length(recipe: Recipe, steps: int) -> Recipe:
    """Return the recipe with other steps; warm-up, drops of the rate and steps of the heads alone keep their shares of them."""
    plan = recipe.optimiser
    if steps == plan.steps:
        return recipe
    warm, heads, *drops = (
        round(part * steps / plan.steps) for part in (plan.warmup_steps, plan.head_first_steps, *plan.drops)
    )
    return recipe.replace(steps=steps, warmup_steps=warm, head_first_steps=heads, drops=tuple(drops))


class Passes(NamedTuple):
    """What it costs to find and judge boxes: the images to find them on, those to judge by, and one of them in samples."""

    images: int
    judged: int
    cost: float


def passes_of(prepared: Prepared, judged: int, recipe: Recipe) -> Passes:
    """Return the cost of passes over these images; in one, an image has all its patches, and a sample those that it draws."""
    images, drawn = len(prepared.images), recipe.data.patches_per_sample
    looked_at = range(0, images, max(images // 50, 1))
    patches = float(np.mean([len(prepared.patches[index]) for index in looked_at]))
    return Passes(images, judged, max(patches / drawn, 1.0) if drawn else 1.0)


def samples_after(planned: Sequence[Stage], place: int, recipe: Recipe, passes: Passes) -> int:
    """Return the samples that follow the training at `place`, with the cost of passes that find boxes and judge them."""
    chosen, later = recipe.rounds, planned[place + 1 :]
    views = len(chosen.box_scales or recipe.seen_at) * (2 if recipe.data.test_flips else 1)
    each = [len(stage.teachers) for stage in later]  # where their agreement counts, each is asked alone too
    asked = sum(teachers * (1 + (chosen.round_weights == "agreement" and teachers > 1)) for teachers in each)
    finding = asked * passes.images * views
    # the first networks are judged with round 1, each in two views
    networks = len(planned) - (place if place > chosen.first_networks else 0)
    judging = 2 * networks * passes.judged * len(recipe.seen_at) if chosen.stop_rounds else 0
    return sum(stage.samples for stage in later) + round(passes.cost * (finding + judging))


def check_rounds(recipe: Recipe, devices: int = 1) -> None:
    """Raise `SettingError` where a recipe has rounds and several ranks are to train."""
    ranks = max(devices, int(os.environ.get("WORLD_SIZE", "1")))
    if recipe.rounds.rounds and ranks > 1:
        raise SettingError(
            f"recipe: rounds = {recipe.rounds.rounds} train on one device, not on {ranks}. Use one, or train first networks and "
            "rounds one by one with --pseudo-boxes-from."
        )


@dataclass(frozen=True)
class RoundsInput:
    """What all trainings of a run share; `writing` is how often log and checkpoints are written, `cache` that of patches.

    `reviewed` is what people said about boxes, by the images' names: the first networks learn from it (see
    `training.reviewed`), and in the rounds exact boxes take the place of pseudo boxes.
    """

    prepared: Prepared
    held_out: Prepared | None = None
    source: dict[str, Any] | None = None
    device: str = "auto"
    workers: int | None = None
    cache: Path | None = None
    writing: TrainingOptions | None = None
    reviewed: "Mapping[str, ReviewedImage] | None" = None


def train_rounds(given: RoundsInput, recipe: Recipe, out: str | Path) -> StageRecord | None:
    """Return what came of all trainings that a recipe asks for, or None when Ctrl-C ended one of them early.

    All but the last are runs under `out`/stages; in the end `out` is a run with the network that is kept. The same call again
    goes on where it stopped.
    """
    check_rounds(recipe)
    planned = stages_of(recipe)
    stages = Stages(RunFolder(out), planned[-1].name)
    stages.run.check(recipe)  # before anything is written
    with stages.locked():
        stages.begin(recipe)
        return _Rounds(given, recipe, planned, stages).train()


class _Rounds:
    """The trainings of one run in progress."""

    def __init__(self, given: RoundsInput, recipe: Recipe, planned: Sequence[Stage], stages: Stages) -> None:
        self.given, self.recipe, self.planned, self.stages = given, recipe, planned, stages
        self.device = None if given.device == "auto" else given.device
        self.judge = Judge(given.prepared, given.held_out, self.device)
        self.passes = passes_of(given.prepared, self.judge.count, recipe)
        self.chain = ChainForecast(f"all {len(planned)} trainings")

    def train(self) -> StageRecord | None:
        """Return what came of all trainings; None when one was stopped."""
        kept = self.planned[0].name
        for stage in self.planned:
            if not self._train(stage):
                return None
            self.stages.trained(stage.name, stage.recipe)
            kept = stage.name
            if stage.teachers and self.recipe.rounds.stop_rounds:
                judgement = self._judgement(stage)
                if judgement["worse"]:
                    kept = judgement["before"]
                    break
        self.stages.finish(kept)
        return self.stages.record

    def _train(self, stage: Stage) -> bool:
        """Return whether a training is at its end; one that was is left as it is, after a look at its data."""
        given, run = self.given, self.stages.folder(stage.name)
        if run.weights.exists():
            held_out = None if given.held_out is None else given.held_out.images
            run.begin(stage.recipe, given.prepared.images, given.source or {}, held_out, self._reviewed_lines())
            return True
        console.print(f"{stage.title}: {run.folder}", markup=False, soft_wrap=True)
        source, pseudo_boxes = given.source or {}, None
        if stage.teachers:
            teachers = [self.stages.folder(name).folder for name in stage.teachers]
            # once the round has begun it has its boxes, wherever the folder was moved to since
            asked = () if run.pseudo_boxes.exists() else teachers
            scales = self.recipe.rounds.box_scales or None
            agreement = self.recipe.rounds.round_weights == "agreement"
            found_by = PseudoBoxSource(asked, self.device, given.workers, given.cache, scales, agreement)
            pseudo_boxes = find_pseudo_boxes(given.prepared, stage.recipe, run.folder, found_by)
            if given.reviewed and pseudo_boxes is not None:
                from deep_patch_learning.training.reviewed import with_exact_boxes

                pseudo_boxes = with_exact_boxes(pseudo_boxes, given.prepared.images, given.reviewed)
            source = source | {"boxes_from": [str(folder.resolve()) for folder in teachers]}
        place = self.planned.index(stage)
        self.chain.later_samples = samples_after(self.planned, place, self.recipe, self.passes)
        options: Any = {"held_out": given.held_out, "pseudo_boxes": pseudo_boxes, "writing": given.writing}
        options |= {"description": stage.title, "chain": self.chain, "reviewed": given.reviewed}
        trainer = train_prepared(given.prepared, stage.recipe, run.folder, source, given.device, **options)
        finished, step = trainer.finished, trainer.step
        if not finished:
            said = f"{stage.title}: stopped at step {step} of {stage.recipe.total_steps}. Repeat the command to go on."
            console.print(said, markup=False, soft_wrap=True)
        del trainer
        _free_memory()
        return finished

    def _reviewed_lines(self) -> str:
        if not self.given.reviewed:
            return ""
        from deep_patch_learning.data.reviewed import as_lines

        return as_lines(self.given.reviewed, self.given.prepared.images.classes)

    def _judgement(self, stage: Stage) -> dict[str, Any]:
        """Return the judgement on a round beside the network before it, made now unless it is written down, and print it."""
        for known in self.stages.record.judgements:
            if known["round"] == stage.name:
                return known
        before = self._before(stage)
        found = self.judge.compare(*(self.stages.folder(name).folder for name in (before, stage.name)))
        words = f"{stage.title}: {found}, on {self.judge.images}"
        if found.is_worse:
            words += f"; that is worse, so the network of {before} is kept"
        console.print(words, markup=False, soft_wrap=True)
        made = as_dict(found, round=stage.name, before=before, images=self.judge.images)
        self.stages.judged(made)
        return made

    def _before(self, stage: Stage) -> str:
        """Return the name of the training before a round; of several first networks, that whose boxes agree best."""
        earlier = self.planned[: self.planned.index(stage)]
        if earlier[-1].teachers:
            return earlier[-1].name
        folders = {one.name: self.stages.folder(one.name).folder for one in earlier}
        return max(folders, key=lambda name: self.judge.figures(folders[name]).agreement.mean())


def _free_memory() -> None:
    """Give back what a finished training held, so that the next finds the device as the first did."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
