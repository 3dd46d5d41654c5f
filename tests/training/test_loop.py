"""Training: kill and resume, Ctrl-C, heads first, accumulation, a loss that is not finite, settings that changed."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from trainers import trainer

from deep_patch_learning.common.errors import RunError, TrainingError
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.model.network import ALL_HEADS
from deep_patch_learning.patches.prepare import Prepared, prepare
from deep_patch_learning.recipe.build import recipe_optimiser, recipe_patches
from deep_patch_learning.recipe.presets import paper
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.runs.checkpoint import read_checkpoint, restore_network
from deep_patch_learning.runs.folder import RunFolder
from deep_patch_learning.training.fit import train_prepared


def same_weights(first: Path, second: Path) -> bool:
    a, b = (read_checkpoint(path)[1] for path in (first, second))
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_a_run_folder_holds_everything(small_run: Path, small_prepared: Prepared, small_recipe: Recipe) -> None:
    run = RunFolder(small_run)
    assert Recipe.load(run.config) == small_recipe
    assert run.describe()["classes"] == list(small_prepared.images.classes)
    assert json.loads(run.versions.read_text())["torch"] == torch.__version__.split("+")[0]
    log = run.read_log()
    assert log[-1]["step"] == small_recipe.total_steps
    assert log[-1]["loss"] == pytest.approx(log[-1]["classification"] + log[-1]["discovery"])
    step, tensors, _ = read_checkpoint(run.checkpoint)
    assert step == small_recipe.total_steps
    assert any(name.startswith("optimiser.") for name in tensors)
    assert not any(name.startswith("optimiser.") for name in read_checkpoint(run.weights)[1])
    assert not list(small_run.glob("*.part"))


def test_stopped_and_resumed_equals_never_stopped(
    small_prepared: Prepared, small_recipe: Recipe, small_run: Path, tmp_path: Path
) -> None:
    first = trainer(small_prepared, small_recipe, tmp_path / "run")

    def stop_at_five(progress: object) -> None:
        if progress.step == 5:  # type: ignore[attr-defined]
            os.kill(os.getpid(), signal.SIGINT)  # Ctrl-C: the step in progress ends whole

    assert first.fit(stop_at_five) is False
    assert first.step == 5
    second = trainer(small_prepared, small_recipe, tmp_path / "run")
    assert second.step == 5
    assert second.fit() is True
    assert same_weights(tmp_path / "run" / "checkpoint.safetensors", small_run / "checkpoint.safetensors")


def test_erased_regions_survive_a_stop(
    small_prepared: Prepared, small_recipe: Recipe, small_run: Path, tmp_path: Path
) -> None:
    recipe = small_recipe.replace(erased_regions=2)
    whole, broken = (trainer(small_prepared, recipe, tmp_path / name) for name in ("whole", "broken"))
    whole.fit()
    broken.fit(lambda progress: os.kill(os.getpid(), signal.SIGINT) if progress.step == 3 else None)
    trainer(small_prepared, recipe, tmp_path / "broken").fit()
    weights = [tmp_path / name / "checkpoint.safetensors" for name in ("whole", "broken")]
    assert same_weights(*weights)
    assert not same_weights(weights[0], small_run / "checkpoint.safetensors")


KILLED = """
import sys
from pathlib import Path
from deep_patch_learning.patches.prepare import prepare
from deep_patch_learning.training.fit import train_prepared
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.training.process import TrainingOptions
from deep_patch_learning.recipe.build import recipe_patches
from deep_patch_learning.recipe.recipe import Recipe
listing, config, patches, out = map(Path, sys.argv[1:])
recipe = Recipe.load(config)
prepared = prepare(read_tags(listing, "train"), recipe_patches(recipe), patches)
train_prepared(prepared, recipe, out, device="cpu", writing=TrainingOptions(log_steps=1, checkpoint_seconds=0))
"""


def test_killed_at_random_moments_resumes_to_the_same_weights(
    small_world: Path, small_recipe: Recipe, small_run: Path, tmp_path: Path
) -> None:
    """A real process, killed with no chance to say goodbye, again and again."""
    recipe = small_recipe
    (tmp_path / "config.toml").write_text(recipe.to_toml())
    out = tmp_path / "run"
    command = [sys.executable, "-c", KILLED, small_world, tmp_path / "config.toml", tmp_path / "patches", out]
    moments = random.Random(7)
    kills = 0
    for _ in range(3):
        process = subprocess.Popen(command, stderr=subprocess.PIPE)
        # wait until it has taken a step of its own, then a little longer
        log, before = out / "log.jsonl", len(RunFolder(out).read_log())
        while process.poll() is None and len(RunFolder(out).read_log()) <= before:
            time.sleep(0.01)
        assert log.exists(), process.stderr.read().decode() if process.stderr else ""
        time.sleep(moments.uniform(0, 0.05))
        if process.poll() is None:
            process.kill()
            kills += 1
        process.wait()
    assert kills
    subprocess.run(command, check=True, capture_output=True)
    assert same_weights(out / "checkpoint.safetensors", small_run / "checkpoint.safetensors")
    steps = [entry["step"] for entry in RunFolder(out).read_log()]
    assert steps == list(range(1, recipe.total_steps + 1))


@pytest.mark.parametrize(
    ("changes", "rtol"),
    [
        ({}, 1e-4),
        ({"heads": ALL_HEADS, "refinement_width": 32, "seeds": "several", "regression": True, "picking": "best"}, 1e-3),
    ],
    ids=["the paper's heads", "with a refinement"],
)
def test_two_passes_equal_one_of_both_images(
    changes: dict, rtol: float, small_prepared: Prepared, small_recipe: Recipe, tmp_path: Path
) -> None:
    """Accumulation keeps the gradient of the whole batch; at one scale and without dropout nothing else differs."""
    recipe = small_recipe.replace(scales=(96,), steps=2, images_per_micro_batch=4, warmup_steps=1, **changes)
    weights = []
    for name, per_pass in (("one", 4), ("four", 1)):
        made = trainer(small_prepared, recipe.replace(images_per_micro_batch=per_pass), tmp_path / name)
        made.bare.patch_features.dropout.p = 0.0
        made.fit()
        weights.append(made.bare.state_dict())
    for name in weights[0]:
        torch.testing.assert_close(weights[0][name], weights[1][name], rtol=rtol, atol=1e-5, msg=name)


def test_a_pass_that_does_not_fit_the_memory_is_taken_in_halves(
    small_prepared: Prepared, small_recipe: Recipe, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The gradient stays that of the whole step, dropout too, also of what was begun before the memory ran out."""
    recipe = small_recipe.replace(scales=(96,), steps=3, images_per_micro_batch=4, warmup_steps=1)
    short, plain, undropped = (trainer(small_prepared, recipe, tmp_path / name) for name in ("short", "plain", "p0"))
    undropped.bare.patch_features.dropout.p = 0.0
    terms, refused = short.terms, []

    def refuse(batch: object, labels: torch.Tensor, samples: list) -> dict[str, torch.Tensor]:
        found = terms(batch, labels, samples)  # type: ignore[arg-type]
        if len(samples) > 2:
            next(iter(found.values())).backward(retain_graph=True)  # some gradient is there already
            refused.append(len(samples))
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return found

    short.terms = refuse  # type: ignore[method-assign]
    assert short.fit()
    assert plain.fit()
    assert undropped.fit()
    assert refused == [4]  # the smaller size is kept
    whole, halved, other = (made.bare.state_dict() for made in (plain, short, undropped))
    for name, tensor in whole.items():
        torch.testing.assert_close(halved[name], tensor, rtol=1e-4, atol=1e-5, msg=name)
    assert not torch.allclose(whole["patch_features.fc7.weight"], other["patch_features.fc7.weight"], atol=1e-4)
    said = capsys.readouterr().err
    assert said.count("a micro-batch of 4 images does not fit the device's memory: it is halved from now on") == 1


