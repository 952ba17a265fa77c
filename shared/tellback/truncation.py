"""Shorten texts and arguments: every cut that a reader sees has one of these forms. Redaction always comes first.

| function | limit | what shows that something is missing |
|---|---|---|
| `truncate_chars` | characters | … at the end |
| `truncate_start` | characters | … at the beginning, for paths and ids that differ at their ends |
| `single_line` | characters | … at the end, and the text is on one line |
| `truncate_middle` | characters | …[n characters left out]… between head and tail |
| `truncate_bytes` | bytes of UTF-8 | the marker that the caller passes, or nothing |
| `truncate_text` | bytes of UTF-8 | …[n bytes cut] at the end |
| `join_ends` | bytes of UTF-8 | …[n bytes left out]… between a text's two ends |
| `truncate_arguments` | bytes of JSON | as `truncate_text`, in each long text |

A cut falls between characters, never within one. A plain slice stays where a limit only bounds what is searched, or
what a field of a message may have. `commands.truncation` truncates streams, by lines and while they arrive.

Standard library only: `tellback hook` imports this module, and its start time is a budget. At most 64 KiB of a value
are kept, so only the beginning of a long one is read: searching 10 MB for secrets would delay an agent by a second.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar, cast

from tellback.contracts.limits import MAX_FIELD_BYTES
from tellback.sanitize import one_line

# The one key of arguments that are kept as a text: they were no mapping, or had to be truncated as a whole.
WHOLE_KEY: Final = "…"
LEAF_BYTES: Final = 256
# Characters that are read of one value: four times what is kept of it.
MAX_CHARS_READ: Final = 256 << 10
# Each entry is charged this much, so a list of a million numbers ends the copy too.
_NODE: Final = 64
# Both walks recurse; arguments from a model may be nested thousands of levels deep.
_DEPTH: Final = 32
_MAX_READ_DEPTH: Final = 128

# `join_ends` keeps more of the head: the first results rank highest; the tail has the last error of a log.
HEAD_SHARE: Final = 0.75
_JOINER: Final = "\u200d"

_T = TypeVar("_T")


def truncate_chars(text: str, limit: int) -> str:
    """Return the text in at most `limit` characters, the last of them an ellipsis if it was longer."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def truncate_start(text: str, limit: int) -> str:
    """Return the end of the text in at most `limit` characters, the first of them an ellipsis if it was longer."""
    return text if len(text) <= limit else f"…{text[len(text) - limit + 1 :]}"


def single_line(text: str, limit: int) -> str:
    """Return the text on one line of at most `limit` characters; only its beginning is read."""
    line = one_line(text[: limit * 8])
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}…"


