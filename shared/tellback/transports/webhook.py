"""A transport that posts each delivery to a URL, signed, and the check that its receiver makes.

The signature is HMAC-SHA256 over the time and the body. The time is signed so that nobody can replay an old request
with a new date; within `MAX_AGE_SECONDS` only the idempotency key tells a replay. Requirement T-66.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import ssl
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from tellback import clock
from tellback.client.outbox import OutboxDelivery
from tellback.contracts.turns import DeliveryKind, OutgoingResponse, RoutingOutcome
from tellback.errors import ConfigurationError, InvalidInput
from tellback.transports.http_post import OK, REDIRECTS, NoReply, NotSent, Reply, check_url, post_request
from tellback.transports.serving import sent_whole

SIGNATURE: Final = "Tellback-Signature"

TIMESTAMP: Final = "Tellback-Timestamp"

IDEMPOTENCY_KEY: Final = "Idempotency-Key"

MAX_AGE_SECONDS: Final = 300.0  # how far the clocks of both sides may differ, transit included

MIN_SECRET: Final = 16  # bytes; a shorter secret could be guessed offline from one captured request

MAX_BODY: Final = 1 << 20  # bytes; `verify` refuses a larger body before it computes a digest


class WebhookMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a webhook. Store `idempotency_key` with the message: the same key is the same message."""

    idempotency_key: str
    turn: str
    channel: str
    conversation: str
    kind: DeliveryKind
    attempt: int
    at: int
    """The time at which it entered the outbox, in milliseconds since the epoch."""
    response: OutgoingResponse


def check_secret(name: str, secret: str) -> str:
    """Check a secret and return it.

    Raises:
        InvalidInput: the secret is no text, or shorter than 16 bytes.
    """
    if not isinstance(cast("object", secret), str):  # a variable that is not set
        raise InvalidInput(f"{name}: a text, not {type(secret).__name__}")
    if len(secret.encode()) < MIN_SECRET:
        raise InvalidInput(f"{name}: at least {MIN_SECRET} bytes; `openssl rand -hex 32` makes one")
    return secret


def sign(body: bytes, secret: str, *, at: int) -> str:
    """Return the value of `Tellback-Signature` for a body sent at `at`, in seconds since the epoch."""
    return f"v1={_hmac_digest(body, secret, str(at))}"


def verify(
    body: bytes, headers: Mapping[str, str], secret: str | Sequence[str], *, window: float = MAX_AGE_SECONDS
) -> WebhookMessage:
    """Verify a request and return its message; call this first, with the raw body as received.

    Any one of several secrets may have signed it, so that you can change the secret without losing requests. Within
    `window` seconds the same request may come again: if you already have its `idempotency_key`, answer 2xx and do
    nothing.

    Raises:
        InvalidInput: the signature is missing or wrong, the time is outside the window, or the body isn't a message.
            Answer 401.
    """
    given = {name.lower(): value for name, value in headers.items()}
    raw, one = cast("Any", body), cast("object", secret)
    several = isinstance(one, Sequence) and not isinstance(one, str | bytes)
    secrets = list(secret) if several else [cast("str", secret)]
    if not isinstance(raw, bytes | bytearray | memoryview):
        raise InvalidInput(f"body: the bytes as received, not {type(raw).__name__}")
    stamp, signatures = given.get(TIMESTAMP.lower(), ""), given.get(SIGNATURE.lower(), "")
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) <= 12):
        raise InvalidInput(f"{TIMESTAMP}: missing, or not seconds since the epoch")
    if len(body) > MAX_BODY:
        raise InvalidInput(f"body: above {MAX_BODY} bytes")
    digests = [_hmac_digest(body, check_secret("secret", each), stamp).encode() for each in secrets]
    # Eight signatures at most: a header full of them must not make the comparison expensive.
    offered = [part.strip().removeprefix("v1=").encode() for part in signatures.split(",")[:8]]
    if not any(hmac.compare_digest(digest, each) for digest in digests for each in offered):
        raise InvalidInput(f"{SIGNATURE}: missing, or not made with this secret")
    if not abs(clock.wall() - int(stamp)) <= window:
        raise InvalidInput(f"{TIMESTAMP}: more than {window:g} s from now; replayed, or a clock is wrong")
    try:
        message = msgspec.json.decode(body, type=WebhookMessage)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"body: not a message of Tellback ({error})") from error
    if given.get(IDEMPOTENCY_KEY.lower(), message.idempotency_key) != message.idempotency_key:
        raise InvalidInput(f"{IDEMPOTENCY_KEY}: not that of the body")
    return message


