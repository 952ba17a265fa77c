"""Decide whether two tool calls are the same attempt, or have nearly identical arguments.

Two calls are the same attempt if their arguments are equal in normal form; failures, repeats and taken suggestions all
use this one answer. Reads and searches are also compared if they are nearly identical: the same tool, the same numbers
in the same order (another page is another call), and texts that share nine tenths of their trigrams. The measure
of progress leaves out of the normal form what only looks different each time: remarks, and how long a call waits first.
Whether a call repeats another is judged in `tellback.guidance.progress`.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeGuard, cast

import msgspec

from tellback.contracts.guidance import ToolCall
from tellback.errors import InvalidInput
from tellback.guidance.progress.effects import SHELLS, named_effect, plain_name, tool_effect

_DEPTH: Final = 32  # arguments from a model may be nested deeper than Python can recurse
_PLAIN: Final = frozenset({int, bool})

_encode = msgspec.json.Encoder(order="deterministic", enc_hook=repr).encode


def attempt_fingerprint(tool: str, params: Mapping[str, Any]) -> str:
    """Return a call's fingerprint, the same for arguments that differ in case, white space, order or absent values.

    It is stable across processes and hosts, and never raises.
    """
    return fingerprint_of_normalized(tool, normalized_arguments_json(params))


def normalized_arguments_json(params: Mapping[str, Any]) -> bytes:
    """Return the normal form of arguments as JSON; never raises."""
    try:
        return _encode(_normalize_items(params, 0))
    except Exception:  # noqa: BLE001 - a user's object may raise anything from its repr
        return type(params).__name__.encode()


# What an agent says about its call beside what it asks for; it finds new words each time.
_REMARKS: Final = frozenset({
    "explanation", "thought", "thoughts", "reasoning", "rationale", "toolaction", "toolsummary", "security_risk",
    "requires_approval", "justification", "with_escalated_permissions", "intent",
})  # fmt: skip
# However long an agent waits before it looks, it looks at the same.
_SLEEPS: Final = re.compile(rb"\bsleep (?:\d+(?:\.\d+)?[smh]?)\b|\bstart-sleep (?:-\w+ )?\d+\b|\btimeout /t \d+\b")
_LENGTHS: Final = frozenset({"time", "seconds", "timeout", "timeout_ms", "duration", "delay", "ms", "wait_seconds"})
# Playwright's server gives the parts of a page other numbers in each snapshot; `element` names one in words.
_REF: Final = "ref"
# These are a remark beside a command alone: of an issue or a task the description is the matter.
_REMARKS_OF_COMMANDS: Final = _REMARKS | {"description", "timeout", "timeout_ms", "yield_time_ms", "max_output_tokens"}


# A comment behind a command line; in quotes or in the text of a here-document it may be something else.
_COMMENT: Final = re.compile(r"\s+#[^\n'\"`]*$")


def only_waits(params: Mapping[str, Any]) -> bool:
    """Check whether the arguments of a tool that waits say no more than how long."""
    return all(name.lower() in _LENGTHS for name in params)


def may_remark(tool: str, names: Sequence[str]) -> bool:
    """Check whether arguments of these names may have something that `asked_by` leaves out, whatever their values."""
    if plain_name(tool) in SHELLS or _REF in names or not _REMARKS.isdisjoint(map(str.lower, names)):
        return True
    return not _LENGTHS.isdisjoint(names) and named_effect(tool, names) in (None, "wait")


def asked_by(tool: str, params: Mapping[str, Any]) -> bytes:
    """Return the normal form of a call's arguments without remarks, comments and the length of its waits."""
    runs = plain_name(tool) in SHELLS
    remarks = _REMARKS_OF_COMMANDS if runs else _REMARKS
    if not remarks.isdisjoint(map(str.lower, params)):
        params = {name: value for name, value in params.items() if name.lower() not in remarks}
    if _REF in params and "element" in params:
        params = {name: value for name, value in params.items() if name != _REF}
    if not runs and not _LENGTHS.isdisjoint(params) and tool_effect(tool, params) == "wait":
        params = {name: value for name, value in params.items() if name not in _LENGTHS}
    if runs and any("#" in value and "\n" not in value for value in params.values() if isinstance(value, str)):
        params = {
            name: _COMMENT.sub("", value) if isinstance(value, str) and "\n" not in value else value
            for name, value in params.items()
        }
    return asked_plainly(params)


def asked_plainly(params: Mapping[str, Any]) -> bytes:
    """Return what `asked_by` does for arguments in which there is nothing to leave out but lengths of waits."""
    text = normalized_arguments_json(params)
    return _SLEEPS.sub(b"sleep", text) if b"sleep" in text or b"timeout" in text else text


def fingerprint_of_normalized(tool: str, text: bytes) -> str:
    """Return the fingerprint of a call from the normal form of its arguments."""
    return _fingerprint(_hash_of(tool)[0], text)


def _fingerprint(begun: hashlib.blake2b, text: bytes) -> str:
    hashed = begun.copy()  # two thirds of the time of a new one
    hashed.update(text)
    return hashed.hexdigest()


@lru_cache(maxsize=1024)
def _hash_of(tool: str) -> tuple[hashlib.blake2b, int]:
    """Return the hash of a tool's name, to go on with, and its mark."""
    name = tool.encode("utf-8", "replace")
    return hashlib.blake2b(name + b"\0", digest_size=8), zlib.crc32(name)


