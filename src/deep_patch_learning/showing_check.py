"""What `dpl check` shows: a table of the classes, the findings worst first, the verdict."""

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from deep_patch_learning.data.findings import ClassCount, Finding, Report, Severity

ROWS = 40  # classes shown; of more, the rarest
_STYLES = {Severity.STOPS: "bold red", Severity.HURTS: "yellow", Severity.WORTH_KNOWING: "cyan"}


def show_report(report: Report, title: str) -> None:
    """Print the table, the findings and the verdict on standard output."""
    out = Console(highlight=False, markup=False)
    out.print(f"{title}: {report.pictures:,} pictures, {len(report.classes):,} classes", soft_wrap=True)
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


def _table(classes: Sequence[ClassCount]) -> Table:
    """Return the counts of each class; of very many classes those with the fewest pictures."""
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
