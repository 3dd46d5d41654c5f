"""`dpl reproduce`: from the name of a data set to the paper's tables, as text, CSVs and images."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable

from deep_patch_learning.common.devices import usable_device
from deep_patch_learning.common.errors import RunError, SettingError, did_you_mean
from deep_patch_learning.common.progress import bar, console, number, out
from deep_patch_learning.data.dataset import limited
from deep_patch_learning.inference.stream import predict_prepared
from deep_patch_learning.model.backbones.registry import check_name
from deep_patch_learning.model.backbones.weights import check_source
from deep_patch_learning.patches.prepare import prepare
from deep_patch_learning.recipe.choose import choose, seed_numbers
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.research.reproduce import paper, tables
from deep_patch_learning.research.reproduce.experiments import Experiments
from deep_patch_learning.research.reproduce.figures import KINDS, write_images
from deep_patch_learning.research.reproduce.protocol import YEARS, Splits, find_protocol, untagged_images
from deep_patch_learning.research.reproduce.results import PerClass, Result, Row, fill_peers, fill_table, needed
from deep_patch_learning.research.reproduce.tables import TABLES, Spread, Table, Variant
from deep_patch_learning.runs.folder import RunFolder

USUAL_BACKBONE = {"paper": "vgg16"}  # torchvision has its weights; other recipes have their own backbone


@dataclass(frozen=True)
class Options:
    """The options of `dpl reproduce`, as they are typed."""

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
                raise SettingError(f"--table {name}: not known.{did_you_mean(name, (*TABLES, 'all'))}")
        return TABLES if "all" in names else names

    @property
    def seed_numbers(self) -> list[int]:
        """Return the seeds, each once."""
        return list(seed_numbers(self.seeds))

    def base(self) -> Recipe:
        """Return the recipe that the rows vary, after the checks that need no data."""
        backbone = self.backbone or USUAL_BACKBONE.get(self.recipe)
        weights = self.weights
        if weights and Path(weights).suffix and Path(weights).is_file():
            weights = str(Path(weights).resolve())
        options = {"backbone": backbone, "weights": weights, "steps": self.steps}
        given = {key: value for key, value in options.items() if value is not None}
        recipe = choose(self.recipe, "both", 0, self.changes, given)
        check_name(recipe.model.backbone)
        check_source(recipe.model.weights)
        return recipe

    def command(self) -> str:
        """Return the command with these options; of a path, the last part."""
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
    wanted = [tables.BUILDERS[name](base) for name in names]
    protocol = find_protocol(options.data or fetched(options.name), options.name)
    experiments = Experiments(protocol, options.folder, options.device, options.limit, options.workers)
    announce(experiments, wanted, seeds)
    experiments.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {}
    files: list[Path] = []
    for table in wanted:
        fill = fill_peers if table.name == "peers" else fill_table
        result = fill(experiments, table, seeds, options.command())
        show_result(result, protocol.year)
        found[table.name] = result.as_dict()
        files.append(experiments.out / f"{protocol.name}_{table.name}.csv")
        if table.name == "main":
            files += show_examples(experiments, table.variants[0], seeds[0])
    files.append(experiments.out / f"{protocol.name}_per_class.csv")
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


def show_examples(experiments: Experiments, variant: Variant, seed: int) -> list[Path]:
    """Return the images of one training and, where the test images have no tags, the archive for the evaluation server."""
    splits = experiments.protocol.discovery("main")
    run = experiments.trained(variant, seed, splits.trained_on)
    name = f"{experiments.protocol.name}_{run.folder.parent.name}"
    files = [experiments.out / "images" / f"{name}_{kind}.png" for kind in KINDS]
    if not all(file.exists() and file.stat().st_mtime >= run.weights.stat().st_mtime for file in files):
        prepared = experiments.prepared(splits.measured_on, variant.recipe)
        truth = experiments.truth(splits.measured_on, prepared)
        files = write_images(experiments.model(run), prepared, truth, experiments.out / "images", name)
    return files + (server_files(experiments, variant, run) if experiments.protocol.unlabelled_test else [])


def server_files(experiments: Experiments, variant: Variant, run: RunFolder) -> list[Path]:
    """Return the archive for the evaluation server, which has the tags of the test images."""
    from deep_patch_learning.research.voc_server import ARCHIVE, write_server_files

    folder = experiments.out / "server" / f"{run.folder.parent.name}_{run.folder.name}"
    if (folder / ARCHIVE).exists():
        return [folder / ARCHIVE]
    model = experiments.model(run)
    images = untagged_images(experiments.protocol.data, "test", model.classes)
    prepared = prepare(limited(images, experiments.limit), model.patch_generator, workers=experiments.workers)
    folder.parent.mkdir(parents=True, exist_ok=True)
    predictions = predict_prepared(model, prepared, description="test images")
    return [write_server_files(predictions, folder, f"VOC{experiments.protocol.year}")]


def announce(experiments: Experiments, wanted: Sequence[Table], seeds: Sequence[int]) -> None:
    """Print the number of trainings and how many are left; a run folder with other settings raises `RunError`."""
    folders: dict[Path, tuple[int, bool]] = {}
    for table in wanted:
        for variant in table.variants:
            for splits in needed(experiments.protocol, table.name, variant):
                for seed in seeds:
                    experiments.check(variant, seed, splits.trained_on)
                    folder = experiments.folder(variant, seed, splits.trained_on)
                    samples = variant.recipe.total_steps * variant.recipe.optimiser.batch_images
                    folders[folder] = (samples, (folder / "weights.safetensors").exists())
    left = [samples for samples, done in folders.values() if not done]
    if left:
        console.print(
            f"{len(folders)} trainings, {len(left)} of them to do: {sum(left):,} samples. "
            f"They go to {experiments.out / 'runs'}; the same command resumes after an interruption.",
            markup=False,
            soft_wrap=True,
        )


def fetched(name: str) -> Path:
    """Return the folder of the data set, downloaded into `data` unless it is there."""
    from deep_patch_learning.data.fetch import fetch_voc

    parts = (
        ("trainval", "test") if name == "voc2007" else ("trainval",)
    )  # VOC 2012 keeps its test images behind a login
    with bar(f"fetching {name}") as show:
        return fetch_voc(str(YEARS[name]), parts, Path("data"), show)


WIDE = 120  # characters
OTHER_WAYS = {"CorLoc_argmax": "by arg-max", "CorLoc_vote": "by vote"}
HEADINGS = {
    "mAP": "mAP",
    "CorLoc": "CorLoc",
    **OTHER_WAYS,
    "seconds": "s per image",
    "seconds_with_patches": "s with patches",
}


def figure(value: Spread | None, decimals: int = 1) -> str:
    """Return a figure, with its deviation over several seeds, or a dash."""
    if value is None:
        return "-"
    spread = "" if value.deviation is None else f" ± {value.deviation:.{decimals}f}"
    return f"{value.mean:.{decimals}f}{spread}"


def seconds(value: float) -> str:
    """Return seconds with two decimals, three below 0.1."""
    return f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def show_result(result: Result, year: int) -> None:
    """Print a finished table, what differs from the paper's experiment, and the verdicts on its claims."""
    shows: dict[str, Callable[[Result, int], None]] = {"main": _show_main, "time": _show_time}
    shows.get(result.table.name, _show_comparison)(result, year)
    for words in differing(result.rows):
        out.print(words, soft_wrap=True)
    for claim, found in result.verdicts:
        out.print(f"  {tables.in_words(claim, found)}", soft_wrap=True)
    out.print()


