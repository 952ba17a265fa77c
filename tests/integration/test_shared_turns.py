"""Turns that more than one host or message has a part in: deferred, joined, handed over, merged."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import msgspec
import pytest

from tellback import InvalidInput, NotFound, OutgoingResponse, StateConflict, Tellback, connect
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.turns import Turns
from tests.support.interleaving import Interrupted
from tests.support.turns import (
    HELLO,
    deadline_passes,
    delivered_now,
    events,
    opened,
    overdue,
    sent,
    state,
    store,
    swept,
    view,
)


def deadline(tb: Tellback, turn: Any) -> int:
    found = view(tb, turn).deadline
    assert found is not None
    return found


def test_deferred_work_is_owed_by_a_new_deadline(tb: Tellback) -> None:
    turn = opened(tb, answer_within=30)
    assert turn.defer(seconds=600) == 600
    assert deadline(tb, turn) - view(tb, turn).opened_at >= 600_000
    assert turn.defer(seconds=5) == 5, "sooner is a new deadline as well"
    assert turn.defer() == 60
    assert state(turn) == "open"
    deadline_passes(tb, turn)
    assert swept(tb) == 1
    assert turn.defer(seconds=60) == 0.0, "nothing is owed any more"
    assert [kind for _, kind, _ in sent(tb)] == ["fallback"], "a deferred turn sends the user nothing"
    assert events(tb) == ["opened", "deferred", "deferred", "deferred", "fallback", "delivered"]


def test_a_deferred_turn_that_is_overdue_and_not_yet_swept_lives_on(tb: Tellback) -> None:
    turn = overdue(tb)
    assert turn.defer(seconds=30) == 30
    assert swept(tb) == 0
    assert turn.respond(HELLO) == "accepted"


def test_deferring_ends_at_the_hard_limit(tb: Tellback, settings: Settings) -> None:
    del tb
    with connect(settings=msgspec.structs.replace(settings, turn_limit=40.0)) as tb:
        turn = opened(tb, answer_within=30)
        assert turn.defer(seconds=40) <= 40
        found = view(tb, turn)
        assert deadline(tb, turn) == found.opened_at + 40_000
        assert turn.defer(seconds=40) <= 40
        assert deadline(tb, turn) == found.opened_at + 40_000, "again and again comes to the same end"


def test_progress_of_deferred_work_takes_no_time_away(tb: Tellback) -> None:
    turn = opened(tb, answer_within=1)
    turn.defer(seconds=600)
    assert turn.progress() > 500


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), 3_600.1, True, "60", None])
def test_a_wrong_time_to_defer_is_named(tb: Tellback, seconds: Any) -> None:
    turn = opened(tb)
    with pytest.raises(InvalidInput, match="seconds"):
        turn.defer(seconds=seconds)


def test_what_is_closed_or_on_its_way_is_not_deferred(tb: Tellback) -> None:
    auto, answered, finishing = opened(tb, metadata={"auto.mode": True}), opened(tb), opened(tb)
    answered.respond(HELLO)
    store(tb).mark_finishing(finishing.ref, 60_000)
    assert [turn.defer(seconds=60) for turn in (auto, answered, finishing)] == [0.0] * 3
    assert [state(turn) for turn in (auto, answered, finishing)] == ["auto", "responded", "finishing"]


def test_another_process_joins_a_turn_by_its_id(tb: Tellback, settings: Settings) -> None:
    turn = opened(tb, language="de", session="s1", message_id="m17")
    with connect(settings=settings) as other:
        joined = other.turn(turn.id)
        assert joined.id == turn.id
        assert (joined.channel, joined.conversation, joined.message_id) == ("chat", "c1", "m17")
        assert (joined.session, joined.language, joined.duplicate) == ("s1", "de", True)
        assert joined.respond(HELLO) == "accepted"
    assert turn.respond(HELLO) == "duplicate"


@pytest.mark.parametrize("name", ["", "x", "t0-", "t99-" + "0" * 24, "t0-" + "g" * 24, None, 7])
def test_what_is_no_id_is_refused(tb: Tellback, name: Any) -> None:
    with pytest.raises(InvalidInput):
        tb.turn(name)


def test_an_id_of_no_turn_is_not_found(tb: Tellback) -> None:
    with pytest.raises(NotFound, match="t0-0"):
        tb.turn("t0-" + "0" * 24)


def test_a_host_finds_what_was_handed_over_to_it(tb: Tellback, settings: Settings) -> None:
    with connect(settings=msgspec.structs.replace(settings, host="host-2")) as second:
        first, later = opened(tb, conversation="c1"), opened(tb, conversation="c2")
        before = deadline(tb, first)
        first.hand_over(to="host-2")
        later.hand_over(to="host-2")
        assert deadline(tb, first) == before, "the user is owed the same"
        assert [turn.id for turn in second.handed_over()] == [first.id, later.id]
        assert tb.handed_over(to="host-2") == second.handed_over()
        assert tb.handed_over() == []
        (mine, _) = second.handed_over()
        assert mine.progress() > 0
        assert mine.respond(HELLO) == "accepted"
        assert [turn.id for turn in second.handed_over()] == [later.id]
        assert view(tb, later).host == "host-2"
    handed = [entry for entry in tb.history("c1") if entry["event"] == "handed_over"]
    assert [(entry["host"], entry["by"]) for entry in handed] == [("host-2", settings.host_name)]


def test_the_first_answer_counts_whichever_host_gives_it(tb: Tellback, settings: Settings) -> None:
    with connect(settings=msgspec.structs.replace(settings, host="host-2")) as second:
        before, after = opened(tb), opened(tb)
        before.hand_over(to="host-2")
        after.hand_over(to="host-2")
        taken = {turn.id: turn for turn in second.handed_over()}
        assert before.respond(HELLO) == "accepted"
        assert taken[before.id].respond(OutgoingResponse.text_only("second")) == "duplicate"
        assert taken[after.id].respond(OutgoingResponse.text_only("second")) == "accepted"
        assert after.respond(HELLO) == "duplicate"
    assert sent(tb) == [(before.id, "answer", "hello"), (after.id, "answer", "second")]


def test_a_host_that_never_takes_what_it_was_handed_leaves_it_to_the_sweep(tb: Tellback) -> None:
    turn = opened(tb)
    turn.hand_over(to="host-2")
    deadline_passes(tb, turn)
    assert swept(tb) == 1
    assert tb.handed_over(to="host-2") == []
    assert [kind for _, kind, _ in sent(tb)] == ["fallback"]


def test_a_turn_is_handed_on_and_back(tb: Tellback, settings: Settings) -> None:
    turn = opened(tb)
    for host in ("host-2", "host-3", "host-2", settings.host_name):
        turn.hand_over(to=host)
        listed = {name for name in ("host-2", "host-3", settings.host_name) if tb.handed_over(to=name)}
        assert listed == {host}
    assert view(tb, turn).host == settings.host_name


def test_an_answer_on_its_way_is_neither_listed_nor_handed_over(tb: Tellback) -> None:
    turn = opened(tb)
    turn.hand_over(to="host-2")
    store(tb).mark_finishing(turn.ref, 60_000)
    assert tb.handed_over(to="host-2") == []
    with pytest.raises(StateConflict, match="finishing"):
        turn.hand_over(to="host-3")


@pytest.mark.parametrize("closed", ["responded", "no_reply", "fallback", "auto"])
def test_only_an_open_turn_is_handed_over(tb: Tellback, closed: str) -> None:
    turn = overdue(tb) if closed == "fallback" else opened(tb, metadata={"auto.mode": closed == "auto"})
    if closed == "responded":
        turn.respond(HELLO)
    elif closed == "no_reply":
        turn.no_reply(reason="meant")
    else:
        swept(tb)
    with pytest.raises(StateConflict, match=closed):
        turn.hand_over(to="host-2")
    assert tb.handed_over(to="host-2") == []


@pytest.mark.parametrize("host", ["", "x" * 513, "a\0b", None, 5])
def test_a_wrong_host_is_named(tb: Tellback, host: Any) -> None:
    with pytest.raises(InvalidInput, match="to:"):
        opened(tb).hand_over(to=host)


def test_the_list_of_a_host_is_bounded_and_cleans_itself(tb: Tellback, database: Database) -> None:
    turns = [opened(tb) for _ in range(3)]
    for turn in turns:
        turn.hand_over(to="host-2")
    turns[0].respond(HELLO)
    database.command("DEL", store(tb).shard(turns[1].id).key("turn", turns[1].id))
    assert [turn.id for turn in tb.handed_over(to="host-2")] == [turns[2].id]
    key = store(tb).shard(turns[0].id).key("handover", "host-2")
    assert database.command("ZRANGE", key, 0, -1) == [turns[2].id.encode()]
    database.command("ZADD", key, *(part for n in range(10_000) for part in (n, f"t0-{n}")))
    opened(tb).hand_over(to="host-2")
    assert database.command("ZCARD", key) == 10_000
    database.command("DEL", key)
    store(tb).drop_due([turns[1].id])


def test_a_turn_that_comes_back_while_the_list_is_read_stays_in_it(tb: Tellback, settings: Settings) -> None:
    turn = opened(tb)
    turn.hand_over(to="host-2")
    turn.hand_over(to="host-3")
    between = Interrupted(settings.redis_url, "HMGET", lambda: turn.hand_over(to="host-2"))
    with closing(between):
        found = Turns(between, tb.context.layout).handed_over_to("host-2", 10)
    assert between.interrupted
    assert [turn.id for turn in found] == [turn.id]


def test_one_answer_discharges_every_turn_that_was_merged(tb: Tellback) -> None:
    a, b, c = opened(tb), opened(tb), opened(tb)
    tb.merge_turns([a, b], into=c)
    assert [state(turn) for turn in (a, b, c)] == ["merged", "merged", "open"]
    assert (view(tb, a).merged_into, view(tb, c).covers) == (c.id, 2)
    assert store(tb).open_now(10) == [view(tb, c)], "one obligation is left"
    assert a.respond(OutgoingResponse.text_only("a's own")) == "merged"
    assert b.fail(code="x") == "merged"
    assert (a.progress(), a.defer(seconds=60)) == (0.0, 0.0)
    with pytest.raises(StateConflict, match="merged"):
        a.no_reply(reason="x")
    with pytest.raises(StateConflict, match="merged"):
        a.hand_over(to="host-2")
    assert c.respond(HELLO) == "accepted"
    assert swept(tb) == 0
    assert sent(tb) == [(c.id, "answer", "hello")]
    assert events(tb) == ["opened"] * 3 + ["merged", "merged", "covers", "answered", "delivered"]
    assert opened(tb, message_id=a.message_id).state == "merged", "the same message opens nothing again"


def test_a_merge_makes_no_user_wait_longer(tb: Tellback) -> None:
    a, b, c = opened(tb, answer_within=10), opened(tb, answer_within=50), opened(tb, answer_within=30)
    nearest = deadline(tb, a)
    tb.merge_turns([a, b], into=c)
    assert deadline(tb, c) == nearest
    assert c.progress() > 29, "the host may say that it is at work"


def test_what_becomes_of_the_one_becomes_of_all(tb: Tellback) -> None:
    a, b = opened(tb), opened(tb)
    tb.merge_turns([a], into=b)
    deadline_passes(tb, b)
    assert swept(tb) == 1
    assert [turn for turn, _, _ in sent(tb)] == [b.id], "one fallback for both"
    assert b.respond(HELLO) == "late"
    assert [delivery.response.reply_to for delivery in delivered_now(tb)] == [b.message_id]
    c, d = opened(tb), opened(tb)
    tb.merge_turns([c], into=d)
    d.no_reply(reason="two stickers")
    assert (state(c), state(d)) == ("merged", "no_reply")
    assert swept(tb) == 0
    assert sent(tb) == []


def test_an_overdue_turn_leaves_its_lateness_to_the_one_that_covers_it(tb: Tellback) -> None:
    a, b = overdue(tb), opened(tb)
    tb.merge_turns([a], into=b)
    assert swept(tb) == 1
    assert [(turn, kind) for turn, kind, _ in sent(tb)] == [(b.id, "fallback")]


def test_merged_turns_are_merged_on_with_their_cover(tb: Tellback) -> None:
    a, b, c = opened(tb), opened(tb), opened(tb)
    tb.merge_turns([a], into=b)
    tb.merge_turns([b], into=c)
    assert [state(turn) for turn in (a, b, c)] == ["merged", "merged", "open"]
    assert view(tb, c).covers == 2
    with pytest.raises(StateConflict, match=f"{b.id} is merged into {c.id}"):
        tb.merge_turns([c], into=b)
    with pytest.raises(StateConflict, match="merged"):
        tb.merge_turns([c], into=a)
    assert state(c) == "open", "no circle without anybody who owes"
    c.respond(HELLO)
    assert len(sent(tb)) == 1


def test_merging_again_changes_nothing(tb: Tellback) -> None:
    a, b, c = opened(tb), opened(tb), opened(tb)
    tb.merge_turns([a, a], into=c)
    tb.merge_turns([a], into=c)
    assert view(tb, c).covers == 1
    with pytest.raises(StateConflict, match=f"{a.id} is merged into {c.id}"):
        tb.merge_turns([b, a], into=opened(tb))
    assert state(b) == "open", "all of them or none"
    c.respond(HELLO)
    tb.merge_turns([a], into=c)
    assert state(c) == "responded"


@pytest.mark.parametrize("closed", ["responded", "no_reply", "fallback", "finishing"])
def test_what_is_not_open_is_neither_merged_nor_merged_into(tb: Tellback, closed: str) -> None:
    turn, other = overdue(tb) if closed == "fallback" else opened(tb), opened(tb)
    if closed == "responded":
        turn.respond(HELLO)
    elif closed == "no_reply":
        turn.no_reply(reason="meant")
    elif closed == "finishing":
        store(tb).mark_finishing(turn.ref, 60_000)
    else:
        swept(tb)
    with pytest.raises(StateConflict, match=closed):
        tb.merge_turns([opened(tb), turn], into=other)
    with pytest.raises(StateConflict, match=closed):
        tb.merge_turns([other], into=turn)
    assert (state(turn), state(other)) == (closed, "open")
    assert view(tb, other).covers == 0


def test_an_auto_turn_can_be_covered_and_covers_nothing(tb: Tellback) -> None:
    auto, turn = opened(tb, metadata={"auto.mode": True}), opened(tb, answer_within=10)
    before = deadline(tb, turn)
    with pytest.raises(StateConflict, match="auto"):
        tb.merge_turns([turn], into=auto)
    tb.merge_turns([auto], into=turn)
    assert (state(auto), state(turn), deadline(tb, turn)) == ("merged", "open", before)


def test_a_lost_turn_is_not_merged(tb: Tellback, database: Database) -> None:
    a, b, c = opened(tb), opened(tb), opened(tb)
    database.command("DEL", store(tb).shard(b.id).key("turn", b.id))
    with pytest.raises(NotFound, match=b.id):
        tb.merge_turns([a, b], into=c)
    with pytest.raises(NotFound, match=b.id):
        tb.merge_turns([a], into=b)
    assert state(a) == "open"
    store(tb).drop_due([b.id])


def test_turns_of_two_conversations_are_two_answers(tb: Tellback) -> None:
    a, b = opened(tb, conversation="c1"), opened(tb, conversation="c2")
    with pytest.raises(InvalidInput, match="another conversation"):
        tb.merge_turns([a], into=b)
    with pytest.raises(InvalidInput, match="another conversation"):
        tb.merge_turns([a], into=opened(tb, channel="mail", conversation="c1"))
    assert state(a) == "open"


def test_wrong_arguments_of_a_merge_are_named(tb: Tellback) -> None:
    a, b = opened(tb), opened(tb)
    wrong: list[tuple[Any, Any, str]] = [
        ([], b, "1 to 100 turns, not 0"),
        ([b], b, "into itself"),
        ([a.id], b, r"turns\[0\]: a turn, not str"),
        (a, b, "a list of turns, not Turn"),
        ("ab", b, "a list of turns, not str"),
        (None, b, "a list of turns, not NoneType"),
        ([a], b.id, "into: a turn, not str"),
        ([opened(tb) for _ in range(101)], b, "1 to 100 turns, not 101"),
    ]
    for turns, into, said in wrong:
        with pytest.raises(InvalidInput, match=said):
            tb.merge_turns(turns, into=into)
    assert (state(a), state(b)) == ("open", "open")


def test_a_hundred_turns_are_merged_at_once(tb: Tellback) -> None:
    turns, into = [opened(tb, session=f"s{number}") for number in range(100)], opened(tb)
    tb.merge_turns(iter(turns), into=into)
    assert view(tb, into).covers == 100
    assert [turn.id for turn in store(tb).open_now(200)] == [into.id]
    assert events(tb, "s7") == ["opened", "merged"]
