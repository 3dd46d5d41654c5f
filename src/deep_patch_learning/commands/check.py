"""`dpl check`: what is wrong with a data set, found before hours of training."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.common.progress import NARROWEST, SafeConsole, bar
from deep_patch_learning.data.checks import check as checks
from deep_patch_learning.data.checks.findings import CheckReport, ClassCount, Finding, Severity, worst_first
from deep_patch_learning.data.dataset import TaggedImages
from deep_patch_learning.data.readers.read import disjoint_splits, named_splits, read_tags
from deep_patch_learning.data.truth import TrueBoxes, read_truth

_DATA_SUFFIXES = (".json", ".csv", ".jsonl", ".ndjson", ".xml", ".tar", ".parquet")
MOST_SPLITS = 100


def check(
    data: str | Path,
    split: str | None = None,
    against: str | None = None,
    limit: int | None = None,
    workers: int | None = None,
) -> CheckReport:
    """Return what was found in one split of `data`, all images if not given, and between it and other splits.

    The report has `ready`, `verdict`, `findings` (worst first) and the counts of each class; nothing is written. `against` is
    a split, or a data set of its own; without `split`, all images outside it are checked. When it is None, the splits that
    the data names are compared. `limit` opens the first images of each split only; tags are counted in all.
    """
    data = Path(data)
    images = read_tags(data, split)
    if against is None:
        splits, name = _named(data, images, split), split
    else:
        held_out = _held_out(data, images, split, against)
        splits, name = {against: held_out}, split or f"all but {against}"
        images = images if split is not None else _outside(images, held_out)
    truth, trouble = _truth(data, images)
    with bar("opening images") as progress:
        report = checks.check(checks.DataToCheck(images, splits, name, truth), limit, workers, progress)
    if trouble is None:
        return report
    return dataclasses.replace(report, findings=worst_first([*report.findings, trouble]))


def _named(data: Path, images: TaggedImages, split: str | None) -> dict[str, TaggedImages]:
    """Return the splits that the data names, without those that hold others; with `split`, those beside `images`."""
    names = named_splits(data)
    if len(names) > MOST_SPLITS:  # the data is read for each, and every two are compared
        raise DataError(
            f"{data}: names {len(names):,} splits, of which at most {MOST_SPLITS} are compared. Give --against."
        )
    named = {name: read_tags(data, name, images.classes) for name in names}
    if split is None:
        return disjoint_splits(named)
    mine = set(images.paths)
    # a split that lies in this one, or that this one lies in, is no other split
    return disjoint_splits(
        {k: part for k, part in named.items() if not (mine <= set(part.paths) or mine >= set(part.paths))}
    )


def _held_out(data: Path, images: TaggedImages, split: str | None, against: str) -> TaggedImages:
    """Return the images of `against`, which is a split of the data or another data set with the same classes."""
    if against == split:
        raise DataError(f"--against {against}: this is the split that is checked. Give another one.")
    other = Path(against)
    if other.exists() and (other.is_dir() or other.suffix.lower() in _DATA_SUFFIXES):
        return read_tags(other, None, images.classes)
    return read_tags(data, against, images.classes)


def _outside(images: TaggedImages, held_out: TaggedImages) -> TaggedImages:
    """Return the images that are not held out; all when none would be left."""
    held = set(held_out.paths)
    left = [i for i, path in enumerate(images.paths) if path not in held]
    return images.subset(left) if left else images


def _truth(data: Path, images: TaggedImages) -> tuple[list[TrueBoxes] | None, Finding | None]:
    """Return the true boxes where there are any, and a finding where they are there and cannot be read."""
    try:
        return read_truth(data, images), None
    except DataError as error:
        title = f"the boxes cannot be read: {error}"
        fix = "Fix them before measuring; training from tags does not need them."
        return None, Finding("boxes_unreadable", Severity.HURTS, title, fix)


ROWS = 40  # classes shown; of more, the rarest
_STYLES = {Severity.STOPS: "bold red", Severity.HURTS: "yellow", Severity.WORTH_KNOWING: "cyan"}


def show(report: CheckReport, title: str) -> None:
    """Print the table, the findings and the verdict on standard output."""
    out = SafeConsole(NARROWEST, highlight=False, markup=False)
    out.print(f"{title}: {report.images:,} images, {len(report.classes):,} classes", soft_wrap=True)
    out.print(_table(report.classes))
    if len(report.classes) > ROWS:
        out.print(f"the {ROWS} rarest classes; --json gives all {len(report.classes):,}")
    if report.splits:
        out.print("compared: " + ", ".join(f"{name} ({count:,})" for name, count in report.splits.items()))
    for finding in report.findings:
        _show_finding(out, finding)
    for note in report.notes:
        out.print(Text(f"\n{note}", style="dim"))
    out.print(Text(f"\n{report.verdict}", style="bold green" if report.verdict == "ready" else "bold"))
    if not report.ready:
        out.print(consequence(report), soft_wrap=True)


def consequence(report: CheckReport) -> str:
    """Return what `dpl train` does with data that is not ready."""
    unreadable = next((one for one in report.findings if one.kind == "unreadable"), None)
    if unreadable is not None and report.opened and len(unreadable.items) >= report.opened == report.images:
        return "dpl train stops at once: none of the images can be read."
    return (
        "dpl train runs nevertheless: it leaves out images that cannot be read, and trains classes named above on what is "
        "there, but their scores and boxes will mean little."
    )


def _table(classes: Sequence[ClassCount]) -> Table:
    """Return the counts of each class; of very many classes those with the fewest images."""
    shown = classes if len(classes) <= ROWS else sorted(classes, key=lambda one: one.present)[:ROWS]
    with_boxes = any(one.fills is not None for one in classes)
    table = Table()
    table.add_column("class")
    for heading in ("present", "absent", "unknown", "alone", *(["fills"] if with_boxes else [])):
        table.add_column(heading, justify="right")
    for one in shown:
        cells = [f"{count:,}" for count in (one.present, one.absent, one.unknown, one.alone)]
        if with_boxes:
            cells.append("-" if one.fills is None else f"{one.fills:.0%}")
        table.add_row(Text(one.name), *cells)
    return table


def _show_finding(out: Console, finding: Finding) -> None:
    """Print severity and finding in one line, then the examples and what to do about it."""
    style = _STYLES[finding.severity]
    out.print(Text.assemble("\n", (finding.severity.words, style), ": ", finding.title))
    if finding.items:
        out.print(Padding(Text(finding.examples(), style="dim"), (0, 0, 0, 4)))
    out.print(Padding(Text(finding.fix), (0, 0, 0, 4)))
