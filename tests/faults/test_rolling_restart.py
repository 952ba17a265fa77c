"""Workers are stopped or replaced under load: nothing is lost, and nothing happens twice. Requirement A-115."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from tellback import RoutingOutcome, Tellback
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.evaluation_codec import EvaluationId
from tellback.state.evaluations import EvaluationCounts, Evaluations
from tellback.state.intake import Intake
from tests.support.stopping_worker import APP, BATCH, standing_still, stopping_at
from tests.support.tool_calls import calls, publish
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers, Workers, environment

pytestmark = [pytest.mark.faults, pytest.mark.slow]

CALLS, COMMANDS, HOSTS = 600, 12, 3
HOST = f"""
import sys
from tellback import FeedbackProviderConfig, FeedbackTrigger, OutgoingResponse, StaticFeedback, connect

name, lines = sys.argv[1:]
ten = FeedbackProviderConfig(StaticFeedback("Mind the goal."), FeedbackTrigger(every_n_calls=10))
with connect() as tb:
    prompt = tb.prompt(name, "p", evaluation="e", feedback_providers=[ten])
    jobs, count = [], {CALLS} // {COMMANDS}
    for n in range({COMMANDS}):
        append = f"open({{lines!r}}, 'a').write('{{name}}-{{n}}\\\\n'); import time; time.sleep(0.3)"
        jobs.append(tb.submit([sys.executable, "-c", append], session=name, on_lost="record"))
        turn = tb.open_turn(channel="web", conversation=name, message_id=str(n), text="hi", answer_within=120)
        turn.finish(OutgoingResponse.text_only(f"{{name}}-{{n}}"))
        for _ in range(count):
            prompt.tool_invoked("search", result="x")
        jobs[-1].wait(timeout=90)
"""


def counts(tb: Tellback, session: str) -> EvaluationCounts:
    return Evaluations(tb.context.database, tb.context.layout.of(session)).counts(EvaluationId(session, "p", "e"))


def _applied(tb: Tellback, calls: int) -> bool:
    return sum(counts(tb, f"h{n}").calls for n in range(HOSTS)) >= calls


def replace_oldest(workers: Workers) -> None:
    """Start a worker, then end the oldest one as an orchestrator does: SIGTERM, and time to finish."""
    workers.start()
    oldest = workers.processes.pop(0)
    oldest.send_signal(signal.SIGTERM)
    assert oldest.wait(60) == 0


@pytest.mark.timeout(400)
def test_every_worker_is_replaced_under_load(
    tb: Tellback, settings: Settings, start_workers: StartWorkers, database: Database, tmp_path: Path
) -> None:
    """Two generations overlap, as in a rolling restart of a Deployment; each command ran once, with its own record."""
    lines = tmp_path / "lines"
    workers = start_workers(2, concurrency=2, env={"TELLBACK_COMMAND_ROOTS": str(tmp_path)})
    hosts = [
        subprocess.Popen([sys.executable, "-c", HOST, f"h{n}", str(lines)], env=environment(settings))
        for n in range(HOSTS)
    ]
    for step in range(4):  # each of both workers, twice
        wait_until(partial(_applied, tb, step * CALLS // 4), "the load continues", timeout=90)
        replace_oldest(workers)
    assert [host.wait(120) for host in hosts] == [0] * HOSTS
    intake = Intake(database, tb.context.layout)
    wait_until(lambda: not any(intake.lengths().values()), "the intake is empty")
    names = [f"h{n}" for n in range(HOSTS)]
    assert [(counts(tb, name).calls, counts(tb, name).fires) for name in names] == [(CALLS, CALLS // 10)] * HOSTS
    expected = Counter(f"{name}-{n}" for name in names for n in range(COMMANDS))
    assert Counter(lines.read_text().split()) == expected
    assert [record.exit_code for name in names for record in tb.records(name, last=100)] == [0] * COMMANDS * HOSTS
    answers: Counter[str | None] = Counter()
    for delivery in tb.outbox("web"):
        answers[delivery.response.text] += 1
        assert delivery.settle(RoutingOutcome(attempted=True, sent_text=True)) == "delivered"
    assert answers == expected
    assert tb.dead.count() == 0


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
