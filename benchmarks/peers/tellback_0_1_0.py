"""The recommended providers of Tellback 0.1.0, kept as they were, since the product continues.

A failure is a result that says so at its beginning or is marked as one; the observer of 0.1.0 judged 21 of the 21,215
calls of the coding transcripts differently. Of its 1,583 nudges there this module gives 1,556 at the same call, and 10
at another.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final, cast

from tellback.replay.transcript import ToolResult

FAILURES: Final = (2, 4, 8)
REPEATS: Final = (3, 5, 8)
WINDOW: Final = 32
USAGE: Final = 16  # calls between two nudges of ToolUsageMonitor(15)
NEAR: Final = 0.9
COMPARED_CHARS: Final = 2_048

_NUMBERS: Final = re.compile(r"\d+")

Attempt = tuple[str, str]


def nudged_calls(calls: Sequence[ToolResult]) -> list[int]:
    """Return the calls, counted from 1, at which one of the three providers would speak; the first one due wins."""
    attempts: list[Attempt] = []
    spoken: list[int] = []
    own = {"failures": 0, "repeats": 0, "usage": 0}
    streak = 0
    for n, call in enumerate(calls, start=1):
        attempts.append((call.tool, json.dumps(_normal(call.params), sort_keys=True, ensure_ascii=False)))
        streak = streak + 1 if call.status == "error" else 0
        similar = _similar(attempts)
        earlier = sum(index <= own["repeats"] for index in similar)
        if _level(streak, FAILURES) > _level(max(0, own["failures"] - (n - streak)), FAILURES):
            due = "failures"
        elif _level(len(similar), REPEATS) > _level(earlier, REPEATS):
            due = "repeats"
        elif n - own["usage"] >= USAGE:
            due = "usage"
        else:
            continue
        own[due] = n
        spoken.append(n)
    return spoken


def _level(count: int, levels: Sequence[int]) -> int:
    return max((level for level in levels if level <= count), default=0)


def _similar(attempts: Sequence[Attempt]) -> list[int]:
    """Return the calls among the newest 32 that are the same as the newest one, or nearly."""
    newest, first = attempts[-1], max(1, len(attempts) - WINDOW + 1)
    return [n for n, each in enumerate(attempts[first - 1 :], start=first) if each == newest or _is_near(each, newest)]


def _is_near(one: Attempt, other: Attempt) -> bool:
    left, right = one[1], other[1]
    if one[0] != other[0] or max(len(left.encode()), len(right.encode())) > COMPARED_CHARS:
        return False
    short, long = sorted((len(left), len(right)))
    if short < NEAR * long - 4 or _NUMBERS.findall(left) != _NUMBERS.findall(right):
        return False
    ours, theirs = _trigrams(left), _trigrams(right)
    return len(ours & theirs) >= NEAR * len(ours | theirs)


def _trigrams(text: str) -> set[str]:
    return {text[place : place + 3] for place in range(max(1, len(text) - 2))}


def _normal(value: object) -> object:
    if isinstance(value, str):
        return " ".join(value.split()).casefold()
    if isinstance(value, dict):
        items = cast("dict[str, object]", value).items()
        return {key: _normal(each) for key, each in items if each is not None}
    if isinstance(value, list):
        return [_normal(each) for each in cast("list[object]", value)]
    return int(value) if isinstance(value, float) and value.is_integer() else value
