"""Counts, sums and fires are exact: many processes, events delivered twice, workers that die in between."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from functools import partial

import pytest

from tellback import Prompt, Tellback
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.evaluation_codec import EvaluationId
from tellback.state.evaluations import EvaluationCounts, Evaluations
from tellback.state.intake import Intake
from tellback.state.keys import Layout
from tellback.state.tool_health import ToolHealth
from tests.support.measures import REMINDER, counted, script, times
from tests.support.publishing import Publishing
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers, environment

pytestmark = [pytest.mark.faults, pytest.mark.slow]

ID = EvaluationId("fleet", "p", "shared")
HOST = """
import random, sys
from tellback import BudgetFeedback, FeedbackProviderConfig, FeedbackTrigger, StaticFeedback, connect
from tellback.client.guidance_events import build_budget_spent
from tellback.contracts.guidance import ToolInvoked
from tellback.contracts.message import new_event_id
from tellback.state.evaluation_codec import EvaluationId

ten = FeedbackProviderConfig(StaticFeedback("Mind the goal."), FeedbackTrigger(every_n_calls=10))
budget = FeedbackProviderConfig(BudgetFeedback(max_tokens=10_000), FeedbackTrigger(every_n_calls=1))
id_ = EvaluationId("fleet", "p", "shared")
with connect() as tb:
    tb.prompt("fleet", "p", evaluation="shared", feedback_providers=[ten, budget], delivery="all")
    for n in range(5):
        if n < 2:
            sys.stdin.readline()
        events = []
        for _ in range(100):
            events += [
                build_budget_spent(id_, 3, "0.001"),
                ToolInvoked(event_id=new_event_id(), session="fleet", prompt="p", evaluation="shared", tool="search"),
            ]
        events *= 2  # each of them arrives twice
        random.shuffle(events)
        for event in events:
            tb.context.publisher.publish(event)
        tb.flush()
"""


def counts(tb: Tellback) -> EvaluationCounts:
    return Evaluations(tb.context.database, tb.context.layout.of("fleet")).counts(ID)


def _more(tb: Tellback, calls: int) -> bool:
    return counts(tb).calls > calls


@pytest.mark.timeout(180)
def test_eight_processes_with_every_event_twice_in_any_order_and_workers_killed_are_counted_exactly(
    tb: Tellback, settings: Settings, start_workers: StartWorkers, database: Database
) -> None:
    """8 × 500 calls at one every 10 give 400 pieces; 12,000 tokens of 10,000 cross each of four thresholds once."""
    workers = start_workers(3, queues="events", concurrency=1, env={"TELLBACK_CONSUMER_LEASE": "1"})
    hosts = [
        subprocess.Popen([sys.executable, "-c", HOST], env=environment(settings), stdin=subprocess.PIPE)
        for _ in range(8)
    ]
    for _ in range(2):
        before = counts(tb).calls
        for host in hosts:  # each publishes a hundred calls, and after the second time the rest
            assert host.stdin is not None
            host.stdin.write(b"\n")
            host.stdin.flush()
        wait_until(partial(_more, tb, before), "events are applied")
        workers.kill(0)
    for host in hosts:
        assert host.stdin is not None
        host.stdin.close()
    assert [host.wait(60) for host in hosts] == [0] * 8
    intake = Intake(database, tb.context.layout)
    wait_until(lambda: not any(intake.lengths().values()), "the intake is empty")
    time.sleep(0.5)
    assert (counts(tb).calls, counts(tb).fires) == (4_000, 404)
    state = Evaluations(database, tb.context.layout.of("fleet")).load({ID: ["x"]})[ID].state
    assert state is not None
    assert (state.tokens, str(state.cost)) == (12_000, "4.000")
    found = counted(database, tb.context.layout)
    assert found["tool:search:calls"] == 4_000
    assert found["provider:StaticFeedback:fires"] == 400
    assert found["provider:BudgetFeedback:fires"] == 4


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
