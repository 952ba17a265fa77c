"""Turns whose keys a Redis has lost: the answer reaches the user once all the same, and is seen."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import msgspec
import pytest

from tellback import LlmError, LlmResponse, OutgoingResponse, Tellback, connect
from tellback.client.turns import Turn
from tellback.contracts.turns import AUTO_MODE, TurnFinished, TurnMessage, TurnOrigin
from tellback.settings import Settings
from tellback_workers.loops.turns import TurnsLoop
from tellback_workers.runtime import Runtime
from tests.support.intake_entries import published
from tests.support.redis_server import RedisServer
from tests.support.turns import HELLO, deadline_passes, delivered_now, events, opened, sent, state, store, swept, view

DAY = 86_400_000


def lose(tb: Tellback, turn: Turn, *, all_of_it: bool = False) -> None:
    """The turn is gone; with `all_of_it` as after a failover, which takes what was written with it."""
    shard = store(tb).shard(turn.id)
    keys = [shard.key("turn", turn.id)]
    if all_of_it:
        keys += [shard.key("due"), shard.key("hist", turn.session), shard.key("turns"), shard.key("turnstats")]
        keys += [shard.key("out", "chat"), shard.key("outq", "chat", turn.conversation)]
    tb.context.database.command("DEL", *keys)
    if not all_of_it:
        store(tb).drop_due([turn.id])


def applied(tb: Tellback, runtime: Runtime, *events: TurnFinished) -> list[str]:
    """The reasons for which events became dead letters; the others were applied, by a worker's loop."""
    publish = tb.context.publisher.publish
    lease, entries = published(tb, runtime, *(partial(publish, event) for event in events))
    TurnsLoop(runtime, "default").apply(lease, entries)
    runtime.intake("default").release(lease)
    assert tb.context.database.command("XLEN", lease.stream) == 0
    return [letter.reason for letter in tb.dead.newest()]


def finished(turn: Turn, text: str = "hello", **changes: object) -> TurnFinished:
    """Build the event that a host spools, or publishes by `finish`."""
    origin = TurnOrigin(
        message_id=turn.message_id, session=turn.session, opened_at=turn._opened_at, language=turn.language or ""
    )  # fmt: skip
    event = TurnFinished(
        event_id=f"{turn.id}-{text}",
        turn=turn.id,
        channel=turn.channel,
        conversation=turn.conversation,
        response=OutgoingResponse.text_only(text),
        origin=origin,
    )
    return msgspec.structs.replace(event, **changes)


def test_a_spooled_answer_makes_a_lost_turn_again_and_answers_it_once(tb: Tellback, runtime: Runtime) -> None:
    turn = opened(tb, session="s1", language="de")
    lose(tb, turn, all_of_it=True)
    assert applied(tb, runtime, finished(turn), finished(turn, "again")) == []
    found = view(tb, turn)
    assert (found.state, found.language, found.message_id, found.delivery) == (
        *("responded", "de", turn.message_id, "waiting"),
    )
    assert opened(tb, message_id=turn.message_id).duplicate
    assert turn.respond(HELLO) == "duplicate"
    assert [seen.id for seen in store(tb).newest(10)] == [turn.id], "it is listed"
    assert sent(tb) == [(turn.id, "answer", "hello")]
    assert events(tb, "s1") == ["restored", "answered", "delivered"]


def test_finish_makes_a_lost_turn_again_and_no_fallback_overtakes_it(tb: Tellback, runtime: Runtime) -> None:
    turn = opened(tb, answer_within=0.001)
    lose(tb, turn, all_of_it=True)
    lease, entries = published(tb, runtime, lambda: turn.finish(HELLO))
    assert state(turn) == "finishing"
    assert swept(tb) == 0
    assert [seen.id for seen in store(tb).open_now(10)] == [turn.id]
    lose(tb, turn)
    TurnsLoop(runtime, "default").apply(lease, entries)
    assert sent(tb) == [(turn.id, "answer", "hello")]


def test_an_answer_that_is_lost_on_its_way_is_a_fallback_in_the_end(tb: Tellback) -> None:
    turn = opened(tb)
    lose(tb, turn, all_of_it=True)
    turn.finish(HELLO)
    tb.context.database.command("FLUSHALL")
    turn.finish(HELLO)
    deadline_passes(tb, turn)
    assert swept(tb) == 1
    assert state(turn) == "fallback"


def test_a_message_that_was_opened_again_meanwhile_is_answered_once(tb: Tellback, runtime: Runtime) -> None:
    turn = opened(tb)
    lose(tb, turn, all_of_it=True)
    again = opened(tb, message_id=turn.message_id)
    assert not again.duplicate
    assert applied(tb, runtime, finished(turn)) == []
    assert again.respond(OutgoingResponse.text_only("mine")) == "duplicate"
    assert sent(tb) == [(turn.id, "answer", "hello")]


@pytest.mark.parametrize("remembered", [True, False])
@pytest.mark.parametrize("delivered", [True, False])
def test_an_answered_turn_is_not_answered_again(
    tb: Tellback, runtime: Runtime, *, delivered: bool, remembered: bool
) -> None:
    """The history says so, or the queue does; where both are gone, the idempotency key is the same."""
    turn = opened(tb)
    assert turn.respond(HELLO) == "accepted"
    keys = {item.idempotency_key for item in delivered_now(tb)} if delivered else set[str]()
    lose(tb, turn)
    if not remembered:
        tb.context.database.command("DEL", store(tb).shard(turn.id).key("hist", turn.session))
    assert applied(tb, runtime, finished(turn, "again")) == []
    assert (state(turn), view(tb, turn).delivery) == (
        "responded",
        "delivered" if delivered and remembered else "waiting",
    )
    again = delivered_now(tb)
    if delivered and not remembered:
        assert {item.idempotency_key for item in again} == keys
    else:
        assert [item.response.text for item in again] == ([] if delivered else ["hello"])


