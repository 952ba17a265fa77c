"""Guidance that comes while no tool is called: exactly once under many sweepers, and by workers without a beat."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tellback import (
    DeadlineFeedback,
    FeedbackProviderConfig,
    FeedbackTrigger,
    Prompt,
    StaticFeedback,
    Tellback,
)
from tellback.broker import KEY_PREFIX
from tellback.guidance import evaluation
from tellback.guidance.state import EvaluationState
from tellback.names import Family
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.evaluation_codec import EvaluationId
from tellback.state.evaluations import Evaluations, shards_with_due_timers
from tellback.state.intake import Intake
from tellback.state.keys import Layout
from tellback_workers import due_timers
from tellback_workers.due_timers import DueTimers
from tellback_workers.loops.guidance import GuidanceLoop
from tellback_workers.runtime import Runtime
from tellback_workers.wakeups import wake_timers
from tests.support import providers
from tests.support.clocks import ServerClock
from tests.support.measures import counted
from tests.support.tool_calls import counts
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers

SOON = 0.2


def timed(seconds: float = SOON, text: str = "Mind the time.") -> FeedbackProviderConfig:
    return FeedbackProviderConfig(StaticFeedback(text), FeedbackTrigger(every_n_seconds=seconds))


def timers(runtime: Runtime, session: str) -> DueTimers:
    return DueTimers(runtime, runtime.layout("default").of(session), GuidanceLoop(runtime))


def fire(runtime: Runtime, session: str = "s") -> int:
    return timers(runtime, session).fire(time.monotonic() + 5)


def _fired(tb: Tellback, prompt: Prompt, times: int) -> bool:
    return counts(tb, prompt).fires >= times


def wait_due(database: Database, layout: Layout) -> None:
    wait_until(lambda: shards_with_due_timers(database, layout), "an evaluation is due")


def test_an_agent_in_one_long_call_has_guidance_waiting_when_it_returns(
    tb: Tellback, start_workers: StartWorkers
) -> None:
    """No beat runs: the workers look by themselves."""
    start_workers(1, queues="events", env={"TELLBACK_BEAT_PERIOD": "0.3"})
    trigger = FeedbackTrigger(every_n_seconds=1)
    deadline = FeedbackProviderConfig(DeadlineFeedback(), trigger)
    prompt = tb.prompt("s", "p", feedback_providers=[deadline], deadline=600)
    wait_until(lambda: counts(tb, prompt).fires == 1, "it fired without a call")
    (feedback,) = prompt.feedback()
    assert feedback.provider_name == "DeadlineFeedback"
    assert feedback.call_index == 0
    wait_until(lambda: counts(tb, prompt).fires == 2, "taking has made it due again")
    entries = [entry for entry in tb.history("s") if entry["kind"] == "feedback"]
    assert len(entries) >= 2, "renewals are there too"
    assert all(entry["timed"] is True for entry in entries)


def test_at_most_one_of_a_slot_waits_and_taking_makes_it_due_again(
    tb: Tellback, runtime: Runtime, consume: Callable[[], None], database: Database, layout: Layout, clock: ServerClock
) -> None:
    prompt = tb.prompt("s", "p", feedback_providers=[timed(text="a"), timed(text="b")])
    consume()
    mailbox = layout.of("s").key("mailbox", "s", "p", prompt.evaluation)
    wait_due(database, layout)
    fire(runtime)
    for _ in range(25):  # through renewals, and the gap between two looks
        clock.passes(0.1)
        fire(runtime)
        assert database.command("LLEN", mailbox) <= 2
    assert counts(tb, prompt).fires == 2
    assert [feedback.summary for feedback in prompt.feedback()] in (["a", "b"], ["b", "a"])
    assert prompt.feedback() == []
    wait_until(lambda: fire(runtime) and database.command("LLEN", mailbox), "taking has made it due again")
    assert [feedback.summary for feedback in prompt.feedback()] == ["a"]


def test_forty_sweepers_fire_each_evaluation_once(
    tb: Tellback, settings: Settings, consume: Callable[[], None], database: Database, layout: Layout,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(due_timers, "BATCH", 7)
    prompts = [tb.prompt("s", f"p{n}", feedback_providers=[timed()]) for n in range(60)]
    consume()
    wait_until(
        lambda: database.command("ZCOUNT", layout.of("s").key("timers"), "-inf", database.now_ms()) == 60,
        "all are due",
    )
    gate = threading.Barrier(40)

    def sweep() -> None:
        one = timers(Runtime(settings), "s")
        gate.wait()
        while one.fire(time.monotonic() + 5):
            pass

    sweepers = [threading.Thread(target=sweep) for _ in range(40)]
    for sweeper in sweepers:
        sweeper.start()
    for sweeper in sweepers:
        sweeper.join()
    assert [counts(tb, prompt).fires for prompt in prompts] == [1] * 60
    assert [len(prompt.feedback()) for prompt in prompts] == [1] * 60


def test_sweepers_that_loaded_the_same_state_commit_once(
    tb: Tellback, runtime: Runtime, consume: Callable[[], None], database: Database, layout: Layout,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Claims run out: then two evaluate the same, and the version lets one of them commit."""
    prompt = tb.prompt("s", "p", feedback_providers=[timed()])
    consume()
    wait_due(database, layout)
    load = Evaluations.load_claimed
    rival = [True]

    def load_late(self: Evaluations, ids: list[EvaluationId]) -> object:
        found = load(self, ids)
        if rival.pop():
            rival.append(False)
            database.command("ZADD", layout.of("s").key("timers"), 0, f"s:p:{prompt.evaluation}")
            fire(runtime)
        else:
            rival.append(False)
        return found

    monkeypatch.setattr(Evaluations, "load_claimed", load_late)
    fire(runtime)
    assert counts(tb, prompt).fires == 1
    assert [entry["kind"] for entry in tb.history("s")] == ["feedback"], "what the slower one said is nowhere"
    assert len(prompt.feedback()) == 1


