"""Whatever a host passes, as bounded text without known secrets. Nothing here raises.

A text of any size costs the time of its two ends: the middle is cut before it is searched for secrets, and more is
cut afterwards on both sides, so that half a secret at an edge is not shown.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeGuard, TypeVar, cast

import msgspec

from tellback.redaction import redact_text, redact_value

TEXT_MAX: Final = 4_000  # characters of a message that patterns look at
SHOWN_BYTES: Final = 48 << 10  # a text in an observation, and as it is published
_HEAD_PART: Final = 0.75
_MARGIN: Final = 16 << 10  # what is cut once more beyond each edge
_JSON_MAX: Final = 1 << 20
_PYTHON_MAX: Final = 20_000
_ADDRESS: Final = re.compile(r"(<[^<>]{1,200}) at 0x[0-9a-fA-F]{1,16}(?=>)")
_DEPTH: Final = 16
_WIDTH: Final = 2_000

_T = TypeVar("_T")


def text_of(value: object) -> str:
    """The value as text: itself, or its JSON, or its repr; decoded bytes; "" for None."""
    if value is None:
        return ""
    if isinstance(value, str):
        text = value
    elif isinstance(value, bytes | bytearray):
        text = bytes(value).decode("utf-8", "replace")
    elif isinstance(value, BaseException):
        text = _exception(value)
    else:
        value = in_order(cast("set[Any]", value)) if isinstance(value, set | frozenset) else value
        text = safely(lambda: msgspec.json.encode(value, enc_hook=represent).decode(), "") or represent(value)
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def shown(value: object, limit: int = SHOWN_BYTES) -> str:
    """The value as an agent may read it: redacted, its two ends kept, with a marker that counts what is left out.

    Structured values are redacted field by field; a text in which a secret stands loses that line.
    """
    if is_dict(value) or is_row(value):
        value = safely(lambda: redact_value(cast("Any", value)), "[redacted: it cannot be read]")
    text = text_of(value)
    if len(text) > limit + 2 * _MARGIN:
        head = int(limit * _HEAD_PART)
        first, last = ends_of(text, head, limit - head)
        left_out = len(text.encode()) - len(first.encode()) - len(last.encode())
        return _joined(first, last, max(left_out, 0), limit)
    clean = _redacted(text)
    if len(clean) * 4 <= limit or len(clean.encode()) <= limit:
        return clean
    return _joined(clean, clean, None, limit)


def ends_of(text: str, head: int, tail: int) -> tuple[str, str]:
    """The first `head` and last `tail` characters of a long text, redacted, with no half of a secret at the cuts.

    What is searched goes beyond each cut by more than a secret has; what then stands at the edge of that is dropped.
    """
    if len(text) <= head + tail + 2 * _MARGIN:
        clean = redact_text(text)
        return clean[:head], clean[max(head, len(clean) - tail) :]
    first, last = text[: head + _MARGIN], text[len(text) - tail - _MARGIN :]
    lines, ending = redact_text(first).split("\n"), first.rpartition("\n")[2]
    if lines[-1] == ending:  # it may end within a secret
        lines[-1] = ending[:-_MARGIN]
    before = "\n".join(lines)[:head]
    lines, beginning = redact_text(last).split("\n"), last.partition("\n")[0]
    if lines[0] == beginning:
        lines[0] = beginning[_MARGIN:]
    after = "\n".join(lines)
    return before, after[max(0, len(after) - tail) :]


def _redacted(text: str) -> str:
    """JSON on one line keeps what is no secret of it; other text loses whole lines."""
    clean = redact_text(text)
    if clean == text:
        return text
    data = json_of(text)
    if isinstance(data, dict | list):
        return safely(lambda: msgspec.json.encode(redact_value(cast("Any", data))).decode(), clean)
    return clean


def _joined(first: str, last: str, left_out: int | None, limit: int) -> str:
    room = limit - 64  # what the marker takes
    head = first.encode()[: int(room * _HEAD_PART)].decode("utf-8", "ignore")
    tail = last.encode()[-(room - int(room * _HEAD_PART)) :].decode("utf-8", "ignore")
    whole = len(first.encode()) if left_out is None else left_out + len(first.encode()) + len(last.encode())
    return f"{head}\n…[{whole - len(head.encode()) - len(tail.encode())} bytes left out]…\n{tail}"


def json_text(value: object) -> str:
    """A value's JSON, for a text."""
    return safely(lambda: msgspec.json.encode(value).decode(), "…")


def words_of_error(error: BaseException) -> str:
    """What an exception says of itself."""
    return safely(lambda: _placeless(str(error)), "")


def _placeless(text: str) -> str:
    return _ADDRESS.sub(r"\1", text) if " at 0x" in text else text


def represent(value: object) -> str:
    """Its repr without addresses, which differ from process to process; or that it has none."""
    return safely(lambda: _placeless(repr(value)), f"<{type(value).__name__} without a repr>")


def in_order(values: Iterable[Any]) -> list[Any]:
    """The values of a set, in an order that is the same in every process."""
    return sorted(values, key=represent)


def is_dict(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether it is a dict; its keys are taken for texts."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Whether it is a list."""
    return isinstance(value, list)


def is_row(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether it is a list or a tuple."""
    return isinstance(value, list | tuple)


def is_mapping(value: object) -> TypeGuard[Mapping[Any, Any]]:
    """Whether it is a mapping."""
    return isinstance(value, Mapping)


def safely(do: Callable[[], _T], otherwise: _T) -> _T:
    """What it gives, or `otherwise` if it raises: the objects of others may do anything when they are looked at."""
    try:
        return do()
    except Exception:  # noqa: BLE001 - as the docstring says
        return otherwise


def attribute(value: object, name: str) -> Any:
    """An attribute of somebody's object; None if there is none, or it cannot be read."""
    return safely(lambda: getattr(value, name, None), None)


def _exception(error: BaseException) -> str:
    said = words_of_error(error).strip()
    name = type(error).__name__
    return f"{name}: {said}" if said else name


def json_of(text: str) -> object:
    """What a text decodes to if it is a JSON object, list or text of them; None otherwise."""
    if len(text) > _JSON_MAX or text.lstrip()[:1] not in ("{", "[", '"'):
        return None
    data: object = safely(lambda: msgspec.json.decode(text), None)
    if (
        data is None and len(text) <= _PYTHON_MAX and "'" in text and "\\" not in text
    ):  # `str` of a dict; escapes may warn
        data = safely(lambda: ast.literal_eval(text.strip()), None)
        data = data if is_dict(data) or is_list(data) else None
    if isinstance(data, str) and data.lstrip()[:1] in ("{", "["):
        return json_of(data)
    return data


def fields_of(value: object) -> Mapping[str, Any]:
    """A mapping with its text keys; nothing for what is no mapping."""
    if not is_mapping(value):
        return {}
    return safely(lambda: {key: item for key, item in value.items() if isinstance(key, str)}, {})


def items_of(value: object) -> list[Any]:
    """A list's first items; nothing for what is no list."""
    return list(value[:_WIDTH]) if is_row(value) else []


def leaves(value: object, depth: int = 0) -> Iterable[str]:
    """The texts within JSON-like data, to a depth."""
    if isinstance(value, str):
        yield value
    elif depth < _DEPTH:
        for item in [*fields_of(value).values(), *items_of(value)]:
            yield from leaves(item, depth + 1)


def one_line(text: str, limit: int = 240) -> str:
    """The text on one line of at most `limit` characters."""
    line = " ".join(text[: limit * 8].split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"
