"""When calls repeat each other: identical in their normal form, or nearly so.

Nearly: of the same tool, with the same numbers in the same order (another page is another call), and texts that share
nine tenths of their trigrams.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from typing import Any, Final, cast

import msgspec

from tellback.contracts.guidance import ToolCall
from tellback.errors import InvalidInput
from tellback.guidance.attempts import fingerprint, normal_text
from tellback.guidance.state import Marks, Trail

LEVELS: Final = (3, 5, 8)
NEAR: Final = 0.9
COMPARED_BYTES: Final = 2_048  # longer arguments repeat each other only where they are identical
COMPARED_CALLS: Final = 8  # the newest that may be nearly the same; comparing costs more than all else here

_DIGITS: Final = bytes(byte if byte in b"0123456789" else ord(" ") for byte in range(256))
_NUMBERS: Final = re.compile(rb"\d+")
_WORDS: Final = re.compile(rb'[a-z_\x80-\xff]++(?!":)')  # not the arguments' names, which every call has
_decode_call = msgspec.json.Decoder(ToolCall).decode


def marks_of(tool: str, text: bytes) -> Marks:
    """The marks of a call whose arguments have this normal form."""
    attempt = fingerprint(tool, text)
    if len(text) > COMPARED_BYTES:
        exact = int(attempt[:8], 16)
        return attempt, exact, exact
    digits = b"".join(text.translate(_DIGITS).split())
    numbers = zlib.crc32(digits, zlib.crc32(tool.encode("utf-8", "replace")))
    words = sorted(map(zlib.crc32, _WORDS.findall(text))) or [0]
    return attempt, words[0] ^ numbers, words[-1] ^ numbers


def near(one: bytes, other: bytes) -> bool:
    """Whether two normal forms share nine tenths of their trigrams, and all of their numbers."""
    if max(len(one), len(other)) > COMPARED_BYTES or _NUMBERS.findall(one) != _NUMBERS.findall(other):
        return False
    left, right = _trigrams(one), _trigrams(other)
    return len(left & right) >= NEAR * len(left | right)


def _trigrams(text: bytes) -> set[bytes]:
    return {text[place : place + 3] for place in range(max(1, len(text) - 2))}


def alike(tool: str, text: bytes, marks: Marks, trail: Trail, recent: Sequence[msgspec.Raw | ToolCall]) -> list[int]:
    """The places in `recent` of the calls that repeat the last of them; `trail` has the marks of all."""
    attempt, low, high = marks
    last = len(trail.attempts) - 1
    if trail.lows.index(low) == trail.highs.index(high) == trail.attempts.index(attempt) == last:
        return [last]  # as nearly all calls; no search is faster than those
    found = [place for place, other in enumerate(trail.attempts) if other == attempt]
    maybe = [
        place
        for place, (one, other) in enumerate(zip(trail.lows, trail.highs, strict=True))
        if (one == low or other == high) and trail.attempts[place] != attempt
    ]
    for place in maybe[-COMPARED_CALLS:]:
        call = read_call(recent[place])
        if call.tool == tool and near(text, normal_text(call.params)):
            found.append(place)
    return sorted(found)


def read_call(call: msgspec.Raw | ToolCall) -> ToolCall:
    """A call as it is kept, decoded."""
    return _decode_call(call) if isinstance(call, msgspec.Raw) else call


def similar_calls(recent: Sequence[msgspec.Raw | ToolCall]) -> tuple[int, ...]:
    """The call indexes of those in `recent` that repeat the newest of them, itself included."""
    calls = [read_call(call) for call in recent]
    if not calls:
        return ()
    trail = Trail()
    for call in calls:
        trail.add(marks_of(call.tool, normal_text(call.params)))
    newest, text = calls[-1], normal_text(calls[-1].params)
    places = alike(newest.tool, text, marks_of(newest.tool, text), trail, calls)
    return tuple(calls[place].call_index for place in places)


def check_levels(levels: object, least: int, most: int | None = None) -> None:
    """Refuse levels at which nothing could be said.

    Raises:
        InvalidInput: no tuple of whole numbers in these bounds.
    """
    given: tuple[Any, ...] = tuple(cast("Sequence[Any]", levels)) if isinstance(levels, tuple | list) else ()
    if not given or not all(type(level) is int and least <= level <= (most or level) for level in given):
        bounds = f"from {least} to {most}" if most else f"from {least} on"
        raise InvalidInput(f"levels is {levels!r}; use a tuple of numbers of calls {bounds}")


def level_of(count: int, levels: Sequence[int] = LEVELS) -> int:
    """The highest level that a count has reached; 0 below the first."""
    return max((level for level in levels if level <= count), default=0)