def test_a_timer_that_a_taker_overtook_writes_nothing(
    tb: Tellback, runtime: Runtime, consume: Callable[[], None], database: Database, layout: Layout,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    prompt = tb.prompt("s", "p", feedback_providers=[timed()])
    consume()
    wait_due(database, layout)
    fire(runtime)
    load = Evaluations.load_claimed
    taken: list[int] = []

    def load_then_taken(self: Evaluations, ids: list[EvaluationId]) -> object:
        found = load(self, ids)
        taken.append(len(prompt.feedback()))
        return found

    monkeypatch.setattr(Evaluations, "load_claimed", load_then_taken)
    wait_due(database, layout)
    fire(runtime)
    assert taken[0] == 1
    assert prompt.feedback() == [], "the renewal of what was taken meanwhile is not put there"


def test_a_renewal_replaces_that_of_its_own_slot_past_what_cannot_be_read(
    tb: Tellback, runtime: Runtime, consume: Callable[[], None], database: Database, layout: Layout
) -> None:
    """A newer release may have stored the others. Feedback of another slot stays."""
    prompt = tb.prompt("s", "p", feedback_providers=[timed()])
    consume()
    mailbox = layout.of("s").key("mailbox", "s", "p", prompt.evaluation)
    wait_due(database, layout)
    fire(runtime)
    [first] = database.command("LRANGE", mailbox, 0, -1)
    others = [b"{", b"7", b'{"slot":null}', msgspec.json.encode(msgspec.json.decode(first) | {"slot": 7})]
    database.command("LPUSH", mailbox, *others)
    wait_due(database, layout)
    fire(runtime)
    *kept, renewed = database.command("LRANGE", mailbox, 0, -1)
    assert kept == others[::-1]
    assert msgspec.json.decode(renewed)["at"] > msgspec.json.decode(first)["at"]


def test_a_timer_whose_feedback_cannot_be_stored_has_not_fired(
    tb: Tellback, runtime: Runtime, consume: Callable[[], None], database: Database, layout: Layout
) -> None:
    """The mailbox has another type. Once it is gone, the feedback comes."""
    prompt = tb.prompt("s", "p", feedback_providers=[timed()])
    consume()
    mailbox = layout.of("s").key("mailbox", "s", "p", prompt.evaluation)
    database.command("SET", mailbox, "by hand", "PX", 60_000)
    wait_due(database, layout)
    fire(runtime)
    assert counts(tb, prompt).fires == 0
    database.command("DEL", mailbox)
    database.command("ZADD", layout.of("s").key("timers"), "XX", 0, f"s:p:{prompt.evaluation}")  # its claim has ended
    fire(runtime)
    assert [feedback.summary for feedback in prompt.feedback()] == ["Mind the time."]
    assert counts(tb, prompt).fires == 1


def test_a_call_replaces_what_waits_from_before_it(
    tb: Tellback, runtime: Runtime, consume: Callable[[], None], database: Database, layout: Layout
) -> None:
    prompt = tb.prompt("s", "p", feedback_providers=[timed()])
    consume()
    wait_due(database, layout)
    fire(runtime)
    time.sleep(SOON)
    prompt.tool_invoked("t")
    consume()
    (feedback,) = prompt.feedback()
    assert feedback.call_index == 1


def test_what_came_by_time_does_not_expire_with_calls(
    tb: Tellback, runtime: Runtime, consume: Callable[[], None], database: Database, layout: Layout, clock: ServerClock
) -> None:
    """Six calls follow, and none of them fires."""
    prompt = tb.prompt("s", "p", feedback_providers=[timed(600)])
    prompt.tool_invoked("t")
    consume()
    clock.passes(600)
    wait_due(database, layout)
    fire(runtime)
    for _ in range(6):
        prompt.tool_invoked("t")
    consume()
    assert [feedback.call_index for feedback in prompt.feedback()] == [1]


def test_taking_makes_it_due_a_period_later_however_far_its_renewal_was(
    tb: Tellback, runtime: Runtime, consume: Callable[[], None], database: Database, layout: Layout
) -> None:
    prompt = tb.prompt("s", "p", feedback_providers=[timed()])
    consume()
    wait_due(database, layout)
    fire(runtime)
    due, member = layout.of("s").key("timers"), f"s:p:{prompt.evaluation}"
    database.command("ZADD", due, database.now_ms() + 3_600_000, member)
    assert len(prompt.feedback()) == 1
    assert float(database.command("ZSCORE", due, member)) <= database.now_ms() + 1000 * SOON


def test_a_timer_that_fails_costs_the_others_nothing(
    tb: Tellback, runtime: Runtime, consume: Callable[[], None], database: Database, layout: Layout,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    prompts = [tb.prompt("s", name, feedback_providers=[timed()]) for name in ("first", "bad", "last")]
    consume()
    due = layout.of("s").key("timers")
    wait_until(lambda: database.command("ZCOUNT", due, "-inf", database.now_ms()) == 3, "all are due")

    def fire_or_fail(state: EvaluationState, *args: Any, **options: Any) -> None:
        if state.prompt == "bad":
            raise RuntimeError("broken on purpose")
        evaluation.fire_timers(state, *args, **options)

    monkeypatch.setattr(due_timers, "fire_timers", fire_or_fail)
    assert fire(runtime) == 3
    assert [counts(tb, prompt).fires for prompt in prompts] == [1, 0, 1]
    assert database.command("ZCARD", due) == 3, "it is tried again"


@pytest.mark.usefixtures("app")
def test_a_due_shard_is_woken_once_until_its_wake_up_is_taken(
    tb: Tellback, consume: Callable[[], None], database: Database, layout: Layout
) -> None:
    """Each visit of its team does so; nothing is sent while nothing is due."""
    intake, queue = Intake(database, layout), f"{KEY_PREFIX}{Family.EVENTS}"
    tb.prompt("s", "p", feedback_providers=[timed()])
    consume()
    tb.prompt("other", "p", feedback_providers=[timed(3_600)])
    consume()
    wait_due(database, layout)
    for _ in range(3):
        wake_timers(intake, database, layout)
    assert database.command("LLEN", queue) == 1
    intake.clear_timers_pending(layout.of("s"))
    wake_timers(intake, database, layout)
    assert database.command("LLEN", queue) == 2


def test_the_due_set_holds_only_evaluations_that_time_can_move(
    tb: Tellback, consume: Callable[[], None], database: Database, layout: Layout
) -> None:
    """The cost of a sweep follows what is due: others are not even in the set."""
    for n in range(50):
        reminder = FeedbackProviderConfig(StaticFeedback("x"), FeedbackTrigger(every_n_calls=5))
        tb.prompt("s", f"p{n}", feedback_providers=[reminder]).tool_invoked("t")
    tb.prompt("s", "timed", feedback_providers=[timed(60)])
    consume()
    assert database.command("ZCARD", layout.of("s").key("timers")) == 1


def test_an_evaluation_that_has_gone_leaves_the_due_set(
    tb: Tellback, runtime: Runtime, consume: Callable[[], None], database: Database, layout: Layout
) -> None:
    prompt = tb.prompt("s", "p", feedback_providers=[timed()])
    consume()
    database.command("DEL", layout.of("s").key("eval", "s", "p", prompt.evaluation))
    wait_due(database, layout)
    assert fire(runtime) == 1
    assert not database.command("EXISTS", layout.of("s").key("timers"))


@pytest.mark.faults
@pytest.mark.slow
def test_a_provider_that_kills_its_worker_is_disabled_and_the_others_speak(
    tb: Tellback, start_workers: StartWorkers, database: Database
) -> None:
    """This holds for calls and for time; a worker forgets why it died, so a note is left before each question."""
    env = {"TELLBACK_PROVIDERS": providers.SETTING, "TELLBACK_CONSUMER_LEASE": "1", "TELLBACK_BEAT_PERIOD": "0.3"}
    start_workers(1, queues="events", env=env)
    deadly = FeedbackProviderConfig(providers.Kills(), FeedbackTrigger(every_n_calls=1))
    prompt = tb.prompt(
        "s",
        "p",
        delivery="all",
        feedback_providers=[
            deadly,
            FeedbackProviderConfig(StaticFeedback("alive"), FeedbackTrigger(every_n_calls=1)),
        ],
    )
    for n in range(1, 9):
        prompt.tool_invoked("t")
        wait_until(partial(_fired, tb, prompt, n), f"call {n} is evaluated")
    failures = [entry for entry in tb.history("s") if entry["kind"] == "provider_failure"]
    assert [entry["disabled"] for entry in failures] == [False, False, True]
    assert {entry["reason"] for entry in failures} == {"its worker died, or was stopped, while it was asked"}
    found = counted(database, tb.context.layout)
    assert found["provider:Kills:disabled"] == 1
    assert found["provider:StaticFeedback:fires"] == 8


@pytest.mark.faults
@pytest.mark.slow
def test_a_provider_that_kills_its_worker_at_a_timer_is_counted(
    tb: Tellback, start_workers: StartWorkers, tmp_path: Path
) -> None:
    env = {"TELLBACK_PROVIDERS": providers.SETTING, "TELLBACK_BEAT_PERIOD": "0.3"}
    start_workers(1, queues="events", env=env)
    marker = tmp_path / "killed"
    once = FeedbackProviderConfig(providers.KillsOnce(str(marker)), FeedbackTrigger(every_n_seconds=1))
    prompt = tb.prompt("s", "p", feedback_providers=[once])
    wait_until(lambda: counts(tb, prompt).fires == 1, "it speaks after its failure")
    assert marker.exists()
    reasons = [entry["reason"] for entry in tb.history("s") if entry["kind"] == "provider_failure"]
    assert reasons == ["its worker died, or was stopped, while it was asked"]
