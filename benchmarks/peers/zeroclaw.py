"""zeroclaw's loop detectors, rebuilt from its public threads and the description at the head of its module.

The first one (asked for in zeroclaw 2152, built in 2153) knows the newest calls alone: the same call with the same
result three times in a row, two calls in turn for two rounds with results that stay, and a tool that fails three
times in a row.

The later one looks at the newest 20 calls, and all its levels count as nudges: the same call three times in a row,
two tools in turn for four rounds, and a tool that gives the same result five times for different arguments, counted
over the whole window since one call in between let 43 near-duplicates pass (7681). 10503 keeps that last rule from
ending a turn, but not from warning. Its path there is crates/zeroclaw-runtime/src/agent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from tellback.replay.transcript import ToolResult

WINDOW: Final = 20
REPEATS: Final = 3
ROUNDS: Final = 4
SAME_RESULTS: Final = 5
FIRST_ROUNDS: Final = 2
FAILURES: Final = 3

# An exit code that is not 0 is a failure of zeroclaw's shell; mini-swe-agent and OpenHands write it into the result.
_EXIT: Final = re.compile(r"\A\s*<returncode>-?[1-9]|exit(?:ed with)? code:? [1-9]\d*\W*\Z")

Call = tuple[str, str, str]


def nudged_calls(calls: Sequence[ToolResult]) -> list[int]:
    """Return the calls, counted from 1, at which zeroclaw would warn, block or end the turn."""
    seen = _as_seen(calls)
    return [n for n in range(1, len(seen) + 1) if _is_loop(seen[max(0, n - WINDOW) : n])]


def nudged_by_first(calls: Sequence[ToolResult]) -> list[int]:
    """Return the calls, counted from 1, at which the first detector would speak, once for each run of findings."""
    seen = _as_seen(calls)
    failed = [call.status == "error" or bool(_EXIT.search(call.result)) for call in calls]
    found = [
        _is_same(seen[:n]) or _is_in_turn(seen[:n]) or _keeps_failing(seen[:n], failed[:n])
        for n in range(1, len(seen) + 1)
    ]
    return [n for n, loop in enumerate(found, start=1) if loop and not (n > 1 and found[n - 2])]


def _as_seen(calls: Sequence[ToolResult]) -> list[Call]:
    return [(call.tool, json.dumps(call.params, sort_keys=True), call.result) for call in calls]


def _is_same(seen: Sequence[Call]) -> bool:
    tail = seen[-REPEATS:]
    return len(tail) == REPEATS and len(set(tail)) == 1


def _is_in_turn(seen: Sequence[Call]) -> bool:
    tail = seen[-2 * FIRST_ROUNDS :]
    return len(tail) == 2 * FIRST_ROUNDS and len(set(tail[::2])) == len(set(tail[1::2])) == 1 and tail[0] != tail[1]


def _keeps_failing(seen: Sequence[Call], failed: Sequence[bool]) -> bool:
    tail = seen[-FAILURES:]
    return len(tail) == FAILURES and all(failed[-FAILURES:]) and len({tool for tool, _, _ in tail}) == 1


def _is_loop(window: Sequence[Call]) -> bool:
    return _repeats(window) or _alternates(window) or _gets_the_same(window)


def _repeats(window: Sequence[Call]) -> bool:
    tail = window[-REPEATS:]
    return len(tail) == REPEATS and len({call[:2] for call in tail}) == 1


def _alternates(window: Sequence[Call]) -> bool:
    names = [tool for tool, _, _ in window[-2 * ROUNDS :]]
    return len(names) == 2 * ROUNDS and len(set(names[::2])) == len(set(names[1::2])) == 1 and names[0] != names[1]


def _gets_the_same(window: Sequence[Call]) -> bool:
    tool, _, result = window[-1]
    arguments = [params for name, params, text in window if name == tool and text == result]
    return len(arguments) >= SAME_RESULTS and len(set(arguments)) > 1
