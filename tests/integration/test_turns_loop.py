"""The turns loop of the workers, without Celery: what it applies, and what it leaves alone."""

from __future__ import annotations

from functools import partial

import msgspec
import pytest

from tellback import OutgoingResponse, Tellback
from tellback.contracts.turns import RoutingOutcome, TurnFinished
from tellback.names import Family
from tellback.state.intake import Intake
from tellback.state.intake_lease import Fenced, IntakeEntry, Lease
from tellback.state.turn_view import RoutingReport, TurnAnswer
from tellback_workers.loops.turns import TurnsLoop
from tellback_workers.runtime import Runtime
from tests.support import intake_entries
from tests.support.turns import HELLO, events, fallback_was, opened, overdue, sent, state, store, swept, view


@pytest.fixture
def loop(runtime: Runtime) -> TurnsLoop:
    return TurnsLoop(runtime, "default")


def published(tb: Tellback, runtime: Runtime, *given: TurnFinished) -> tuple[Intake, Lease, list[IntakeEntry]]:
    """The events as a consumer reads them: all are of the conversation c1."""
    publish = tb.context.publisher.publish
    return runtime.intake("default"), *intake_entries.published(
        tb, runtime, *(partial(publish, each) for each in given)
    )


def finished(turn: str, event_id: str = "1", text: str = "hello") -> TurnFinished:
    response = OutgoingResponse.text_only(text)
    return TurnFinished(event_id=event_id, turn=turn, channel="chat", conversation="c1", response=response)


def test_an_answer_leaves_the_stream_with_its_effect(tb: Tellback, runtime: Runtime, loop: TurnsLoop) -> None:
    turn = opened(tb)
    intake, lease, entries = published(tb, runtime, finished(turn.id))
    loop.apply(lease, entries)
    assert state(turn) == "responded"
    assert intake.lengths()[lease.shard, Family.TURNS] == 0
    assert intake.read_pending(lease, "0", 10) == []


def test_a_consumer_that_was_fenced_off_writes_nothing(tb: Tellback, runtime: Runtime, loop: TurnsLoop) -> None:
    turn = opened(tb)
    intake, lease, entries = published(tb, runtime, finished(turn.id))
    runtime.database.command("DEL", lease.key)
    assert intake.take_lease(lease.shard, Family.TURNS, 5) is not None
    with pytest.raises(Fenced):
        loop.apply(lease, entries)
    assert state(turn) == "open"
    assert intake.lengths()[lease.shard, Family.TURNS] == 1


def test_an_answer_that_comes_twice_counts_once(tb: Tellback, runtime: Runtime, loop: TurnsLoop) -> None:
    turn = opened(tb)
    turn.respond(HELLO)
    _, lease, entries = published(tb, runtime, finished(turn.id, text="again"), finished(turn.id, "2", "and again"))
    loop.apply(lease, entries)
    assert sent(tb) == [(turn.id, "answer", "hello")]


def test_an_answer_to_no_turn_leaves_the_stream_for_the_dead_letters(
    tb: Tellback, runtime: Runtime, loop: TurnsLoop
) -> None:
    index = tb.context.layout.of_turn("chat", "c1").index
    intake, lease, entries = published(tb, runtime, finished(f"t{index}-{'0' * 24}"))
    loop.apply(lease, entries)
    assert [letter.reason.partition(":")[0] for letter in tb.dead.newest()] == ["no such turn"]
    assert intake.lengths()[lease.shard, Family.TURNS] == 0


def test_a_turn_that_goes_between_two_reads_keeps_its_answer_in_the_stream(tb: Tellback, runtime: Runtime) -> None:
    turn = opened(tb)
    intake, lease, entries = published(tb, runtime, finished(turn.id))
    runtime.database.command("DEL", lease.shard.key("turn", turn.id))
    assert not store(tb).apply_finished(lease, entries[0], turn.ref, TurnAnswer(HELLO, 0))
    assert intake.lengths()[lease.shard, Family.TURNS] == 1
    store(tb).drop_due([turn.id])


def test_a_failures_code_is_redacted_and_stays_with_operators(tb: Tellback, runtime: Runtime, loop: TurnsLoop) -> None:
    turn = opened(tb, language="es")
    event = TurnFinished(
        event_id="1", turn=turn.id, channel="chat", conversation="c1", error_code="Traceback\npassword=hunter2"
    )
    _, lease, entries = published(tb, runtime, event)
    loop.apply(lease, entries)
    [(_, _, text)] = sent(tb)
    assert "Traceback" not in (text or "")
    assert "hunter2" not in str(tb.history("c1"))
    assert "Traceback" in str(tb.history("c1"))


def test_an_answer_says_itself_how_late_it_may_be(tb: Tellback, runtime: Runtime, loop: TurnsLoop) -> None:
    """A finished turn carries its own policy; without one the setting of the workers counts."""
    turns = [overdue(tb) for _ in range(3)]
    swept(tb)
    assert len(sent(tb)) == 3
    for turn in turns:
        fallback_was(tb, turn, seconds_ago=7_200)
    hasty, patient, unsaid = (
        msgspec.structs.replace(finished(turn.id, str(number)), late_within=late)
        for number, (turn, late) in enumerate(zip(turns, (60.0, 86_400.0, None), strict=True))
    )
    _, lease, entries = published(tb, runtime, hasty, patient, unsaid)
    loop.apply(lease, entries)
    assert [turn for turn, _, _ in sent(tb)] == [turns[1].id]
    assert [view(tb, turn).late_delivery for turn in turns] == ["dropped", "delivered", "dropped"]


def test_the_answer_of_a_turn_that_another_covers_says_nothing(tb: Tellback, runtime: Runtime, loop: TurnsLoop) -> None:
    """Its host wrote it while Redis was away; meanwhile another host merged the turn."""
    turn, into = opened(tb), opened(tb)
    tb.merge_turns([turn], into=into)
    intake, lease, entries = published(tb, runtime, finished(turn.id))
    loop.apply(lease, entries)
    assert intake.lengths()[lease.shard, Family.TURNS] == 0
    assert (state(turn), state(into), sent(tb)) == ("merged", "open", [])


def test_an_answer_whose_reply_was_lost_is_reported_once(tb: Tellback, runtime: Runtime) -> None:
    """The call is sent again on a new connection; the history had the pipeline's entry twice."""
    turn = opened(tb)
    _, lease, [entry] = published(tb, runtime, finished(turn.id))
    routed = RoutingReport(outcome=RoutingOutcome(attempted=False, queued=True))
    for _ in range(2):
        assert store(tb).apply_finished(lease, entry, turn.ref, TurnAnswer(HELLO, 0), routed=routed)
    assert [event for event in events(tb) if event in ("answered", "routed")] == ["answered", "routed"]
