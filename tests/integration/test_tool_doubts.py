"""A time-out of one call does not turn a fleet from a tool; those of several sessions do."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tellback import Tellback
from tellback.state.tool_health import ToolHealth, ToolSighting

DEFAULT = 30.0
MINUTE = 60_000


def doubt(at: int, by: str) -> ToolSighting:
    return ToolSighting("t", at, at, refused=True, doubted_by=by)


def answer(at: int) -> ToolSighting:
    return ToolSighting("t", at, at, refused=False)


def cools(health: ToolHealth) -> bool:
    return bool(health.cooling(["t"]))


def test_one_session_alone_cools_nothing_however_often_it_meets_it(health: ToolHealth, now: int) -> None:
    health.note([doubt(now + n, "a") for n in range(50)], DEFAULT)
    assert not cools(health)


def test_two_sessions_within_a_minute_do(health: ToolHealth, now: int) -> None:
    health.note([doubt(now - MINUTE + 1_000, "a")], DEFAULT)
    health.note([doubt(now, "b")], DEFAULT)
    (one,) = health.in_force()
    assert one.refusals == 1
    assert 25 < one.seconds_left <= 30


def test_two_sessions_at_different_times_do_not(health: ToolHealth, now: int) -> None:
    health.note([doubt(now - MINUTE - 1_000, "a"), doubt(now, "b")], DEFAULT)
    assert not cools(health)


def test_an_answer_in_between_takes_the_doubt_away(health: ToolHealth, now: int) -> None:
    seen = [doubt(now, "a"), answer(now + 10), doubt(now + 20, "b")]
    health.note(seen, DEFAULT)
    health.note(seen, DEFAULT)
    assert not cools(health), "also when it is reported again"


def call(tb: Tellback, session: str, **given: Any) -> None:
    tb.prompt(session, "p", tools=["t", "other"]).observe("t", params={"query": "x"}, **given)


@pytest.mark.parametrize(
    "error", ["Request timed out", ConnectionRefusedError(111, "Connection refused"), TimeoutError()]
)
def test_a_time_out_counts_for_the_fleet_when_another_session_meets_one(
    tb: Tellback, health: ToolHealth, consume: Callable[[], None], error: object
) -> None:
    call(tb, "a", error=error)
    consume()
    assert not cools(health)
    call(tb, "b", error=error)
    consume()
    assert cools(health)


@pytest.mark.parametrize(
    "given",
    [
        {"error": "503 Service Unavailable"},
        {"error": "The service is temporarily unavailable"},
        {"error": "Rate limit exceeded"},
        {"error": "Request timed out", "status": "unavailable"},
        {"error": "timed out", "http_status": 503, "headers": {"Retry-After": "20"}},
    ],
)
def test_what_a_service_or_a_host_says_of_itself_counts_at_once(
    tb: Tellback, health: ToolHealth, consume: Callable[[], None], given: dict[str, Any]
) -> None:
    call(tb, "a", **given)
    consume()
    assert cools(health)


def test_programs_that_ran_too_long_cool_no_tool(tb: Tellback, health: ToolHealth, consume: Callable[[], None]) -> None:
    for session in "abc":
        call(tb, session, error=subprocess.TimeoutExpired(["make", "-j"], 600))
        call(tb, session, error="Command timed out after 10m 0.0s")
    consume()
    assert not cools(health)


def test_a_time_out_while_the_tool_answers_others_is_that_calls_own(
    tb: Tellback, health: ToolHealth, consume: Callable[[], None]
) -> None:
    for session in ("a", "b", "c"):
        call(tb, f"well-{session}", result="it is there")
        call(tb, session, error="Request timed out")
        consume()
    assert not cools(health)