def test_halves_of_halves_drop_what_the_whole_micro_batch_does(
    small_prepared: Prepared, small_recipe: Recipe, tmp_path: Path
) -> None:
    made = trainer(
        small_prepared, small_recipe.replace(images_per_micro_batch=4, patches_per_sample=0), tmp_path / "run"
    )
    (whole,) = made._prepare(0)
    layer = made.bare.patch_features.dropout
    layer.train()
    made._seed_dropout(whole)
    ones = torch.ones(len(whole.layout.patches), 7)
    expected = [layer(ones), layer(ones)]  # fc6, then fc7
    for most in (2, 1):
        made._most_images = most
        parts = made._that_fit([whole])
        assert [len(one.samples) for one in parts] == [most] * (4 // most)
        found = []
        for one in parts:
            made._seed_dropout(one)
            ones = torch.ones(len(one.layout.patches), 7)
            found.append((layer(ones), layer(ones)))
        for number in (0, 1):
            assert torch.equal(torch.cat([pair[number] for pair in found]), expected[number])


def test_looking_for_infinities_copies_no_layer(small_prepared: Prepared, small_recipe: Recipe, tmp_path: Path) -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    made = trainer(small_prepared, small_recipe, tmp_path / "run")
    known = {parameter.untyped_storage().data_ptr() for parameter in made.bare.parameters()}
    largest = 0

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            nonlocal largest
            found = func(*args, **(kwargs or {}))
            for each in found if isinstance(found, tuple | list) else (found,):
                if isinstance(each, torch.Tensor) and each.untyped_storage().data_ptr() not in known:
                    largest = max(largest, each.numel())
            return found

    with Watch():
        made._must_be_finite()
    assert 0 < largest <= 4 * len(known)  # two ends of each, and what is stacked of them
    for wrong in (float("nan"), float("inf"), -float("inf")):
        with torch.no_grad():
            weight = made.bare.patch_features.fc6.weight
            before = weight[3, 5].item()
            weight[3, 5] = wrong
        with pytest.raises(TrainingError, match="no longer finite"):
            made._must_be_finite()
        with torch.no_grad():
            weight[3, 5] = before
    made._must_be_finite()


def test_the_scale_of_gradients_in_half_precision_is_resumed(
    small_prepared: Prepared, small_recipe: Recipe, tmp_path: Path
) -> None:
    first, second = (trainer(small_prepared, small_recipe, tmp_path / "run") for _ in range(2))
    first.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12, growth_interval=3)
    weight = torch.nn.Parameter(torch.ones(2))
    optimiser = torch.optim.SGD([weight], lr=0.1)
    for factor in (1.0, float("inf"), 1.0, 1.0):  # the second step overflows: the scale is halved
        optimiser.zero_grad()
        first.scaler.scale((weight * factor).sum()).backward()
        first.scaler.step(optimiser)
        first.scaler.update()
    state = first.scaler.state_dict()
    assert (state["scale"], state["_growth_tracker"]) == (2.0**11, 2)
    first.run.begin(small_recipe, small_prepared.images, {})
    first.save()
    second.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16, growth_interval=3)
    second.resume()
    assert second.scaler.state_dict() == state
    # a checkpoint of an earlier version has none
    first.scaler = None
    first.save()
    second.resume()
    assert second.scaler.state_dict() == state


