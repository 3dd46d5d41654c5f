"""An ONNX file used as a `Model`: onnxruntime computes the scores of all views, everything after them is as with torch."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np
import torch
from torch import Tensor, nn

from deep_patch_learning.common.atomic_files import fitting, parsed
from deep_patch_learning.common.errors import DplError, RunError, SettingError, short
from deep_patch_learning.inference.calibration import Calibration
from deep_patch_learning.inference.exported.onnx_file import FORMAT
from deep_patch_learning.inference.model import Model
from deep_patch_learning.inference.scoring import HeadScores, ImageInput, PredictSettings
from deep_patch_learning.inference.stream import LARGE, MOST_NETWORKS
from deep_patch_learning.model.network import Scores
from deep_patch_learning.patches.generator import PatchGenerator
from deep_patch_learning.recipe.build import recipe_patches
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.refinement.heads import RefinementScores
from deep_patch_learning.refinement.selection import BoxSelection

OUTPUTS = ("head_scores", "patch_scores", "boxes")
FIXED = ("scales", "flips", "shapes", "precision")  # settings that are part of the file's graph


def session_of(path: Path, threads: int = 1) -> Any:
    """Return an onnxruntime session of a file, which may be used by several Python threads; each has `threads` of its own."""
    if find_spec("onnxruntime") is None:
        raise DplError(
            f"{path}: needs onnxruntime, not installed here. Install: pip install 'deep-patch-learning[onnx]'"
        )
    import onnxruntime

    if not path.is_file():
        raise RunError(f"{path}: there is no such file. Write it: dpl export RUN --format onnx.")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.disable_quant_qdq", "1")  # 8-bit weights become floats once, at the start
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has an exception of its own for each status, with no common base
        found = str(error).split("\n", 1)[0][:200]
        raise RunError(f"{path}: is no ONNX file that can be read ({found}). Write it again: dpl export RUN.") from None


def source_of(path: Path) -> str | None:
    """Return the digest of the run that an ONNX file was written from; None in files of earlier versions."""
    return session_of(path).get_modelmeta().custom_metadata_map.get("source")


def load_onnx(path: Path, patches: PatchGenerator | None = None) -> "OnnxModel":
    """Return the model in an ONNX file that `dpl export` wrote; `patches` takes the place of the generator in it."""
    about = session_of(path).get_modelmeta().custom_metadata_map
    if about.get("format") != FORMAT:
        raise RunError(
            f"{path}: its format is {about.get('format')!r}, wanted {FORMAT!r}. Write it with dpl export RUN."
        )
    try:
        return _described(path, about, patches)
    except (KeyError, TypeError, ValueError, SettingError) as error:
        raise RunError(
            f"{path}: what it says about itself is broken ({error!r}). Write it again: dpl export RUN."
        ) from None


def _described(path: Path, about: dict[str, str], patches: PatchGenerator | None) -> "OnnxModel":
    classes, heads = (fitting(parsed(about[key]), list[str]) for key in ("classes", "heads"))
    settings: dict[str, Any] = dict(fitting(parsed(about["settings"]), _Settings))
    for name, found, known in (("classes", classes, classes), ("heads", heads, HeadScores._fields)):
        if not found or len(set(found)) < len(found) or not set(found) <= set(known):
            raise ValueError(f"{name} are {short(found)}")
    calibration = Calibration.from_dict(parsed(about["calibration"])) if "calibration" in about else None
    if calibration is not None and calibration.classes != tuple(classes):
        raise ValueError(f"its calibration is of the classes {short([*calibration.classes])}")
    selection = BoxSelection(**settings.pop("box_selection"))
    seen = PredictSettings(**{**settings, "scales": tuple(settings["scales"])}, box_selection=selection)
    recipe = Recipe.from_toml(about["recipe"], str(path))
    network = OnnxNetwork(path, heads, len(classes), "refinement" in recipe.model.heads, max(seen.scales))
    return OnnxModel(network, classes, seen, patches or recipe_patches(recipe), "cpu", calibration)


class _Selection(TypedDict, total=False):
    vote: bool
    sharpness: float
    area_power: float
    elections: int
    part_weight: float
    overlap: float


class _Settings(TypedDict):
    """The schema of the settings in an ONNX file's metadata."""

    scales: list[int]
    box_selection: _Selection
    shapes: NotRequired[int]
    precision: NotRequired[str]
    nms: NotRequired[float]
    boxes_per_class: NotRequired[int]
    two_stream_tags: NotRequired[bool]
    flips: NotRequired[bool]


