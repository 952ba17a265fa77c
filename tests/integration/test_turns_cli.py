"""`tellback turns` and `tellback outbox`."""

from __future__ import annotations

import msgspec
import pytest
from typer.testing import CliRunner

from tellback import RoutingOutcome, Tellback, connect
from tellback.cli.app import app
from tellback.settings import Settings
from tellback.state.steady import observe
from tests.support.cli import printed, rows, run
from tests.support.clocks import ServerClock
from tests.support.turns import HELLO, delivered_now, fallback_was, opened, overdue, swept, view
from tests.support.waiting import wait_until


def test_turns_are_listed_with_their_state(tb: Tellback, settings: Settings) -> None:
    done, waits = opened(tb), opened(tb, conversation="c2", text="a question")
    late = overdue(tb, conversation="c3")
    done.respond(HELLO)
    assert {row["id"]: row["state"] for row in rows(settings, "turns")} == {
        done.id: "responded",
        waits.id: "open",
        late.id: "open",
    }
    assert [row["id"] for row in rows(settings, "turns", "--open")] == [late.id, waits.id], "nearest deadline first"
    [row] = rows(settings, "turns", "--overdue")
    assert row["id"] == late.id
    assert row["overdue"] >= 0
    assert "text" not in row, "a listing reads none, so an empty one would be wrong"
    assert len(rows(settings, "turns", "--limit", "1")) == 1
    table = printed(settings, "turns")
    assert "responded" in table
    assert waits.id in table


def test_what_a_host_was_handed_is_listed(tb: Tellback, settings: Settings) -> None:
    turn, late, other = opened(tb), overdue(tb), opened(tb)
    turn.hand_over(to="host-2")
    late.hand_over(to="host-2")
    other.hand_over(to="host-3")
    assert {row["id"] for row in rows(settings, "turns", "--host", "host-2")} == {turn.id, late.id}
    assert [row["id"] for row in rows(settings, "turns", "--host", "host-2", "--overdue")] == [late.id]
    assert {row["host"] for row in rows(settings, "turns", "--open")} == {"host-2", "host-3"}
    turn.respond(HELLO)
    assert [row["id"] for row in rows(settings, "turns", "--host", "host-2")] == [late.id]


def test_the_outbox_is_listed_by_channel_or_whole(tb: Tellback, settings: Settings) -> None:
    opened(tb).respond(HELLO)
    overdue(tb, channel="mail")
    swept(tb)
    assert [(row["channel"], row["kind"], row["text"]) for row in rows(settings, "outbox", "chat")] == [
        ("chat", "answer", "hello")
    ]
    assert {row["channel"] for row in rows(settings, "outbox")} == {"chat", "mail"}
    for delivery in tb.outbox("chat"):
        delivery.settle(RoutingOutcome(attempted=True, ambiguous=True))
    assert [row["status"] for row in rows(settings, "outbox", "chat")] == ["ambiguous"]
    assert "ambiguous" in printed(settings, "outbox")


def test_no_delivery_is_ready_before_it_is_written(tb: Tellback, settings: Settings, clock: ServerClock) -> None:
    """In a shard at rest, whose clock nobody observes, it was shown as ready minutes before."""
    observe(tb.context.database, tb.context.layout.all)
    clock.passes(600)
    opened(tb).respond(HELLO)
    [row] = rows(settings, "outbox")
    assert row["ready_at"] == row["at"]


@pytest.mark.parametrize("command", ["turns", "outbox"])
def test_an_empty_listing_says_so(tb: Tellback, settings: Settings, command: str) -> None:
    del tb
    assert "none" in printed(settings, command)
    assert rows(settings, command) == []


def test_late_answers_are_listed_with_what_became_of_them(tb: Tellback, settings: Settings) -> None:
    late, stale, never = (overdue(tb, conversation=name) for name in ("c1", "c2", "c3"))
    swept(tb)
    delivered_now(tb)
    fallback_was(tb, late, 90)
    assert (late.respond(HELLO), stale.respond(HELLO, late_within=0)) == ("late", "stale")
    delivered_now(tb)
    found = {row["id"]: row for row in rows(settings, "turns", "--late")}
    assert set(found) == {late.id, stale.id}
    assert never.id not in found
    assert (found[late.id]["late_delivery"], found[stale.id]["late_delivery"]) == ("delivered", "dropped")
    assert 90 <= found[late.id]["late"] < 200
    assert found[late.id]["late_outcome"]["sent_text"] is True
    assert len(rows(settings, "turns", "--late", "--limit", "1")) == 1
    table = printed(settings, "turns", "--late")
    assert "dropped" in table
    assert never.id not in table


