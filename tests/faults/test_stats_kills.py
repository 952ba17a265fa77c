"""Workers die again and again while tool calls are counted: every counter is exact in the end."""

from __future__ import annotations

import random
import time

import pytest

from tellback import Prompt, Tellback
from tellback.state.database import Database
from tellback.state.keys import Layout
from tellback.state.tool_health import ToolHealth
from tests.support.measures import REMINDER, counted, script, times
from tests.support.publishing import Publishing
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers

pytestmark = [pytest.mark.faults, pytest.mark.slow]

KILLS = 6
SEEDED = random.Random(4)


class CallsPublishing(Publishing):
    """Scripts of calls on a thread, each an evaluation of its own; one event in four is sent twice."""

    def __init__(self, tb: Tellback) -> None:
        super().__init__(tb)
        self.prompts: list[Prompt] = []

    def publish(self) -> None:
        prompt = self.tb.prompt(f"s{len(self.prompts)}", "p", feedback_providers=[REMINDER])
        for event in script(prompt):
            for _ in range(1 + (SEEDED.random() < 0.25)):
                self.tb.context.publisher.publish(event)
        self.prompts.append(prompt)


@pytest.mark.timeout(180)
def test_counters_are_exact_with_duplicates_and_workers_that_are_killed(
    tb: Tellback, database: Database, layout: Layout, start_workers: StartWorkers
) -> None:
    workers = start_workers(2, queues="events", env={"TELLBACK_CONSUMER_LEASE": "1"})
    with CallsPublishing(tb) as publishing:
        for _ in range(KILLS):
            time.sleep(SEEDED.uniform(0.1, 0.4))  # a kill is to come at any moment of the work
            workers.kill()
            workers.start(1)
        wait_until(lambda: len(publishing.prompts) > 50, "much is published")
    n = len(publishing.prompts)
    wait_until(lambda: counted(database, layout).get("tool:bare:calls", 0) >= n, "everything is counted")
    workers.stop()
    assert counted(database, layout) == times(n)
    for prompt in publishing.prompts:
        assert len(prompt.feedback()) == 2
        assert prompt.feedback() == []
    delivered = {name: count for name, count in counted(database, layout).items() if name.startswith("delivery:")}
    assert delivered == {"delivery:expired": n, "delivery:late": 2 * n}
    assert {cool.tool for cool in ToolHealth(database, layout).in_force()} == {"search"}
