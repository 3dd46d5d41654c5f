"""Progress bars with the time left, on standard error, and the two consoles that commands print to."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, ConsoleDimensions, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.segment import Segment

NARROWEST = 60  # columns that tables are laid out for: what a narrower terminal wraps can still be read
# Control characters, and marks that turn the direction of writing: in the name of a file or class they could move the cursor,
# change the terminal's title, or hide what follows. Halves of pairs stand for bytes of a name that are not UTF-8.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(text: str) -> str:
    """Return a text that is safe to print in one line: what a terminal would obey, or could not print, becomes a \ufffd."""
    return _UNSEEN.sub("\ufffd", text).replace("\n", " ").replace("\t", " ")


class SafeConsole(Console):
    """A console that no text can make do anything but show it; laid out for at least `narrowest` columns."""

    def __init__(self, narrowest: int = 1, **options: Any) -> None:
        super().__init__(**options)
        self._narrowest = narrowest

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of what is printed, without control characters in their texts."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else _UNSEEN.sub("\ufffd", text), style, control)

    def on_broken_pipe(self) -> None:
        """Leave it to the command, as `print` does, where rich would end the program with status 1."""
        raise BrokenPipeError

    @property  # type: ignore[misc]  # nothing sets it
    def size(self) -> ConsoleDimensions:
        """The columns and lines of the terminal."""
        width, height = super().size
        return ConsoleDimensions(max(width, self._narrowest), height)


console = SafeConsole(stderr=True, highlight=False)
out = SafeConsole(NARROWEST, highlight=False, markup=False)  # standard output: what a command shows


@contextmanager
def bar(description: str) -> Iterator[Callable[..., None]]:
    """Yield `show(done, total, note="")`, which moves a bar with the time left.

    The bar is removed at the end. There is none where standard error is not a terminal.
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
