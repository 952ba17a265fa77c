"""The guidance loop on a real Redis, consumed in this process: exactness, retries, expiry, caps."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec
import pytest

from tellback import (
    Feedback,
    FeedbackProviderConfig,
    FeedbackTrigger,
    Prompt,
    ProviderSpec,
    StaticFeedback,
    Tellback,
    connect,
)
from tellback.contracts.guidance import EvaluationBegun, ToolInvoked
from tellback.contracts.message import new_event_id
from tellback.guidance.state import BatchEffects, new_evaluation
from tellback.names import Family
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.evaluation_codec import EvaluationId, LoadedEvaluation
from tellback.state.evaluations import EvaluationChange, EvaluationCounts, Evaluations, commit_each, load_each
from tellback.state.intake import Intake
from tellback.state.intake_lease import IntakeEntry, Lease
from tellback.state.keys import Layout, stream_of
from tellback_workers.loops import consumer_of
from tellback_workers.loops.guidance import GuidanceLoop
from tellback_workers.runtime import Runtime
from tests.support import providers
from tests.support.waiting import wait_until

ID = EvaluationId("s", "p", "e")
NOTHING = LoadedEvaluation(b"0", None, frozenset())


def reminder(every: int, text: str = "Mind the goal.") -> FeedbackProviderConfig:
    return FeedbackProviderConfig(StaticFeedback(text), FeedbackTrigger(every_n_calls=every))


@pytest.fixture
def store(database: Database, layout: Layout) -> Evaluations:
    return Evaluations(database, layout.of("s"))


@pytest.fixture
def lease(database: Database, layout: Layout) -> Lease:
    intake = Intake(database, layout)
    lease = intake.take_lease(layout.of("s"), Family.EVENTS, 60)
    assert lease is not None
    return lease


def call(event_id: str | None = None) -> ToolInvoked:
    return ToolInvoked(event_id=event_id or new_event_id(), session="s", prompt="p", evaluation="e", tool="t")


def calls(prompt: Prompt, n: int) -> None:
    for _ in range(n):
        prompt.tool_invoked("search", params={"q": "x"})


def change(loaded: LoadedEvaluation = NOTHING, fresh: tuple[str, ...] = (), n_calls: int = 1) -> EvaluationChange:
    state = new_evaluation(*ID, 1)
    state.calls = n_calls
    return EvaluationChange(ID, loaded, state, [IntakeEntry("1-1", call(), 1)], fresh, BatchEffects())


def commit(
    database: Database, store: Evaluations, lease: Lease, made: EvaluationChange
) -> list[EvaluationChange] | None:
    [late] = commit_each(database, [(store, lease, [made])])
    return late


def test_feedback_is_delivered_once(tb: Tellback, consume: Callable[[], None], store: Evaluations) -> None:
    prompt = tb.prompt("s", "p", evaluation="e", feedback_providers=[reminder(2)])
    calls(prompt, 2)
    consume()
    (feedback,) = prompt.feedback()
    assert (feedback.summary, feedback.call_index, feedback.prompt_name) == ("Mind the goal.", 2, "p")
    assert prompt.feedback() == []
    assert store.counts(ID) == EvaluationCounts(calls=2, fires=1, delivered=1, expired=0)


def test_a_backlog_loads_an_evaluation_once_and_counts_each_event_once(
    tb: Tellback, settings: Settings, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer continues with the evaluations that it committed under the same lease."""
    for n in range(20):
        tb.context.publisher.publish(call(f"event-{n % 15}"))
    tb.flush()
    loads: list[EvaluationId] = []

    def counted(
        database: Database, wanted: Sequence[tuple[Evaluations, Mapping[EvaluationId, Sequence[str]]]]
    ) -> list[dict[EvaluationId, LoadedEvaluation]]:
        loads.extend(id_ for _, ids in wanted for id_ in ids)
        return load_each(database, wanted)

    monkeypatch.setattr("tellback_workers.loops.guidance.load_each", counted)
    consumer = consumer_of(Runtime(msgspec.structs.replace(settings, consume_batch=5)), "default", Family.EVENTS)
    assert not consumer.consume(layout.of("s"), Family.EVENTS)
    assert Evaluations(tb.context.database, layout.of("s")).counts(ID).calls == 15
    assert loads == [ID, ID]  # again for the last batch, whose events were seen before


