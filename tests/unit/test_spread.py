"""Agents of a fleet that meet the same failure choose between the alternatives differently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from tellback.guidance.observations.observer import ToolObserver

AGENTS = 1_000

pytestmark = pytest.mark.bulk


def declared(*names: str) -> list[dict[str, Any]]:
    schema = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    return [{"type": "function", "function": {"name": name, "parameters": schema}} for name in names]


def first_choices(tools: Sequence[Any], refused: str) -> Counter[str]:
    """Count the tools that each of a thousand agents is advised to try first."""
    chosen = Counter[str]()
    for n in range(AGENTS):
        observer = ToolObserver(tools=tools, question="Who made Ruby?", seed=f"evaluation-{n}")
        seen = observer.observe(refused, params={"query": "Ruby creator"}, error="429 Too Many Requests")
        assert seen.envelope is not None
        chosen[next(step.tool or "" for step in seen.envelope.suggestions if step.kind == "alternative")] += 1
    return chosen


@pytest.mark.parametrize(
    "tools",
    [
        ["search", "wiki", "news", "papers", "maps", "archive"],
        declared("search", "wiki", "news", "papers", "maps", "archive"),
        ["search", "bing", "arxiv"],
    ],
    ids=["names", "schemas", "known names"],
)
def test_no_alternative_gets_over_one_and_a_half_fair_shares(tools: list[Any]) -> None:
    chosen = first_choices(tools, "search")
    assert len(chosen) == len(tools) - 1
    assert max(chosen.values()) <= 1.5 * AGENTS / len(chosen)


def test_a_tool_whose_name_says_that_it_finds_nothing_is_no_first_choice() -> None:
    tools = declared("search", "news", "papers", "translate", "calculator")
    assert first_choices(tools, "search").keys() == {"news", "papers"}


def test_the_same_agent_gets_the_same() -> None:
    assert first_choices(["search", "bing", "arxiv"], "search") == first_choices(["search", "bing", "arxiv"], "search")
