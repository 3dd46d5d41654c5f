"""Ctrl-C and a polite kill, where the work in progress must not break off in the middle."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

STOPPING = (signal.SIGINT, signal.SIGTERM)
AGAIN = 0.05  # seconds until a signal that had no effect is sent again
_came: list[int] = []  # the signals that raised an exception


class Ended(SystemExit):
    """A polite kill, as the exception that its handler raises."""


RAISED: dict[type[BaseException], signal.Signals] = {KeyboardInterrupt: signal.SIGINT, Ended: signal.SIGTERM}


def end_by_exception() -> None:
    """Let SIGTERM raise `Ended`, as SIGINT raises KeyboardInterrupt, so that what is half-written is removed; remember both."""
    signal.signal(signal.SIGTERM, _raise)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a process in the background may ignore it
        signal.signal(signal.SIGINT, _raise)


def _raise(number: int, _: Any) -> None:
    _came.append(number)
    raise KeyboardInterrupt if number == signal.SIGINT else Ended(128 + number)


def raise_what_ended() -> None:
    """Raise the exception of a signal that came: torch and others may have turned it into an error of their own."""
    if _came:
        _raise(_came[0], None)


def repeat_ignored_signals() -> None:
    """Send a signal again if its exception came where Python can only ignore it, as in finalisers and in the midst of imports."""
    usual = sys.unraisablehook

    def again(found: Any) -> None:
        number = next((one for kind, one in RAISED.items() if issubclass(found.exc_type, kind)), None)
        if number is None:
            usual(found)
        else:  # from another thread: here it would be ignored again
            with suppress(RuntimeError):  # the interpreter is ending anyway, and starts no thread
                threading.Timer(AGAIN, signal.raise_signal, (number,)).start()

    sys.unraisablehook = again


@contextmanager
def stop_flag() -> Iterator[threading.Event]:
    """Yield a flag that these signals set, so that the step in progress ends whole."""
    flag = threading.Event()
    with _noted(lambda _: flag.set()):
        yield flag


@contextmanager
def stopped_afterwards() -> Iterator[None]:
    """Let these signals take effect after the block: for calls into libraries that take what ends a process for their error."""
    came: list[int] = []
    with _noted(came.append):
        yield
    if came:
        signal.raise_signal(came[0])


@contextmanager
def _noted(note: Callable[[int], None]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # which alone handles signals
        yield
        return
    before = {number: signal.getsignal(number) for number in STOPPING}
    for number in before:
        signal.signal(number, lambda came, _: note(came))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
