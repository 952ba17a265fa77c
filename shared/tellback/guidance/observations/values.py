"""Convert any value that a host passes to bounded, redacted text or data. Nothing here raises.

A value of any size costs the time of its two ends. The middle is dropped before the search for secrets, and a margin
beside each cut afterwards, so half a secret at an edge is never shown. Structured data is trimmed the same way.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeGuard, TypeVar, cast

import msgspec

from tellback.contracts.message import plain_builtin
from tellback.redaction import redact_text, redact_value
from tellback.truncation import HEAD_SHARE, join_ends

TEXT_MAX: Final = 4_000  # characters of a message that patterns search
# A text in an observation and in its event; with headline and suggestions an observation has at most 56 KiB.
SHOWN_BYTES: Final = 48 << 10
# Characters searched for secrets beyond each cut, then dropped; more than one secret takes, such as a private key.
_REDACTION_MARGIN: Final = 16 << 10
# Characters of a text that is parsed: the agent waits while its result is observed.
_JSON_MAX: Final = 1 << 20
# `ast.literal_eval` is slower than JSON by far, and takes more memory.
_PYTHON_MAX: Final = 20_000
# The default repr has the object's address, which differs between processes: equal calls must give equal bytes (G-60).
_ADDRESS: Final = re.compile(r"(<[^<>]{1,200}) at 0x[0-9a-fA-F]{1,16}(?=>)")
# Bounds of walks over data, which may contain itself.
_DEPTH: Final = 16
_WIDTH: Final = 2_000

_T = TypeVar("_T")


def value_text(value: object) -> str:
    """Convert a value to text: a text itself, decoded bytes, JSON, otherwise the repr; "" for None."""
    if value is None:
        return ""
    if isinstance(value, str):
        text = str.__str__(value)  # a subclass, such as a scraper's, may not be encodable
    elif isinstance(value, bytes | bytearray):
        text = bytes(value).decode("utf-8", "replace")
    elif isinstance(value, BaseException):
        text = _exception_text(value)
    else:
        value = stable_order(cast("set[Any]", value)) if isinstance(value, set | frozenset) else value
        json = call_safely(lambda: msgspec.json.encode(value, enc_hook=plain_or_repr).decode(), "")
        text = json or stable_repr(value)
    # Lone surrogates cannot be published.
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def display_text(value: object, limit: int = SHOWN_BYTES) -> str:
    """Return the value as an agent may read it: redacted, and if too long its two ends around a marker.

    Structured values are redacted field by field; a text loses each line that contains a secret.
    """
    if is_dict(value) or is_sequence(value):
        value = call_safely(lambda: redact_value(cast("Any", value)), "[redacted: it cannot be read]")
    text = value_text(value)
    if len(text) > limit + 2 * _REDACTION_MARGIN:
        head = int(limit * HEAD_SHARE)
        first, last = redacted_ends(text, head, limit - head)
        left_out = len(text.encode()) - len(first.encode()) - len(last.encode())
        return join_ends(first, last, max(left_out, 0), limit)
    clean = _redact(text)
    if len(clean) * 4 <= limit or len(clean.encode()) <= limit:
        return clean
    return join_ends(clean, clean, None, limit)


def redacted_ends(text: str, head: int, tail: int) -> tuple[str, str]:
    """Return the first `head` and last `tail` characters of a text, redacted, with no half of a secret at the cuts.

    The search extends beyond each cut by more than the length of a secret; the outer edge of that is then dropped.
    """
    if len(text) <= head + tail + 2 * _REDACTION_MARGIN:
        clean = redact_text(text)
        return clean[:head], clean[max(head, len(clean) - tail) :]
    first, last = text[: head + _REDACTION_MARGIN], text[len(text) - tail - _REDACTION_MARGIN :]
    lines, ending = redact_text(first).split("\n"), first.rpartition("\n")[2]
    if lines[-1] == ending:  # unchanged, so it may end within a secret that was not recognized
        lines[-1] = ending[:-_REDACTION_MARGIN]
    before = "\n".join(lines)[:head]
    lines, beginning = redact_text(last).split("\n"), last.partition("\n")[0]
    if lines[0] == beginning:
        lines[0] = beginning[_REDACTION_MARGIN:]
    after = "\n".join(lines)
    return before, after[max(0, len(after) - tail) :]


def _redact(text: str) -> str:
    """Redact a text by lines, or by fields if it is JSON, which is often a single line."""
    clean = redact_text(text)
    if clean == text:
        return text
    data = parse_json(text)
    if isinstance(data, dict | list):
        return call_safely(lambda: msgspec.json.encode(redact_value(cast("Any", data))).decode(), clean)
    return clean


def readable_text(value: object) -> str:
    """Return the value's text, or a substitute for an object that raises even if asked for its class.

    A weak reference whose object has gone does, and so does a web framework's proxy outside a request.
    """
    return call_safely(lambda: value_text(value), "<a value that cannot be read>")


def json_text(value: object) -> str:
    """Return a value's JSON, or "…" if it has none."""
    return call_safely(lambda: msgspec.json.encode(value).decode(), "…")