def test_the_scaler_is_that_of_the_precision(small_prepared: Prepared, small_recipe: Recipe, tmp_path: Path) -> None:
    made = trainer(small_prepared, small_recipe, tmp_path / "run")
    assert made.scaler is None
    from lightning_fabric.plugins.precision import MixedPrecision

    assert isinstance(MixedPrecision("16-mixed", "cuda").scaler, torch.amp.GradScaler)  # the attribute that is read


def test_one_image_too_large_for_the_memory_is_a_clear_error(
    small_prepared: Prepared, small_recipe: Recipe, tmp_path: Path
) -> None:
    made = trainer(small_prepared, small_recipe, tmp_path / "run")

    def refuse(*_: object) -> dict[str, torch.Tensor]:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    made.terms = refuse  # type: ignore[method-assign]
    with pytest.raises(TrainingError, match=r"does not hold one image with 16 patches.*--set patches_per_sample=8"):
        made.fit()


def test_heads_alone_come_first(small_prepared: Prepared, small_recipe: Recipe, tmp_path: Path) -> None:
    recipe = small_recipe.replace(head_first_steps=3, steps=1, freeze_backbone=False, warmup_steps=1)
    made = trainer(small_prepared, recipe, tmp_path / "run")
    before = {name: value.clone() for name, value in made.bare.state_dict().items()}
    changed = []

    def look(progress: object) -> None:
        now = made.bare.named_parameters()
        changed.append({name.split(".")[0] for name, value in now if not torch.equal(value, before[name])})

    made.fit(look)
    assert changed[2] == {"classification", "discovery"}
    assert changed[3] == {"backbone", "classification", "discovery", "patch_features"}


