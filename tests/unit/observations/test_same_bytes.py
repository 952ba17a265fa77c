"""The same calls give the same bytes in every process."""

from __future__ import annotations

import os
import sys

import pytest

from tests.support.processes import run_program

CALLS = """
from tellback.guidance.observations.observer import ToolObserver
class Thing: pass
observer = ToolObserver(tools=["search", "wiki", "news", "papers"], question="Who made Ruby, and where?", seed="e1")
params = {"query": "Ruby", "tags": {"d", "a", "c", "b"}}
said = [observer.observe("search", params=params, **given).to_observation() for given in (
    {"result": {"ruby", "perl", "python", "lua"}},
    {"result": {"languages": {"ruby", "perl", "python", "lua"}}},
    {"result": Thing()},
    {"result": [Thing()]},
    {"error": RuntimeError(Thing())},
    {"error": {"ruby", "perl", "python"}},
    {"http_status": 429},
    {"result": []},
)]
print(said, observer.memory_snapshot())
"""


@pytest.mark.programs
def test_neither_the_order_of_sets_nor_addresses_show() -> None:
    def run(seed: str) -> str:
        env = {**os.environ, "PYTHONHASHSEED": seed}
        return run_program([sys.executable, "-c", CALLS], env=env, check=True).stdout

    first = run("0")
    assert "perl" in first
    assert [run(seed) for seed in ("1", "2", "3")] == [first] * 3