def truncate_middle(text: str, limit: int) -> str:
    """Return the two ends of a text, `limit` characters together, with a marker that counts those left out."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    return f"{text[:head]} …[{len(text) - limit} characters left out]… {text[len(text) - limit + head :]}"


def truncate_bytes(text: str, limit: int, marker: str = "") -> str:
    """Return the text in at most `limit` bytes of UTF-8, those of `marker` included, which ends a longer text."""
    if len(text) * 4 <= limit:
        return text
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit:
        return text
    room = max(0, limit - len(marker.encode()))
    return f"{raw[:room].decode('utf-8', 'ignore')}{marker}"


def join_ends(first: str, last: str, left_out: int | None, limit: int) -> str:
    """Return head and tail in at most `limit` bytes of UTF-8 around a marker that counts the bytes left out.

    `left_out` is the number of bytes between the two texts; None means that both are the same, whole text.
    """
    room = limit - 64  # for the marker
    head = first.encode()[: int(room * HEAD_SHARE)].decode("utf-8", "ignore")
    tail = last.encode()[-(room - int(room * HEAD_SHARE)) :].decode("utf-8", "ignore")
    whole = len(first.encode()) if left_out is None else left_out + len(first.encode()) + len(last.encode())
    return f"{head}\n…[{whole - len(head.encode()) - len(tail.encode())} bytes left out]…\n{tail}"


def within_grapheme(text: str, at: int) -> bool:
    """Return whether the characters before and after this index show as one: accents, flags, joined emoji."""
    after = text[at]
    if text[at - 1] == _JOINER or after == _JOINER or unicodedata.category(after) in {"Mn", "Me", "Mc"}:
        return True
    if "\U0001f3fb" <= after <= "\U0001f3ff":  # skin tones
        return True
    flags = 0  # two regional indicators make one flag, so an odd number before `at` means that it is inside a flag
    while flags < at and _is_regional_indicator(text[at - 1 - flags]):
        flags += 1
    return _is_regional_indicator(after) and flags % 2 == 1


def _is_regional_indicator(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def truncate_text(text: str, limit: int = MAX_FIELD_BYTES, unread: int = 0) -> str:
    """Truncate a text to at most `limit` bytes of UTF-8, with a marker that counts the bytes left out.

    `unread` is the number of bytes left out by an earlier cut.
    """
    # A character has at most four bytes: this spares nearly all texts the encoding.
    if not unread and len(text) * 4 <= limit:
        return text
    raw = text.encode("utf-8", "replace")
    if not unread and len(raw) <= limit:
        return text
    whole = len(raw) + unread
    room = max(0, limit - len(f" …[{whole} bytes cut]".encode()))
    kept = raw[:room].decode("utf-8", "ignore")
    return f"{kept} …[{whole - len(kept.encode())} bytes cut]"


def readable_prefix(text: str) -> str:
    """Return the part of a long text that is read, up to a line break, so no half of a secret remains at the cut.

    If the last line break is in the first half, the cut falls within a line: its beginning alone exceeds what is kept.
    """
    if len(text) <= MAX_CHARS_READ:
        return text
    end = text.rfind("\n", 0, MAX_CHARS_READ)
    return text[: end if end > MAX_CHARS_READ >> 1 else MAX_CHARS_READ]


def omitted_bytes(text: str) -> int:
    """Count the bytes of a text that `readable_prefix` leaves out."""
    return len(text[len(readable_prefix(text)) :].encode("utf-8", "replace"))


def bounded_copy(value: _T) -> _T:
    """Copy at most `MAX_CHARS_READ` characters of JSON-like data, with a count in place of what is left out."""
    return cast("_T", _BoundedCopier().copy(value, 0))


class _BoundedCopier:
    """Spends one budget of `MAX_CHARS_READ` characters on a whole value."""

    def __init__(self) -> None:
        self._left = MAX_CHARS_READ

    def copy(self, value: Any, depth: int) -> Any:
        self._left -= _NODE
        if isinstance(value, str):
            return self._copy_text(value)
        if not isinstance(value, dict | list):
            return value
        if depth == _MAX_READ_DEPTH:
            return "…"
        if isinstance(value, dict):
            return self._copy_fields(cast("dict[str, Any]", value), depth)
        return self._copy_items(cast("Sequence[Any]", value), depth)

    def _copy_text(self, text: str) -> str:
        kept = readable_prefix(text)
        self._left -= len(kept)
        return text if kept is text else f"{kept}\n…[{len(text) - len(kept)} characters not read]"

    def _copy_fields(self, fields: dict[Any, Any], depth: int) -> dict[Any, Any]:
        kept: dict[Any, Any] = {}
        for key, item in fields.items():
            if self._left <= 0:
                kept["…"] = f"{len(fields) - len(kept)} fields not read"
                break
            self._left -= len(key) if isinstance(key, str) else 0
            kept[key] = self.copy(item, depth + 1)
        return kept

    def _copy_items(self, items: Sequence[Any], depth: int) -> list[Any]:
        kept: list[Any] = []
        for item in items:
            if self._left <= 0:
                return [*kept, f"…[{len(items) - len(kept)} items not read]"]
            kept.append(self.copy(item, depth + 1))
        return kept


def truncate_arguments(
    params: dict[str, Any], encode: Callable[[object], bytes], limit: int = MAX_FIELD_BYTES
) -> dict[str, Any]:
    """Truncate arguments until their JSON, as `encode` writes it, has at most `limit` bytes.

    Long texts are truncated first; if that is not enough, the whole becomes one truncated text.
    """
    if len(encode(params)) <= limit:
        return params
    shortened: dict[str, Any] = _truncate_leaves(params)
    text = encode(shortened)
    if len(text) <= limit:
        return shortened
    return {WHOLE_KEY: truncate_text(text.decode(), limit // 2)}  # half: its quotes are escaped once more


def _truncate_leaves(value: Any, depth: int = 0) -> Any:
    if isinstance(value, str):
        return truncate_text(value, LEAF_BYTES)
    if not isinstance(value, dict | list):
        return value
    if depth == _DEPTH:
        return "…"
    if isinstance(value, dict):
        return {key: _truncate_leaves(item, depth + 1) for key, item in cast("dict[str, Any]", value).items()}
    return [_truncate_leaves(item, depth + 1) for item in cast("Sequence[Any]", value)]
