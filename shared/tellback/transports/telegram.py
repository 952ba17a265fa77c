"""A transport for a chat platform's bot API, as Telegram's: a conversation is a chat id."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from tellback import clock
from tellback.client.outbox import OutboxDelivery
from tellback.contracts.turns import OutgoingResponse, RoutingOutcome
from tellback.errors import ConfigurationError
from tellback.log import get_logger
from tellback.redaction import redact_text
from tellback.transports.multipart import multipart
from tellback.transports.posting import OK, NoReply, NotSent, check_url, post
from tellback.transports.splitting import split_text

API: Final = "https://api.telegram.org"
TEXT_UNITS: Final = 4096
PHOTOS: Final = (".jpg", ".jpeg", ".png", ".webp")
ERROR_CHARS: Final = 200
AGAIN_AFTER: Final = 1.0  # seconds before a later part of a message that has begun is tried again
_log = get_logger("tellback.transports")
_TOKEN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:_-")

Speak = Callable[[str], bytes]
"""Makes a voice message, OGG with Opus, of words."""


class _Answer(msgspec.Struct, frozen=True):
    """The envelope of every reply."""

    ok: bool = False
    description: str = ""
    parameters: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class _Part:
    """One call that sends one message; `what` is the kind of thing it sends."""

    what: str
    method: str
    fields: dict[str, Any]
    file: tuple[str, bytes] | None = None


class TelegramTransport:
    """Sends deliveries by a bot. Its token stands in no log and no error.

    A text of over 4,096 UTF-16 units goes in parts. An attachment is an http(s) URL or the platform's own file id: a
    picture's URL is sent as a photo, all else as a document. Voice is spoken by `speak`; without one its words are
    sent as text where there is no text.
    """

    def __init__(
        self,
        token: str,
        *,
        api: str = API,
        timeout: float = 10.0,
        longest: float = 25.0,
        speak: Speak | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Take the bot's token; `timeout` bounds one call, `longest` a whole delivery, in seconds.

        Raises:
            ConfigurationError: the token cannot be one, the URL is not https, or `longest` is shorter than one call.
        """
        if not token or not set(token) <= _TOKEN:
            raise ConfigurationError("token: empty, or with characters that no bot token has")
        if not 0 < timeout <= longest:
            raise ConfigurationError("timeout: above 0 and at most `longest`")
        self._token = token
        self._api = check_url("api", api).rstrip("/")
        self._timeout = timeout
        self._longest = longest
        self._speak = speak
        self._tls = tls
        self._not_before = 0.0

    @property
    def longest(self) -> float:
        """The longest time that one delivery takes, in seconds."""
        return self._longest

    def send(self, delivery: OutboxDelivery) -> RoutingOutcome:
        """Send one delivery, in as many messages as it takes.

        Where a part fails after another was sent the delivery is delivered, with the error: a second first part would
        be worse. So a later part is tried again for as long as there is time; a part that was ambiguous is not.
        """
        end = clock.monotonic() + self._longest
        if self._not_before > clock.monotonic():
            left = self._not_before - clock.monotonic()
            return RoutingOutcome(attempted=False, error="the platform said to wait", retry_after=left)
        sent = {"text": 0, "voice": 0, "attachment": 0}
        failed: RoutingOutcome | None = None
        for part in self._parts(delivery):
            outcome = self._call(part, end) if not any(sent.values()) else self._call_again(part, end)
            if outcome.delivered:
                sent[part.what] += 1
            else:
                failed = failed or outcome
                if part.what == "text" or not outcome.permanent:
                    break
        return _whole(sent, failed)

    def _parts(self, delivery: OutboxDelivery) -> Iterator[_Part]:
        response, common = delivery.response, _common(delivery)
        for part in self._unquoted(response):
            yield _Part(part.what, part.method, {**common, **part.fields}, part.file)
            common.pop("reply_parameters", None)  # what the user asked stands before the first message alone

    def _unquoted(self, response: OutgoingResponse) -> Iterator[_Part]:
        text, speech = response.text or "", self._speech(response.voice)
        if not text.strip() and speech is None:
            text = response.voice or ""
        for piece in split_text(text, TEXT_UNITS):
            if piece.strip():
                yield _Part("text", "sendMessage", {"text": piece})
        for reference in response.attachments:
            kind = "photo" if urlsplit(reference).path.lower().endswith(PHOTOS) else "document"
            yield _Part("attachment", f"send{kind.capitalize()}", {kind: reference})
        if speech is not None:
            yield _Part("voice", "sendVoice", {}, ("voice", speech))

    def _speech(self, words: str | None) -> bytes | None:
        if not words or self._speak is None:
            return None
        try:
            return self._speak(words)
        except Exception as error:  # noqa: BLE001 - a user's function: without its voice the words are still said
            _log.warning("telegram.speak_failed", error=type(error).__name__)
            return None

    def _call_again(self, part: _Part, end: float) -> RoutingOutcome:
        while True:
            outcome = self._call(part, end)
            pause = max(AGAIN_AFTER, outcome.retry_after or 0)
            late = clock.monotonic() + pause + self._timeout > end
            if outcome.settlement != "retry" or late:
                return outcome
            clock.sleep(pause)

    def _call(self, part: _Part, end: float) -> RoutingOutcome:
        reference = part.fields.get("photo") or part.fields.get("document")
        if isinstance(reference, str) and ("/" in reference) and not reference.startswith(("https://", "http://")):
            return RoutingOutcome(attempted=True, permanent=True, error="attachment: not an http(s) URL or a file id")
        body, kind = msgspec.json.encode(part.fields), "application/json"
        if part.file is not None:
            body, kind = multipart(part.fields, *part.file)
        left = min(self._timeout, max(0.001, end - clock.monotonic()))
        url = f"{self._api}/bot{self._token}/{part.method}"
        try:
            reply = post(url, body, {"Content-Type": kind, "User-Agent": "tellback"}, timeout=left, tls=self._tls)
        except NotSent as error:
            return RoutingOutcome(attempted=False, error=f"{part.method}: {error}")
        except NoReply as error:
            return RoutingOutcome(attempted=True, ambiguous=True, error=f"{part.method}: {error}")
        try:
            answer = msgspec.json.decode(reply.body, type=_Answer)
        except (msgspec.DecodeError, UnicodeDecodeError):
            answer = _Answer()
        if reply.status in OK:  # whatever it says in its body, it was taken
            return RoutingOutcome(attempted=True, sent_text=True)
        return self._refused(part, reply.status, answer)

    def _refused(self, part: _Part, status: int, answer: _Answer) -> RoutingOutcome:
        said = redact_text(answer.description.replace(self._token, "…"))[:ERROR_CHARS]
        error = f"{part.method}: HTTP {status} {said}".rstrip()
        if status == 429:
            given = answer.parameters.get("retry_after")
            wait = float(given) if isinstance(given, int | float) and 0 <= given < 1e9 else AGAIN_AFTER
            self._not_before = max(self._not_before, clock.monotonic() + wait)
            return RoutingOutcome(attempted=False, error=error, retry_after=wait)
        if status in {401, 404} or status < 400:  # the token is wrong, or this is no bot API: nothing was taken
            return RoutingOutcome(attempted=False, error=error)
        if status == 504:
            return RoutingOutcome(attempted=True, ambiguous=True, error=error)
        return RoutingOutcome(attempted=True, error=error, permanent=400 <= status < 500)


def _common(delivery: OutboxDelivery) -> dict[str, Any]:
    common: dict[str, Any] = {"chat_id": delivery.conversation}
    reply_to = delivery.response.reply_to or ""
    if reply_to.isascii() and reply_to.isdigit() and len(reply_to) <= 18:
        common["reply_parameters"] = {"message_id": int(reply_to), "allow_sending_without_reply": True}
    return common


def _whole(sent: dict[str, int], failed: RoutingOutcome | None) -> RoutingOutcome:
    """The outcome of all parts: that of the first that failed where nothing was sent."""
    if not any(sent.values()):
        return failed or RoutingOutcome(attempted=False, permanent=True, error="nothing that this platform can show")
    return RoutingOutcome(
        attempted=True,
        sent_text=sent["text"] > 0,
        sent_voice=sent["voice"] > 0,
        sent_attachments=sent["attachment"],
        error=failed.error if failed else None,
    )
