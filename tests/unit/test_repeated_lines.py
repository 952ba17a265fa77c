"""A worker that waits for Redis tries again twice a second, and says why once a minute. Requirement A-646."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from tellback import Settings, clock
from tellback.errors import Unavailable
from tellback.state.intake import StreamRef
from tellback_workers import scheduler
from tellback_workers.app import app
from tellback_workers.dispatcher import Dispatcher
from tellback_workers.repeated_lines import RepeatedLines
from tellback_workers.runtime import Runtime
from tellback_workers.scheduler import StandIn, visit_teams

TRIES = 3


def failing(reason: str) -> tuple[Callable[..., Any], threading.Event]:
    """A call that Redis refuses, and the event that it has been tried often enough."""
    enough, tries = threading.Event(), list[None]()

    def fail(*_: object) -> None:
        tries.append(None)
        if len(tries) == TRIES:
            enough.set()
        raise Unavailable(reason)

    return fail, enough


def nobody_woken(_: Sequence[StreamRef]) -> None:
    """No wake-up is due."""


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Runtime:
    runtime = Runtime(Settings())
    monkeypatch.setattr(scheduler, "current_runtime", lambda: runtime)
    monkeypatch.setattr("tellback_workers.repeating_thread.BACKOFF", 0.0)
    return runtime


def test_the_threads_of_a_worker_say_once_why_they_wait(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the two said it twice a second, and 57 and 67 times in 35 s in which Redis had no disk."""
    for thread, event in (
        (Dispatcher(app, runtime, ()), "dispatcher.retry"),
        (StandIn(app, runtime, nobody_woken), "scheduler.postponed"),
    ):
        call, enough = failing("away")
        monkeypatch.setattr(thread, "repeat", call)
        with capture_logs() as logs:
            thread.start()
            assert enough.wait(10)
            thread.stop()
        assert [(line["event"], line["reason"]) for line in logs] == [(event, "away")]


def test_a_tick_says_once_why_it_visits_nobody(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler.TeamScheduler, "run", failing("away")[0])
    monkeypatch.setattr(scheduler.TeamScheduler, "visit_listed", failing("away")[0])
    with capture_logs() as logs:
        for _ in range(TRIES):
            visit_teams()
    assert [line["event"] for line in logs] == ["scheduler.postponed"]


def test_another_reason_and_a_minute_later_the_same_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(clock, "monotonic", lambda: now)
    lines = RepeatedLines()
    assert [lines.is_due("retry", about) for about in ("away", "away", "full", "away")] == [True, False, True, False]
    now = 60.0
    assert lines.is_due("retry", "away")
