"""Turns whatever a host passes into bounded JSON values without known secrets.

Nothing here raises, whatever the objects of a host or a tool do: guidance must never make a tool call fail (requirement
G-23). Values are redacted first and truncated second, so no half of a secret remains (requirement A-54).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, TypeGuard, cast

import msgspec

from tellback.contracts.limits import MAX_STATUS_CHARS
from tellback.contracts.message import plain_builtin
from tellback.guidance.measures import truncate_params
from tellback.redaction import redact_record, redact_text, redact_value
from tellback.truncation import WHOLE_KEY, bounded_copy, omitted_bytes, readable_prefix, truncate_text


def wire_text(value: object) -> str:
    """Return a value as text (itself, its JSON, or its repr), redacted, then truncated to 64 KB.

    Only the beginning of a long text is read: to search 10 MB for secrets would hold an agent up for a second.
    """
    text, unread = _readable(value)
    return truncate_text(redact_text(text), unread=unread)


def wire_call(
    params: Mapping[str, Any], result: object, error: object
) -> tuple[dict[str, Any], str | None, str | None]:
    """Return what `wire_params` and `wire_text` do; None stays. One search of all that has no secret suffices."""
    found, unread_of_found = (None, 0) if result is None else _readable(result)
    failed, unread_of_failed = (None, 0) if error is None else _readable(error)
    try:
        if _are_plain(params):
            fields, found, failed = redact_record(params, found, failed)
        else:
            fields, found, failed = redact_value([_converted(params), found, failed])
        fields = truncate_params(fields)
    except Exception:  # noqa: BLE001 - as in `wire_params`
        fields, (found, failed) = wire_params(params), redact_value([found, failed])
    if found is not None:
        found = truncate_text(found, unread=unread_of_found)
    return fields, found, None if failed is None else truncate_text(failed, unread=unread_of_failed)


def _readable(value: object) -> tuple[str, int]:
    """Return the part of a value's text that is read, and the number of bytes after it."""
    whole = _whole_text(value)
    text = readable_prefix(whole)
    unread = 0 if text is whole else omitted_bytes(whole)
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()  # a lone surrogate from a tool's output can't be encoded
    return text, unread


def _whole_text(value: object) -> str:
    try:  # even the question for its class can raise: a weak reference whose object has gone, a proxy without a request
        return str.__str__(value) if isinstance(value, str) else _to_json(value)
    except Exception:  # noqa: BLE001 - as in `wire_params`
        return UNREADABLE


@lru_cache(maxsize=4096)
def wire_name(name: str, longest: int) -> str:
    """Return a redacted name of at most `longest` characters; cached, since a host sends the same few all the time."""
    return wire_text(name)[:longest]


def wire_status(status: object, error: object) -> str:
    """Return the host's word as bounded text, or the usual one; no status may make a tool call fail."""
    if status is None:
        return "success" if error is None else "error"
    return wire_name(status, MAX_STATUS_CHARS) if type(status) is str else wire_text(status)[:MAX_STATUS_CHARS]


def wire_duration(duration: object) -> int | None:
    """Return whole milliseconds, or None for what is not a duration."""
    given: Any = duration
    return round(given) if issubclass(type(given), _DURATIONS) and 0 <= given < _MAX_MS else None


def wire_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as JSON values, redacted, then truncated to 64 KB of JSON."""
    try:
        return truncate_params(redact_value(_converted(params)))
    except Exception:  # noqa: BLE001 - a user's object may raise anything from its repr
        return truncate_params({WHOLE_KEY: wire_text(_safe_repr(params))})


UNREADABLE: Final = "<a value that cannot be read>"

_DURATIONS: Final = (int, float)  # no `int | float`, which each call would build
_MAX_MS: Final = 2**53  # numbers in Lua and in many JSON parsers are doubles, exact up to here
_FEW: Final = 16
_NAME_CHARS: Final = 200  # a cache of the redaction keeps names
_SHORT_CHARS: Final = 4 << 10  # so that all names and values of few parameters stay below what is read of a call
_NUMBERS: Final = frozenset({int, float, bool, type(None)})


def _converted(params: Mapping[str, Any]) -> dict[str, Any]:
    return bounded_copy(msgspec.to_builtins(dict(params), str_keys=True, enc_hook=_plain_or_repr)) if params else {}


def _are_plain(params: Mapping[str, Any]) -> TypeGuard[dict[str, Any]]:
    """Check for few short texts and numbers, which nearly every call has: to convert and bound them took 2 of 17 µs."""
    kind: type[object] = type(params)
    if kind is not dict or len(params) > _FEW:
        return False
    for name, value in params.items():
        if type(name) is not str or len(name) > _NAME_CHARS:
            return False
        if type(value) not in _NUMBERS and (type(value) is not str or len(value) > _SHORT_CHARS):
            return False
    return True


def _to_json(value: object) -> str:
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "replace")
    try:
        return msgspec.json.encode(_redact_fields(value), enc_hook=_plain_or_repr).decode()
    except Exception:  # noqa: BLE001 - as above
        return _safe_repr(value)


def _plain_or_repr(value: object) -> object:
    try:
        return plain_builtin(value)
    except TypeError:
        return repr(value)


def _redact_fields(value: object) -> object:
    """Redact records field by field: in one line of JSON, a secret in one field would take the others with it."""
    return redact_value(bounded_copy(cast("Any", value))) if isinstance(value, dict | list) else value


def _safe_repr(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - as above
        return f"<{type(value).__name__} without a repr>"
