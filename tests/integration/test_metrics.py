"""`tellback metrics`: every figure is what happened, and nothing of a user's text is a label."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from tellback import OutgoingResponse, RoutingOutcome, Tellback, connect
from tellback.cli.app import app
from tellback.cli.metrics_collector import render_metrics
from tellback.settings import Settings
from tellback.state.guidance_stats import read_stats
from tellback.state.keys import guidestats_of
from tellback.state.redis_py import RedisConnections
from tellback.state.script_calls import Command
from tests.support.deliveries import answered, first
from tests.support.redis_server import RedisServer, free_port
from tests.support.turns import HELLO, SENT, deadline_passes, delivered_now, opened, overdue, store, swept, view
from tests.support.waiting import wait_until

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, outbox_retry=0.05, outbox_attempts=2, outbox_hold=60.0)


def parsed(text: str) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def samples(tb: Tellback) -> Samples:
    return parsed(render_metrics(tb))


def value(found: Samples, name: str, **labels: str) -> float:
    return found[f"tellback_{name}", tuple(sorted(labels.items()))]


def events(tb: Tellback) -> dict[str, float]:
    """Return the counts of the events of turns that occurred."""
    return {
        dict(labels)["event"]: count
        for (name, labels), count in samples(tb).items()
        if name == "tellback_turn_events_total" and count
    }


def test_nothing_yet_is_zero_everywhere(tb: Tellback) -> None:
    found = samples(tb)
    assert value(found, "up") == 1
    assert value(found, "turns_open") == value(found, "turns_overdue") == value(found, "sweep_lag_seconds") == 0
    assert value(found, "turn_events_total", event="fallback") == 0
    assert value(found, "turn_first_answer_seconds_count", kind="answer") == 0


@pytest.mark.parametrize("stored", [b"by hand", b"1.5", b"\xff"])
def test_a_counter_that_is_no_number_hides_no_other(tb: Tellback, stored: bytes) -> None:
    database, shards = tb.context.database, tb.context.layout.all
    today = guidestats_of(shards[0], database.now_ms())
    for key, name in ((shards[0].key("cmdstats"), "failed"), (shards[0].key("sigstats"), "positive"), (today, "lines")):
        database.command("HSET", key, name, stored)
    database.command("HSET", today, b"\xff", 1, "since", stored)
    database.command("HSET", shards[-1].key("cmdstats"), "failed", 2)
    assert value(samples(tb), "command_records_total", outcome="failed") == 2
    assert read_stats(database, tb.context.layout) == []
    database.command("DEL", today)


def test_a_counter_of_a_newer_release_hides_no_other(tb: Tellback) -> None:
    opened(tb)
    database, layout = tb.context.database, tb.context.layout
    database.command("HSET", layout.shard(0).key("turnstats"), "rating:good", 5, "answer:", 1, "plain", 2)
    assert events(tb)["opened"] == 1


def test_turns_are_counted_by_what_became_of_them(tb: Tellback) -> None:
    opened(tb).respond(HELLO)
    opened(tb, message_id="same")
    opened(tb, message_id="same").no_reply(reason="a duplicate is one turn")
    replaced, late, waits = overdue(tb), overdue(tb, conversation="c2"), opened(tb, conversation="c3")
    found = samples(tb)
    assert (value(found, "turns_open"), value(found, "turns_overdue")) == (3, 2)
    assert 0 < value(found, "sweep_lag_seconds") < 60
    assert swept(tb) == 2
    assert replaced.respond(HELLO) == "replaced"
    delivered_now(tb)
    assert late.respond(HELLO) == "late"
    waits.hand_over(to="host-2")
    found = samples(tb)
    assert (value(found, "turns_open"), value(found, "turns_overdue"), value(found, "sweep_lag_seconds")) == (1, 0, 0)
    assert events(tb) == {
        "opened": 5,
        "answered": 1,
        "no_reply": 1,
        "fallback": 2,
        "replaced": 1,
        "late": 1,
        "handed_over": 1,
    }


def test_the_time_to_the_first_answer_is_a_histogram(tb: Tellback) -> None:
    for seconds_ago, answer in ((0.2, True), (4.0, True), (7_200.0, True), (50.0, False)):
        turn = opened(tb)
        key = store(tb).shard(turn.id).key("turn", turn.id)
        at = tb.context.database.now_ms() - round(seconds_ago * 1000)
        tb.context.database.command("HSET", key, "opened_at", at)
        if answer:
            assert turn.respond(HELLO) == "accepted"
        else:
            deadline_passes(tb, turn)
    assert swept(tb) == 1
    found = samples(tb)
    answers = {bound: value(found, "turn_first_answer_seconds_bucket", kind="answer", le=bound) for bound in _BOUNDS}
    assert answers == {"0.1": 0, "0.25": 1, "5.0": 2, "3600.0": 2, "+Inf": 3}
    assert value(found, "turn_first_answer_seconds_count", kind="answer") == 3
    assert value(found, "turn_first_answer_seconds_sum", kind="answer") == pytest.approx(7_204.2, abs=5)
    assert value(found, "turn_first_answer_seconds_bucket", kind="fallback", le="60.0") == 1
    assert value(found, "turn_fallback_delay_seconds_count") == 1


_BOUNDS = ("0.1", "0.25", "5.0", "3600.0", "+Inf")


def test_an_auto_turn_has_no_time_to_an_answer(tb: Tellback) -> None:
    assert opened(tb, metadata={"auto.mode": True}).respond(HELLO) == "accepted"
    assert value(samples(tb), "turn_first_answer_seconds_count", kind="answer") == 0


def test_deliveries_are_counted_by_channel_and_settlement(tb: Tellback) -> None:
    for number in range(3):
        answered(tb, str(number))
    answered(tb, "other", conversation="c2")
    found = samples(tb)
    depth = [value(found, f"outbox_{name}", channel="chat") for name in ("conversations", "deliveries", "ambiguous")]
    assert depth == [2, 4, 0]
    outcomes = (
        RoutingOutcome(attempted=False),
        RoutingOutcome(attempted=True),
        SENT,
        RoutingOutcome(attempted=True, permanent=True),
        RoutingOutcome(attempted=True, ambiguous=True),
    )
    for outcome in outcomes:
        delivery = wait_until(
            lambda: next((item for item in tb.outbox("chat") if item.conversation == "c1"), None), "it may be taken"
        )
        assert delivery is not None
        delivery.settle(outcome)
    found = samples(tb)
    settled = {
        event: value(found, "outbox_events_total", channel="chat", event=event)
        for event in ("wait", "retry", "delivered", "dead", "ambiguous")
    }
    assert settled == dict.fromkeys(settled, 1)
    assert value(found, "outbox_ambiguous", channel="chat") == 1
    assert 0 <= value(found, "outbox_unpolled_seconds", channel="chat") < 60


def test_a_channel_that_no_transport_asks_for_is_seen_to_wait(tb: Tellback) -> None:
    answered(tb, "1")
    found = samples(tb)
    assert ("tellback_outbox_unpolled_seconds", (("channel", "chat"),)) not in found
    wait_until(lambda: value(samples(tb), "outbox_wait_seconds", channel="chat") > 0, "it waits")


def test_channels_do_not_multiply_labels(tb: Tellback) -> None:
    for number in range(150):
        _in_channel(tb, f"channel-{number}")
    found = samples(tb)
    channels = {dict(labels).get("channel") for name, labels in found if name == "tellback_outbox_deliveries"}
    assert len(channels) == 101
    assert "other" in channels
    assert sum(count for (name, _), count in found.items() if name == "tellback_outbox_deliveries") == 150


def _in_channel(tb: Tellback, channel: str) -> None:
    opened(tb, channel=channel).respond(OutgoingResponse.text_only("hello"))


def test_channels_of_one_label_are_counted_together(tb: Tellback) -> None:
    """The one used last alone was counted."""
    for number in range(3):
        _in_channel(tb, f"{'c' * 80}{number}")
    assert value(samples(tb), "outbox_deliveries", channel="c" * 64) == 3


def test_a_scrape_costs_no_round_trip_for_each_channel(tb: Tellback, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each took three: with 1,000 of them and a millisecond to Redis, a scrape took three seconds."""
    run_all, calls = RedisConnections.run_all, list[int]()

    def counted(self: RedisConnections, commands: Sequence[Command], *, repeat: bool = True) -> list[Any]:
        calls.append(len(commands))
        return run_all(self, commands, repeat=repeat)

    def round_trips() -> int:
        calls.clear()
        samples(tb)
        return len(calls)

    _in_channel(tb, "first")
    monkeypatch.setattr(RedisConnections, "run_all", counted)
    one = round_trips()
    for number in range(50):
        _in_channel(tb, f"channel-{number}")
    assert round_trips() == one


