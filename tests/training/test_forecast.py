"""The forecast of time and memory, with times that are given; no real clock is looked at."""

import re
from itertools import accumulate
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from deep_patch_learning.patches.prepare import Prepared
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.training.fit import (
    TIMED,
    WARMING_UP,
    Forecast,
    in_words,
    memory_used,
    time_in_words,
    train_prepared,
)

SAID_AT = WARMING_UP + TIMED


def forecasts(seconds: list[float], total: int, begun: int = 0) -> dict[int, float]:
    """Return what is said after which step, where step after step takes the given seconds."""
    now = [0.0]
    forecast = Forecast(lambda: now[0])
    found = {}
    for step, time in enumerate(accumulate(seconds), start=begun + 1):
        now[0] = time
        said = forecast.after_step(step, total)
        if said is not None:
            found[step] = said
    return found


def test_the_first_steps_do_not_count() -> None:
    seconds = [100.0] * WARMING_UP + [2.0] * 30
    assert forecasts(seconds, total=1_000) == {SAID_AT: pytest.approx(2.0 * (1_000 - SAID_AT))}


def test_a_resumed_run_warms_up_again() -> None:
    seconds = [100.0] * WARMING_UP + [2.0] * 30
    found = forecasts(seconds, total=1_000, begun=500)
    assert found == {500 + SAID_AT: pytest.approx(2.0 * (500 - SAID_AT))}


@pytest.mark.parametrize("total", [1, WARMING_UP, SAID_AT - 1, SAID_AT])
def test_a_training_that_ends_before_says_nothing(total: int) -> None:
    assert forecasts([1.0] * total, total) == {}


@given(st.lists(st.floats(0.001, 100), min_size=SAID_AT, max_size=SAID_AT), st.integers(1, 10**5))
def test_the_mean_of_the_timed_steps_counts(seconds: list[float], left: int) -> None:
    found = forecasts(seconds, total=SAID_AT + left)
    mean = sum(seconds[WARMING_UP:]) / TIMED
    assert found == {SAID_AT: pytest.approx(mean * left, rel=1e-6)}


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "1 second"),
        (40.4, "40 seconds"),
        (89, "89 seconds"),
        (91, "2 minutes"),
        (720, "12 minutes"),
        (5_399, "90 minutes"),
        (5_400, "1.5 hours"),
        (90_000, "25.0 hours"),
    ],
)
def test_times_in_words(seconds: float, words: str) -> None:
    assert time_in_words(seconds) == words


def test_the_line() -> None:
    assert in_words(720, int(3.1 * 2**30), on_gpu=True) == "about 12 minutes to go, 3.1 GiB of the GPU's memory"
    assert in_words(720, 2**29, on_gpu=False) == "about 12 minutes to go, 0.5 GiB of memory"
    assert in_words(720, None, on_gpu=False) == "about 12 minutes to go"


def test_memory_is_told_in_bytes() -> None:
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("this system does not tell in /proc what a process held")
    told = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))  # "VmHWM:  123 kB"
    assert memory_used(torch.device("cpu")) == pytest.approx(int(told.split()[1]) * 1024, rel=0.05)


def test_a_training_says_it_once(
    small_prepared: Prepared, small_recipe: Recipe, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert small_recipe.total_steps > SAID_AT
    train_prepared(small_prepared, small_recipe, tmp_path / "run", device="cpu", description="both heads")
    said = " ".join(capsys.readouterr().err.split())
    assert len(re.findall(r"both heads: about [\d.]+ (?:second|minute|hour)s? to go, \d+\.\d GiB of memory", said)) == 1
