"""A run passes the functions of each journey in the order in which the architecture page lists them.

The worker's side runs in this process. What passes in a process of its own, or needs a platform, is named in each test.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tellback import FeedbackProviderConfig, FeedbackTrigger, OutgoingResponse, SignalItem, Tellback, ToolUsageMonitor
from tellback.names import Family
from tellback.settings import Settings
from tellback.state.job_keys import ANY_POOL
from tellback.transports import PrintTransport, serve
from tellback_workers import jobs, sweep_jobs
from tellback_workers.loops import consumer_of
from tellback_workers.runtime import Runtime
from tellback_workers.scheduler import TeamScheduler
from tests.support.journeys import JOURNEYS, assert_order, steps_passed
from tests.support.signals import Bench
from tests.support.waiting import wait_until

TOOL_CALL, COMMAND, TURN, SIGNAL = JOURNEYS


@pytest.fixture
def runtime(settings: Settings) -> Iterator[Runtime]:
    """A process of a worker."""
    runtime = Runtime(settings)
    yield runtime
    runtime.database.close()
    runtime.short_database.close()


def consume(tb: Tellback, runtime: Runtime, family: Family) -> None:
    tb.flush()
    for shard in tb.context.layout.all:
        consumer_of(runtime, tb.context.settings.team, family).consume(shard, family)


def answer_at_once(waiting: Callable[[], object], passed: list[str], step: str, work: Callable[[], None]) -> None:
    """Do the worker's part once a caller in another thread has passed the step in which it waits."""
    caller = threading.Thread(target=waiting)
    caller.start()
    wait_until(lambda: step in passed, "the caller waits")
    work()
    caller.join(60)
    assert not caller.is_alive()


def test_a_tool_call_to_its_feedback(tb: Tellback, runtime: Runtime) -> None:
    """The dispatcher and its wake-up are left out."""
    monitor = FeedbackProviderConfig(ToolUsageMonitor(max_calls_without_progress=1), FeedbackTrigger(every_n_calls=2))
    prompt = tb.prompt("s", "p", feedback_providers=[monitor])
    prompt.tool_invoked("grep", params={"pattern": "x"}, status="success", result="1")
    consume(tb, runtime, Family.EVENTS)
    with steps_passed(TOOL_CALL) as passed:
        prompt.tool_invoked("grep", params={"pattern": "y"}, status="success", result="2")
        consume(tb, runtime, Family.EVENTS)
        assert prompt.feedback(wait=60)
    dispatching = ["Notifications.wait", "Rescue.wake", "publish_wakeups", "consume"]
    assert_order(TOOL_CALL, passed, dispatching)


@pytest.mark.usefixtures("app")
def test_a_command_to_its_record(tb: Tellback, runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """The supervisor is a process of its own."""
    monkeypatch.setattr(jobs, "current_runtime", lambda: runtime)
    shard = tb.context.layout.of("s")
    with steps_passed(COMMAND) as passed:
        submitted = [tb.submit([sys.executable, "-c", "print(1)"], session="s") for _ in range(2)]
        tb.flush()
        jobs.run_job.run(shard.team, shard.index, ANY_POOL)
        assert all(job.wait(timeout=60).succeeded for job in submitted)
        sweep_jobs.sweep_jobs(runtime, runtime.layout(shard.team))
    assert_order(COMMAND, passed, ["CommandSupervisor.serve"])


def test_a_turn_to_its_delivery_and_to_its_fallback(tb: Tellback, runtime: Runtime) -> None:
    """The transport prints, in place of one that calls a platform."""
    opened = partial(tb.open_turn, channel="c", text="hi")
    with steps_passed(TURN) as passed:
        assert opened(conversation="1", message_id="1").respond(OutgoingResponse.text_only("now")) == "accepted"
        opened(conversation="2", message_id="2").finish(OutgoingResponse.text_only("later"))
        consume(tb, runtime, Family.TURNS)
        overdue = opened(conversation="3", message_id="3", answer_within=0.001)
        scheduler = TeamScheduler(runtime, lambda _: None)

        def answered() -> bool:
            scheduler.run(0.0)
            return overdue.state == "fallback"

        wait_until(answered, "the sweep answers")
        stop = threading.Event()
        serving = threading.Thread(target=partial(serve, tb, "c", PrintTransport(), stop=stop))
        serving.start()
        wait_until(lambda: "Outbox.settle" in passed, "a delivery is settled")
        stop.set()
        serving.join(60)
    assert_order(TURN, passed, ["TelegramTransport.send"])


def test_a_signal_to_a_recall(tb: Tellback, bench: Bench) -> None:
    bank = tb.bank("b")
    with steps_passed(SIGNAL) as passed:
        bank.signal([SignalItem(fact_id="f", signal_type="used", query="x@0")])
        tb.flush()
        bench.consume()
        hits: list[float] = []

        def recall() -> None:
            hits.extend(hit.usefulness for hit in bank.recall("x@0", [("f", 0.5)], boost_by_usefulness=True, wait=20))

        answer_at_once(recall, passed, "Recalls.wait_for_reply", lambda: bench.consume(Family.RECALLS))
    assert hits == [pytest.approx(0.6, abs=1e-6)]
    assert_order(SIGNAL, passed, [])
