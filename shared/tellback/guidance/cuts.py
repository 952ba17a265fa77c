"""Cuts of texts and arguments, with the standard library alone: `tellback hook` makes them too.

What is kept has at most 64 KB, so only the beginning of what is long is read: searching 10 MB for secrets would hold an
agent up for a second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar, cast

from tellback.contracts.limits import MAX_FIELD_BYTES

LEAF_BYTES: Final = 256
READ_MAX: Final = 256 << 10  # characters that are looked at of one value; what is kept of it is a quarter
_NODE: Final = 64  # characters that an entry counts as
_DEPTH: Final = 32
_DEEPEST: Final = 128

_T = TypeVar("_T")


def cut_text(text: str, limit: int = MAX_FIELD_BYTES, unread: int = 0) -> str:
    """The text in at most `limit` bytes of UTF-8, with a marker that tells how many were left out.

    `unread`: bytes that were left out before.
    """
    if not unread and len(text) * 4 <= limit:
        return text
    raw = text.encode("utf-8", "replace")
    if not unread and len(raw) <= limit:
        return text
    whole = len(raw) + unread
    room = max(0, limit - len(f" …[{whole} bytes cut]".encode()))
    kept = raw[:room].decode("utf-8", "ignore")
    return f"{kept} …[{whole - len(kept.encode())} bytes cut]"


def beginning(text: str) -> str:
    """What is read of a long text: up to where a line ends, so that no half of a secret stands there.

    A last line of half of it is cut, for its beginning alone is more than is kept.
    """
    if len(text) <= READ_MAX:
        return text
    end = text.rfind("\n", 0, READ_MAX)
    return text[: end if end > READ_MAX >> 1 else READ_MAX]


def unread_bytes(text: str) -> int:
    """How many bytes of a text `beginning` leaves out."""
    return len(text[len(beginning(text)) :].encode("utf-8", "replace"))


def limited(value: _T) -> _T:
    """A copy of JSON-like data that has no more than is read; what is left out is counted in its place."""
    return cast("_T", _Limiting().of(value, 0))


class _Limiting:
    """Spends `READ_MAX` characters over a whole value."""

    def __init__(self) -> None:
        self._left = READ_MAX

    def of(self, value: Any, depth: int) -> Any:
        self._left -= _NODE
        if isinstance(value, str):
            return self._text(value)
        if not isinstance(value, dict | list):
            return value
        if depth == _DEEPEST:
            return "…"
        if isinstance(value, dict):
            return self._fields(cast("dict[str, Any]", value), depth)
        return self._items(cast("Sequence[Any]", value), depth)

    def _text(self, text: str) -> str:
        kept = beginning(text)
        self._left -= len(kept)
        return text if kept is text else f"{kept}\n…[{len(text) - len(kept)} characters not read]"

    def _fields(self, fields: dict[Any, Any], depth: int) -> dict[Any, Any]:
        kept: dict[Any, Any] = {}
        for key, item in fields.items():
            if self._left <= 0:
                kept["…"] = f"{len(fields) - len(kept)} fields not read"
                break
            self._left -= len(key) if isinstance(key, str) else 0
            kept[key] = self.of(item, depth + 1)
        return kept

    def _items(self, items: Sequence[Any], depth: int) -> list[Any]:
        kept: list[Any] = []
        for item in items:
            if self._left <= 0:
                return [*kept, f"…[{len(items) - len(kept)} items not read]"]
            kept.append(self.of(item, depth + 1))
        return kept


def cut_arguments(
    params: dict[str, Any], encode: Callable[[object], bytes], limit: int = MAX_FIELD_BYTES
) -> dict[str, Any]:
    """Arguments whose JSON, as `encode` makes it, has at most `limit` bytes.

    Long texts are cut first, then all becomes one text.
    """
    if len(encode(params)) <= limit:
        return params
    shortened: dict[str, Any] = _shorten(params)
    text = encode(shortened)
    if len(text) <= limit:
        return shortened
    return {"…": cut_text(text.decode(), limit // 2)}  # half: quotes within are escaped once more


def _shorten(value: Any, depth: int = 0) -> Any:
    if isinstance(value, str):
        return cut_text(value, LEAF_BYTES)
    if not isinstance(value, dict | list):
        return value
    if depth == _DEPTH:
        return "…"
    if isinstance(value, dict):
        return {key: _shorten(item, depth + 1) for key, item in cast("dict[str, Any]", value).items()}
    return [_shorten(item, depth + 1) for item in cast("Sequence[Any]", value)]
