"""Deliveries to a channel without a transport: dead, with an alert, if channels are named; else they wait."""

from __future__ import annotations

import msgspec
import pytest

from tellback import Tellback
from tellback.doctor.backlog import check_outbox as examined
from tellback.settings import Settings
from tellback_workers.sweep_turns import dead_letter_unknown
from tests.support.turns import HELLO, delivered_now, events, opened, overdue, swept, view


def add_letter(tb: Tellback, settings: Settings, channels: str) -> int:
    named = msgspec.structs.replace(settings, channels=channels)
    return dead_letter_unknown(tb.context.database, tb.context.layout, named)


def test_an_unknown_channel_is_dead_and_logged(
    tb: Tellback, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    known, answered = opened(tb), opened(tb, channel="telegrm", conversation="c2")
    fallback = overdue(tb, channel="forged\nline", conversation="c3")
    for turn in (known, answered):
        turn.respond(HELLO)
    swept(tb)
    assert add_letter(tb, settings, "chat, mail") == 2
    assert [view(tb, turn).delivery for turn in (known, answered, fallback)] == ["waiting", "dead", "dead"]
    assert events(tb, "c2")[-1] == "dead"
    assert "unknown channel" in tb.history("c2")[-1]["error"]
    logged = [line for line in capsys.readouterr().out.splitlines() if "outbox.unknown_channel" in line]
    assert len(logged) == 2, "one line each, whatever the channel is called"
    assert add_letter(tb, settings, "chat, mail") == 0
    assert len(delivered_now(tb)) == 1


def test_one_run_goes_through_a_whole_conversation_of_an_unknown_channel(tb: Tellback, settings: Settings) -> None:
    """It stops at its bound: each delivery of a conversation is the first of it in turn."""
    turns = [opened(tb, channel="telegrm") for _ in range(210)]
    for turn in turns:
        turn.respond(HELLO)
    assert [add_letter(tb, settings, "chat"), add_letter(tb, settings, "chat")] == [200, 10]
    assert {view(tb, turn).delivery for turn in turns} == {"dead"}


def test_without_a_list_of_channels_everything_waits(tb: Tellback, settings: Settings) -> None:
    opened(tb, channel="telegrm").respond(HELLO)
    assert add_letter(tb, settings, " , ") == 0
    assert len(delivered_now(tb, "telegrm")) == 1


def test_the_doctor_sees_what_no_transport_asks_for(tb: Tellback) -> None:
    opened(tb, channel="telegrm").respond(HELLO)
    assert examined(tb.context.database, tb.context.layout).state == "ok", "a transport may be a moment late"
    key = tb.context.layout.of_turn("telegrm", "c1").key("out", "telegrm")
    tb.context.database.command("ZADD", key, tb.context.database.now_ms() - 60_000, "c1")
    finding = examined(tb.context.database, tb.context.layout)
    assert (finding.state, "'telegrm' 1" in finding.found) == ("wrong", True)
    next(iter(tb.outbox("telegrm")))
    assert examined(tb.context.database, tb.context.layout).state == "ok", "a transport asks"