def test_a_frozen_backbone_does_not_move(small_run: Path, small_recipe: Recipe) -> None:
    from safetensors.torch import load_file

    import deep_patch_learning.model.backbones as package

    shipped = load_file(Path(package.__file__).with_name("tiny.safetensors"))
    trained = read_checkpoint(small_run / "weights.safetensors")[1]
    assert small_recipe.optimiser.freeze_backbone
    for name, tensor in shipped.items():
        if name.startswith("backbone."):
            assert torch.equal(trained[f"network.{name}"], tensor.float()), name


def test_frozen_stages_do_not_move_and_the_others_do(
    small_prepared: Prepared, small_recipe: Recipe, tmp_path: Path
) -> None:
    recipe = small_recipe.replace(freeze_backbone=False, frozen_stages=1, steps=2, warmup_steps=1)
    made = trainer(small_prepared, recipe, tmp_path / "run")
    before = {name: value.clone() for name, value in made.bare.backbone.body.state_dict().items()}
    made.fit()
    first = {f"{place}." for place in range(7)}  # two convolutions with their norms, up to the max-pooling
    moved = {name for name, now in made.bare.backbone.body.state_dict().items() if not torch.equal(now, before[name])}
    assert {name for name in before if name.startswith("7.")} <= moved
    assert not {name for name in moved if name.startswith(tuple(first))}


def test_more_frozen_stages_than_there_are_is_a_clear_error(
    small_prepared: Prepared, small_recipe: Recipe, tmp_path: Path
) -> None:
    with pytest.raises(TrainingError, match=r"frozen_stages = 3, but tiny has 2 stages.*freeze_backbone=true"):
        trainer(small_prepared, small_recipe.replace(frozen_stages=3), tmp_path / "run")


@pytest.mark.parametrize("heads", [("classification", "discovery"), ("classification",), ("discovery",)])
def test_a_loss_that_is_not_finite_stops_with_a_clear_word(
    heads: tuple[str, ...], small_prepared: Prepared, small_recipe: Recipe, tmp_path: Path
) -> None:
    recipe = small_recipe.replace(heads=heads, learning_rate=1e30, clip_norm=0.0, optimiser="sgd", schedule="steps")
    made = trainer(small_prepared, recipe, tmp_path / "run", log_steps=2)
    with pytest.raises(TrainingError, match=r"no longer finite near step .*--set learning_rate=1e\+29"):
        made.fit()
    assert not made.run.weights.exists()


def test_a_good_checkpoint_survives_a_loss_that_is_not_finite(
    small_prepared: Prepared, small_recipe: Recipe, tmp_path: Path
) -> None:
    made = trainer(small_prepared, small_recipe, tmp_path / "run", log_steps=1)

    def spoil(progress: object) -> None:
        if progress.step == 3:  # type: ignore[attr-defined]
            made.save()
            with torch.no_grad():
                made.bare.discovery.patch_classifier.weight.fill_(float("nan"))

    with pytest.raises(TrainingError, match="The last checkpoint is kept"):
        made.fit(spoil)
    step, tensors, _ = read_checkpoint(made.run.checkpoint)
    assert step == 3
    assert all(torch.isfinite(tensor).all() for tensor in tensors.values() if tensor.is_floating_point())


def test_other_settings_do_not_continue_a_run(
    small_run: Path, small_recipe: Recipe, small_prepared: Prepared, small_world: Path
) -> None:
    with pytest.raises(RunError, match=r"steps was 12, now 13.*new folder with --out"):
        RunFolder(small_run).begin(small_recipe.replace(steps=13), small_prepared.images, {})
    with pytest.raises(RunError, match="was trained on other images or tags"):
        RunFolder(small_run).begin(small_recipe, read_tags(small_world, "test"), {})


def test_a_folder_with_other_files_is_left_alone(
    tmp_path: Path, small_recipe: Recipe, small_prepared: Prepared
) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(RunError, match=r"holds other files \(thesis\.tex\) and no run"):
        RunFolder(tmp_path).begin(small_recipe, small_prepared.images, {})
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(RunError, match="is a file"):
        RunFolder(tmp_path / "thesis.tex").begin(small_recipe, small_prepared.images, {})


def test_a_damaged_checkpoint_is_named(small_prepared: Prepared, small_recipe: Recipe, tmp_path: Path) -> None:
    made = trainer(small_prepared, small_recipe, tmp_path / "run")
    made.save()
    made.run.checkpoint.write_bytes(made.run.checkpoint.read_bytes()[:100])
    with pytest.raises(RunError, match=r"checkpoint\.safetensors: is damaged"):
        made.resume()


