"""What people see while something long runs: a bar with the time left, on standard error."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

console = Console(stderr=True, highlight=False)
out = Console(highlight=False, markup=False)  # standard output: what a command shows


@contextmanager
def bar(description: str) -> Iterator[Callable[..., None]]:
    """Yield `show(done, total, note="")`, which moves a bar with the time left.

    The bar goes when the work is done. Where standard error is not a terminal there is none.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(description, total=None, note="")

        def show(done: int, total: int, note: str = "") -> None:
            progress.update(task, completed=done, total=total, note=note)

        yield show


def number(value: float | None) -> str:
    """Return a percentage with one decimal, or a dash."""
    return "-" if value is None else f"{value:.1f}"