class OnnxNetwork(nn.Module):
    """The graph of an ONNX file: an image and its patches -> the means over its views."""

    def __init__(self, path: Path, heads: Sequence[str], classes: int, refined: bool, largest_scale: int) -> None:
        super().__init__()
        threads = torch.get_num_threads()
        # as `plan_for` shares the cores: images side by side below LARGE, one on all cores above
        own = threads if largest_scale > LARGE else max(threads // min(threads, MOST_NETWORKS), 1)
        self._path, self._session = path, session_of(path, own)
        given, made = (
            sorted(one.name for one in part) for part in (self._session.get_inputs(), self._session.get_outputs())
        )
        if given != ["image", "patches"] or not set(OUTPUTS) <= set(made):
            raise ValueError(f"its graph makes {short(made)} of {short(given)}")
        self.heads, self.classes, self.refined = tuple(heads), classes, refined
        self.discovery, self.refinement = "discovery" in heads or None, refined or None  # as of `DeepPatchNet`

    def of(self, image: ImageInput) -> tuple[dict[str, Tensor], Tensor, Tensor]:
        """Return the scores (C,) of each head that counts, the scores (P, C) of patches, and the boxes (P, 4)."""
        given = {"image": np.ascontiguousarray(image.image), "patches": image.patches.astype(np.float32)}
        try:
            heads, patches, boxes = self._session.run(list(OUTPUTS), given)
        except Exception as error:  # onnxruntime has an exception of its own for each status, with no common base
            found = str(error).split("\n", 1)[0][:200]
            raise RunError(f"{self._path}: its graph fails ({found}). Write it again: dpl export RUN.") from None
        count = len(image.patches)
        shapes, wanted = [one.shape for one in (heads, patches, boxes)], (len(self.heads), self.classes)
        if shapes != [wanted, (count, self.classes), (count, 4)]:
            raise RunError(f"{self._path}: its graph gives scores of shapes {shapes}. Write it again: dpl export RUN.")
        of_heads = dict(zip(self.heads, torch.from_numpy(heads), strict=True))
        return of_heads, torch.from_numpy(patches), torch.from_numpy(boxes)


class OnnxModel(Model):
    """A model whose scores onnxruntime computes. What its file was exported with is fixed: scales, flips and calibration."""

    views_are_fixed = True

    def with_settings(self, **changes: Any) -> "OnnxModel":
        """Return a model on the same file with some of the settings changed, such as `nms=0.4`."""
        wrong = next((name for name in FIXED if name in changes), None)
        if wrong is not None:
            raise SettingError(
                f"{wrong} is part of an ONNX file. Export the run again with others, or use the run itself."
            )
        changed = super().with_settings(**changes)
        assert isinstance(changed, OnnxModel)
        return changed

    def _totals(self, images: list[ImageInput]) -> Scores:
        """Return the scores as if they were summed over views; of a refinement what box selection reads."""
        views, network = len(self.settings.views), self.network
        found = [network.of(image) for image in images]
        heads = {name: torch.stack([one[name] for one, _, _ in found]) * views for name in network.heads}
        patches = torch.cat([scores for _, scores, _ in found]) * views
        refined = None
        if network.refined:
            image = heads.get("two_stream", patches.new_zeros(len(images), network.classes))
            none = patches.new_zeros(len(patches), 0)
            boxes = torch.cat(
                [boxes for _, _, boxes in found]
            )  # moved by the graph: they stand where the offsets would
            refined = RefinementScores(image, none, none, patches, boxes)
        return Scores(heads.get("classification"), heads.get("discovery"), patches, None, refined)

    def _boxes(self, images: list[ImageInput], totals: Scores) -> list[Tensor]:
        if totals.refinement is None:
            return super()._boxes(images, totals)
        return list(totals.refinement.offsets.split([len(image.patches) for image in images]))
