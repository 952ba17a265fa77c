"""A worker is restarted or killed, the broker is lost: what was published is applied once all the same."""

from __future__ import annotations

import pytest

from tellback import Tellback
from tests.smoke.local_nodes import Node
from tests.support.tool_calls import calls, publish
from tests.support.waiting import wait_until

pytestmark = pytest.mark.faults


def wait_for(tb: Tellback, count: int) -> None:
    wait_until(lambda: calls(tb) == count, f"{count} events are counted")


def test_a_worker_restarts_and_goes_on(worker: Node, tb: Tellback) -> None:
    publish(tb, 10)
    wait_for(tb, 10)
    worker.restart()
    publish(tb, 10)
    wait_for(tb, 20)


def test_a_killed_workers_events_wait_for_the_next(worker: Node, tb: Tellback) -> None:
    worker.kill()
    publish(tb, 10)
    assert worker.container.status == "exited"
    worker.restart()
    wait_for(tb, 10)


def test_a_terminated_worker_finishes_and_leaves(worker: Node, tb: Tellback) -> None:
    publish(tb, 10)
    wait_for(tb, 10)
    worker.kill(signal="SIGTERM")
    worker.assert_log_exists("Warm shutdown")


def test_a_lost_broker_delays_events_and_loses_none(broker: Node, tb: Tellback) -> None:
    """The wake-ups that the broker would have carried are lost; the streams get new ones when it is back."""
    publish(tb, 10)
    wait_for(tb, 10)
    broker.kill()
    publish(tb, 10)
    broker.restart()
    wait_for(tb, 20)


def test_an_emptied_broker_delays_events_and_loses_none(broker: Node, tb: Tellback) -> None:
    publish(tb, 10)
    broker.container.empty()
    broker.restart()
    publish(tb, 10)
    wait_for(tb, 20)
