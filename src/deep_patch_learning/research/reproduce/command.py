"""`dpl reproduce`: from the name of a data set to the paper's tables, the CSVs and the images."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deep_patch_learning.common.devices import usable_device
from deep_patch_learning.common.errors import RunError, did_you_mean
from deep_patch_learning.common.progress import bar, console
from deep_patch_learning.data.dataset import limited
from deep_patch_learning.inference.stream import predict_prepared
from deep_patch_learning.model.backbones.catalogue import check_name
from deep_patch_learning.model.backbones.weights import check_source
from deep_patch_learning.patches.prepare import prepare
from deep_patch_learning.recipe.presets import choose, seed_numbers
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.research.reproduce import plan
from deep_patch_learning.research.reproduce.bench import Bench
from deep_patch_learning.research.reproduce.figures import KINDS, write_images
from deep_patch_learning.research.reproduce.peers import fill_peers
from deep_patch_learning.research.reproduce.plan import TABLES, YEARS, Table, Way, find_protocol, untagged_images
from deep_patch_learning.research.reproduce.results import fill_table, needed
from deep_patch_learning.research.reproduce.showing import show_result
from deep_patch_learning.runs.folder import RunFolder

USUAL_BACKBONE = {"paper": "vgg16"}  # the paper's network whose weights torchvision has; other recipes bring their own


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    name: str
    data: Path | None = None
    table: str = "all"
    recipe: str = "paper"
    backbone: str | None = None
    weights: str | None = None
    steps: int | None = None
    seeds: str = "0"
    changes: Sequence[str] = field(default_factory=tuple)
    out: Path | None = None
    device: str = "auto"
    limit: int | None = None
    workers: int | None = None

    @property
    def folder(self) -> Path:
        """Return where the runs, tables and images go."""
        return self.out or Path("runs") / self.name

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the tables to fill; a name that is not known raises `RunError`."""
        names = tuple(dict.fromkeys(name.strip() for name in self.table.split(",")))
        for name in names:
            if name not in (*TABLES, "all"):
                raise RunError(f"--table {name}: not known.{did_you_mean(name, (*TABLES, 'all'))}")
        return TABLES if "all" in names else names

    @property
    def seed_numbers(self) -> list[int]:
        """Return the seeds, each once."""
        return list(seed_numbers(self.seeds))

    def base(self) -> Recipe:
        """Return the recipe that all rows vary, after checking what can be checked at once."""
        backbone = self.backbone or USUAL_BACKBONE.get(self.recipe)
        weights = self.weights
        if weights and Path(weights).suffix and Path(weights).is_file():
            weights = str(Path(weights).resolve())
        options = {"backbone": backbone, "weights": weights, "steps": self.steps}
        given = {key: value for key, value in options.items() if value is not None}
        recipe = choose(self.recipe, "both", 0, self.changes, given)
        check_name(recipe.backbone)
        check_source(recipe.weights)
        return recipe

    def command(self) -> str:
        """Return the command that was given, with paths by their last part."""
        words = ["dpl reproduce", self.name]
        named: dict[str, Any] = {
            "--data": self.data and self.data.resolve().name,
            "--table": self.table if self.table != "all" else None,
            "--recipe": self.recipe,
            "--backbone": self.backbone,
            "--weights": self.weights and Path(self.weights).name,
            "--steps": self.steps,
            "--seeds": self.seeds,
            "--limit": self.limit,
        }
        words += [f"{option} {value}" for option, value in named.items() if value is not None]
        return " ".join([*words, *(f"--set {change}" for change in self.changes)])