def test_weights_that_are_not_finite_are_never_saved(
    small_prepared: Prepared, small_recipe: Recipe, tmp_path: Path
) -> None:
    made = trainer(small_prepared, small_recipe, tmp_path / "run")
    with torch.no_grad():
        made.bare.patch_features.fc7.weight[0, 0] = float("inf")
    with pytest.raises(TrainingError, match="no longer finite"):
        made.save()
    assert not made.run.checkpoint.exists()


def test_two_trainings_in_one_folder(small_prepared: Prepared, small_recipe: Recipe, tmp_path: Path) -> None:
    made = trainer(small_prepared, small_recipe, tmp_path / "run")
    with RunFolder(tmp_path / "run").locked(), pytest.raises(RunError, match="another process is training there"):
        made.fit()


def test_a_second_training_leaves_the_log_of_the_first(
    small_prepared: Prepared, small_recipe: Recipe, tmp_path: Path
) -> None:
    first = trainer(small_prepared, small_recipe, tmp_path / "run")
    with first.run.locked():
        first.run.append_log({"step": 10, "samples": 40, "loss": 1.0})  # no checkpoint is that far
        with pytest.raises(RunError, match="another process is training there"):
            train_prepared(small_prepared, small_recipe, tmp_path / "run", device="cpu")
        assert [entry["step"] for entry in first.run.read_log()] == [10]


def test_a_run_killed_in_its_first_writes_begins_again(
    small_prepared: Prepared, small_recipe: Recipe, tmp_path: Path
) -> None:
    images, left = small_prepared.images, []
    for at in range(1, 5):
        out = tmp_path / f"{at}"
        process = os.fork()
        if not process:
            renames = []

            def kill_at_a_rename(event: str, _: tuple, renames: list[str] = renames, at: int = at) -> None:
                renames += [event] * (event == "os.rename")
                if event == "os.rename" and len(renames) == at:
                    os.kill(os.getpid(), signal.SIGKILL)

            sys.addaudithook(kill_at_a_rename)
            RunFolder(out).begin(small_recipe, images, {}, images)
            os._exit(0)
        assert os.waitpid(process, 0)[1] == signal.SIGKILL
        left.append(len(list(out.iterdir())))
        with RunFolder(out).locked():
            RunFolder(out).begin(small_recipe, images, {}, images)
        names = {path.name for path in out.iterdir()}
        assert names == {".lock", "config.toml", "data.json", "held_out_images.json", "versions.json"}
    assert left == [1, 2, 3, 4]  # a temporary file, and what was whole before it