def _hmac_digest(body: bytes, secret: str, stamp: str) -> str:
    return hmac.new(secret.encode(), stamp.encode() + b"." + body, hashlib.sha256).hexdigest()


UNREACHABLE_STATUSES: Final = frozenset({401, 403, 404, 407, 421, 429, 503})
"""The receiver accepted nothing but may do so later: it isn't set up yet or asks to wait. No attempt is spent."""

RETRY_STATUSES: Final = frozenset({408, 409, 425})

GATEWAY_STATUSES: Final = frozenset({502, 504})
"""A gateway in front of the receiver answered; it may have passed the request on, so the delivery is ambiguous."""


class WebhookTransport:
    """Posts deliveries as JSON, signed with a secret that both sides know.

    The body is a `WebhookMessage`. Set `deduplicates` if the receiver ignores an idempotency key that it has seen: only
    then is an ambiguous delivery sent again.
    """

    def __init__(
        self,
        url: str,
        secret: str,
        *,
        timeout: float = 10.0,
        deduplicates: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Check the URL and the secret; `timeout` bounds the whole exchange in seconds.

        Raises:
            ConfigurationError: the URL is plain http to another host, isn't absolute, or has a user or password; or
                `timeout` is no time to wait.
            InvalidInput: the secret is no text, or shorter than 16 bytes.
        """
        given: Any = timeout
        if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given < math.inf:
            raise ConfigurationError(f"timeout: seconds above 0, not {given!r}")
        self._url = check_url("url", url)
        self._secret = check_secret("secret", secret)
        self._timeout = timeout
        self._deduplicates = deduplicates
        self._tls = tls

    @property
    def longest(self) -> float:
        """The longest time that one delivery takes, in seconds."""
        return self._timeout

    def send(self, delivery: OutboxDelivery) -> RoutingOutcome:
        """Post one delivery."""
        message = WebhookMessage(
            idempotency_key=delivery.idempotency_key,
            turn=delivery.turn_id,
            channel=delivery.channel,
            conversation=delivery.conversation,
            kind=delivery.kind,
            attempt=delivery.attempt,
            at=delivery.at,
            response=delivery.response,
        )
        body, now = msgspec.json.encode(message), int(clock.wall())
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "tellback",
            IDEMPOTENCY_KEY: message.idempotency_key,
            TIMESTAMP: str(now),
            SIGNATURE: sign(body, self._secret, at=now),
        }
        try:
            reply = post_request(self._url, body, headers, timeout=self._timeout, tls=self._tls)
        except NotSent as error:
            return RoutingOutcome(attempted=False, error=str(error))
        except NoReply as error:
            return self._unknown_outcome(str(error))
        return self._outcome_of_reply(reply, delivery.response)

    def _unknown_outcome(self, error: str) -> RoutingOutcome:
        return RoutingOutcome(attempted=True, ambiguous=not self._deduplicates, error=error)

    def _outcome_of_reply(self, reply: Reply, response: OutgoingResponse) -> RoutingOutcome:
        status, error = reply.status, f"HTTP {reply.status}"
        if status in OK:
            return sent_whole(response)
        if status in REDIRECTS:
            return RoutingOutcome(attempted=False, error=f"{error}: redirects are not followed; set the final URL")
        if status in UNREACHABLE_STATUSES:
            return RoutingOutcome(attempted=False, error=error, retry_after=reply.retry_after)
        if status in GATEWAY_STATUSES:
            return self._unknown_outcome(error)
        permanent = status in range(400, 500) and status not in RETRY_STATUSES
        return RoutingOutcome(attempted=True, error=error, permanent=permanent, retry_after=reply.retry_after)
