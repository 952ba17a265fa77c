"""Celery's time limits strike a process that lingers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tellback import Tellback
from tellback.settings import Settings
from tellback.state.dead_letters import DeadLetters
from tests.support.short_time_limits import LIMITS
from tests.support.tool_calls import calls, publish
from tests.support.waiting import wait_until
from tests.support.workers import Workers

pytestmark = [pytest.mark.faults, pytest.mark.slow]

STRIKES = 6


@pytest.mark.parametrize(
    ("limits", "strike"),
    [("1,5", "Soft time limit (1.0s) exceeded"), ("0,1", "Hard time limit (1.0s) exceeded")],
    ids=["soft", "hard"],
)
def test_a_time_limit_that_strikes_who_lingers_loses_and_repeats_nothing(
    tb: Tellback, settings: Settings, tmp_path: Path, limits: str, strike: str
) -> None:
    """The soft one ends the task, or fails a batch, whose entries are then applied alone (A-425)."""
    workers = Workers(
        settings,
        tmp_path,
        queues="events,sweeps",
        env={"TELLBACK_LINGER": "30", LIMITS: limits},
        app="tests.support.short_time_limits",
    )
    published = 0

    def struck() -> bool:
        nonlocal published
        publish(tb, 200)
        published += 200
        return workers.log().count(strike) >= STRIKES

    try:
        workers.start()
        wait_until(struck, f"the limit strikes {STRIKES} times", timeout=120)
        wait_until(lambda: calls(tb) >= published, "others have taken the streams over")
    finally:
        workers.kill_all()
    assert calls(tb) == published
    assert not DeadLetters(tb.context.database, tb.context.layout).count()
