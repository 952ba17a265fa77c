"""`python -m benchmarks.labels.choose FILE --half HALF`: the transcripts to label, as `RULES.md` describes them.

The look for transcripts that may be stuck is coarse on purpose: it finds what to read, and decides no label.
"""

from __future__ import annotations

import argparse
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from benchmarks.transcripts import HALVES, Transcript, read_coding
from tellback.replay.transcript import ToolResult

CALLS_MAX: Final = 150
SIGNS_MIN: Final = 2

# Transcripts of each agent and outcome, about in proportion to their calls, and at least one of each.
SAMPLE: Final = {
    ("claude-code", "unknown"): 8,
    ("mini-swe-agent", "solved"): 4,
    ("mini-swe-agent", "not solved"): 4,
    ("mini-swe-agent", "unknown"): 3,
    ("moatless-tools", "unknown"): 6,
    ("openhands-codeact", "solved"): 2,
    ("openhands-codeact", "not solved"): 2,
    ("swe-agent", "solved"): 1,
    ("swe-agent", "unknown"): 1,
}

_ERROR_LINE: Final = re.compile(r"error|exception|failed|traceback|no such|not found|denied|cannot", re.IGNORECASE)
_DIGITS: Final = re.compile(r"\d+")


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.labels.choose", description=__doc__)
    parser.add_argument("file", type=Path, help="the coding transcripts, .jsonl or .jsonl.xz")
    parser.add_argument("--half", choices=HALVES, required=True)
    arguments = parser.parse_args(words)
    chosen: Counter[tuple[str, str]] = Counter()
    for each in in_order(each for each in read_coding(arguments.file) if each.half == arguments.half):
        calls = each.calls
        if len(calls) > CALLS_MAX:
            continue
        group = (each.agent, each.outcome)
        chosen[group] += 1
        sampled = chosen[group] <= SAMPLE.get(group, 0)
        signs = signs_of(calls)
        if sampled or signs >= SIGNS_MIN:
            print(f"{'sample' if sampled else 'enriched'}\t{signs}\t{len(calls)}\t{each.agent}\t{each.id}")


def in_order(transcripts: Iterable[Transcript]) -> list[Transcript]:
    """Return transcripts in the order in which they are taken."""
    return sorted(transcripts, key=lambda each: hashlib.sha256(f"labels-13:{each.id}".encode()).digest())


def signs_of(calls: Sequence[ToolResult]) -> int:
    """Count signs of being stuck: an error line or a call with its result that stands three times, results in turn."""
    errors = Counter(line for call in calls if (line := _last_error_line(call.result)))
    same = Counter((call.tool, str(call.params), call.result) for call in calls)
    results = [call.result.strip() for call in calls]
    turns = sum(
        a == c and b == d and a != b and bool(a and b)
        for a, b, c, d in zip(results, results[1:], results[2:], results[3:], strict=False)
    )
    return sum(n >= 3 for n in (*errors.values(), *same.values())) + turns


def _last_error_line(result: str) -> str:
    found = [line for line in result[-4_000:].splitlines() if _ERROR_LINE.search(line)]
    return _DIGITS.sub("0", found[-1].strip())[:200] if found else ""


if __name__ == "__main__":
    main()
