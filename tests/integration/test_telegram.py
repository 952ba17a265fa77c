"""The bot API transport against a local fake of its HTTP interface."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tellback import OutgoingResponse, RoutingOutcome, Tellback
from tellback.errors import ConfigurationError
from tellback.settings import Settings
from tellback.transports import TelegramTransport
from tests.support.deliveries import answered, first, round_of
from tests.support.http_server import Behaviour, HttpServer, http_server, reply, reset, silent
from tests.support.redis_server import free_port
from tests.support.turns import deadline_passes, opened, swept, view

TOKEN = "123456789:AAF-invented_token_of_a_test_0123456"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Short delays, few attempts."""
    return msgspec.structs.replace(settings, outbox_retry=0.05, outbox_attempts=3, outbox_hold=60.0)


def ok() -> Behaviour:
    return reply(200, {"ok": True, "result": {"message_id": 1}})


def refused(status: int, description: str, **parameters: Any) -> Behaviour:
    return reply(status, {"ok": False, "error_code": status, "description": description, "parameters": parameters})


@pytest.fixture
def api() -> Iterator[HttpServer]:
    with http_server(ok()) as found:
        yield found


@pytest.fixture
def bot(api: HttpServer) -> TelegramTransport:
    return TelegramTransport(TOKEN, api=api.url, timeout=30.0, longest=240.0)


def calls(api: HttpServer) -> list[tuple[str, Any]]:
    """Method and fields of each call; every one carries the token in its path, as this API wants it."""
    assert all(request.path.startswith(f"/bot{TOKEN}/") for request in api.requests)
    return [(request.path.rpartition("/")[2], request.json) for request in api.requests]


def test_a_text_is_a_message(tb: Tellback, api: HttpServer, bot: TelegramTransport) -> None:
    answered(tb, "héllo <b>&", conversation="-100123")
    assert round_of(tb, bot) == ["delivered"]
    assert calls(api) == [("sendMessage", {"chat_id": "-100123", "text": "héllo <b>&"})]


def test_an_attachment_that_is_no_url_keeps_no_text_from_counting_as_delivered(
    tb: Tellback, api: HttpServer, bot: TelegramTransport
) -> None:
    """To look at its path raised ValueError after the text was sent, and the delivery ended as ambiguous."""
    turn = opened(tb)
    turn.respond(OutgoingResponse(text="hello", attachments=("http://[half/an/address.png",)))
    assert round_of(tb, bot) == ["delivered"]
    assert [method for method, _ in calls(api)] == ["sendMessage", "sendPhoto"]


def test_a_long_text_goes_in_parts_and_refers_to_the_message_once(
    tb: Tellback, api: HttpServer, bot: TelegramTransport
) -> None:
    text = "word " * 1_000 + "😀" * 3_000
    turn = answered(tb, text, reply_to="77")
    assert round_of(tb, bot) == ["delivered"]
    sent = [fields for _, fields in calls(api)]
    assert "".join(fields["text"] for fields in sent) == text
    assert all(len(fields["text"].encode("utf-16-le")) <= 2 * 4096 for fields in sent)
    assert [fields.get("reply_parameters") for fields in sent] == [
        {"message_id": 77, "allow_sending_without_reply": True},
        None,
        None,
    ]
    assert view(tb, turn).delivery == "delivered"


def test_a_late_answer_is_a_reply_to_the_users_message(tb: Tellback, api: HttpServer, bot: TelegramTransport) -> None:
    turn = opened(tb, message_id="4711")
    deadline_passes(tb, turn)
    swept(tb)
    assert round_of(tb, bot) == ["delivered"]
    answered_late = turn.respond(OutgoingResponse.text_only("at last"))
    assert answered_late == "late"
    assert round_of(tb, bot) == ["delivered"]
    assert [fields.get("reply_parameters", {}).get("message_id") for _, fields in calls(api)] == [None, 4711]


