"""A conversation that holds no more deliveries: what it loses, its own turn says, and no other. T-64 and T-148."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from tellback import Tellback
from tellback.cli.metrics_collector import render_metrics
from tellback.client.turns import Turn
from tellback.settings import Settings
from tellback.state import outbox
from tellback.state.intake_lease import Lease
from tellback.state.turn_view import TurnAnswer
from tellback_workers.runtime import Runtime
from tests.support.cli import rows
from tests.support.full_outbox import CAP, fill, keys_of
from tests.support.intake_entries import published
from tests.support.turns import (
    HELLO,
    deadline_passes,
    delivered_now,
    events,
    opened,
    overdue,
    state,
    store,
    swept,
    view,
)

FULL = "the outbox of the conversation was full"


def full(tb: Tellback) -> tuple[Turn, Turn]:
    """The two oldest turns of a full conversation, each of a session of its own."""
    first, second = opened(tb, session="s1"), opened(tb, session="s2")
    for turn in (first, second):
        assert turn.respond(HELLO) == "accepted"
    fill(tb)
    return first, second


def dropped(tb: Tellback) -> float:
    [line] = [line for line in render_metrics(tb).splitlines() if 'channel="chat",event="dropped"' in line]
    return float(line.split()[-1])


def assert_lost(tb: Tellback, lost: Turn) -> None:
    """The turn whose delivery went says so wherever somebody may look, and it alone does."""
    seen = view(tb, lost)
    assert (seen.state, seen.delivery) == ("responded", "dropped")
    assert json.loads(seen.outcome or "")["error"] == FULL
    [entry] = [entry for entry in tb.history("s2") if entry["event"] == "dropped"]
    assert (entry["turn"], entry["sent"], entry["error"]) == (lost.id, "answer", FULL)
    assert "dropped" not in events(tb, "s1") + events(tb)
    assert dropped(tb) == 1
    assert len(keys_of(tb)) == CAP
    assert f"{lost.id}:first" not in keys_of(tb)


def test_an_answer_too_many_drops_the_second_oldest(tb: Tellback) -> None:
    first, second = full(tb)
    turn = opened(tb)
    assert turn.respond(HELLO) == "accepted"
    assert_lost(tb, second)
    assert (view(tb, first).delivery, view(tb, turn).delivery) == ("waiting", "waiting")
    assert keys_of(tb)[0] == f"{first.id}:first", "the oldest may be on its way"
    assert keys_of(tb)[-1] == f"{turn.id}:first"
    assert second.respond(HELLO) == "duplicate"


def test_so_does_an_answer_of_the_intake(tb: Tellback, runtime: Runtime) -> None:
    _, second = full(tb)
    turn = opened(tb)
    lease, [entry] = published(tb, runtime, lambda: turn.finish(HELLO))
    assert isinstance(lease, Lease)
    assert store(tb).apply_finished(lease, entry, turn.ref, TurnAnswer(HELLO, 0))
    assert_lost(tb, second)
    assert keys_of(tb)[-1] == f"{turn.id}:first"
    assert tb.context.database.command("XLEN", lease.stream) == 0


def test_so_does_a_fallback(tb: Tellback) -> None:
    _, second = full(tb)
    turn, elsewhere = overdue(tb), overdue(tb, conversation="c2")
    assert swept(tb) == 2
    assert_lost(tb, second)
    assert keys_of(tb)[-1] == f"{turn.id}:first"
    assert keys_of(tb, "c2") == [f"{elsewhere.id}:first"]


def test_so_does_a_late_answer_and_a_late_one_is_dropped_as_well(tb: Tellback) -> None:
    turn, other = overdue(tb, session="s1"), opened(tb)
    assert swept(tb) == 1
    delivered_now(tb)
    assert other.respond(HELLO) == "accepted"
    assert turn.respond(HELLO) == "late"
    fill(tb)
    assert opened(tb).respond(HELLO) == "accepted"
    seen = view(tb, turn)
    assert (seen.delivery, seen.late_delivery) == ("delivered", "dropped")
    assert json.loads(seen.late_outcome or "")["error"] == FULL
    assert [entry["sent"] for entry in tb.history("s1") if entry["event"] == "dropped"] == ["late"]


def test_an_answer_after_a_dropped_fallback_is_the_first_that_the_user_hears_of(tb: Tellback) -> None:
    ahead, turn = opened(tb), opened(tb)
    ahead.respond(HELLO)
    deadline_passes(tb, turn)
    assert swept(tb) == 1
    fill(tb)
    opened(tb).respond(HELLO)
    assert (view(tb, turn).state, view(tb, turn).delivery) == ("fallback", "dropped")
    assert turn.respond(HELLO, late_within=0) == "replaced"
    seen = view(tb, turn)
    assert (seen.state, seen.delivery, seen.outcome) == ("responded", "waiting", None)
    assert keys_of(tb)[-1] == f"{turn.id}:first"
    assert turn.respond(HELLO) == "duplicate"


def test_what_is_no_further_delivery_drops_nothing(tb: Tellback) -> None:
    first, second = full(tb)
    assert first.respond(HELLO) == "duplicate"
    opened(tb).no_reply(reason="none")
    quiet = opened(tb, metadata={"auto.mode": True})
    assert quiet.fail(code="x") == "closed"
    assert view(tb, second).delivery == "waiting"
    assert len(keys_of(tb)) == CAP


def test_many_at_once_drop_one_each(tb: Tellback) -> None:
    full(tb)
    turns = [opened(tb, session=f"new-{number}") for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        for said in [pool.submit(turn.respond, HELLO) for turn in turns]:
            assert said.result(60) == "accepted"
    assert dropped(tb) == len(turns)
    keys = keys_of(tb)
    assert len(keys) == len(set(keys)) == CAP
    assert set(keys[-len(turns) :]) == {f"{turn.id}:first" for turn in turns}


def test_what_a_caller_does_not_evict_costs_no_answer_and_goes_with_the_next(
    tb: Tellback, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was killed, or others posted all the time. Such a sweep, with others' fallbacks in it, ended its whole run."""
    full(tb)
    with monkeypatch.context() as patched:
        patched.setattr(outbox, "MAX_EVICTED", 0)
        assert opened(tb).respond(HELLO) == "accepted"
        turn, elsewhere = overdue(tb), overdue(tb, conversation="c2")
        assert swept(tb) == 2
    assert (state(turn), state(elsewhere), len(keys_of(tb))) == ("fallback", "fallback", CAP + 2)
    assert opened(tb).respond(HELLO) == "accepted"
    assert (len(keys_of(tb)), dropped(tb)) == (CAP, 3)


