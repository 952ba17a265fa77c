"""The loop of a transport, and the reference transports as processes."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import msgspec
import pytest

from tellback import OutboxDelivery, RoutingOutcome, Tellback, connect
from tellback.client import outbox
from tellback.errors import ConfigurationError
from tellback.settings import Settings
from tellback.state.outbox import Outbox
from tellback.transports import PrintTransport, WebhookTransport, serve, verify
from tellback.transports.__main__ import main
from tests.support.deliveries import answered, first, round_of
from tests.support.http_server import http_server, reply, silent
from tests.support.redis_server import RedisServer
from tests.support.turns import SENT, sent, view
from tests.support.waiting import wait_until

SECRET = "a secret that both sides know"


@contextmanager
def process(settings: Settings, *arguments: str, **environ: str) -> Generator[subprocess.Popen[str]]:
    """`python -m tellback.transports`, killed at the end if it still runs."""
    running = subprocess.Popen(
        [sys.executable, "-m", "tellback.transports", *arguments, "--channel", "chat"],
        env={**os.environ, "TELLBACK_REDIS_URL": settings.redis_url, "TELLBACK_OUTBOX_RETRY": "0.05", **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield running
    finally:
        running.kill()
        running.communicate()


def ended(running: subprocess.Popen[str], number: int = signal.SIGTERM) -> tuple[int, str, str]:
    running.send_signal(number)
    out, err = running.communicate(timeout=60)
    return running.returncode, out, err


def test_print_prints_what_a_terminal_can_take(tb: Tellback) -> None:
    answered(tb, "héllo\n\x1b[2Jgone", voice="spoken", attachments=("https://example.org/a.png",))
    out = io.StringIO()
    assert round_of(tb, PrintTransport(out)) == ["delivered"]
    assert out.getvalue() == (
        "chat c1 answer: héllo\n\\x1b[2Jgone\n  voice: spoken\n  attachment: https://example.org/a.png\n"
    )


def test_what_is_returned_and_no_outcome_counts_as_ambiguous(tb: Tellback) -> None:
    """It may have sent: to let it come again would be to send it eight times."""
    stop, taken = threading.Event(), list[str]()

    class Forgets:
        longest = 0.0

        def send(self, delivery: OutboxDelivery) -> Any:
            taken.append(delivery.idempotency_key)
            stop.set()

    turn = answered(tb, "1")
    serve(tb, "chat", Forgets(), stop=stop)
    assert len(taken) == 1
    assert view(tb, turn).delivery == "ambiguous"


def test_an_idle_transport_notes_its_polls_at_times_only(tb: Tellback, monkeypatch: pytest.MonkeyPatch) -> None:
    """It noted one in each half a second: three more writes to Redis, beside two reads."""
    stop, polls, notes = threading.Event(), list[str](), list[str]()

    def has_ready(_store: Outbox, channel: str) -> bool:
        polls.append(channel)
        if len(polls) == 8:
            stop.set()
        return False

    def note_polled(_store: Outbox, channel: str) -> None:
        notes.append(channel)

    monkeypatch.setattr(outbox, "POLLED_NOTE_SECONDS", 1e9)
    monkeypatch.setattr(Outbox, "note_polled", note_polled)
    monkeypatch.setattr(Outbox, "has_ready", has_ready)
    serve(tb, "chat", PrintTransport(), stop=stop)
    assert (len(polls), notes) == (8, ["chat"])


def test_what_one_thread_cannot_go_on_from_ends_the_process(settings: Settings) -> None:
    """A supervisor starts it again; nobody notices one with fewer threads, or one that ends as if all were well."""
    longer = ("webhook", "--url", "http://127.0.0.1:1", "--timeout", "30", "--threads", "2")
    with process(settings, *longer, TELLBACK_WEBHOOK_SECRET=SECRET, TELLBACK_OUTBOX_LEASE="10") as running:
        assert running.wait(60) == 2
        assert "TELLBACK_OUTBOX_LEASE" in running.communicate()[1]


def test_print_into_what_is_closed_waits(tb: Tellback) -> None:
    answered(tb, "1")
    out = io.StringIO()
    out.close()
    outcome = PrintTransport(out).send(first(tb))
    assert (outcome.attempted, outcome.settlement) == (False, "retry")


def test_the_printing_process_prints_and_ends_on_sigterm(tb: Tellback, settings: Settings) -> None:
    turns = [answered(tb, str(number)) for number in range(3)]
    with process(settings, "print") as running:
        wait_until(lambda: all(view(tb, turn).delivery == "delivered" for turn in turns), "all are sent")
        code, out, err = ended(running)
    assert (code, out, err) == (0, "".join(f"chat c1 answer: {number}\n" for number in range(3)), "")


def test_sigterm_finishes_the_one_in_hand_and_takes_no_other(tb: Tellback, settings: Settings) -> None:
    go = threading.Event()
    with (
        http_server(lambda sock, request, over: (go.wait(60), reply(204)(sock, request, over))[1]) as server,
        process(settings, "webhook", "--url", server.url, "--timeout", "30", TELLBACK_WEBHOOK_SECRET=SECRET) as running,
    ):
        in_hand, waits = answered(tb, "1"), answered(tb, "2")
        wait_until(lambda: server.requests, "the first is on its way")
        running.send_signal(signal.SIGTERM)
        go.set()
        assert running.wait(60) == 0
        assert view(tb, in_hand).delivery == "delivered"
        assert len(server.requests) == 1
    assert [(turn, kind) for turn, kind, _ in sent(tb)] == [(waits, "answer")], "at once: nobody holds its lease"


def test_a_killed_transport_loses_nothing_and_the_key_stays(tb: Tellback, settings: Settings) -> None:
    arguments = ("webhook", "--url")
    environ = {"TELLBACK_WEBHOOK_SECRET": SECRET, "TELLBACK_OUTBOX_LEASE": "11"}
    with http_server(reply(204)) as server:
        server.then(silent)
        turn = answered(tb, "1")
        with process(settings, *arguments, server.url, **environ) as running:
            wait_until(lambda: server.requests, "it is on its way")
            running.kill()
            running.wait()
        assert view(tb, turn).delivery == "sending"
        tb.context.database.command("ZADD", *_lease(tb), 1, "c1")  # its lease ends
        with process(settings, *arguments, server.url, **environ):
            wait_until(lambda: view(tb, turn).delivery == "delivered", "it comes again")
        messages = [verify(request.body, request.headers, SECRET) for request in server.requests]
    assert [message.attempt for message in messages] == [1, 2]
    assert len({message.idempotency_key for message in messages}) == 1


def _lease(tb: Tellback) -> tuple[str, str]:
    return tb.context.layout.of_turn("chat", "c1").key("out", "chat"), "XX"


@pytest.mark.parametrize(
    ("arguments", "environ", "said"),
    [
        (("webhook", "--url", "https://example.org/"), {}, "TELLBACK_WEBHOOK_SECRET"),
        (("telegram",), {}, "TELLBACK_TELEGRAM_TOKEN"),
        (("webhook", "--url", "http://example.org/"), {"TELLBACK_WEBHOOK_SECRET": SECRET}, "url:"),
        (("telegram", "--timeout", "20"), {"TELLBACK_TELEGRAM_TOKEN": "1:a", "TELLBACK_OUTBOX_LEASE": "5"}, "LEASE"),
        (("print", "--threads", "0"), {}, "1 to 64"),
    ],
    ids=["no secret", "no token", "plain http", "a short lease", "no threads"],
)
def test_what_cannot_work_is_said_at_once(
    tb: Tellback, settings: Settings, arguments: tuple[str, ...], environ: dict[str, str], said: str,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    del tb
    for name, value in {"TELLBACK_REDIS_URL": settings.redis_url, **environ}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(signal, "signal", mock.Mock())  # the handlers of the test's process stay
    with pytest.raises(SystemExit) as ended_with:
        sys.exit(main([*arguments, "--channel", "chat"]))
    err = capsys.readouterr().err
    assert ended_with.value.code == 2
    assert said in err
    assert SECRET not in err


class BreaksMidway:
    """A transport that raises in the middle of a delivery."""

    longest = 1.0

    def send(self, delivery: OutboxDelivery) -> RoutingOutcome:
        raise RuntimeError(f"secret {delivery.response.text}")


class Stops:
    """Sends a given number, then has the loop stopped."""

    longest = 1.0

    def __init__(self, stop: threading.Event, most: int) -> None:
        self.stop, self.left, self.sent = stop, most, list[OutboxDelivery]()

    def send(self, delivery: OutboxDelivery) -> RoutingOutcome:
        self.sent.append(delivery)
        self.left -= 1
        if not self.left:
            self.stop.set()
        return SENT


def test_a_transport_that_raises_is_ambiguous_and_leaks_nothing(tb: Tellback, caplog: pytest.LogCaptureFixture) -> None:
    turn, stop = answered(tb, "hunter2"), threading.Event()
    serving = threading.Thread(target=serve, args=(tb, "chat", BreaksMidway()), kwargs={"stop": stop})
    serving.start()
    wait_until(lambda: view(tb, turn).delivery == "ambiguous", "it is settled")
    stop.set()
    serving.join(60)
    assert not serving.is_alive()
    assert "hunter2" not in caplog.text
    assert "RuntimeError" in caplog.text


def test_a_delivery_that_may_outlast_its_lease_is_refused(tb: Tellback) -> None:
    webhook = WebhookTransport("https://example.org/", SECRET, timeout=60.0)
    with pytest.raises(ConfigurationError, match="TELLBACK_OUTBOX_LEASE"):
        serve(tb, "chat", webhook, stop=threading.Event())


@pytest.mark.slow
def test_serving_goes_on_over_a_restart_of_redis_and_keeps_the_outcome(
    redis_server: RedisServer, tb: Tellback, settings: Settings
) -> None:
    one, two = answered(tb, "1"), answered(tb, "2")
    stop = threading.Event()

    class Restarts(Stops):
        def send(self, delivery: OutboxDelivery) -> RoutingOutcome:
            if not self.sent:
                redis_server.kill()
                threading.Timer(1.0, redis_server.restart).start()
            return super().send(delivery)

    transport = Restarts(stop, 2)
    with connect(settings=msgspec.structs.replace(settings, outbox_retry=0.05)) as client:
        serve(client, "chat", transport, stop=stop)
    assert [(item.turn_id, item.attempt) for item in transport.sent] == [(one, 1), (two, 1)], "nothing is sent twice"
    assert [view(tb, turn).delivery for turn in (one, two)] == ["delivered", "delivered"]