def test_attachments_are_photos_or_documents(tb: Tellback, api: HttpServer, bot: TelegramTransport) -> None:
    references = ("https://example.org/a.PNG?x=1", "https://example.org/b.pdf", "AgACAgIAAxkBAAI")
    turn = answered(tb, None, attachments=references)
    assert round_of(tb, bot) == ["delivered"]
    assert calls(api) == [
        ("sendPhoto", {"chat_id": "c1", "photo": references[0]}),
        ("sendDocument", {"chat_id": "c1", "document": references[1]}),
        ("sendDocument", {"chat_id": "c1", "document": references[2]}),
    ]
    outcome = msgspec.json.decode(view(tb, turn).outcome or "", type=RoutingOutcome)
    assert (outcome.sent_text, outcome.sent_attachments) == (False, 3)


@pytest.mark.parametrize("reference", ["/etc/passwd", "file:///etc/passwd", "../secret"])
def test_no_file_of_this_host_is_sent(tb: Tellback, api: HttpServer, bot: TelegramTransport, reference: str) -> None:
    answered(tb, None, attachments=(reference,))
    assert round_of(tb, bot) == ["dead"]
    assert api.requests == []


def test_voice_is_spoken_where_there_is_a_voice_and_else_written(tb: Tellback, api: HttpServer) -> None:
    answered(tb, None, voice="good morning")
    assert round_of(tb, TelegramTransport(TOKEN, api=api.url)) == ["delivered"]
    assert calls(api) == [("sendMessage", {"chat_id": "c1", "text": "good morning"})]
    answered(tb, "read me", voice="hear me", reply_to="5")
    speaking = TelegramTransport(TOKEN, api=api.url, speak=lambda words: b"OggS\r\n--" + words.encode())
    assert round_of(tb, speaking) == ["delivered"]
    text, voice = api.requests[1:]
    assert text.json["text"] == "read me"
    assert voice.path.endswith("/sendVoice")
    assert voice.headers["Content-Type"].startswith("multipart/form-data; boundary=")
    assert b'name="chat_id"\r\n\r\nc1\r\n' in voice.body
    assert b'filename="voice.ogg"\r\nContent-Type: audio/ogg\r\n\r\nOggS\r\n--hear me\r\n--' in voice.body


def test_a_voice_that_fails_leaves_the_words(tb: Tellback, api: HttpServer) -> None:
    def hoarse(_words: str) -> bytes:
        raise RuntimeError("no voice")

    answered(tb, None, voice="good morning")
    assert round_of(tb, TelegramTransport(TOKEN, api=api.url, speak=hoarse)) == ["delivered"]
    assert calls(api) == [("sendMessage", {"chat_id": "c1", "text": "good morning"})]


CASES: dict[str, tuple[Behaviour, str, int]] = {
    "400": (refused(400, "Bad Request: chat not found"), "dead", 1),
    "403": (refused(403, "Forbidden: bot was blocked by the user"), "dead", 1),
    "401": (refused(401, "Unauthorized"), "retry", 0),
    "404": (refused(404, "Not Found"), "retry", 0),
    "429": (refused(429, "Too Many Requests: retry after 0", retry_after=0), "retry", 0),
    "500": (refused(500, "Internal Server Error"), "retry", 1),
    "502 of a proxy": (reply(502, b"<html>Bad Gateway</html>"), "retry", 1),
    "504": (reply(504), "ambiguous", 1),
    "302": (reply(302, Location="/"), "retry", 0),
    "silent": (silent, "ambiguous", 1),
    "reset": (reset, "ambiguous", 1),
    "200 that is no JSON": (reply(200, b"ok"), "delivered", 1),
}


@pytest.mark.parametrize("case", CASES)
def test_each_reply_is_settled_as_documented(tb: Tellback, api: HttpServer, bot: TelegramTransport, case: str) -> None:
    behaviour, settled, attempts_spent = CASES[case]
    turn = answered(tb, "1")
    api.then(behaviour)
    if behaviour is silent:  # the others answer, if only after a while
        bot = TelegramTransport(TOKEN, api=api.url, timeout=0.5)
    delivery = first(tb)
    assert delivery.settle(bot.send(delivery)) == settled
    assert len(api.requests) == 1
    if settled == "retry":
        again = first(tb)
        assert (again.turn_id, again.attempt) == (turn, attempts_spent + 1)
    else:
        assert view(tb, turn).delivery == settled


def test_an_api_that_is_down_costs_no_attempt(tb: Tellback) -> None:
    answered(tb, "1")
    bot = TelegramTransport(TOKEN, api=f"http://127.0.0.1:{free_port()}")
    outcome = bot.send(first(tb))
    assert (outcome.attempted, outcome.error) == (False, "sendMessage: no connection: connection refused")


