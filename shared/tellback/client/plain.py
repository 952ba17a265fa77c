"""Whatever a host passes becomes bounded JSON without known secrets. Nothing here raises: feedback never gates."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, cast

import msgspec

from tellback.guidance.bounds import cut_params, cut_text
from tellback.guidance.cuts import beginning, limited, unread_bytes
from tellback.redaction import redact_text, redact_value

_WHOLE: Final = "…"  # the one key of parameters that could not be sent as they are


def plain_text(value: object) -> str:
    """The value as text: itself, or its JSON, or its repr; redacted, then cut at 64 KB.

    Of a long one only the beginning is read, so that its length costs next to nothing.
    """
    whole = value if isinstance(value, str) else _json(value)
    text = beginning(whole)
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()  # lone surrogates do not travel
    return cut_text(redact_text(text), unread=unread_bytes(whole))


@lru_cache(maxsize=4096)
def plain_name(name: str, longest: int) -> str:
    """A name, redacted, with at most `longest` characters; cached, since a host has few and sends them all the time."""
    return plain_text(name)[:longest]


def plain_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters as JSON values, redacted, then cut so that their JSON has at most 64 KB."""
    try:
        plain = msgspec.to_builtins(dict(params), str_keys=True, enc_hook=repr)
        return cut_params(redact_value(limited(plain)))
    except Exception:  # noqa: BLE001 - a user's object may raise anything from its repr
        return cut_params({_WHOLE: plain_text(_repr(params))})


def _json(value: object) -> str:
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "replace")
    try:
        return msgspec.json.encode(_redacted(value), enc_hook=repr).decode()
    except Exception:  # noqa: BLE001 - as above
        return _repr(value)


def _redacted(value: object) -> object:
    """Records redacted field by field: as one line of JSON, a secret in them would cost the whole."""
    return redact_value(limited(cast("Any", value))) if isinstance(value, dict | list) else value


def _repr(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - as above
        return f"<{type(value).__name__} without a repr>"