def test_counters_are_bounded_whatever_channels_are_called(tb: Tellback) -> None:
    for number in range(600):
        _in_channel(tb, f"c:{number}")
        for delivery in tb.outbox(f"c:{number}"):
            delivery.settle(SENT)
    found = samples(tb)
    sent = {labels: count for (name, labels), count in found.items() if name == "tellback_outbox_events_total"}
    assert sum(sent.values()) == 600
    assert value(found, "outbox_events_total", channel="other", event="delivered") > 0
    for shard in tb.context.layout.all:
        assert tb.context.database.command("HLEN", shard.key("turnstats")) <= 230


def test_no_text_of_a_user_is_in_the_metrics(tb: Tellback) -> None:
    turn = opened(tb, text="my password is hunter2", conversation="secret-conversation")
    turn.respond(OutgoingResponse.text_only("sk-live-hunter2"))
    text = render_metrics(tb)
    assert not [word for word in ("hunter2", "secret-conversation", turn.id) if word in text]
    assert view(tb, turn).state == "responded"


def test_the_command_prints_what_the_parser_reads(tb: Tellback, settings: Settings) -> None:
    opened(tb)
    done = CliRunner().invoke(app, ["metrics", "--redis-url", settings.redis_url])
    assert done.exit_code == 0, done.output
    assert value(parsed(done.stdout), "turns_open") == 1


