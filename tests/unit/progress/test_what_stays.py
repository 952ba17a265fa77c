"""Outcomes that stay as they were, whatever an agent does: each beside a healthy twin that looks alike."""

from __future__ import annotations

import pytest

from tests.support.dialects import (
    MadeCall,
    Shell,
    claude_code,
    codex_json,
    mini_swe_agent,
    nudges_in,
    openhands,
    spoken,
    swe_agent,
    woven,
)
from tests.support.stretches import claude_edit

SHOW_EXIT_CODES: list[Shell] = [claude_code, codex_json, mini_swe_agent, openhands]
SHELLS: list[Shell] = [*SHOW_EXIT_CODES, swe_agent]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("command", ["grep -n total app.py", "sed -n 3,9p app.py"])
def test_a_file_that_shows_the_same_after_each_silent_edit_is_reported(shell: Shell, command: str) -> None:
    """G-272: an editor would have said that it found no such text."""
    edits = [shell(f"sed -i 's/totl{n}/total/' app.py") for n in range(4)]
    same = [shell(command, "7:    return total - 1")] * 4
    assert spoken(woven(edits, same)) == [6]
    assert not spoken(woven([claude_edit(n, "app.py") for n in range(4)], same))
    elsewhere = woven([shell(f"sed -i 's/totl{n}/total/' other.py") for n in range(4)], same)
    assert not [each for _, each in nudges_in(elsewhere) if "something changed before each" in each.summary]
    assert not spoken(woven(edits, [shell(command, f"7:    return total - {n}") for n in range(4)]))


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("got", ["assert {0} == 17", "AssertionError: {0} != 17"])
def test_a_test_that_gets_another_wrong_value_each_time_fails_in_the_same_way(shell: Shell, got: str) -> None:
    """G-274: another expected value is another comparison, at which an agent may arrive by getting on."""

    def run(value: int, said: str = got) -> MadeCall:
        error = said.format(value)
        return shell("pytest -q", f"E       {error}\nFAILED t.py::test_points - {error}\n1 failed in 0.1s", 1)

    edits = [claude_edit(n) for n in range(3)]
    assert spoken(woven(edits, [run(value) for value in (4, 32, 137)])) == [6]
    assert not spoken(woven(edits, [run(value, got.replace("17", f"{value}7")) for value in (4, 32, 137)]))


@pytest.mark.parametrize("shell", SHOW_EXIT_CODES)
def test_a_checks_wrong_value_is_no_news_where_no_error_is_named(shell: Shell) -> None:
    """G-274: what else the run prints is the same, so that it says no more than the one before."""

    def run(got: int, wanted: int) -> MadeCall:
        return shell("make check", f"run.c:23: shipping: got {got}, expected {wanted}\nmake: *** [check] Error 1", 2)

    edits = [claude_edit(n) for n in range(4)]
    assert spoken(woven(edits, [run(got, 53) for got in (23, 48, 47, 49)])) == [6]
    assert not spoken(woven(edits, [run(got, got + 30) for got in (23, 48, 47, 49)]))


def test_plans_and_thoughts_in_turn_bring_nothing() -> None:
    """G-275: ten in a row, whichever they are; a list that is kept beside work is none."""
    plans: list[MadeCall] = [("TodoWrite", {"todos": [{"content": f"step {n}"}]}, "Todos updated.") for n in range(12)]
    notes = [claude_code(f"echo 'Plan {n}: look at the sums'", f"Plan {n}: look at the sums") for n in range(12)]
    work = [claude_code(f"cat part{n}.py", f"part {n}") for n in range(12)]
    assert spoken(woven(plans, notes)) == [10]
    assert not spoken(woven(plans, work))
