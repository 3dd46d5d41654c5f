"""Run folder -> Model: the network of one run, of several asked as one, or the one that is shipped with this package."""

from collections.abc import Sequence
from pathlib import Path

from deep_patch_learning.common.errors import RunError
from deep_patch_learning.common.memory import keep_memory
from deep_patch_learning.inference.calibration import read_calibration
from deep_patch_learning.inference.ensemble import Ensemble
from deep_patch_learning.inference.model import Model
from deep_patch_learning.inference.selection import ELECTIONS, BoxSelection
from deep_patch_learning.recipe.build import build_network, recipe_patches
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.runs.checkpoint import read_checkpoint, restore_network
from deep_patch_learning.runs.folder import RunFolder

SHIPPED = Path(__file__).with_name("shipped")  # a run folder; see its MODEL_CARD.md


def recipe_box_selection(recipe: Recipe) -> BoxSelection:
    """Return how the boxes of a class are picked with a recipe; without a vote none is elected."""
    vote = recipe.box_selection == "vote"
    elections = ELECTIONS if vote and recipe.boxes == "elected" else 0
    return BoxSelection(vote, recipe.vote_sharpness, recipe.area_power, elections, recipe.part_weight)


def load(
    run: str | Path | Sequence[str | Path] | None = None,
    device: str | None = None,
    scales: Sequence[int] | None = None,
) -> Model:
    """Return the model of a run folder, or the one that is shipped with this package, ready to predict.

    It looks at `scales`, those of its recipe if not given. Where the run was calibrated, its predictions have calibrated
    probabilities and a threshold for each class. Several runs of the same classes are asked as one (see `model/ensemble.py`),
    with the patches, scales and picking of the first.
    """
    keep_memory()
    if run is not None and not isinstance(run, str | Path):
        return _load_together(run, device, scales)
    folder = RunFolder(SHIPPED if run is None else run)
    classes = folder.describe()["classes"]
    recipe = Recipe.load(folder.config)
    network, _ = build_network(
        recipe.backbone,
        len(classes),
        recipe.heads,
        recipe.filters,
        recipe.bands,
        refinements=recipe.refinements,
        refinement_width=recipe.refinement_width,
        regression=recipe.regression,
        refinement_cells=recipe.refinement_cells,
    )
    _, tensors, _ = read_checkpoint(folder.weights if folder.weights.exists() else folder.checkpoint)
    restore_network(network, tensors, folder.weights)
    return Model(
        network,
        classes,
        scales or recipe.seen_at,
        recipe_patches(recipe),
        device,
        box_selection=recipe_box_selection(recipe),
        shapes=recipe.shapes,
        precision=recipe.precision,
        two_stream_tags=recipe.two_stream_tags,
        calibration=read_calibration(folder.calibration, classes),
    )


def check_together(runs: Sequence[str | Path]) -> None:
    """Raise `RunError` unless runs can be asked as one: they are there, and have the same classes and heads."""
    if not runs:
        raise RunError("no run was named. Give at least one folder of a run.")
    folders = [RunFolder(run) for run in runs]
    for folder in folders:
        folder.must_exist()
        if folder.describe()["classes"] != folders[0].describe()["classes"]:
            raise RunError(
                f"{folder.folder}: knows other classes than {folders[0].folder}. Runs that are asked together share their tags."
            )
        heads, others = (Recipe.load(each.config).heads for each in (folder, folders[0]))
        if set(heads) != set(others):
            raise RunError(
                f"{folder.folder}: has the heads {', '.join(heads)}, but {folders[0].folder} {', '.join(others)}. Runs that are "
                "asked together have the same."
            )


def _load_together(runs: Sequence[str | Path], device: str | None, scales: Sequence[int] | None) -> Model:
    check_together(runs)
    models = [load(run, device, scales) for run in runs]
    first = models[0]
    if len(models) > 1:
        first.network = Ensemble([model.network for model in models]).eval()
        first.calibration = None  # it is that of one run's scores
    return first
