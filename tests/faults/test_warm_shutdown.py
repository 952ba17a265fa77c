"""A warm shutdown in the middle of a backlog of tool events, in each pool."""

from __future__ import annotations

from pathlib import Path

import pytest

from tellback import Tellback
from tests.support.stopping_worker import APP, BATCH, standing_still, stopping_at
from tests.support.tool_calls import calls, publish
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers

pytestmark = [pytest.mark.faults, pytest.mark.slow]

EVENTS = 20_000


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
def test_a_worker_that_is_stopped_in_a_backlog_loses_and_repeats_nothing(
    tb: Tellback, start_workers: StartWorkers, tmp_path: Path, pool: str
) -> None:
    """It ends by itself within a consumer's share of its lease; the next one applies the rest."""
    env = stopping_at(BATCH, 3, tmp_path / "stopped")
    first = start_workers(queues="events,sweeps", pool=pool, env=env, app=APP)
    publish(tb, EVENTS)
    with standing_still(first):
        assert 0 < calls(tb) < EVENTS
        process = first.processes.pop()
        process.terminate()
    assert process.wait(timeout=60) == 0
    assert "consumer.batch_failed" not in first.log()
    start_workers(queues="events,sweeps", pool=pool)
    wait_until(lambda: calls(tb) >= EVENTS, "the next worker applies the rest")
    assert calls(tb) == EVENTS