def where(splits: Splits) -> str:
    """Return the two lists in words."""
    return f"trained on {splits.trained_on}, measured on {splits.measured_on}"


def differing(rows: Sequence[Row]) -> list[str]:
    """Return the lines on what differs: first what all rows share, then what single rows add."""
    clauses = {row.name: [clause for clause in row.differs.split("; ") if clause] for row in rows}
    shared = [clause for clause in clauses[rows[0].name] if all(clause in own for own in clauses.values())]
    lines = [f"What differs from the paper: {'; '.join(shared)}."] if shared else []
    for name, own in clauses.items():
        more = "; ".join(clause for clause in own if clause not in shared)
        lines += [f"What differs {'also ' if shared else ''}in {name}: {more}."] if more else []
    return lines


def _print(table: RichTable) -> None:
    """Print a table; outside a terminal, WIDE characters wide."""
    (out if out.is_terminal else Console(highlight=False, markup=False, width=WIDE)).print(table)


def _show_main(result: Result, year: int) -> None:
    row = result.rows[0]
    title = f"VOC {year}: AP {where(row.tags_on)}; CorLoc {where(row.boxes_on)}"
    table = RichTable(title=title, title_justify="left")
    table.add_column("class", no_wrap=True)
    networks = (paper.ALEXNET, paper.VGG16)
    for measure in ("AP", "CorLoc"):
        table.add_column(measure, justify="right", style="bold")
        for network in networks:
            table.add_column(f"paper {network.removeprefix('DPL-')}", justify="right", style="dim", min_width=7)
    printed = (paper.CLASSIFICATION[year], paper.DISCOVERY[year])
    ours: tuple[PerClass, PerClass] = (row.by_class["AP"], row.by_class["CorLoc"])
    for name in ours[0]:
        cells = []
        for figures, theirs in zip(ours, printed, strict=True):
            cells += [figure(figures.get(name)), *(number(theirs[one].of(name)) for one in networks)]
        table.add_row(name, *cells)
    table.add_section()
    cells = []
    for measure, theirs in zip(("mAP", "CorLoc"), printed, strict=True):
        cells += [figure(row.figures[measure]), *(number(theirs[one].mean) for one in networks)]
    table.add_row("mean", *cells, style="bold")
    _print(table)
    more = f"11-point mAP {figure(row.figures['mAP_11pt'])}, detection mAP {figure(row.figures['detection_mAP'])}"
    out.print(f"Also: {more} ({where(row.tags_on)}).", soft_wrap=True)
    for key, words in OTHER_WAYS.items():
        if row.figures[key] is not None:
            out.print(f"CorLoc {words} of the same networks: {figure(row.figures[key])}.", soft_wrap=True)


