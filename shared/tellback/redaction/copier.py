"""The copy of a JSON-like value, and its texts as they are searched together, some with their keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, TypeGuard

from tellback.redaction.rules import holds_nothing

MAX_DEPTH: Final = 64
TOO_DEEP: Final = "[redacted: nested too deeply to check]"
KEY_CHARS: Final = 200  # of the end of a key that are searched with each text under it: caches keep no more in memory

_PLAIN: Final = frozenset({int, float, bool, type(None)})
_FLAT: Final = _PLAIN | {str}


def keyed_text(key: str, text: str) -> str:
    """Return the text as the value of its key."""
    return f'{key}="{text}"'


def searched_text(key: str, text: str) -> str:
    """Return the text with its key, and of several lines without it too: behind a key no line is a table's head."""
    keyed = keyed_text(key, text)
    return f"{keyed}\n{text}" if "\n" in text else keyed


@lru_cache(maxsize=4096)
def is_plain_name(key: str) -> bool:
    """Return whether a key is a name that no built-in rule matches by itself, as nearly all are."""
    return key.isidentifier() and holds_nothing(key)


class Copier:
    """Makes a deep copy of a value, and collects its texts in `seen`, each in the form in which it is searched.

    Keys that need no search by the built-in rules are in `names`.
    """

    __slots__ = ("_marks_secret", "names", "seen")

    def __init__(self, marks_secret: Callable[[str], bool]) -> None:
        self._marks_secret = marks_secret
        self.seen: list[str] = []
        self.names: list[str] = []

    def copy(self, value: Any, key: str = "", depth: int = 0) -> Any:
        """Return the copy of the value of `key`."""
        kind: type[object] = value.__class__
        if kind is dict and depth < MAX_DEPTH:
            return self._copy_fields(value, depth + 1)
        if kind in _PLAIN:
            return value
        if isinstance(value, str):
            self.seen.append(searched_text(key, value) if key and self._marks_secret(key) else value)
            return value
        if kind is not dict and is_sequence(value):
            return TOO_DEEP if depth >= MAX_DEPTH else [self.copy(item, key, depth + 1) for item in value]
        if kind is dict or is_mapping(value):
            return TOO_DEEP if depth >= MAX_DEPTH else self._copy_fields(value, depth + 1)
        return value

    def _copy_fields(self, fields: Mapping[Any, Any], depth: int) -> dict[Any, Any]:
        copy: dict[Any, Any] = {}
        for key, value in fields.items():
            if type(key) is str:  # a fast path for nearly every key; the other branch does the same at a higher cost
                name = key[-KEY_CHARS:]
                (self.names if name is key and is_plain_name(key) else self.seen).append(key)
                if type(value) is str:
                    self.seen.append(searched_text(name, value) if name and self._marks_secret(name) else value)
                copy[key] = value if type(value) in _FLAT else self.copy(value, name, depth)
            else:
                copy[self.copy(key, "", depth)] = self.copy(value, str(key)[-KEY_CHARS:], depth)
        return copy


def is_mapping(value: object) -> TypeGuard[Mapping[object, object]]:
    """Return whether the fields of a value are copied."""
    return isinstance(value, Mapping)


def is_sequence(value: object) -> TypeGuard[Iterable[object]]:
    """Return whether the items of a value are copied."""
    return isinstance(value, list | tuple | set | frozenset)