def _normalize(value: Any, depth: int) -> Any:
    """Return the normal form: texts trimmed and case-folded, no entries that are None, 2.0 as 2."""
    if isinstance(value, str):
        return " ".join(value.split()).casefold()
    if depth == _DEPTH or type(value) in _PLAIN:  # first: the checks below cost more
        return None if depth == _DEPTH else value
    if _is_mapping(value):
        return _normalize_items(value, depth)
    if isinstance(value, list | tuple):
        return [_normalize(item, depth + 1) for item in cast("list[Any]", value)]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _normalize_items(values: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    # No comprehension, and texts inline: this runs on a worker for every argument of every tool call.
    for key, item in values.items():
        if type(item) is str:
            found[key if type(key) is str else str(key)] = " ".join(item.split()).casefold()
        elif item is not None:
            found[key if type(key) is str else str(key)] = _normalize(item, depth + 1)
    return found


def _is_mapping(value: object) -> TypeGuard[Mapping[object, Any]]:
    return type(value) is dict or isinstance(value, Mapping)  # `Mapping` alone would be the slowest step here


# Calls at which a repeat is reported; a second try is not yet a loop.
LEVELS: Final = (3, 5, 8)
# A changed word in a long query still repeats; another path or search term does not
# (test_nearly_identical_arguments_repeat, test_progress_is_no_repetition).
NEAR_DUPLICATE_SHARE: Final = 0.9
# Longer arguments repeat each other only if they are identical: the sets of trigrams would grow with them.
COMPARED_BYTES: Final = 2_048
_DIGITS: Final = bytes(byte if byte in b"0123456789" else 0x20 for byte in range(256))
_NUMBERS: Final = re.compile(rb"\d+")

# Everything but letters separates words; \x80-\xff are the bytes of letters beyond ASCII in UTF-8, \0 ends a name.
_SEPARATED: Final = bytes(
    byte if byte >= 0x80 or byte in b"abcdefghijklmnopqrstuvwxyz_\0" else 0x20 for byte in range(256)
)

_decode_call = msgspec.json.Decoder(ToolCall).decode


class AttemptMarks(msgspec.Struct, frozen=True, gc=False):  # a worker makes one for each call
    """The fingerprint of a call's arguments, and two hashes of its words.

    Calls that differ in both hashes are not compared.
    """

    attempt: str
    low: int
    high: int


def attempt_marks(tool: str, text: bytes, asks: int = 0) -> AttemptMarks:
    """Return the marks of a call from the normal form of its arguments; `asks` stands for its words if it is not 0.

    The smallest and largest word hash are a prefilter: near duplicates share nearly all words, so most share one of the
    two. Numbers are mixed in because calls with different numbers never repeat each other.
    """
    begun, tool_mark = _hash_of(tool)
    attempt = _fingerprint(begun, text)
    if asks:
        return AttemptMarks(attempt, asks, asks)
    if len(text) > COMPARED_BYTES:
        exact = int(attempt[:8], 16)
        return AttemptMarks(attempt, exact, exact)
    # To leave out 246 characters by `translate` takes twice as long.
    numbers = zlib.crc32(b"".join(text.translate(_DIGITS).split()), tool_mark)
    words = [*map(zlib.crc32, _words_in(text))] or [0]
    return AttemptMarks(attempt, min(words) ^ numbers, max(words) ^ numbers)


def _words_in(text: bytes) -> list[bytes]:
    """Return the words of a normal form without the arguments' names, which all calls of a tool share.

    A regular expression took three times as long.
    """
    found = text.replace(b"\0", b" ").replace(b'":', b"\0 ").translate(_SEPARATED).split()
    return [word for word in found if word[-1]]  # a name ends with 0


def is_near_duplicate(one: bytes, other: bytes) -> bool:
    """Check whether two normal forms share nine tenths of their trigrams, and all of their numbers."""
    if max(len(one), len(other)) > COMPARED_BYTES or _NUMBERS.findall(one) != _NUMBERS.findall(other):
        return False
    left, right = _trigrams(one), _trigrams(other)
    return len(left & right) >= NEAR_DUPLICATE_SHARE * len(left | right)


def _trigrams(text: bytes) -> set[bytes]:
    return {text[place : place + 3] for place in range(max(1, len(text) - 2))}


def decode_call(call: msgspec.Raw | ToolCall) -> ToolCall:
    """Decode a stored call; a decoded one is returned as it is."""
    return _decode_call(call) if isinstance(call, msgspec.Raw) else call


def check_levels(levels: object, least: int, most: int | None = None) -> None:
    """Refuse levels that no count could reach.

    Raises:
        InvalidInput: The levels are not a tuple of whole numbers within these bounds.
    """
    given: tuple[Any, ...] = tuple(cast("Sequence[Any]", levels)) if isinstance(levels, tuple | list) else ()
    if not given or not all(type(level) is int and least <= level <= (most or level) for level in given):
        bounds = f"from {least} to {most}" if most else f"from {least} on"
        raise InvalidInput(f"levels is {levels!r}; use a tuple of numbers of calls {bounds}")


def level_reached(count: int, levels: Sequence[int] = LEVELS) -> int:
    """Return the highest level that a count has reached, or 0 below the first."""
    return max((level for level in levels if level <= count), default=0)