def test_a_fallback_that_is_out_is_followed_and_one_that_waits_is_replaced(tb: Tellback, runtime: Runtime) -> None:
    out, waits = opened(tb), opened(tb)
    deadline_passes(tb, out)
    assert swept(tb) == 1
    delivered_now(tb)
    deadline_passes(tb, waits)
    assert swept(tb) == 1
    for turn in (out, waits):
        lose(tb, turn)
    assert applied(tb, runtime, finished(out), finished(waits)) == []
    assert [view(tb, turn).state for turn in (out, waits)] == ["fallback", "responded"]
    assert sent(tb) == [(waits.id, "answer", "hello"), (out.id, "late", "hello")]
    lose(tb, out)
    assert applied(tb, runtime, finished(out, "once more")) == []
    assert sent(tb) == []


def test_a_turn_that_was_closed_on_purpose_stays_so(tb: Tellback, runtime: Runtime) -> None:
    silent, covered, into = opened(tb), opened(tb), opened(tb)
    silent.no_reply(reason="meant")
    tb.merge_turns([covered], into=into)
    lose(tb, silent)
    lose(tb, covered)
    assert applied(tb, runtime, finished(silent), finished(covered)) == []
    assert (state(silent), state(covered)) == ("no_reply", "merged")
    assert view(tb, covered).merged_into == into.id
    assert sent(tb) == []


def test_what_says_nothing_leaves_the_turn_owed(tb: Tellback, runtime: Runtime) -> None:
    """The pipeline made no answer: the turn is there again, and the sweep answers when its time is over."""
    turn = opened(tb)
    lose(tb, turn, all_of_it=True)
    event = finished(
        turn,
        response=None,
        llm_response=LlmResponse(tool_calls=1),
        messages=(TurnMessage(metadata={AUTO_MODE: True}),),
    )
    assert applied(tb, runtime, event) == []
    found = view(tb, turn)
    assert found.state == "open"
    assert found.deadline is not None
    assert 0 < found.deadline - tb.context.database.now_ms() <= tb.context.settings.finish_grace * 1000
    assert [seen.id for seen in store(tb).open_now(10)] == [turn.id], "the sweep finds it"
    assert turn.progress() > 0
    deadline_passes(tb, turn)
    assert swept(tb) == 1
    assert [kind for _, kind, _ in sent(tb)] == ["fallback"]


def test_an_auto_turn_stays_quiet(tb: Tellback, runtime: Runtime) -> None:
    turn = opened(tb, metadata={"auto.mode": True})
    lose(tb, turn, all_of_it=True)
    lease, entries = published(tb, runtime, lambda: turn.finish(llm_error=LlmError(code="x")))
    TurnsLoop(runtime, "default").apply(lease, entries)
    assert state(turn) == "no_reply"
    assert sent(tb) == []


@pytest.mark.parametrize(
    ("origin", "reason"),
    [
        (None, "no such turn: it was never opened"),
        ({"message_id": "another"}, "no such turn: its id is not that of the message"),
        ({"session": "ä" * 400}, "origin.session: at most 512 bytes"),
        ({"opened_at": 1}, "no such turn: its seven days are over"),
    ],
)
def test_what_proves_no_turn_is_a_dead_letter(
    tb: Tellback, runtime: Runtime, origin: dict[str, object] | None, reason: str
) -> None:
    turn = opened(tb)
    lose(tb, turn)
    event = finished(turn)
    assert event.origin is not None
    changed = None if origin is None else msgspec.structs.replace(event.origin, **origin)
    [found] = applied(tb, runtime, msgspec.structs.replace(event, origin=changed))
    assert found.startswith(reason)
    assert store(tb).load([turn.id]) == [None]
    assert sent(tb) == []


def test_an_opening_that_the_future_knows_counts_as_of_now(tb: Tellback, runtime: Runtime) -> None:
    turn = opened(tb)
    lose(tb, turn)
    event = finished(turn)
    assert event.origin is not None
    ahead = msgspec.structs.replace(event.origin, opened_at=event.origin.opened_at + 30 * DAY)
    assert applied(tb, runtime, msgspec.structs.replace(event, origin=ahead)) == []
    assert view(tb, turn).opened_at <= tb.context.database.now_ms()


def test_a_redis_that_comes_back_empty_gets_the_spooled_answer(tmp_path: Path) -> None:
    """A real server was killed before it wrote anything down; the host answers while it is away."""
    with RedisServer.start(tmp_path, "--appendonly", "no", "--save", "") as server:
        settings = Settings(redis_url=server.url, data_dir=str(tmp_path / "data"))
        with connect(settings=settings) as tb:
            turn = opened(tb, language="fr")
            server.kill()
            assert turn.respond(HELLO) == "spooled"
            server.restart()
            assert tb.context.database.command("DBSIZE") == 0
            with connect(settings=settings):
                runtime = Runtime(settings)
            lease, entries = published(tb, runtime)
            TurnsLoop(runtime, "default").apply(lease, entries)
            assert sent(tb) == [(turn.id, "answer", "hello")]
            assert tb.dead.newest() == []
            runtime.database.close()
