"""The signature of a webhook: HMAC-SHA256 over the time and the body, checked by whoever receives it."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from tellback import clock
from tellback.contracts.turns import DeliveryKind, OutgoingResponse
from tellback.errors import InvalidInput

SIGNATURE: Final = "Tellback-Signature"
TIMESTAMP: Final = "Tellback-Timestamp"
IDEMPOTENCY_KEY: Final = "Idempotency-Key"
WINDOW: Final = 300.0  # seconds that the clocks of both sides may differ, transit included
MIN_SECRET: Final = 16
MAX_BODY: Final = 1 << 20


class WebhookMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a webhook. Keep `idempotency_key` as long as you keep messages: the same one is the same message."""

    idempotency_key: str
    turn: str
    channel: str
    conversation: str
    kind: DeliveryKind
    attempt: int
    at: int
    """When it was put into the outbox, in milliseconds since the epoch."""
    response: OutgoingResponse


def check_secret(name: str, secret: str) -> str:
    """A secret that is worth one.

    Raises:
        InvalidInput: shorter than 16 bytes.
    """
    if len(secret.encode()) < MIN_SECRET:
        raise InvalidInput(f"{name}: at least {MIN_SECRET} bytes; `openssl rand -hex 32` makes one")
    return secret


def sign(body: bytes, secret: str, *, at: int) -> str:
    """The value of `Tellback-Signature` for a body that is sent at `at`, in seconds since the epoch."""
    return f"v1={_digest(body, secret, str(at))}"


def verify(
    body: bytes, headers: Mapping[str, str], secret: str | Sequence[str], *, window: float = WINDOW
) -> WebhookMessage:
    """What a receiver does first, with the raw body as it came. Of several secrets any one may have signed it.

    Within the window the same request may come again: answer 2xx to an `idempotency_key` that you have, and do nothing.

    Raises:
        InvalidInput: no or another signature, a time outside the window, or a body that is no message: answer 401.
    """
    given = {name.lower(): value for name, value in headers.items()}
    secrets = [secret] if isinstance(secret, str) else list(secret)
    stamp, signatures = given.get(TIMESTAMP.lower(), ""), given.get(SIGNATURE.lower(), "")
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) <= 12):
        raise InvalidInput(f"{TIMESTAMP}: missing, or not seconds since the epoch")
    if len(body) > MAX_BODY:
        raise InvalidInput(f"body: above {MAX_BODY} bytes")
    digests = [_digest(body, check_secret("secret", each), stamp).encode() for each in secrets]
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


def _digest(body: bytes, secret: str, stamp: str) -> str:
    return hmac.new(secret.encode(), stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