def test_retry_after_is_honoured_for_the_whole_channel(tb: Tellback, api: HttpServer, bot: TelegramTransport) -> None:
    answered(tb, "1")
    answered(tb, "2", conversation="c2")
    api.then(refused(429, "Too Many Requests: retry after 600", retry_after=600))
    outcomes = [(delivery, bot.send(delivery)) for delivery in tb.outbox("chat")]
    assert len(api.requests) == 1, "nothing is asked of a platform that said to wait"
    assert all(500 < (outcome.retry_after or 0) <= 600 for _, outcome in outcomes)
    assert [delivery.settle(outcome) for delivery, outcome in outcomes] == ["retry", "retry"]
    assert list(tb.outbox("chat", wait=0.5)) == []


def test_a_message_that_has_begun_is_finished(tb: Tellback, api: HttpServer, bot: TelegramTransport) -> None:
    turn = answered(tb, "a" * 4096 + "b" * 4096 + "c")
    api.then(ok(), refused(500, "Internal"), refused(429, "Too Many Requests", retry_after=1), ok())
    assert round_of(tb, bot) == ["delivered"]
    assert [fields["text"][0] for _, fields in calls(api)] == ["a", "b", "b", "b", "c"]
    assert msgspec.json.decode(view(tb, turn).outcome or "")["error"] is None


def test_a_part_that_may_have_been_sent_ends_the_message(tb: Tellback, api: HttpServer, bot: TelegramTransport) -> None:
    turn = answered(tb, "a" * 4096 + "b" * 4096 + "c")
    api.then(ok(), reset)
    assert round_of(tb, bot) == ["delivered"], "the user has its beginning: a second beginning would be worse"
    assert len(api.requests) == 2
    assert "no reply" in msgspec.json.decode(view(tb, turn).outcome or "")["error"]


def test_an_attachment_that_is_refused_does_not_stop_the_others(
    tb: Tellback, api: HttpServer, bot: TelegramTransport
) -> None:
    turn = answered(tb, "look", attachments=("https://example.org/gone.png", "https://example.org/b.pdf"))
    api.then(ok(), refused(400, "Bad Request: wrong file identifier/HTTP URL specified"))
    assert round_of(tb, bot) == ["delivered"]
    outcome = msgspec.json.decode(view(tb, turn).outcome or "", type=RoutingOutcome)
    assert (outcome.sent_text, outcome.sent_attachments) == (True, 1)
    assert "sendPhoto: HTTP 400" in (outcome.error or "")


def test_one_delivery_ends_within_its_time(tb: Tellback, api: HttpServer) -> None:
    answered(tb, "a" * 4096 * 5)
    bot = TelegramTransport(TOKEN, api=api.url, timeout=2.0, longest=2.0)
    api.then(ok())
    api.usual = refused(500, "Internal")
    delivery = first(tb)
    assert delivery.settle(bot.send(delivery)) == "delivered", "it would be tried without end"


@pytest.mark.parametrize("token", [TOKEN, "7:tiny-bot"], ids=["of the usual form", "of a form of its own"])
def test_the_token_is_in_no_error_log_or_record(
    tb: Tellback, api: HttpServer, caplog: pytest.LogCaptureFixture, token: str
) -> None:
    caplog.set_level(logging.DEBUG)
    turn = answered(tb, "1")
    bot = TelegramTransport(token, api=api.url)
    kept = repr(bot)
    for behaviour in (refused(500, f"Internal: /bot{token}/sendMessage failed"), reset):
        api.then(behaviour)
        delivery = first(tb)
        outcome = bot.send(delivery)
        kept += repr(outcome)
        delivery.settle(outcome)
    kept += f"{view(tb, turn)}{tb.history('c1')}{caplog.text}"
    assert token not in kept
    assert token.partition(":")[2] not in kept


@pytest.mark.parametrize("token", ["", "a/../b", "a b", "a\r\nX: y", "é"])
def test_a_token_that_cannot_be_one_is_refused(token: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^token:") as caught:
        TelegramTransport(token)
    assert not token or token not in str(caught.value)