def test_a_delivery_that_nobody_can_read_is_evicted(tb: Tellback) -> None:
    first, _ = full(tb)
    queue = tb.context.layout.of_turn("chat", "c1").key("outq", "chat", "c1")
    oldest = tb.context.database.command("LINDEX", queue, 0)
    tb.context.database.command("LINSERT", queue, "AFTER", oldest, "by hand")
    assert opened(tb).respond(HELLO) == "accepted"
    keys = keys_of(tb)
    assert (keys[0], len(keys), dropped(tb)) == (f"{first.id}:first", CAP, 1)


def test_the_command_line_shows_it(tb: Tellback, settings: Settings) -> None:
    _, second = full(tb)
    opened(tb).respond(HELLO)

    assert [row["id"] for row in rows(settings, "turns") if row["delivery"] == "dropped"] == [second.id]
    assert [
        (row["turn"], row["kind"], row["status"], row["error"]) for row in rows(settings, "outbox", "--undelivered")
    ] == [(second.id, "answer", "dropped", FULL)]


def test_a_queue_that_somebody_made_long_holds_nobody_up(tb: Tellback) -> None:
    """Requirement A-649. A host may write its team's keys by itself. Each answer removes a part of it."""
    turn = opened(tb)
    queue = tb.context.layout.of_turn("chat", turn.conversation).key("outq", "chat", turn.conversation)
    for _ in range(5):
        tb.context.database.command("RPUSH", queue, *([b"junk"] * 1_000))
    tb.context.database.command("CONFIG", "RESETSTAT")
    assert turn.respond(HELLO) == "accepted"
    calls = re.findall(rb"cmdstat_(?:lindex|lrem):calls=(\d+)", tb.context.database.command("INFO", "commandstats"))
    assert sum(map(int, calls)) <= 4 * CAP
    for _ in range(4):
        assert opened(tb).respond(HELLO) == "accepted"
    assert tb.context.database.command("LLEN", queue) == CAP
