"""When two tool calls are the same attempt: one answer for what failed, what repeats, and what was taken up."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final, TypeGuard, cast

import msgspec

_DEPTH: Final = 32
_PLAIN: Final = frozenset({int, bool})
_encode = msgspec.json.Encoder(order="deterministic", enc_hook=repr).encode


def attempt_of(tool: str, params: Mapping[str, Any]) -> str:
    """The fingerprint of a call: the same for arguments that differ in case, white space, order or absent values.

    Stable across processes and hosts; whatever the arguments are, it does not raise.
    """
    return fingerprint(tool, normal_text(params))


def normal_text(params: Mapping[str, Any]) -> bytes:
    """The arguments in their normal form, as JSON; whatever they are, it does not raise."""
    try:
        return _encode(_normal_items(params, 0))
    except Exception:  # noqa: BLE001 - a user's object may raise anything from its repr
        return type(params).__name__.encode()


def fingerprint(tool: str, text: bytes) -> str:
    """The fingerprint of a call whose arguments have this normal form."""
    return hashlib.blake2b(tool.encode("utf-8", "replace") + b"\0" + text, digest_size=8).hexdigest()


def _normal(value: Any, depth: int) -> Any:
    """The value as it counts: texts trimmed and in small letters, no entries that are None, 2.0 as 2."""
    if isinstance(value, str):
        return " ".join(value.split()).casefold()
    if depth == _DEPTH or type(value) in _PLAIN:  # before all that costs more to ask
        return None if depth == _DEPTH else value
    if _is_mapping(value):
        return _normal_items(value, depth)
    if isinstance(value, list | tuple):
        return [_normal(item, depth + 1) for item in cast("list[Any]", value)]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _normal_items(values: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    return {  # what most arguments are is told here: a worker comes by with each of every tool call
        str(key): " ".join(item.split()).casefold()
        if type(item) is str
        else item
        if type(item) in _PLAIN and depth + 1 < _DEPTH
        else _normal(item, depth + 1)
        for key, item in values.items()
        if item is not None
    }


def _is_mapping(value: object) -> TypeGuard[Mapping[object, Any]]:
    return type(value) is dict or isinstance(value, Mapping)  # asking an abstract class costs more than all else