def error_message(error: BaseException) -> str:
    """Return an exception's message, or "" if its `__str__` raises."""
    return call_safely(lambda: _without_addresses(str(error)), "")


def _without_addresses(text: str) -> str:
    return _ADDRESS.sub(r"\1", text) if " at 0x" in text else text


def stable_repr(value: object) -> str:
    """Return the repr without addresses, which differ between processes, or a substitute if it raises."""
    return call_safely(lambda: _without_addresses(repr(value)), f"<{type(value).__name__} without a repr>")


def plain_or_repr(value: object) -> object:
    """Return the text or number of a subclass of a built-in type, otherwise the repr."""
    plain = call_safely(lambda: plain_builtin(value), None)
    return stable_repr(value) if plain is None else plain


def stable_order(values: Iterable[Any]) -> list[Any]:
    """Order the values of a set the same way in every process."""
    return sorted(values, key=stable_repr)


def is_dict(value: object) -> TypeGuard[dict[str, Any]]:
    """Check for a dict; its keys are typed as texts without a check."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Check for a list."""
    return isinstance(value, list)


def is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    """Check for a list or a tuple."""
    return isinstance(value, list | tuple)


def is_mapping(value: object) -> TypeGuard[Mapping[Any, Any]]:
    """Check for a mapping."""
    return isinstance(value, Mapping)


def call_safely(do: Callable[[], _T], otherwise: _T) -> _T:
    """Call `do`, or return `otherwise` if it raises: a foreign object may raise from any attribute or repr."""
    try:
        return do()
    except Exception:  # noqa: BLE001 - foreign objects raise anything
        return otherwise


def safe_attribute(value: object, name: str) -> Any:
    """Return an attribute of a foreign object, or None if it is missing or raises."""
    return call_safely(lambda: getattr(value, name, None), None)


def _exception_text(error: BaseException) -> str:
    said = error_message(error).strip()
    name = type(error).__name__
    return f"{name}: {said}" if said else name


def decoded_json(text: str) -> object:
    """Decode a JSON text; None if it is none."""
    return call_safely(lambda: msgspec.json.decode(text), None)


def parse_json(text: str) -> object:
    """Decode a text that is a JSON object or list, a JSON text of one, or the `str` of a dict or list; else None."""
    if len(text) > _JSON_MAX or text.lstrip()[:1] not in ("{", "[", '"'):
        return None
    data = decoded_json(text)
    if (
        data is None and len(text) <= _PYTHON_MAX and "'" in text and "\\" not in text
    ):  # `str` of a dict, as many tools return; an invalid escape in it would cause a SyntaxWarning
        data = call_safely(lambda: ast.literal_eval(text.strip()), None)
        data = data if is_dict(data) or is_list(data) else None
    if isinstance(data, str) and data.lstrip()[:1] in ("{", "["):
        return parse_json(data)
    return data


