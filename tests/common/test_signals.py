"""Signals that come while work must not break off."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from deep_patch_learning.common.signals import STOPPING, raise_what_ended, stop_flag, stopped_afterwards


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.fixture
def ended() -> Iterator[list[int]]:
    """Yield the signals that reached the handlers of the process."""
    came: list[int] = []
    before = {number: signal.signal(number, lambda one, _: came.append(one)) for number in STOPPING}
    yield came
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", STOPPING)
def test_a_flag_is_set_and_nothing_ends(number: int, ended: list[int]) -> None:
    with stop_flag() as flag:
        assert not flag.is_set()
        send(number)
        assert flag.wait(5)
    assert ended == []
    send(number)
    assert ended == [number]


@pytest.mark.parametrize("number", STOPPING)
def test_a_signal_takes_effect_after_the_block(number: int, ended: list[int]) -> None:
    with stopped_afterwards():
        send(number)
        assert ended == []
    assert ended == [number]
    with stopped_afterwards():
        pass
    assert ended == [number]


def test_an_error_in_the_block_is_the_error(ended: list[int]) -> None:
    def fail() -> None:
        with stopped_afterwards():
            send(signal.SIGTERM)
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        fail()
    send(signal.SIGINT)
    assert ended == [signal.SIGINT]


def test_other_threads_leave_signals_alone(ended: list[int]) -> None:
    entered, leave = threading.Event(), threading.Event()

    def work() -> None:
        with stop_flag(), stopped_afterwards():
            entered.set()
            assert leave.wait(5)

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(work)
        assert entered.wait(5)
        send(signal.SIGTERM)
        assert ended == [signal.SIGTERM]
        leave.set()
        done.result()


IGNORED = """
import signal, sys, time
from deep_patch_learning.common.signals import Ended, repeat_ignored_signals

number = signal.Signals[sys.argv[1]]

def end(*_):
    raise Ended(143)

signal.signal(signal.SIGTERM, end)
repeat_ignored_signals()

class Finalised:
    def __del__(self):
        signal.raise_signal(number)  # its exception can only be ignored here

try:
    Finalised()
    time.sleep(10)
    print("went on")
except (KeyboardInterrupt, Ended) as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize(("sent", "ended_by"), [("SIGINT", "KeyboardInterrupt"), ("SIGTERM", "Ended")])
def test_a_signal_in_a_finaliser_still_ends_the_process(sent: str, ended_by: str) -> None:
    done = subprocess.run([sys.executable, "-c", IGNORED, sent], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == (ended_by, "")


TRANSLATED = """
import signal, sys
import torch
from deep_patch_learning.common.signals import Ended, end_by_exception, raise_what_ended

end_by_exception()

class Interrupted:
    def __getitem__(self, index):
        signal.raise_signal(signal.Signals[sys.argv[1]])

    def __len__(self):
        return 1

try:
    try:
        torch.tensor(Interrupted())
    except Exception as error:
        print(type(error).__name__)
        raise_what_ended()
except (KeyboardInterrupt, Ended) as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize(("sent", "ended_by"), [("SIGINT", "KeyboardInterrupt"), ("SIGTERM", "Ended")])
def test_a_signal_that_torch_takes_for_its_error_still_ends_the_process(sent: str, ended_by: str) -> None:
    done = subprocess.run([sys.executable, "-c", TRANSLATED, sent], capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == (["ValueError", ended_by], "")


def test_without_a_signal_nothing_is_raised() -> None:
    raise_what_ended()


def test_another_error_in_a_finaliser_is_still_shown() -> None:
    code = (
        "from deep_patch_learning.common.signals import repeat_ignored_signals; repeat_ignored_signals()\n"
        "class Broken:\n"
        "    def __del__(self):\n"
        "        raise ValueError('mine')\n"
        "Broken()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "ValueError: mine" in done.stderr