def _show_comparison(result: Result, year: int) -> None:
    first = result.rows[0]
    on = {where(splits) for row in result.rows for splits in (row.tags_on, row.boxes_on)}
    title = f"{result.table.title}: {where(first.tags_on)}"
    if len(on) > 1:
        title += f"; CorLoc {where(first.boxes_on)}"
    table = RichTable(title=title, title_justify="left")
    table.add_column("", no_wrap=True)
    shown = [key for key in HEADINGS if key != "seconds_with_patches" or all(key in row.paper for row in result.rows)]
    shown = [
        key for key in shown if key not in OTHER_WAYS or any(row.figures.get(key) is not None for row in result.rows)
    ]
    for key in shown:
        table.add_column(HEADINGS[key], justify="right", style="bold", min_width=6)
        table.add_column("paper", justify="right", style="dim", min_width=5)
    for row in result.rows:
        cells = []
        for key in shown:
            ours, theirs = row.figures.get(key), row.paper.get("CorLoc" if key == "CorLoc_argmax" else key)
            if key.startswith("seconds"):
                cells += ["-" if ours is None else seconds(ours.mean), "-" if theirs is None else seconds(theirs)]
            else:
                cells += [figure(ours), number(theirs)]
        table.add_row(row.name, *cells)
    _print(table)


def _show_time(result: Result, year: int) -> None:
    row = result.rows[0]
    table = RichTable(title=f"{result.table.title}, {where(row.tags_on)}", title_justify="left")
    table.add_column("", no_wrap=True)
    table.add_column("here", justify="right", style="bold")
    for network in (paper.ALEXNET, paper.VGG16):
        table.add_column(f"paper {network.removeprefix('DPL-')}", justify="right", style="dim", min_width=7)
    lines = {
        f"hours for {paper.SAMPLES:,} samples": "training_hours",
        "seconds per image": "seconds",
        "seconds per image with patch generation": "seconds_with_patches",
    }
    for words, key in lines.items():
        ours = row.figures[key]
        theirs = [getattr(paper.TIMES[network], key) for network in (paper.ALEXNET, paper.VGG16)]
        table.add_row(
            words,
            "-" if ours is None else seconds(ours.mean),
            *("-" if value is None else seconds(value) for value in theirs),
        )
    _print(table)
    speed = row.figures["samples_per_second"]
    if speed is not None:
        out.print(f"{speed.mean:.3g} samples per second in training. The time per image excludes decoding.")
