"""The detector on real conversations: what a tool has just said, among what tools said to other users.

Tool results are hard facts to tell: long, of one form, and much alike between conversations.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

from tellback.signals.detection import detect_signals
from tests.support.conversations import Conversations

LONG = 40  # characters; shorter results are mere confirmations
STRANGE = 4


class ReplayedAnswer(NamedTuple):
    query: str
    text: str
    facts: dict[str, str]


def _answers(source: Conversations) -> Iterator[ReplayedAnswer]:
    """Each answer that follows a tool's result, with that and four of other tasks."""
    rows: list[dict[str, Any]] = [json.loads(line) for line in source.raw.splitlines()]
    results: dict[int, list[str]] = defaultdict(list)
    for row in rows:
        results[row["task_id"]] += [
            message["content"]
            for message in row["messages"]
            if message["role"] == "tool" and len(message["content"]) > LONG
        ]
    random = Random(1)
    for row in rows:
        others = [text for task, texts in results.items() if task != row["task_id"] for text in texts[:2]]
        query = ""
        for before, message in zip(row["messages"], row["messages"][1:], strict=False):
            query = before["content"] if before["role"] == "user" else query
            said = message["content"] if message["role"] == "assistant" and not message.get("tool_calls") else None
            if said and before["role"] == "tool" and len(before["content"]) > LONG:
                strange = {f"strange{i}": text for i, text in enumerate(random.sample(others, STRANGE))}
                yield ReplayedAnswer(query, said, {"own": before["content"], **strange})


def test_what_it_submits_is_mostly_right(source: Conversations) -> None:
    """It is judged at the confidence from which signals are submitted."""
    reported: Counter[tuple[str, str]] = Counter()
    answers = list(_answers(source))
    for query, text, facts in answers:
        for item in detect_signals(text, facts, query=query):
            reported["own" if item.fact_id == "own" else "strange", item.signal_type] += 1
    used, ignored = reported["own", "used"], reported["strange", "ignored"]
    assert len(answers) == source.answers
    assert used / (used + reported["strange", "used"]) > 0.95
    assert ignored / (ignored + reported["own", "ignored"]) > 0.94
    assert used > 0.6 * len(answers), "most of what was used is seen"
    assert ignored > 0.4 * STRANGE * len(answers)
