"""Ctrl-C and a polite kill, where the work in progress must not break off in the middle."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STOPPING = (signal.SIGINT, signal.SIGTERM)


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
