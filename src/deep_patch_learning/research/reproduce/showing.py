"""What `dpl reproduce` prints: each table with the paper's figures beside ours, what differs, and the verdicts."""

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table as RichTable

from deep_patch_learning.common.progress import number, out
from deep_patch_learning.research.reproduce import paper, verdicts
from deep_patch_learning.research.reproduce.plan import Splits
from deep_patch_learning.research.reproduce.results import PerClass, Result, Row
from deep_patch_learning.research.reproduce.verdicts import Spread

WIDE = 120  # characters
HEADINGS = {
    "mAP": "mAP",
    "CorLoc": "CorLoc",
    "seconds": "s an image",
    "seconds_with_patches": "s with patches",
}


def figure(value: Spread | None, decimals: int = 1) -> str:
    """Return a figure with its spread where there are several seeds, or a dash."""
    if value is None:
        return "-"
    spread = "" if value.deviation is None else f" ± {value.deviation:.{decimals}f}"
    return f"{value.mean:.{decimals}f}{spread}"


def seconds(value: float) -> str:
    """Return seconds with as many decimals as say something."""
    return f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def show_result(result: Result, year: int) -> None:
    """Print a finished table, what differs from the paper's experiment, and what becomes of its claims."""
    shows: dict[str, Callable[[Result, int], None]] = {"main": _show_main, "time": _show_time}
    shows.get(result.table.name, _show_comparison)(result, year)
    for words in differing(result.rows):
        out.print(words, soft_wrap=True)
    for claim, found in result.verdicts:
        out.print(f"  {verdicts.in_words(claim, found)}", soft_wrap=True)
    out.print()


def where(splits: Splits) -> str:
    """Return in words what was trained and measured on."""
    return f"trained on {splits.trained_on}, measured on {splits.measured_on}"


def differing(rows: Sequence[Row]) -> list[str]:
    """Return the lines on what differs: first what all rows share, then what a row has besides."""
    clauses = {row.name: [clause for clause in row.differs.split("; ") if clause] for row in rows}
    shared = [clause for clause in clauses[rows[0].name] if all(clause in own for own in clauses.values())]
    lines = [f"What differs from the paper: {'; '.join(shared)}."] if shared else []
    for name, own in clauses.items():
        more = "; ".join(clause for clause in own if clause not in shared)
        lines += [f"What differs {'also ' if shared else ''}in {name}: {more}."] if more else []
    return lines


def _print(table: RichTable) -> None:
    """Print a table; where nobody's window limits it, as wide as it needs to be."""
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


def _show_comparison(result: Result, year: int) -> None:
    first = result.rows[0]
    on = {where(splits) for row in result.rows for splits in (row.tags_on, row.boxes_on)}
    title = f"{result.table.title}: {where(first.tags_on)}"
    if len(on) > 1:
        title += f"; CorLoc {where(first.boxes_on)}"
    table = RichTable(title=title, title_justify="left")
    table.add_column("", no_wrap=True)
    shown = [key for key in HEADINGS if key != "seconds_with_patches" or all(key in row.paper for row in result.rows)]
    for key in shown:
        table.add_column(HEADINGS[key], justify="right", style="bold", min_width=6)
        table.add_column("paper", justify="right", style="dim", min_width=5)
    for row in result.rows:
        cells = []
        for key in shown:
            ours, theirs = row.figures.get(key), row.paper.get(key)
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
        "seconds an image": "seconds",
        "seconds with the making of patches": "seconds_with_patches",
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
        out.print(f"{speed.mean:.3g} samples a second in training; an image's time is of decoded images.")
