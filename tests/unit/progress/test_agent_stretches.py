"""Stretches of many agents, from `tests/data/agent_stretches.jsonl`: stuck ones are reported, healthy ones are not.

A line has the calls, each a tool, its arguments and its result, and of a stuck stretch the call at which a careful
reader has seen enough, by `benchmarks/labels/RULES.md`. `tests/data/README.md` says how they were written.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.dialects import MadeCall, codex_exec, nudges_in, woven
from tests.unit.progress.test_healthy_stretches import edits, summary

LINES: Final = (Path(__file__).parents[2] / "data" / "agent_stretches.jsonl").read_text("utf-8").splitlines()
STRETCHES: Final[list[dict[str, Any]]] = [json.loads(line) for line in LINES]
STUCK: Final = [each for each in STRETCHES if "enough" in each]
HEALTHY: Final = [each for each in STRETCHES if "enough" not in each]
IN_TIME: Final = 3
AFTER: Final = woven(edits(6), [codex_exec("pytest -q", summary(6 - n, 20 + n), int(n < 6)) for n in range(6)])


def name(stretch: dict[str, Any]) -> str:
    return f"{stretch['kind']}: {stretch['name']}"


def calls_of(stretch: dict[str, Any]) -> list[MadeCall]:
    return [(tool, params, result) for tool, params, result in stretch["calls"]]


@pytest.mark.parametrize("stretch", STUCK, ids=name)
def test_a_stuck_stretch_is_reported_in_time(stretch: dict[str, Any]) -> None:
    found = [call for call, _ in nudges_in(calls_of(stretch))]
    assert found
    assert stretch["enough"] - 1 <= found[0] <= stretch["enough"] + IN_TIME


@pytest.mark.parametrize("stretch", STUCK, ids=name)
def test_work_that_got_on_before_changes_nothing(stretch: dict[str, Any]) -> None:
    found = [call - len(AFTER) for call, _ in nudges_in([*AFTER, *calls_of(stretch)])]
    assert found
    assert stretch["enough"] - 1 <= found[0] <= stretch["enough"] + IN_TIME


@pytest.mark.parametrize("stretch", HEALTHY, ids=name)
def test_an_agent_that_gets_on_hears_nothing(stretch: dict[str, Any]) -> None:
    assert [(call, each.summary) for call, each in nudges_in(calls_of(stretch))] == []
