"""The one backoff: its delays, and when its loop gives up."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import islice

import pytest

from tellback.backoff import Backoff, retry
from tellback.errors import InvalidInput, Unavailable
from tests.support.clocks import in_this_thread


class Flaky:
    """Fails so many times, then answers."""

    def __init__(self, failures: float, error: Callable[[str], Exception] = Unavailable) -> None:
        self.failures, self.error, self.calls = failures, error, 0

    def __call__(self) -> str:
        self.calls += 1
        if self.calls <= self.failures:
            raise self.error(f"call {self.calls}")
        return "done"


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The delays that were made, on a clock that moves by them alone."""
    delays: list[float] = []
    in_this_thread(monkeypatch, "sleep", delays.append)
    in_this_thread(monkeypatch, "monotonic", lambda: sum(delays))
    return delays


def test_delays_grow_to_the_longest_and_stay_there() -> None:
    assert list(islice(Backoff(first=1, longest=5).delays(), 5)) == [1, 2, 4, 5, 5]
    assert list(islice(Backoff(0.2).delays(), 3)) == [0.2] * 3
    assert next(islice(Backoff(first=1, longest=5, factor=1.25).delays(), 10_000, None)) == 5, "no overflow"


def test_a_call_is_repeated_until_it_succeeds(slept: list[float]) -> None:
    reported: list[str] = []
    call = Flaky(3)
    assert retry(call, Backoff(first=1, longest=3), report=lambda error: reported.append(str(error))) == "done"
    assert slept == [1, 2, 3]
    assert reported == ["call 1", "call 2", "call 3"]
    assert call.calls == 4


@pytest.mark.programs
def test_a_call_that_succeeds_at_once_does_not_load_tenacity() -> None:
    code = "import sys; from tellback.backoff import *; retry(int, Backoff(1)); sys.exit('tenacity' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_last_error_is_raised_at_the_end(slept: list[float]) -> None:
    with pytest.raises(Unavailable, match="call 4"):
        retry(Flaky(99), Backoff(1), end=3)
    assert slept == [1, 1, 1]
    with pytest.raises(Unavailable, match="call 1"):
        retry(Flaky(99), Backoff(1), end=3)
    assert slept == [1, 1, 1], "no delay after the end"


def test_no_further_try_than_allowed(slept: list[float]) -> None:
    call = Flaky(99)
    with pytest.raises(Unavailable):
        retry(call, Backoff(1), tries=3)
    assert call.calls == 3
    assert len(slept) == 2


def test_other_errors_are_not_retried(slept: list[float]) -> None:
    with pytest.raises(InvalidInput, match="call 1"):
        retry(Flaky(1, InvalidInput), Backoff(1))
    assert not slept


def test_a_stop_ends_the_delay_and_the_loop() -> None:
    stop = threading.Event()
    with pytest.raises(Unavailable, match="call 2"):
        retry(Flaky(99), Backoff(3600), stop=stop, report=lambda _: stop.set())