def test_an_event_counts_once_in_a_batch_across_batches_and_after_a_restart(
    tb: Tellback, consume: Callable[[], None], store: Evaluations
) -> None:
    event = call()
    for _ in range(3):
        for _ in range(3):
            tb.context.publisher.publish(event)
        consume()
    assert store.counts(ID).calls == 1


def test_every_fire_is_in_the_history_with_its_call(tb: Tellback, consume: Callable[[], None]) -> None:
    prompt = tb.prompt("s", "p", feedback_providers=[reminder(3)])
    calls(prompt, 6)
    consume()
    kinds = [(entry["kind"], entry["call_index"]) for entry in tb.history("s")]
    assert kinds == [
        ("tool_call", 1),
        ("tool_call", 2),
        ("tool_call", 3),
        ("feedback", 3),
        ("tool_call", 4),
        ("tool_call", 5),
        ("tool_call", 6),
        ("feedback", 6),
    ]


def test_feedback_expires_after_three_further_calls(
    tb: Tellback, consume: Callable[[], None], store: Evaluations
) -> None:
    prompt = tb.prompt("s", "p", evaluation="e", feedback_providers=[reminder(4)])
    calls(prompt, 7)
    consume()
    assert [feedback.call_index for feedback in prompt.feedback()] == [4]
    calls(prompt, 5)
    consume()
    assert [feedback.call_index for feedback in prompt.feedback()] == [12]
    assert store.counts(ID) == EvaluationCounts(calls=12, fires=3, delivered=2, expired=1)


def test_events_of_one_evaluation_never_count_in_another(tb: Tellback, consume: Callable[[], None]) -> None:
    first = tb.prompt("s", "A", feedback_providers=[reminder(2, "first")])
    calls(first, 1)
    other = tb.prompt("s", "B", feedback_providers=[reminder(2, "other")])
    calls(other, 1)
    again = tb.prompt("s", "A", feedback_providers=[reminder(2, "again")])
    calls(again, 1)
    consume()
    assert [prompt.feedback() for prompt in (first, other, again)] == [[], [], []]
    calls(again, 1)
    consume()
    assert [feedback.summary for feedback in again.feedback()] == ["again"]
    assert first.feedback() == []


def test_one_evaluation_name_under_two_prompts_is_two_evaluations(tb: Tellback, consume: Callable[[], None]) -> None:
    one = tb.prompt("s", "A", evaluation="e", feedback_providers=[reminder(2)])
    two = tb.prompt("s", "B", evaluation="e", feedback_providers=[reminder(2)])
    calls(one, 1)
    calls(two, 1)
    consume()
    assert one.feedback() == two.feedback() == []


def test_the_mailbox_keeps_the_newest_hundred(tb: Tellback, consume: Callable[[], None]) -> None:
    providers = [reminder(1, f"{n}") for n in range(32)]
    prompt = tb.prompt("s", "p", feedback_providers=providers, delivery="all")
    calls(prompt, 4)
    consume()
    taken = prompt.feedback()
    assert len(taken) == 100
    assert [(feedback.call_index, feedback.summary) for feedback in taken[-2:]] == [(4, "30"), (4, "31")]


def test_a_commit_on_an_older_version_is_refused_and_says_so(
    database: Database, store: Evaluations, lease: Lease
) -> None:
    assert commit(database, store, lease, change(fresh=("a",), n_calls=1)) == []
    late = change(fresh=("b",), n_calls=99)
    assert commit(database, store, lease, late) == [late]
    assert store.counts(ID).calls == 1
    loaded = store.load({ID: ["a", "b"]})[ID]
    assert loaded.seen == frozenset({"a"})


