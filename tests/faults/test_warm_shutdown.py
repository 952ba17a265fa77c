"""A warm shutdown in the middle of a backlog of tool events, in each pool."""

from __future__ import annotations

import pytest

from tellback import Tellback
from tests.support.tool_calls import calls, publish
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers

pytestmark = [pytest.mark.faults, pytest.mark.slow]

EVENTS = 20_000


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
def test_a_worker_that_is_stopped_in_a_backlog_loses_and_repeats_nothing(
    tb: Tellback, start_workers: StartWorkers, pool: str
) -> None:
    """It ends by itself within a consumer's share of its lease; the next one applies the rest."""
    first = start_workers(queues="events,sweeps", pool=pool)
    publish(tb, EVENTS)
    wait_until(lambda: calls(tb), "the backlog is being applied")
    applied = calls(tb)
    process = first.processes.pop()
    process.terminate()
    assert applied < EVENTS
    assert process.wait(timeout=30) == 0
    assert "consumer.batch_failed" not in first.log()
    start_workers(queues="events,sweeps", pool=pool)
    wait_until(lambda: calls(tb) >= EVENTS, "the next worker applies the rest", timeout=60)
    assert calls(tb) == EVENTS
