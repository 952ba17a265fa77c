"""A transport for Telegram's bot API: the conversation is the chat's id, and long texts are split.

The API has no idempotency key, so a message whose reply was lost is ambiguous and never sent again. It limits texts in
UTF-16 code units, so lengths here are counted in those, not in characters.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from tellback import clock
from tellback.client.outbox import OutboxDelivery
from tellback.contracts.turns import OutgoingResponse, RoutingOutcome
from tellback.errors import ConfigurationError
from tellback.log import get_logger
from tellback.redaction import redact_text
from tellback.transports.http_post import OK, NoReply, NotSent, check_url, encode_multipart, post_request
from tellback.truncation import within_grapheme

# How many characters to search back for the start of a joined sequence. Hostile text can join any number of marks; past
# this bound it is split inside the sequence, which keeps splitting linear and sure to make progress.
_BACK: Final = 64


def utf16_length(text: str) -> int:
    """Return the length in UTF-16 code units."""
    return len(text) + sum(char > "\uffff" for char in text)


def split_text(text: str, limit: int) -> list[str]:
    """Split `text` into parts of at most `limit` UTF-16 units; joined, they are the text again.

    A part ends after a line, else after a word, if its second half has such a place. It never ends within a character,
    nor within several that show as one (accents, flags, joined emoji) unless their sequence exceeds 64 characters.
    """
    parts: list[str] = []
    while utf16_length(text) > limit:
        cut = _split_position(text, limit)
        parts.append(text[:cut])
        text = text[cut:]
    return [*parts, text]


def _split_position(text: str, limit: int) -> int:
    most, used = 0, 0
    for char in text:
        used += 2 if char > "\uffff" else 1
        if used > limit:
            break
        most += 1
    # Search only the second half: an early line end would make a tiny part and one message more.
    for separator in ("\n", " "):
        found = text.rfind(separator, most // 2, most)
        if found >= 0:
            return found + 1
    for cut in range(most, max(1, most - _BACK), -1):
        if not within_grapheme(text, cut):
            return cut
    return max(1, most)


API: Final = "https://api.telegram.org"

TEXT_UNITS: Final = 4096  # Telegram's limit for one message, in UTF-16 code units

PHOTO_TYPES: Final = (".jpg", ".jpeg", ".png", ".webp")

ERROR_CHARS: Final = 200

DEFAULT_RETRY_AFTER: Final = 1.0  # seconds before a retry, unless the API names a time

_logger = get_logger("tellback.transports")

_TOKEN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:_-")

SynthesizeSpeech = Callable[[str], bytes]
"""Returns a voice message for a text, as OGG with Opus."""


class _ApiReply(msgspec.Struct, frozen=True):
    """The envelope of every API reply."""

    description: str = ""
    parameters: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class _MessageCall:
    """One API call that sends one message; `what` is the kind of content."""

    what: str
    method: str
    fields: dict[str, Any]
    file: tuple[str, bytes] | None = None


class TelegramTransport:
    """Sends deliveries as a bot, whose token never appears in a log or an error.

    A text of over 4,096 UTF-16 units is sent in parts. An attachment is an http(s) URL or one of Telegram's file ids; a
    picture's URL is sent as a photo, anything else as a document. `speak` makes voice messages; without it, a response
    that has no text is sent with its spoken words as text.
    """

    def __init__(
        self,
        token: str,
        *,
        api: str = API,
        timeout: float = 10.0,
        longest: float = 25.0,
        speak: SynthesizeSpeech | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Check the settings; `timeout` bounds one API call and `longest` a whole delivery, both in seconds.

        Raises:
            ConfigurationError: the token is malformed, the URL isn't https, or `timeout` exceeds `longest`.
        """
        # The token becomes a part of the URL's path, so a slash or a space in it would call something else.
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
        """Send one delivery in as many messages as it needs.

        Once one part is sent, the delivery counts as delivered even if a later part fails, since sending the first part
        twice would be worse. Later parts are therefore retried while time remains, except after an ambiguous result.
        """
        end = clock.monotonic() + self._longest
        if self._not_before > clock.monotonic():
            left = self._not_before - clock.monotonic()
            return RoutingOutcome(attempted=False, error="the platform said to wait", retry_after=left)
        sent = {"text": 0, "voice": 0, "attachment": 0}
        failed: RoutingOutcome | None = None
        for part in self._message_calls(delivery):
            outcome = self._call(part, end) if not any(sent.values()) else self._call_with_retry(part, end)
            if outcome.delivered:
                sent[part.what] += 1
            else:
                failed = failed or outcome
                if part.what == "text" or not outcome.permanent:
                    break
        return _combined_outcome(sent, failed)

    def _message_calls(self, delivery: OutboxDelivery) -> Iterator[_MessageCall]:
        response, common = delivery.response, _common_fields(delivery)
        for part in self._calls_without_reply(response):
            yield _MessageCall(part.what, part.method, {**common, **part.fields}, part.file)
            common.pop("reply_parameters", None)  # only the first message is shown as a reply

    def _calls_without_reply(self, response: OutgoingResponse) -> Iterator[_MessageCall]:
        text, speech = response.text or "", self._synthesize(response.voice)
        if not text.strip() and speech is None:
            text = response.voice or ""
        for piece in split_text(text, TEXT_UNITS):
            if piece.strip():
                yield _MessageCall("text", "sendMessage", {"text": piece})
        for reference in response.attachments:
            path = reference.partition("?")[0].partition("#")[0]  # not by `urlsplit`, which refuses some references
            kind = "photo" if path.lower().endswith(PHOTO_TYPES) else "document"
            yield _MessageCall("attachment", f"send{kind.capitalize()}", {kind: reference})
        if speech is not None:
            yield _MessageCall("voice", "sendVoice", {}, ("voice", speech))

    def _synthesize(self, words: str | None) -> bytes | None:
        if not words or self._speak is None:
            return None
        try:
            return self._speak(words)
        except Exception as error:  # noqa: BLE001 - a user's function; the words are then sent as text
            _logger.warning("telegram.speak_failed", error=type(error).__name__)
            return None

    def _call_with_retry(self, part: _MessageCall, end: float) -> RoutingOutcome:
        while True:
            outcome = self._call(part, end)
            delay = max(DEFAULT_RETRY_AFTER, outcome.retry_after or 0)
            late = clock.monotonic() + delay + self._timeout > end
            if outcome.settlement != "retry" or late:
                return outcome
            clock.sleep(delay)

    def _call(self, part: _MessageCall, end: float) -> RoutingOutcome:
        # Refused here because a path of this host would be sent to Telegram as if it were a file id.
        reference = part.fields.get("photo") or part.fields.get("document")
        if isinstance(reference, str) and ("/" in reference) and not reference.startswith(("https://", "http://")):
            return RoutingOutcome(attempted=True, permanent=True, error="attachment: not an http(s) URL or a file id")
        body, kind = msgspec.json.encode(part.fields), "application/json"
        if part.file is not None:
            body, kind = encode_multipart(part.fields, *part.file)
        left = min(self._timeout, max(0.001, end - clock.monotonic()))
        url = f"{self._api}/bot{self._token}/{part.method}"
        try:
            reply = post_request(
                url, body, {"Content-Type": kind, "User-Agent": "tellback"}, timeout=left, tls=self._tls
            )
        except NotSent as error:
            return RoutingOutcome(attempted=False, error=f"{part.method}: {error}")
        except NoReply as error:
            return RoutingOutcome(attempted=True, ambiguous=True, error=f"{part.method}: {error}")
        try:
            answer = msgspec.json.decode(reply.body, type=_ApiReply)
        except (msgspec.DecodeError, UnicodeDecodeError):
            answer = _ApiReply()
        if reply.status in OK:  # accepted, even if the body is cut off or unreadable
            return RoutingOutcome(attempted=True, sent_text=True)
        return self._refusal_outcome(part, reply.status, answer)

    def _refusal_outcome(self, part: _MessageCall, status: int, answer: _ApiReply) -> RoutingOutcome:
        # The API may quote the request, whose URL holds the token, and the redaction rules need not know its form.
        said = redact_text(answer.description.replace(self._token, "…"))[:ERROR_CHARS]
        error = f"{part.method}: HTTP {status} {said}".rstrip()
        if status == 429:
            given = answer.parameters.get("retry_after")
            wait = float(given) if isinstance(given, int | float) and 0 <= given < 1e9 else DEFAULT_RETRY_AFTER
            self._not_before = max(self._not_before, clock.monotonic() + wait)
            return RoutingOutcome(attempted=False, error=error, retry_after=wait)
        if status in {401, 404} or status < 400:  # wrong token or not a bot API: nothing was accepted
            return RoutingOutcome(attempted=False, error=error)
        if status == 504:
            return RoutingOutcome(attempted=True, ambiguous=True, error=error)
        return RoutingOutcome(attempted=True, error=error, permanent=400 <= status < 500)


def _common_fields(delivery: OutboxDelivery) -> dict[str, Any]:
    common: dict[str, Any] = {"chat_id": delivery.conversation}
    reply_to = delivery.response.reply_to or ""
    if reply_to.isascii() and reply_to.isdigit() and len(reply_to) <= 18:
        common["reply_parameters"] = {"message_id": int(reply_to), "allow_sending_without_reply": True}
    return common


def _combined_outcome(sent: dict[str, int], failed: RoutingOutcome | None) -> RoutingOutcome:
    """Combine the outcomes of all parts; if none was sent, return the first failure."""
    if not any(sent.values()):
        return failed or RoutingOutcome(attempted=False, permanent=True, error="nothing that this platform can show")
    return RoutingOutcome(
        attempted=True,
        sent_text=sent["text"] > 0,
        sent_voice=sent["voice"] > 0,
        sent_attachments=sent["attachment"],
        error=failed.error if failed else None,
    )
