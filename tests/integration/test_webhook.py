"""The webhook transport against a real HTTP server that behaves badly in every way."""

from __future__ import annotations

import logging
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tellback import InvalidInput, Tellback
from tellback.errors import ConfigurationError
from tellback.settings import Settings
from tellback.transports import WebhookTransport, verify
from tellback.transports.http_post import MAX_RESPONSE_BYTES, NotSent, post_request
from tests.support.deliveries import answered, first, round_of
from tests.support.http_server import (
    Behaviour,
    HttpServer,
    byte_by_byte,
    endless,
    garbage,
    http_server,
    reply,
    reset,
    silent,
)
from tests.support.redis_server import free_port
from tests.support.tls import make_certificate
from tests.support.turns import SENT, view
from tests.support.waiting import wait_until

SECRET = "a secret that both sides know"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Short delays, few attempts; an ambiguous delivery holds its conversation for as long as a test may take."""
    return msgspec.structs.replace(settings, outbox_retry=0.05, outbox_attempts=3, outbox_hold=60.0)


@pytest.fixture
def server() -> Iterator[HttpServer]:
    with http_server(reply(204)) as found:
        yield found


@pytest.fixture
def webhook(server: HttpServer) -> WebhookTransport:
    return WebhookTransport(f"{server.url}/hook?to=x", SECRET, timeout=30.0)


def test_a_delivery_is_posted_once_signed_and_whole(
    tb: Tellback, server: HttpServer, webhook: WebhookTransport
) -> None:
    turn = answered(tb, "héllo", voice="hello", attachments=("https://example.org/a.png",), reply_to="42")
    assert round_of(tb, webhook) == ["delivered"]
    [request] = server.requests
    message = verify(request.body, request.headers, SECRET)
    assert (request.method, request.path, request.headers["Content-Type"]) == (
        "POST",
        "/hook?to=x",
        "application/json",
    )
    assert (message.turn, message.channel, message.conversation, message.kind, message.attempt) == (
        turn,
        "chat",
        "c1",
        "answer",
        1,
    )
    assert (message.response.text, message.response.reply_to) == ("héllo", "42")
    assert request.headers["Idempotency-Key"] == message.idempotency_key == f"{turn}:first"
    outcome = view(tb, turn).outcome
    assert outcome is not None
    assert (msgspec.json.decode(outcome)["sent_voice"], msgspec.json.decode(outcome)["sent_attachments"]) == (True, 1)


CASES: dict[str, tuple[Behaviour, str, int]] = {
    "200": (reply(200, b"ok"), "delivered", 1),
    "200 without end": (endless(200), "delivered", 1),
    "302": (reply(302, Location="/elsewhere"), "retry", 0),
    "308": (reply(308, Location="http://127.0.0.1:1/"), "retry", 0),
    "401": (reply(401), "retry", 0),
    "404": (reply(404), "retry", 0),
    "429": (reply(429), "retry", 0),
    "503": (reply(503), "retry", 0),
    "408": (reply(408), "retry", 1),
    "500": (reply(500), "retry", 1),
    "500 without end": (endless(500), "retry", 1),
    "400": (reply(400), "dead", 1),
    "410": (reply(410), "dead", 1),
    "502": (reply(502), "ambiguous", 1),
    "504": (reply(504), "ambiguous", 1),
    "silent": (silent, "ambiguous", 1),
    "reset": (reset, "ambiguous", 1),
    "byte by byte": (byte_by_byte, "ambiguous", 1),
    "garbage": (garbage, "ambiguous", 1),
}
"""The act of a receiver, how the delivery is settled, and how many attempts that spent."""


@pytest.mark.parametrize("case", CASES)
def test_each_reply_is_settled_as_documented(
    tb: Tellback,
    server: HttpServer,
    webhook: WebhookTransport,
    case: str,
) -> None:
    behaviour, settled, attempts_spent = CASES[case]
    turn = answered(tb, "1")
    server.then(behaviour)
    if behaviour in {silent, byte_by_byte}:  # the others answer, if only after a while
        webhook = WebhookTransport(server.url, SECRET, timeout=0.5)
    begun = time.monotonic()
    delivery = first(tb)
    assert delivery.settle(webhook.send(delivery)) == settled
    assert time.monotonic() - begun < 30, "a peer cannot hold a transport for longer than its timeout"
    assert len(server.requests) == 1, "nothing is followed, and nothing sent twice"
    if settled == "retry":
        again = first(tb)
        assert (again.turn_id, again.attempt) == (turn, attempts_spent + 1)
    else:
        assert view(tb, turn).delivery == settled


@pytest.mark.parametrize("behaviour", [silent, reset, reply(504)], ids=["silent", "reset", "504"])
def test_a_receiver_that_removes_duplicates_gets_what_nobody_knows_again_with_the_same_key(
    tb: Tellback, server: HttpServer, behaviour: Behaviour
) -> None:
    webhook = WebhookTransport(server.url, SECRET, timeout=2.0, deduplicates=True)  # the second reply has to come
    turn = answered(tb, "1")
    server.then(behaviour)
    assert round_of(tb, webhook, most=2) == ["retry", "delivered"]
    one, two = server.requests
    assert one.headers["Idempotency-Key"] == two.headers["Idempotency-Key"] == f"{turn}:first"
    assert [verify(each.body, each.headers, SECRET).attempt for each in (one, two)] == [1, 2]


def test_a_receiver_that_is_down_costs_no_attempts_and_order_holds(tb: Tellback) -> None:
    turns = [answered(tb, str(number)) for number in range(3)]
    port = free_port()
    down = WebhookTransport(f"http://127.0.0.1:{port}", SECRET, timeout=1.0)
    for _ in range(4):
        delivery = first(tb)
        assert (delivery.turn_id, delivery.attempt) == (turns[0], 1), "refused connections are no attempts"
        assert delivery.settle(down.send(delivery)) == "retry"
    with http_server(reply(204)) as server:
        assert round_of(tb, WebhookTransport(server.url, SECRET), most=3) == ["delivered"] * 3
        assert [request.json["turn"] for request in server.requests] == turns


def test_an_error_once_delays_only_its_own_conversation(
    tb: Tellback, server: HttpServer, webhook: WebhookTransport
) -> None:
    one, two, other = answered(tb, "1"), answered(tb, "2"), answered(tb, "other", conversation="c2")
    server.then(reply(500))
    assert sorted(round_of(tb, webhook, most=4)) == ["delivered", "delivered", "delivered", "retry"]
    order = [request.json["turn"] for request in server.requests]
    assert order.count(one) == 2
    assert [turn for turn in order if turn != other] == [one, one, two], "in order within the conversation"


def test_an_ambiguous_one_holds_its_conversation_and_is_shown(
    tb: Tellback, server: HttpServer, webhook: WebhookTransport
) -> None:
    one, _two, other = answered(tb, "1"), answered(tb, "2"), answered(tb, "other", conversation="c2")
    server.then(reset)
    delivery = first(tb)
    assert delivery.turn_id == one
    assert delivery.settle(webhook.send(delivery)) == "ambiguous"
    assert round_of(tb, webhook) == ["delivered"]
    assert [request.json["turn"] for request in server.requests] == [one, other]


def test_retry_after_is_honoured(tb: Tellback, server: HttpServer, webhook: WebhookTransport) -> None:
    answered(tb, "1")
    server.then(reply(503, Retry_After="3600"))
    delivery = first(tb)
    outcome = webhook.send(delivery)
    assert outcome.retry_after == 3600
    assert delivery.settle(outcome) == "retry"
    assert list(tb.outbox("chat", wait=0.5)) == [], "without it, it would come after 0.05 s"


@pytest.mark.parametrize(
    "value",
    ["soon", "-1", "9" * 400, "Wed, 21 Oct 2015 07:28:00 GMT", f"Wed, 21 Oct {'9' * 11} 07:28:00 GMT", "١٢"],
)
def test_a_senseless_retry_after_does_no_harm(
    tb: Tellback, server: HttpServer, webhook: WebhookTransport, value: str
) -> None:
    answered(tb, "1")
    server.then(
        lambda sock, _request, _ended: sock.sendall(f"HTTP/1.1 503 No\r\nRetry-After: {value}\r\n\r\n".encode())
    )
    delivery = first(tb)
    assert delivery.settle(webhook.send(delivery)) == "retry"


def test_no_secret_reaches_errors_or_logs(
    tb: Tellback, server: HttpServer, webhook: WebhookTransport, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    turn = answered(tb, "1")
    for behaviour in (reply(500, SECRET.encode()), reset):
        server.then(behaviour)
        delivery = first(tb)
        delivery.settle(webhook.send(delivery))
    kept = f"{view(tb, turn).outcome}{tb.history('c1')}{caplog.text}{webhook!r}"
    assert SECRET not in kept
    assert SECRET not in str([request.headers for request in server.requests])


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/",
        "ftp://example.org/",
        "https://",
        "/hook",
        "https://user:password@example.org/",
        "https://example.org:99999/",
        "https://example.org/a b",
        "https://exämple.org/",
        "https://example.org/\r\nX-Evil: 1",
        "",
    ],
)
def test_an_url_that_would_leak_or_fail_is_refused_at_once(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^url:") as caught:
        WebhookTransport(url, SECRET)
    assert "password@" not in str(caught.value)


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"^secret:") as caught:
        WebhookTransport("https://example.org/", "hunter2")
    assert "hunter2" not in str(caught.value)


def test_certificates_are_verified(tb: Tellback, tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.made, certificate.key)
    answered(tb, "1")
    with http_server(reply(204), lambda sock: context.wrap_socket(sock, server_side=True)) as server:
        delivery = first(tb)
        outcome = WebhookTransport(server.url, SECRET).send(delivery)
        assert (outcome.attempted, outcome.error) == (False, "the certificate was refused: self-signed certificate")
        assert server.requests == [], "nothing was said to whom we do not know"
        trusting = ssl.create_default_context(cafile=str(certificate.made))
        assert WebhookTransport(server.url, SECRET, tls=trusting).send(delivery) == SENT
        server.then(byte_by_byte)
        begun = time.monotonic()
        assert WebhookTransport(server.url, SECRET, tls=trusting, timeout=0.5).send(delivery).ambiguous
        assert time.monotonic() - begun < 30


def test_nothing_is_sent_after_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requirement A-483. A look-up of the host that takes longer than a lease left the message to two transports."""
    find = socket.getaddrinfo

    def slow_find(*asked: Any, **how: Any) -> Any:
        end = time.monotonic() + 0.1
        wait_until(lambda: time.monotonic() > end, "the deadline is over")
        return find(*asked, **how)

    monkeypatch.setattr(socket, "getaddrinfo", slow_find)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        for _ in range(10):
            with pytest.raises(NotSent):
                post_request(url, b"{}", {}, timeout=0.05)
            with listener.accept()[0] as connection:
                assert connection.recv(1) == b""


def test_of_a_reply_without_end_little_is_read(server: HttpServer) -> None:
    server.then(endless(500))
    assert len(post_request(server.url, b"{}", {}, timeout=5.0).body) == MAX_RESPONSE_BYTES, (
        "read, and no more waited for"
    )
