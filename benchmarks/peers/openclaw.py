"""openclaw's loop detection with its documented levels, rebuilt from its public threads.

Before each call it looks at the 30 calls before it: warnings from 10 on, critical levels at 20 and 30 (openclaw
52759), and a warning is reported once for each ten (its "buckets"). After 34574, critical levels need results that are
the same; the warning of a repeated call does not. Its detector of polls knows tools that only openclaw has, so for
the tools of these transcripts it never speaks and is left out; so are unknown tools, whose error these agents don't
have.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from tellback.replay.transcript import ToolResult

WINDOW: Final = 30
WARNING: Final = 10
CRITICAL: Final = 20
BREAKER: Final = 30
BUCKET: Final = 10

Call = tuple[str, str, str]
Key = tuple[str, ...]


def nudged_calls(calls: Sequence[ToolResult]) -> list[int]:
    """Return the calls, counted from 1, at which openclaw would warn or refuse the call."""
    seen = [(call.tool, json.dumps(call.params, sort_keys=True), call.result) for call in calls]
    spoken: list[int] = []
    buckets: dict[Key, int] = {}
    for n, call in enumerate(seen):
        history = seen[max(0, n - WINDOW) : n]
        found = _judge(history, call)
        if found is None:
            continue
        key, count, critical = found
        if critical or count // BUCKET > buckets.get(key, 0):
            spoken.append(n + 1)
            buckets[key] = max(buckets.get(key, 0), count // BUCKET)
    return spoken


def _judge(history: Sequence[Call], call: Call) -> tuple[Key, int, bool] | None:
    """Return the key of the warning, its count and whether it is critical."""
    same = [each for each in history if each[:2] == call[:2]]
    unchanged = _unchanged(same)
    if unchanged >= BREAKER:
        return ("breaker", *call[:2]), unchanged, True
    turns, stable = _turns(history, call)
    if turns >= WARNING:
        pair = sorted(str(each[:2]) for each in (call, history[-1]))
        return ("turns", *pair), turns, turns >= CRITICAL and stable
    if unchanged >= CRITICAL:
        return ("repeat", *call[:2]), unchanged, True
    if len(same) >= WARNING:
        return ("repeat", *call[:2]), len(same), False
    return None


def _unchanged(same: Sequence[Call]) -> int:
    """Count the newest calls of one kind whose results are equal."""
    count = 0
    for each in reversed(same):
        if each[2] != same[-1][2]:
            break
        count += 1
    return count


def _turns(history: Sequence[Call], call: Call) -> tuple[int, bool]:
    """Count the calls of two kinds in turn that end with `call`, and check that each kind had one result."""
    if not history or history[-1][:2] == call[:2]:
        return 0, False
    expected = [history[-1][:2], call[:2]]
    count = 0
    for each in reversed(history):
        if each[:2] != expected[count % 2]:
            break
        count += 1
    if count < 2:
        return 0, False
    tail = history[-count:]
    return count + 1, len({each[2] for each in tail[::2]}) == len({each[2] for each in tail[1::2]}) == 1