def reproduce(options: Options) -> dict[str, Any]:
    """Return the tables, the verdicts on the paper's claims and the files written, ready for JSON."""
    if options.name not in YEARS:
        raise RunError(f"'{options.name}' cannot be reproduced.{did_you_mean(options.name, YEARS)}")
    base, seeds, names = options.base(), options.seed_numbers, options.tables
    usable_device(options.device)
    tables = [plan.BUILDERS[name](base) for name in names]
    protocol = find_protocol(options.data or fetched(options.name), options.name)
    bench = Bench(protocol, options.folder, options.device, options.limit, options.workers)
    announce(bench, tables, seeds)
    bench.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {}
    files: list[Path] = []
    for table in tables:
        fill = fill_peers if table.name == "peers" else fill_table
        result = fill(bench, table, seeds, options.command())
        show_result(result, protocol.year)
        found[table.name] = result.as_dict()
        files.append(bench.out / f"{protocol.name}_{table.name}.csv")
        if table.name == "main":
            files += show_examples(bench, table.ways[0], seeds[0])
    files.append(bench.out / f"{protocol.name}_per_class.csv")
    for path in files:
        console.print(str(path), markup=False, soft_wrap=True)
    return {
        "data": str(protocol.data),
        "year": protocol.year,
        "measured_on": protocol.classification.measured_on,
        "seeds": seeds,
        "tables": found,
        "files": [str(path) for path in files],
    }


def show_examples(bench: Bench, way: Way, seed: int) -> list[Path]:
    """Return the files of the images and, where the test images have no tags, of the evaluation server, of one training."""
    splits = bench.protocol.discovery("main")
    run = bench.trained(way, seed, splits.trained_on)
    name = f"{bench.protocol.name}_{run.folder.parent.name}"
    files = [bench.out / "images" / f"{name}_{kind}.png" for kind in KINDS]
    if not all(file.exists() and file.stat().st_mtime >= run.weights.stat().st_mtime for file in files):
        prepared = bench.prepared(splits.measured_on, way.recipe)
        truth = bench.truth(splits.measured_on, prepared)
        files = write_images(bench.model(run), prepared, truth, bench.out / "images", name)
    return files + (server_files(bench, way, run) if bench.protocol.unlabelled_test else [])


def server_files(bench: Bench, way: Way, run: RunFolder) -> list[Path]:
    """Return the archive for the evaluation server, which alone knows the tags of the test images."""
    from deep_patch_learning.research.voc_server import ARCHIVE, write_server_files

    folder = bench.out / "server" / f"{run.folder.parent.name}_{run.folder.name}"
    if (folder / ARCHIVE).exists():
        return [folder / ARCHIVE]
    model = bench.model(run)
    images = untagged_images(bench.protocol.data, "test", model.classes)
    prepared = prepare(limited(images, bench.limit), model.patch_generator, workers=bench.workers)
    folder.parent.mkdir(parents=True, exist_ok=True)
    predictions = predict_prepared(model, prepared, description="test images")
    return [write_server_files(predictions, folder, f"VOC{bench.protocol.year}")]


def announce(bench: Bench, tables: Sequence[Table], seeds: Sequence[int]) -> None:
    """Say how many trainings there are and how many are still to do; a folder with something else in it raises `RunError`."""
    folders: dict[Path, tuple[int, bool]] = {}
    for table in tables:
        for way in table.ways:
            for splits in needed(bench.protocol, table.name, way):
                for seed in seeds:
                    bench.check(way, seed, splits.trained_on)
                    folder = bench.folder(way, seed, splits.trained_on)
                    samples = way.recipe.total_steps * way.recipe.batch_images
                    folders[folder] = (samples, (folder / "weights.safetensors").exists())
    left = [samples for samples, done in folders.values() if not done]
    if left:
        console.print(
            f"{len(folders)} trainings, {len(left)} of them to do: {sum(left):,} samples of an image. "
            f"They go to {bench.out / 'runs'}, and the same command goes on after a stop.",
            markup=False,
            soft_wrap=True,
        )


def fetched(name: str) -> Path:
    """Return the folder of the data set, fetched into `data` unless it is there."""
    from deep_patch_learning.data.fetch import fetch_voc

    parts = (
        ("trainval", "test") if name == "voc2007" else ("trainval",)
    )  # VOC 2012 keeps its test images behind a login
    with bar(f"fetching {name}") as show:
        return fetch_voc(str(YEARS[name]), parts, Path("data"), show)
