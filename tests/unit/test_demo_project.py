"""The demo's project: its tests fail and pass for the reasons that the demo states, whatever runs them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tellback.demo import agent
from tellback.demo.acts import EXITS
from tellback.demo.agent import FACTS, FIXES, QUERY, RESULTS, search
from tests.support.processes import run_program


def absent(_: str) -> None:
    """Return None, as if no module were installed."""


def run(argv: list[str], folder: Path) -> tuple[int, list[str]]:
    environ = {**os.environ, **agent.TEST_ENVIRON}
    done = run_program(argv, cwd=folder, env=environ)
    return done.returncode, RESULTS.findall(done.stdout + done.stderr)


@pytest.mark.parametrize("with_pytest", [True, False], ids=["pytest", "unittest"])
@pytest.mark.programs
def test_each_change_fixes_one_of_two_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, with_pytest: bool
) -> None:
    if not with_pytest:
        monkeypatch.setattr(agent, "find_spec", absent)
    folder = tmp_path / "project"
    agent.write_project(folder)
    argv = agent.command_of_tests(sys.executable)
    assert argv[-1] == ("pytest" if with_pytest else "unittest")
    shop = folder / "shop.py"
    seen = [run(argv, folder)]
    for old, new in FIXES.values():
        assert shop.read_text().count(f"return {old}\n") == 1
        shop.write_text(shop.read_text().replace(f"return {old}\n", f"return {new}\n"))
        seen.append(run(argv, folder))
    assert [code for code, _ in seen] == list(EXITS)
    assert [sum("AssertionError" in fact for fact in facts) for _, facts in seen] == [2, 1, 0]
    assert all(len(facts) >= 1 for _, facts in seen)


def test_its_own_search_finds_the_misleading_fact_first() -> None:
    """The signals would otherwise have nothing to change."""
    found = [fact for fact, _ in search(QUERY)]
    assert found[:2] == ["old-tenths", "percentage"]
    assert set(found) == set(FACTS)
