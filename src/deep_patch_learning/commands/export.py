"""`dpl export`: a run -> one file that other runtimes load."""

from pathlib import Path
from typing import Any

from deep_patch_learning.common.atomic_files import must_be_replaceable
from deep_patch_learning.common.errors import RunError, SettingError, did_you_mean
from deep_patch_learning.common.progress import out as stdout
from deep_patch_learning.inference.loading import ONNX, load
from deep_patch_learning.inference.model import Model
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.runs.folder import RunFolder

SUFFIXES = {"onnx": ONNX, "torch": ".pt2"}
MARK = b"deep_patch_learning"  # the producer's name near an ONNX file's start, and an entry's near a .pt2's end
EIGHT_BIT = "-8bit"  # at the end of the name of the file with 8-bit weights
SHIPPED_NAME = "deep-patch-learning"


def export(
    run: str | Path | None = None,
    *,
    format: str = "onnx",
    out: str | Path | None = None,
    scales: tuple[int, ...] | None = None,
    flips: bool | None = None,
    eight_bit: bool = True,
) -> list[Path]:
    """Return the files written: the network of a run, or the shipped model, for other runtimes.

    `format` is onnx, which takes any image with its patches and gives tags and boxes, or torch, a program of torch.export for one
    view of an image. `out` is the file: RUN/model.onnx or RUN/model.pt2 if not given, and in the working folder for the shipped
    model. `scales` and `flips` become part of an ONNX file. With `eight_bit` a second one, NAME-8bit.onnx, holds the weights in
    8 bits.
    """
    if format not in SUFFIXES:
        raise SettingError(f"format '{format}': not known.{did_you_mean(format, SUFFIXES)}")
    path = _place(run, format, out)
    second = path.with_name(f"{path.stem}{EIGHT_BIT}{path.suffix}") if eight_bit and format == "onnx" else None
    for file in (path, second):
        if file is not None:
            must_be_replaceable(file, MARK, "export")
    from deep_patch_learning.inference.loading import SHIPPED

    recipe = Recipe.load(_must_be_a_run(run).config if run is not None else SHIPPED / "config.toml")
    model = load(run, "cpu", scales, flips)
    about = describe(model, recipe) | ({} if run is None else {"source": RunFolder(run).digest()})
    if format == "torch":
        from deep_patch_learning.inference.exported.program import write_program

        write_program(model, path, about)
        return [path]
    from deep_patch_learning.inference.exported.onnx_file import onnx_model, with_8_bit_weights, write_onnx

    made = onnx_model(model, about)
    write_onnx(made, path)
    if second is None:
        return [path]
    write_onnx(with_8_bit_weights(made), second)
    return [path, second]


def describe(model: Model, recipe: Recipe) -> dict[str, Any]:
    """Return what a file says about its model: all that a reader needs beside the numbers."""
    from deep_patch_learning.inference.exported.one_image import exportable

    settings = model.settings
    return {
        "classes": list(model.classes),
        "heads": list(exportable(model).heads),
        "thresholds": [0.5] * len(model.classes)
        if model.calibration is None
        else model.calibration.thresholds.tolist(),
        "patches": recipe.data.patches,
        "settings": {
            **{
                name: getattr(settings, name)
                for name in ("scales", "flips", "shapes", "nms", "boxes_per_class", "two_stream_tags")
            },
            "box_selection": vars(settings.box_selection),
        },
        "recipe": recipe.to_toml(),
        **({} if model.calibration is None else {"calibration": model.calibration.as_dict()}),
    }


def _must_be_a_run(run: str | Path) -> RunFolder:
    folder = RunFolder(run)
    folder.must_exist()
    return folder


def _place(run: str | Path | None, format: str, out: str | Path | None) -> Path:
    """Return the file to write, checked before anything is computed."""
    suffix = SUFFIXES[format]
    if out is None:
        if run is None:
            return Path(f"{SHIPPED_NAME}{suffix}")
        return _must_be_a_run(run).folder / f"model{suffix}"
    path = Path(out)
    if path.suffix.lower() != suffix:
        raise SettingError(f"{path}: a file of format {format} ends in {suffix}. Give such a name with --out.")
    if not path.parent.is_dir():
        raise RunError(f"{path.parent}: there is no such folder. Make it, or give another place with --out.")
    return path


def exported(model: str | Path | None) -> Path:
    """Return the ONNX file of a model: itself, or that which `dpl export` wrote into the run folder."""
    if model is None:
        file = Path(f"{SHIPPED_NAME}{ONNX}")
        command = "dpl export"
    elif Path(model).suffix.lower() == ONNX:
        return Path(model)
    else:
        file, command = _must_be_a_run(model).folder / f"model{ONNX}", f"dpl export {model}"
    if not file.is_file():
        raise RunError(f"{file}: there is no such file. Write it: {command}")
    from deep_patch_learning.inference.exported.onnx_runtime import source_of

    if model is not None and source_of(file) not in (None, RunFolder(model).digest()):
        raise RunError(f"{file}: the run was trained on or calibrated since. Write it again: {command}")
    return file


def show(files: list[Path]) -> None:
    """Print each file with its size."""
    for file in files:
        stdout.print(f"{file}: {file.stat().st_size / 1e6:.1f} MB", markup=False, soft_wrap=True)