def test_a_consumer_whose_lease_passed_on_writes_nothing(
    store: Evaluations, lease: Lease, layout: Layout, database: Database
) -> None:
    database.command("DEL", lease.key)
    successor = Intake(database, layout).take_lease(lease.shard, Family.EVENTS, 5)
    assert successor is not None
    assert commit(database, store, lease, change(fresh=("a",))) is None
    loaded = store.load({ID: ["a"]})[ID]
    assert (loaded.state, loaded.seen) == (None, frozenset())


def test_the_loop_loads_again_when_another_has_committed_meanwhile(
    runtime: Runtime, store: Evaluations, lease: Lease, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two evaluators of one batch: whoever commits second builds on what the first has left."""
    loop = GuidanceLoop(runtime)
    rivals = iter([True, False])

    def load_and_lose(
        database: Database, wanted: list[tuple[Evaluations, dict[EvaluationId, list[str]]]]
    ) -> list[dict[EvaluationId, LoadedEvaluation]]:
        loaded = load_each(database, wanted)
        if next(rivals):
            rival = change(loaded[0][ID], fresh=("rival",), n_calls=10)
            assert commit(database, store, lease, rival) == []
        return loaded

    monkeypatch.setattr("tellback_workers.loops.guidance.load_each", load_and_lose)
    loop.apply(lease, [IntakeEntry("5-1", call("mine"), 1)])
    assert store.counts(ID).calls == 11


def test_ids_are_remembered_over_two_generations(store: Evaluations, lease: Lease, database: Database) -> None:
    ids = [f"id-{n}" for n in range(101_000)]
    for start in range(0, len(ids), 1_000):
        fresh = tuple(ids[start : start + 1_000])
        assert commit(database, store, lease, change(store.load({ID: fresh})[ID], fresh)) == []
    seen = store.load({ID: ids})[ID].seen
    assert seen >= set(ids[-50_000:])
    assert len(seen) <= 100_000
    for name in ("seen", "seen-old"):
        assert database.command("SCARD", lease.shard.key(name, *ID)) <= 50_000


def test_an_answer_that_did_not_arrive_is_given_again_to_the_same_operation(
    tb: Tellback, consume: Callable[[], None], store: Evaluations
) -> None:
    prompt = tb.prompt("s", "p", evaluation="e", feedback_providers=[reminder(1)])
    calls(prompt, 1)
    consume()
    first = store.take_feedback(ID, "op-1")
    assert len(first) == 1
    assert store.take_feedback(ID, "op-1") == first
    assert store.take_feedback(ID, "op-2") == []


def test_the_cost_of_a_batch_does_not_depend_on_how_much_was_recorded(
    tb: Tellback, consume: Callable[[], None], database: Database, layout: Layout
) -> None:
    """Bytes of state stand for cost here, where time would be noise; the benchmark measures time."""
    prompt = tb.prompt("s", "p", evaluation="e", feedback_providers=[reminder(7)])
    key = layout.of("s").key("eval", *ID)
    sizes: list[int] = []
    for n in (1_000, 7_000):  # at the first of them every way to be stuck that these calls show has been reported
        calls(prompt, n)
        consume()
        sizes.append(int(database.command("HSTRLEN", key, "state")))
    assert sizes[1] < sizes[0] * 1.1


def test_provider_failures_stand_in_the_history(tb: Tellback, consume: Callable[[], None]) -> None:
    nobody = ProviderSpec(name="Nobody", trigger=FeedbackTrigger(1))
    prompt = tb.prompt("s", "p", feedback_providers=[nobody, reminder(1)])
    calls(prompt, 5)
    consume()
    failures = [entry for entry in tb.history("s") if entry["kind"] == "provider_failure"]
    assert [failure["disabled"] for failure in failures] == [False, False, True]
    assert "no provider Nobody on this worker" in failures[0]["reason"]
    assert [feedback.call_index for feedback in prompt.feedback()] == [2, 3, 4, 5]


def test_seconds_count_by_the_servers_clock(
    tb: Tellback, consume: Callable[[], None], database: Database, layout: Layout
) -> None:
    trigger = FeedbackTrigger(every_n_seconds=600)
    prompt = tb.prompt("s", "p", feedback_providers=[FeedbackProviderConfig(StaticFeedback("tick"), trigger)])
    calls(prompt, 1)
    consume()
    assert prompt.feedback() == []
    calls(prompt, 1)
    tb.flush()
    stream = stream_of(layout.of("s"), Family.EVENTS)
    [(id_, fields)] = database.command("XRANGE", stream, "-", "+")
    database.command("XDEL", stream, id_)
    database.command("XADD", stream, int(id_.split(b"-")[0]) + 600_000, *fields)  # it comes so much later
    consume()
    assert [feedback.summary for feedback in prompt.feedback()] == ["tick"]


def test_eight_takers_share_feedback_without_a_copy(
    tb: Tellback, consume: Callable[[], None], settings: Settings, store: Evaluations
) -> None:
    prompt = tb.prompt("s", "p", evaluation="e", feedback_providers=[reminder(1)])
    taken: list[Feedback] = []
    done = threading.Event()

    def take() -> None:
        with connect(settings=settings) as other:
            joined = other.prompt("s", "p", evaluation="e")
            while not done.is_set():
                taken.extend(joined.feedback(wait=0.02))

    takers = [threading.Thread(target=take) for _ in range(8)]
    for taker in takers:
        taker.start()
    try:
        for n in range(1, 41):
            calls(prompt, 1)
            consume()
            wait_until(partial(_has, taken, n), f"feedback {n} is taken")
    finally:
        done.set()
        for taker in takers:
            taker.join()
    assert sorted(feedback.call_index for feedback in taken) == list(range(1, 41))
    assert store.counts(ID).delivered == 40


def _has(taken: list[Feedback], n: int) -> bool:
    return len(taken) >= n


def test_what_comes_again_is_evaluated_without_custom_providers(
    settings: Settings, layout: Layout, store: Evaluations, lease: Lease
) -> None:
    """One of them may have killed the worker; it stays due, and is asked with the next call."""
    del layout
    loop = GuidanceLoop(Runtime(msgspec.structs.replace(settings, providers=providers.SETTING)))
    begun = EvaluationBegun(
        event_id="b",
        session="s",
        prompt="p",
        evaluation="e",
        delivery="all",
        providers=[
            ProviderSpec(name="Monitor", trigger=FeedbackTrigger(1)),
            ProviderSpec(name="ToolUsageMonitor", trigger=FeedbackTrigger(1)),
        ],
    )
    loop.apply(lease, [IntakeEntry("1-1", begun, 1)])
    loop.apply(lease, [IntakeEntry("2-1", call(), 2)])
    assert [feedback.provider_name for feedback in store.take_feedback(ID, "op-1")] == ["ToolUsageMonitor"]
    loop.apply(lease, [IntakeEntry("3-1", call(), 1)])
    assert [feedback.provider_name for feedback in store.take_feedback(ID, "op-2")] == ["Monitor", "ToolUsageMonitor"]


def test_odd_arguments_of_a_tool_call_still_count(
    tb: Tellback, consume: Callable[[], None], store: Evaluations
) -> None:
    prompt = tb.prompt("s", "p", evaluation="e", deadline=1e300, feedback_providers=[reminder(1)])
    for duration in (float("nan"), float("inf"), -5, 1e300, 12.6):
        prompt.tool_invoked("t" * 5_000, status="\ud800" * 900, duration_ms=duration, call_id="c" * 9_000)
    consume()
    assert store.counts(ID).calls == 5
    assert [entry.get("duration_ms") for entry in tb.history("s") if entry["kind"] == "tool_call"] == [None] * 4 + [13]


def test_events_too_large_for_one_command_arrive_all_and_in_order(tb: Tellback, consume: Callable[[], None]) -> None:
    prompt = tb.prompt("s", "p")
    for n in range(30):
        prompt.tool_invoked("t", result="x" * 60_000, duration_ms=n)
    consume()
    entries = tb.history("s")
    assert [entry["duration_ms"] for entry in entries] == list(range(30))
    assert [entry["call_index"] for entry in entries] == list(range(1, 31))