@pytest.mark.parametrize(
    ("name", "content"),
    [("data.json", '{"mine": 1}'), ("versions.json", "[]"), (".lock", "mine"), ("held_out_images.json", "{}")],
)
def test_a_users_files_are_no_beginning_of_a_run(
    small_prepared: Prepared, small_recipe: Recipe, tmp_path: Path, name: str, content: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(RunError, match=rf"holds other files \({re.escape(name)}\) and no run"):
        train_prepared(small_prepared, small_recipe, tmp_path, device="cpu")
    assert [path.read_text() for path in tmp_path.iterdir()] == [content]


def test_images_of_extreme_shape_can_be_trained_on(small_prepared: Prepared, tmp_path: Path) -> None:
    from PIL import Image

    from deep_patch_learning.recipe.presets import modern

    thin = tmp_path / "thin.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (3, 300, 3), np.uint8)).save(thin)
    one = small_prepared.images.subset([0])
    images = type(one)(one.classes, one.names, (thin,), one.labels)
    prepared = Prepared(images, [np.array([[0, 0, 300, 3]])], [])
    for backbone in ("alexnet", "caffenet"):
        recipe = modern(backbone, steps=1).replace(weights="", scales=(240,), batch_images=1, images_per_micro_batch=1)
        assert trainer(prepared, recipe, tmp_path / backbone).fit()


def test_bias_rules_of_the_paper() -> None:
    from deep_patch_learning.recipe.build import build_network

    network = build_network(Recipe.of(backbone="caffenet"), 20)[0]
    groups = recipe_optimiser(network, paper()).param_groups
    rules = {id(p): (g["factor"], g["weight_decay"], g["momentum"]) for g in groups for p in g["params"]}
    assert rules[id(network.backbone.body.conv1.weight)] == (1.0, 5e-4, 0.9)
    assert rules[id(network.backbone.body.conv1.bias)] == (2.0, 0.0, 0.9)
    assert rules[id(network.classification.part_filters.bias)] == (2.0, 0.0, 0.9)
    assert len(rules) == len(list(network.parameters()))


def test_nothing_to_train_on(small_prepared: Prepared, small_recipe: Recipe, tmp_path: Path) -> None:
    empty = Prepared(small_prepared.images.subset([]), [], [])
    with pytest.raises(TrainingError, match="no image to train on"):
        trainer(empty, small_recipe, tmp_path / "run")


def test_training_learns(small_prepared: Prepared, small_recipe: Recipe, tmp_path: Path) -> None:
    made = trainer(small_prepared, small_recipe.replace(steps=200), tmp_path / "run")
    made.fit()
    log = made.run.read_log()
    assert log[-1]["loss"] < 0.8 * log[0]["loss"]


def test_what_trains_never_imports_the_boxes() -> None:
    code = (
        "import sys, deep_patch_learning.training.fit;"
        "import deep_patch_learning.training.loop, deep_patch_learning.data.readers.read;"
        "print([m for m in sys.modules if m.endswith('data.truth')])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_broken_images_are_named_and_left_out(small_world: Path, small_recipe: Recipe, tmp_path: Path, capsys) -> None:
    images = read_tags(small_world, "test")
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(images.paths[0].read_bytes()[:2000])
    mixed = type(images)(images.classes, images.names, (broken, *images.paths[1:]), images.labels)
    prepared = prepare(mixed, recipe_patches(small_recipe), tmp_path / "patches")
    assert prepared.images.names == images.names[1:]
    assert [path for path, _ in prepared.broken] == [broken]
    said = capsys.readouterr().err
    assert "1 of 8 images cannot be read" in said
    assert "broken.jpg" in said.replace("\n", "")
    assert np.array_equal(prepared.images.labels, images.labels[1:])


def test_a_disk_that_is_full_is_a_clear_error_and_keeps_what_was_saved(
    small_prepared: Prepared, small_recipe: Recipe, tmp_path: Path
) -> None:
    resource = pytest.importorskip("resource")
    made = trainer(small_prepared, small_recipe, tmp_path / "run")
    made.save()
    kept = made.run.checkpoint.read_bytes()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(kept) // 2, before[1]))
    try:
        with pytest.raises(RunError, match=r"checkpoint.*could not be written .*make room and repeat"):
            made.save()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert made.run.checkpoint.read_bytes() == kept
    assert [path.name for path in made.run.folder.iterdir() if path.name.endswith(".part")] == []


def test_making_a_trainer_sets_nothing_of_the_process(
    small_prepared: Prepared, small_recipe: Recipe, tmp_path: Path
) -> None:
    torch.manual_seed(11)
    state, precision = torch.get_rng_state(), torch.get_float32_matmul_precision()
    first = trainer(small_prepared, small_recipe, tmp_path / "first")
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_float32_matmul_precision() == precision
    torch.manual_seed(12)  # nor do its weights depend on it
    second = trainer(small_prepared, small_recipe, tmp_path / "second")
    pairs = zip(first.bare.parameters(), second.bare.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_filled_layers_are_listed_in_the_run(small_run: Path) -> None:
    listed = json.loads((small_run / "layers.json").read_text())
    assert listed["source"] == "shipped"
    assert "backbone.body.0" in listed["filled"]
    assert "discovery.patch_classifier" in listed["new"]


def test_equal_states_are_equal_files(
    small_run: Path, small_prepared: Prepared, small_recipe: Recipe, tmp_path: Path
) -> None:
    made = trainer(small_prepared, small_recipe, tmp_path / "run")
    contents = set()
    for _ in range(6):  # by chance two keys have the same order half of the time
        made.save()
        contents.add(made.run.checkpoint.read_bytes())
    assert len(contents) == 1


def test_weights_of_another_network_are_named_in_one_line(small_run: Path, tmp_path: Path) -> None:
    network, path = torch.nn.Linear(2, 3), tmp_path / "weights.safetensors"
    with pytest.raises(RunError) as found:
        restore_network(network, {"network.weight": torch.ones(4, 4), "network.bias": torch.ones(4)}, path)
    assert "size mismatch for weight" in str(found.value)
    assert "(2 differences in all)" in str(found.value)
    assert "\n" not in str(found.value)
