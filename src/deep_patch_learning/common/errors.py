"""The errors a user can meet. Each says what was found, where, and the fix.

The command line turns every `DplError` into one line on standard error and exit status 2.
"""

import difflib
import errno
import os
import re
import reprlib
import stat
import sys
from collections.abc import Iterable
from typing import Any


class DplError(Exception):
    """Something the user can fix; the message holds the place, the finding and the fix."""


class DataError(DplError):
    """A data set, tag file or image that cannot be used as it is."""


class ModelError(DplError):
    """A backbone, head or weight file that does not fit."""


class SettingError(DplError):
    """An option, setting or recipe that is not known or has a value that cannot be used, such as a device or scales."""


class RunError(DplError):
    """A run folder that is missing, unfinished or made with other settings."""


class TrainingError(DplError):
    """Training cannot go on, such as a loss that is no longer finite."""


class _Short(reprlib.Repr):
    """Values of any size and depth in a line."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother, self.maxlong = 3, 80, 80, 40

    def repr_int(self, value: int, level: int) -> str:
        """Return the digits of a number; of one too long for Python to write, about how many there are."""
        digits = int(value.bit_length() * 0.30103) + 1
        return super().repr_int(value, level) if digits < 4000 else f"<about {digits:,} digits>"


_SHORT = _Short()


def short(value: Any) -> str:
    """Return a found value as Python writes it, cut to about a line, however large or deeply nested it is."""
    return _SHORT.repr(value)


def did_you_mean(wrong: str, choices: Iterable[str]) -> str:
    """Return ` Did you mean 'x'?` for the nearest of `choices`, or the list of them when none is near."""
    choices = [str(choice) for choice in choices]
    near = difflib.get_close_matches(wrong.lower(), [choice.lower() for choice in choices], n=1, cutoff=0.6)
    if near:
        match = next(choice for choice in choices if choice.lower() == near[0])
        return f" Did you mean '{match}'?"
    shown = ", ".join(choices[:20]) + (", ..." if len(choices) > 20 else "")
    return f" Choose one of: {shown}."


def _nameless() -> str:
    """Return what an error that names no file is of: standard output, where that is a file. Those of our files name them."""
    try:
        about = os.fstat(sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):  # it is closed, or none
        return "a file"
    device = stat.S_ISCHR(about.st_mode) and not sys.stdout.isatty() and not _is_null(about)
    return "standard output" if device or stat.S_ISREG(about.st_mode) else "a file"


def _is_null(about: os.stat_result) -> bool:
    return os.path.samestat(about, os.stat(os.devnull))  # noqa: PTH116 (no path of ours)


def in_one_line(error: Exception) -> str | None:
    """Return what happened and what to do about it in one line; None for an error that a user cannot fix."""
    from deep_patch_learning.common.progress import plain

    if isinstance(error, DplError):
        return plain(str(error))
    if isinstance(error, OSError):
        place, why = plain(str(error.filename or _nameless())), error.strerror or plain(str(error))
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        return f"{place}: {why}. {'Make room there and repeat.' if full else 'Check the path and its permissions.'}"
    said = "not enough memory|out of memory|bad_alloc|start new thread|allocate memory|failed to map segment"
    out_of_memory = isinstance(error, MemoryError) or re.search(said, str(error))
    return "memory is full. Use smaller --scales, fewer --workers, or a machine with more." if out_of_memory else None
