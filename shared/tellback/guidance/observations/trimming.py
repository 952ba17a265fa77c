"""A copy of JSON-like data that is small enough to be searched for secrets: its two ends, with markers between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from tellback.guidance.observations.values import ends_of, in_order, is_dict, is_mapping, is_row, safely
from tellback.redaction import redact_value

BUDGET: Final = 256 << 10  # characters of all texts together, and as much again for what holds them
_ITEM: Final = 16  # what a number or an entry counts
_DEPTH: Final = 48
_LEAST: Final = 64
_KEY: Final = 1_000
_HEAD_PART: Final = 0.75


def trimmed(value: Any, budget: int = BUDGET) -> Any:
    """The value itself where it is small; else a copy of at most about `budget` characters, head and tail kept."""
    return _Trimming(budget).of(value, budget, 0)


def readable(value: object) -> object:
    """Structured values trimmed and redacted field by field; anything else as it is."""
    if not (is_dict(value) or is_row(value)):
        return value
    return safely(lambda: redact_value(trimmed(value)), "[redacted: it cannot be read]")


class _Trimming:
    """Spends a budget over a value; what is left is shared by the whole walk."""

    def __init__(self, budget: int) -> None:
        self._left = budget

    def of(self, value: Any, room: int, depth: int) -> Any:
        room = min(room, self._left)
        self._left -= _ITEM
        if isinstance(value, str):
            return self._text(value, max(room, _LEAST))
        if depth >= _DEPTH and (is_mapping(value) or is_row(value)):
            return "…"
        if is_mapping(value):
            return self._fields(value, room, depth)
        if isinstance(value, set | frozenset):
            value = in_order(cast("set[Any]", value))
        return self._items(value, room, depth) if is_row(value) else value

    def _text(self, text: str, room: int) -> str:
        self._left -= min(len(text), room)
        if len(text) <= room:
            return text
        head = int(room * _HEAD_PART)
        first, last = ends_of(text, head, room - head)
        return f"{first}\n…[{len(text) - room} characters left out]…\n{last}"

    def _fields(self, fields: Mapping[Any, Any], room: int, depth: int) -> dict[Any, Any]:
        kept: dict[Any, Any] = {}
        end = self._left - room
        for number, (key, item) in enumerate(fields.items()):
            if self._left <= max(end, 0):
                kept["…"] = f"{len(fields) - number} fields left out"
                break
            name = "…" if isinstance(key, str) and len(key) > _KEY else key
            self._left -= len(name) if isinstance(name, str) else _ITEM
            kept[name] = self.of(item, room, depth + 1)
        return kept

    def _items(self, items: Sequence[Any], room: int, depth: int) -> list[Any]:
        head, count = self._while(items, int(room * _HEAD_PART), depth)
        if count == len(items):
            return head
        rest, more = self._while(items[: count - 1 if count else None : -1], room - int(room * _HEAD_PART), depth)
        left_out = len(items) - count - more
        return [*head, *([f"…[{left_out} items left out]…"] if left_out > 0 else []), *reversed(rest)]

    def _while(self, items: Sequence[Any], room: int, depth: int) -> tuple[list[Any], int]:
        end = max(self._left - room, 0)
        kept: list[Any] = []
        for item in items:
            if self._left <= end:
                break
            kept.append(self.of(item, room, depth + 1))
        return kept, len(kept)