def as_mapping(value: object) -> Mapping[str, Any]:
    """Return a mapping's entries with text keys; empty for anything else."""
    if not is_mapping(value):
        return {}
    return call_safely(lambda: {key: item for key, item in value.items() if isinstance(key, str)}, {})


def as_list(value: object) -> list[Any]:
    """Return the first items of a list or tuple; empty for anything else."""
    return list(value[:_WIDTH]) if is_sequence(value) else []


def text_leaves(value: object, depth: int = 0) -> Iterable[str]:
    """Yield the texts within JSON-like data, down to a fixed depth."""
    if isinstance(value, str):
        yield value
    elif depth < _DEPTH:
        for item in [*as_mapping(value).values(), *as_list(value)]:
            yield from text_leaves(item, depth + 1)


# Characters of one trimmed value; a test limits what is then searched for secrets to four times this.
BUDGET: Final = 256 << 10
# The charge for a number or an entry, so a list of a million numbers is trimmed too.
_ITEM: Final = 16
_TRIM_DEPTH: Final = 48
# Left for each text when the budget is spent, so fields stay recognizable.
_MIN_BUDGET: Final = 64
_KEY: Final = 1_000  # longer keys are data in disguise


def trim_value(value: Any) -> Any:
    """Copy at most about `BUDGET` characters, with the head and tail of long texts and lists; less is unchanged."""
    return _Trimmer().trim(value, BUDGET, 0)


def trim_and_redact(value: object) -> object:
    """Trim structured values, then redact them field by field; return anything else as it is."""
    if not (is_dict(value) or is_sequence(value)):
        return value
    return call_safely(lambda: redact_value(trim_value(value)), "[redacted: it cannot be read]")


class _Trimmer:
    """Spends one budget on a whole value; the rest is shared by the whole walk."""

    def __init__(self) -> None:
        self._left = BUDGET

    def trim(self, value: Any, room: int, depth: int) -> Any:
        room = min(room, self._left)
        self._left -= _ITEM
        if isinstance(value, str):
            return self._trim_text(value, max(room, _MIN_BUDGET))
        if depth >= _TRIM_DEPTH and (is_mapping(value) or is_sequence(value)):
            return "…"
        if is_mapping(value):
            return self._trim_fields(value, room, depth)
        if isinstance(value, set | frozenset):
            value = stable_order(cast("set[Any]", value))
        return self._trim_items(value, room, depth) if is_sequence(value) else value

    def _trim_text(self, text: str, room: int) -> str:
        text = str.__str__(text)
        self._left -= min(len(text), room)
        if len(text) <= room:
            return text
        head = int(room * HEAD_SHARE)
        first, last = redacted_ends(text, head, room - head)
        return f"{first}\n…[{len(text) - room} characters left out]…\n{last}"

    def _trim_fields(self, fields: Mapping[Any, Any], room: int, depth: int) -> dict[Any, Any]:
        kept: dict[Any, Any] = {}
        end = self._left - room
        for number, (key, item) in enumerate(fields.items()):
            if self._left <= max(end, 0):
                kept["…"] = f"{len(fields) - number} fields left out"
                break
            name = "…" if isinstance(key, str) and len(key) > _KEY else key
            self._left -= len(name) if isinstance(name, str) else _ITEM
            kept[name] = self.trim(item, room, depth + 1)
        return kept

    def _trim_items(self, items: Sequence[Any], room: int, depth: int) -> list[Any]:
        head, count = self._trim_while(items, int(room * HEAD_SHARE), depth)
        if count == len(items):
            return head
        rest, more = self._trim_while(items[: count - 1 if count else None : -1], room - int(room * HEAD_SHARE), depth)
        left_out = len(items) - count - more
        return [*head, *([f"…[{left_out} items left out]…"] if left_out > 0 else []), *reversed(rest)]

    def _trim_while(self, items: Sequence[Any], room: int, depth: int) -> tuple[list[Any], int]:
        end = max(self._left - room, 0)
        kept: list[Any] = []
        for item in items:
            if self._left <= end:
                break
            kept.append(self.trim(item, room, depth + 1))
        return kept, len(kept)