def test_the_command_serves_and_ends_on_sigterm(tb: Tellback, settings: Settings) -> None:
    port = free_port()
    command = [str(Path(sys.executable).with_name("tellback")), "metrics", "--serve", str(port)]
    command += ["--redis-url", settings.redis_url]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=dict(os.environ)) as running:
        assert running.stderr is not None
        assert running.stderr.readline() == f"serving metrics at http://127.0.0.1:{port}/metrics\n"
        answered(tb, "1")
        assert first(tb).settle(SENT) == "delivered"
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            found = parsed(answer.read().decode())
        assert value(found, "outbox_events_total", channel="chat", event="delivered") == 1
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 0


def test_a_redis_that_is_away_is_a_figure_too(tmp_path: Path) -> None:
    with RedisServer.start(tmp_path) as server:
        tb = connect(settings=Settings(redis_url=server.url, data_dir=str(tmp_path / "data")))
        assert value(samples(tb), "up") == 1
        server.kill()
        assert samples(tb) == {("tellback_up", ()): 0}
        tb.close()


def test_why_redis_is_away_is_said_beside_the_figure(tmp_path: Path) -> None:
    """A wrong address or password ended with 0 and without a word."""
    env = {"TELLBACK_DATA_DIR": str(tmp_path)}
    done = CliRunner().invoke(app, ["metrics", "--redis-url", "redis://127.0.0.1:1/0"], env=env)
    assert (done.exit_code, "tellback_up 0.0" in done.stdout) == (1, True)
    assert "Can't reach Redis at 127.0.0.1:1 (connection refused)" in done.stderr