def test_an_outcome_that_somebody_changed_by_hand_ends_no_listing(tb: Tellback, settings: Settings) -> None:
    turn = opened(tb)
    turn.respond(HELLO)
    for delivery in tb.outbox("chat"):
        delivery.settle(RoutingOutcome(attempted=True, permanent=True, error="blocked"))
    key = tb.context.layout.of_turn("chat", "c1").key("turn", turn.id)
    tb.context.database.command("HSET", key, "outcome", "no JSON")
    [row] = rows(settings, "outbox", "--undelivered")
    assert (row["turn"], row["error"]) == (turn.id, None)
    assert rows(settings, "turns")[0]["outcome"] is None
    assert turn.id in printed(settings, "turns", "show", turn.id)


def test_what_did_not_surely_arrive_is_listed(tb: Tellback, settings: Settings) -> None:
    blocked, unknown, arrived = (opened(tb, conversation=name) for name in ("c1", "c2", "c3"))
    for turn in (blocked, unknown, arrived):
        turn.respond(HELLO)
    outcomes = {
        "c1": RoutingOutcome(attempted=True, permanent=True, error="blocked by the user"),
        "c2": RoutingOutcome(attempted=True, ambiguous=True, error="no reply in 10 s"),
        "c3": RoutingOutcome(attempted=True, sent_text=True),
    }
    for delivery in tb.outbox("chat"):
        delivery.settle(outcomes[delivery.conversation])
    assert {(row["turn"], row["status"], row["error"]) for row in rows(settings, "outbox", "--undelivered")} == {
        (blocked.id, "dead", "blocked by the user"),
        (unknown.id, "ambiguous", "no reply in 10 s"),
    }
    assert rows(settings, "outbox", "mail", "--undelivered") == []
    assert "blocked by the user" in printed(settings, "outbox", "chat", "--undelivered")


def test_the_history_shows_the_whole_turn(tb: Tellback, settings: Settings) -> None:
    short = msgspec.structs.replace(settings, outbox_retry=0.05)
    with connect(settings=short) as client:
        turn = overdue(client, text="a question")
        swept(client)
        outcomes = [
            RoutingOutcome(attempted=True, error="HTTP 500"),
            RoutingOutcome(attempted=True, sent_text=True),
            RoutingOutcome(attempted=True, ambiguous=True, error="no reply in 10 s"),
            RoutingOutcome(attempted=True, sent_text=True),
        ]
        for outcome in outcomes[:2]:
            next(iter(client.outbox("chat", wait=60.0))).settle(outcome)
        assert turn.respond(HELLO) == "late"
        next(iter(client.outbox("chat", wait=60.0))).settle(outcomes[2])
        wait_until(
            lambda: (
                list(client.outbox("chat", reconcile=lambda _: outcomes[3]))
                or view(tb, turn).late_delivery == "delivered"
            ),
            "the platform has it",
        )
    story = rows(settings, "history", "c1")
    assert [entry["event"] for entry in story] == [
        *("opened", "fallback", "retry", "delivered"),
        *("late", "ambiguous", "delivered"),
    ]
    assert all(entry["turn"] == turn.id and entry["channel"] == "chat" for entry in story)
    assert [entry["at"] for entry in story] == sorted(entry["at"] for entry in story)
    assert (story[0]["text"], story[2]["error"], story[4]["text"]) == ("a question", "HTTP 500", "hello")
    assert [entry.get("sent") for entry in story] == [None, None, "fallback", "fallback", None, "late", "late"]
    table = printed(settings, "history", "c1")
    assert "ambiguous · sent: late · error: no reply in 10 s · attempt: 1" in table
    assert "opened · text: a question" in table


def test_one_turn_is_shown_whole(tb: Tellback, settings: Settings) -> None:
    """Its text, times, state, and what happened to it; other turns of its session are left out."""
    turn, other = opened(tb, text="where is my order?"), opened(tb)
    other.respond(HELLO)
    page = printed(settings, "turns", "show", turn.id)
    assert "where is my order?" in page
    assert "History" in page
    turn.respond(HELLO)
    (whole,) = rows(settings, "turns", "show", turn.id)
    assert (whole["id"], whole["state"], whole["text"]) == (turn.id, "responded", ""), "the text goes with the answer"
    assert {entry["turn"] for entry in whole["history"]} == {turn.id}
    for delivery in tb.outbox("chat"):
        delivery.settle(RoutingOutcome(attempted=True, sent_text=True, error="quota at 90 %"))
    settled = printed(settings, "turns", "show", turn.id)
    assert "attempted, sent text, error: quota at 90 %" in settled
    assert '{"' not in settled, "no JSON for people"
    missing = CliRunner().invoke(app, ["turns", "show", "t0-nothing", "--redis-url", settings.redis_url])
    assert (missing.exit_code, "no turn t0-nothing" in missing.output) == (1, True)


@pytest.mark.parametrize("option", ["--json", "--open", "--team=other", "--redis-url=redis://127.0.0.1:1"])
def test_no_option_before_show_is_ignored(tb: Tellback, settings: Settings, option: str) -> None:
    """With `--team` there, another team's turn was shown, or of another Redis."""
    turn = opened(tb)
    refused = run(settings, "turns", option, "show", turn.id)
    assert refused.exit_code == 2
    assert "write those of `show` after it" in refused.stderr
