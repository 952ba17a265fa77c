"""Turns whatever a host passes into bounded JSON values without known secrets.

Nothing here raises, whatever the objects of a host or a tool do: guidance must never make a tool call fail (requirement
G-23). Values are redacted first and truncated second, so no half of a secret remains (requirement A-54).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast

import msgspec

from tellback.guidance.measures import truncate_params, truncate_text
from tellback.redaction import redact_text, redact_value
from tellback.truncation import WHOLE_KEY, bounded_copy, omitted_bytes, readable_prefix


def wire_text(value: object) -> str:
    """Return a value as text (itself, its JSON, or its repr), redacted, then truncated to 64 KB.

    Only the beginning of a long text is read: to search 10 MB for secrets would hold an agent up for a second.
    """
    whole = value if isinstance(value, str) else _to_json(value)
    text = readable_prefix(whole)
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()  # a lone surrogate from a tool's output can't be encoded
    return truncate_text(redact_text(text), unread=omitted_bytes(whole))


@lru_cache(maxsize=4096)
def wire_name(name: str, longest: int) -> str:
    """Return a redacted name of at most `longest` characters; cached, since a host sends the same few all the time."""
    return wire_text(name)[:longest]


def wire_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as JSON values, redacted, then truncated to 64 KB of JSON."""
    try:
        plain = msgspec.to_builtins(dict(params), str_keys=True, enc_hook=repr)
        return truncate_params(redact_value(bounded_copy(plain)))
    except Exception:  # noqa: BLE001 - a user's object may raise anything from its repr
        return truncate_params({WHOLE_KEY: wire_text(_safe_repr(params))})


def _to_json(value: object) -> str:
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "replace")
    try:
        return msgspec.json.encode(_redact_fields(value), enc_hook=repr).decode()
    except Exception:  # noqa: BLE001 - as above
        return _safe_repr(value)


def _redact_fields(value: object) -> object:
    """Redact records field by field: in one line of JSON, a secret in one field would take the others with it."""
    return redact_value(bounded_copy(cast("Any", value))) if isinstance(value, dict | list) else value


def _safe_repr(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - as above
        return f"<{type(value).__name__} without a repr>"
