"""The signature of a webhook, as a receiver checks it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tellback import ConfigurationError, InvalidInput, OutgoingResponse
from tellback.transports import WebhookMessage, WebhookTransport, sign, verify

SECRET = "the secret of both sides"
NOW = 1_700_000_000
MESSAGE = WebhookMessage(
    idempotency_key="t1-x:first",
    turn="t1-x",
    channel="web",
    conversation="c1",
    kind="answer",
    attempt=1,
    at=NOW * 1000,
    response=OutgoingResponse.text_only("hello"),
)
BODY = msgspec.json.encode(MESSAGE)


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tellback.clock.wall", lambda: float(NOW))


def headers(body: bytes = BODY, secret: str = SECRET, at: int = NOW) -> dict[str, str]:
    return {"Tellback-Timestamp": str(at), "Tellback-Signature": sign(body, secret, at=at)}


def test_what_was_signed_is_the_message() -> None:
    assert verify(BODY, headers(), SECRET) == MESSAGE
    lower = {name.lower(): value for name, value in headers().items()}
    assert verify(BODY, lower, SECRET) == MESSAGE, "header names have no case"


def test_anybody_can_compute_the_signature() -> None:
    assert sign(b"{}", SECRET, at=NOW) == f"v1={_by_hand(b'1700000000.{}')}"


def _by_hand(text: bytes) -> str:
    """HMAC as RFC 2104 writes it."""
    key = SECRET.encode().ljust(64, b"\0")
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in key) + text).digest()
    return hashlib.sha256(bytes(byte ^ 0x5C for byte in key) + inner).hexdigest()


def test_secrets_are_changed_without_a_gap() -> None:
    new = "the secret that comes after it"
    assert verify(BODY, headers(), [new, SECRET]) == MESSAGE
    both = {**headers(), "Tellback-Signature": f"{sign(BODY, new, at=NOW)}, {sign(BODY, SECRET, at=NOW)}"}
    assert verify(BODY, both, new) == verify(BODY, both, SECRET) == MESSAGE


@pytest.mark.parametrize("seconds", [-301, 301, 10**6])
def test_a_replayed_request_is_refused_outside_the_window(seconds: int) -> None:
    with pytest.raises(InvalidInput, match="replayed"):
        verify(BODY, headers(at=NOW + seconds), SECRET)
    assert verify(BODY, headers(at=NOW + seconds), SECRET, window=2e6) == MESSAGE


CHANGES: dict[str, Callable[[dict[str, str]], object]] = {
    "no signature": lambda given: given.pop("Tellback-Signature"),
    "an empty one": lambda given: given.update({"Tellback-Signature": ""}),
    "another secret": lambda given: given.update(headers(secret="a secret of somebody else")),
    "another body": lambda given: given.update(headers(body=BODY + b" ")),
    "not ASCII": lambda given: given.update({"Tellback-Signature": "v1=é"}),
    "another time": lambda given: given.update({"Tellback-Timestamp": str(NOW + 1)}),
    "no time": lambda given: given.pop("Tellback-Timestamp"),
    "a time that is none": lambda given: given.update({"Tellback-Timestamp": "²"}),
    "a long time": lambda given: given.update({"Tellback-Timestamp": "1" * 5_000}),
    "another key": lambda given: given.update({"Idempotency-Key": "t2-y:first"}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_changed_is_refused(change: str) -> None:
    given = headers()
    CHANGES[change](given)
    with pytest.raises(InvalidInput) as caught:
        verify(BODY, given, SECRET)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("body", [b"", b"[]", b"\xff", b"{}", b"x" * (1 << 20 | 1)], ids=range(5))
def test_a_signed_body_that_is_no_message_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidInput, match=r"^body:"):
        verify(body, headers(body), SECRET)


def test_a_receiver_without_a_real_secret_accepts_nothing() -> None:
    with pytest.raises(InvalidInput, match=r"^secret:"):
        verify(BODY, headers(secret=""), "")
    with pytest.raises(InvalidInput):
        verify(BODY, headers(), [])


@pytest.mark.parametrize("secret", [None, 5, b"the secret of both sides"])
def test_a_secret_that_is_no_text_is_refused(secret: Any) -> None:
    """A variable that is not set was an `AttributeError` of `None`."""
    said = f"^secret: a text, not {type(secret).__name__}$"
    with pytest.raises(InvalidInput, match=said):
        WebhookTransport("https://example.org", secret)
    with pytest.raises(InvalidInput, match=said):
        verify(BODY, headers(), secret)


def test_a_body_that_was_decoded_is_refused() -> None:
    body: Any = BODY.decode()
    with pytest.raises(InvalidInput, match=r"^body: the bytes as received, not str"):
        verify(body, headers(), SECRET)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), None, "10", True])
def test_a_transport_that_could_wait_for_no_reply_is_refused(timeout: Any) -> None:
    """With 0 it never connected and spent no attempt; with NaN each delivery was ambiguous and never sent again."""
    with pytest.raises(ConfigurationError, match=r"^timeout: seconds above 0, not "):
        WebhookTransport("https://example.org", SECRET, timeout=timeout)
