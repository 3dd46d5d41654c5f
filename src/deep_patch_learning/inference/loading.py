"""Run folder -> Model: the network of one run, an ensemble of several, or the one that is shipped with this package."""

from collections.abc import Sequence
from pathlib import Path

from deep_patch_learning.common.devices import keep_memory
from deep_patch_learning.common.errors import RunError, SettingError
from deep_patch_learning.inference.calibration import read_calibration
from deep_patch_learning.inference.model import Model, PredictSettings
from deep_patch_learning.patches.generator import in_full
from deep_patch_learning.recipe.build import build_network, recipe_box_selection, recipe_patches
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.runs.checkpoint import read_checkpoint, restore_network
from deep_patch_learning.runs.folder import AGAIN, RunFolder

ModelOrRun = Model | str | Path | Sequence[str | Path] | None
ONNX = ".onnx"
SHIPPED = Path(__file__).with_name("shipped")  # a run folder; see its MODEL_CARD.md


def predict_settings(recipe: Recipe, scales: Sequence[int] | None = None, flips: bool | None = None) -> PredictSettings:
    """Return how a network trained with a recipe is used on images; in other views if they are given."""
    return PredictSettings(
        scales=tuple(scales or recipe.seen_at),
        flips=recipe.data.test_flips if flips is None else flips,
        shapes=recipe.data.shapes,
        precision=recipe.machine.precision,
        box_selection=recipe_box_selection(recipe),
        two_stream_tags=recipe.refinement.two_stream_tags,
    )


def load(
    run: str | Path | Sequence[str | Path] | None = None,
    device: str | None = "auto",
    scales: Sequence[int] | None = None,
    flips: bool | None = None,
    patches: str | Path | None = None,
) -> Model:
    """Return the model of a run folder, or without one the shipped model of 20 everyday classes.

    Several run folders of the same classes and heads become an ensemble (see `ensemble.py`) with the patches, scales and box
    selection of the first. `device` is `auto`, `cpu`, `cuda` or `mps`. `scales` are the longest sides at which images are seen,
    and with `flips` they are seen mirrored too: as the run's recipe says if not given. So do `patches`, a generator's name or a
    proposal file. A calibrated run gives calibrated probabilities and a threshold for each class.

    A file that `dpl export` wrote (.onnx) is a model too; onnxruntime computes it, on the CPU.
    """
    # as in training: images of many sizes would fill oneDNN's store of operations with 200 MB and more, and gain no time
    keep_memory(training=True)
    if run is not None and not isinstance(run, str | Path):
        return _load_ensemble(run, device, scales, flips, patches)
    if run is not None and Path(run).suffix.lower() == ONNX:
        return _load_onnx(Path(run), device, scales, flips, patches)
    folder = RunFolder(SHIPPED if run is None else run)
    classes = folder.describe()["classes"]
    recipe = Recipe.load(folder.config)
    if patches is not None:
        recipe = recipe.replace(patches=in_full(str(patches)))
    _, tensors, _ = read_checkpoint(folder.weights if folder.weights.exists() else folder.checkpoint)
    _check_sizes(folder, recipe, len(classes), {size for tensor in tensors.values() for size in tensor.shape})
    network, _ = build_network(recipe, len(classes), pretrained=False)
    restore_network(network, tensors, folder.weights)
    calibration = read_calibration(folder.calibration, classes)
    return Model(network, classes, predict_settings(recipe, scales, flips), recipe_patches(recipe), device, calibration)


def _check_sizes(folder: RunFolder, recipe: Recipe, classes: int, stored: set[int]) -> None:
    """Raise `RunError` where the run names sizes that none of its weights have, before a network of these sizes is built."""
    heads, width = recipe.model.heads, recipe.refinement.refinement_width
    named = {"filters": recipe.model.filters} if "classification" in heads else {}
    named |= {"refinement_width": width} if "refinement" in heads and width else {}
    for name, size in {"classes": classes, **named}.items():
        if size not in stored:
            raise RunError(
                f"{folder.folder}: its weights do not fit this run's network: it names {size:,} {name}, and no weight is of that "
                f"size. {AGAIN}"
            )


def as_model(model: ModelOrRun, device: str = "auto", patches: str | Path | None = None) -> Model:
    """Return the model itself, or that of a run folder, with other `patches` if they are given; the shipped one for None."""
    return model if isinstance(model, Model) else load(model, device, patches=patches)


def check_together(runs: Sequence[str | Path]) -> None:
    """Raise `RunError` unless runs can form an ensemble: they exist, and have the same classes and heads."""
    if not runs:
        raise RunError("no run was named. Give at least one folder of a run.")
    folders = [RunFolder(run) for run in runs]
    for folder in folders:
        folder.must_exist()
        if folder.describe()["classes"] != folders[0].describe()["classes"]:
            raise RunError(
                f"{folder.folder}: knows other classes than {folders[0].folder}. The runs of an ensemble need the same."
            )
        heads, others = (Recipe.load(each.config).model.heads for each in (folder, folders[0]))
        if set(heads) != set(others):
            raise RunError(
                f"{folder.folder}: has the heads {', '.join(heads)}, but {folders[0].folder} {', '.join(others)}. The runs of "
                "an ensemble need the same."
            )


def _load_onnx(
    file: Path,
    device: str | None,
    scales: Sequence[int] | None,
    flips: bool | None,
    patches: str | Path | None,
) -> Model:
    from deep_patch_learning.inference.exported.onnx_runtime import load_onnx

    if scales is not None or flips is not None:
        raise SettingError(
            f"{file}: scales and flips are part of an ONNX file. Use the run itself, or export it with others."
        )
    if device not in (None, "auto", "cpu"):
        raise SettingError(
            f"{file}: an ONNX file runs on the CPU here, not on {device}. Use the run itself, or --device cpu."
        )
    recipe = None if patches is None else Recipe().replace(patches=in_full(str(patches)))
    return load_onnx(file, None if recipe is None else recipe_patches(recipe))


def _load_ensemble(
    runs: Sequence[str | Path],
    device: str | None,
    scales: Sequence[int] | None,
    flips: bool | None,
    patches: str | Path | None,
) -> Model:
    from deep_patch_learning.inference.ensemble import Ensemble

    check_together(runs)
    models = [load(run, device, scales, flips, patches) for run in runs]
    first = models[0]
    if len(models) > 1:
        first.network = Ensemble([model.network for model in models]).eval()
        first.calibration = None  # it was fitted to the scores of one run
    return first
