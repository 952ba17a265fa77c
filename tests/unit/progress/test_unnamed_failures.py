"""Failures that no known word names come back all the same."""

from __future__ import annotations

import json

import pytest

from tests.support.dialects import (
    MadeCall,
    claude_code,
    codex_exec,
    mini_swe_agent,
    nudges_in,
    spoken,
    swe_agent,
    woven,
)
from tests.support.stretches import apply_patch


def edited_and(run: list[MadeCall]) -> list[MadeCall]:
    return [call for n, each in enumerate(run) for call in (each, apply_patch(n, old=f"old{n}"))]


def test_a_run_without_a_known_word_is_known_again_by_its_last_line() -> None:
    rows = ("north ran cold", "south ran warm", "west ran hot")
    runs = [mini_swe_agent("./pipeline", f"stage 1\n{row}\nqueue drains left of the gate", 3) for row in rows]
    nudges = nudges_in(edited_and(runs))
    assert [call for call, _ in nudges] == [5]
    assert "queue drains left of the gate" in nudges[0][1].render()


def test_runs_that_end_otherwise_each_time_are_silent() -> None:
    lines = ("queue drains left of the gate", "pump three turns too slow", "valve two leaks at the seam")
    runs = [mini_swe_agent("./pipeline", f"stage 1\nstage 2\n{line}", 3) for line in lines]
    assert nudges_in(edited_and(runs)) == []


FILES = ("cart", "stock", "users", "mail")
FIXED = {
    "mypy {}.py | tail -1": "Found 1 error in 1 file (checked 1 source file)",
    "ruff check {}.py | tail -1": "Found 1 error.",
    "./tools/check.py --only {}": "",
    "./tools/check.py --only={}": "",
    "python manage.py test shop -k {} 2>&1 | tail -1": "FAILED (failures=1)",
    "node {}.js 2>&1 | tail -3": "    at node:internal/main/run_main_module:28:49\n\nNode.js v20.11.1",
}


@pytest.mark.parametrize("line", FIXED)
def test_one_failure_in_each_of_several_files_is_no_repeat(line: str) -> None:
    """A total or an exit code names no file: each is fixed, and passes, before the next is looked at."""
    bad = [claude_code(line.format(name), FIXED[line], 3 if not FIXED[line] else 0) for name in FILES]
    good = [claude_code(line.format(name), f"{name}: all good") for name in FILES]
    edits = [apply_patch(n, old=f"old{n}") for n in range(len(FILES))]
    assert spoken(woven(bad, edits, good)) == []
    assert spoken(woven(bad, edits)) == []


@pytest.mark.parametrize("line", FIXED)
def test_the_same_total_or_exit_code_of_one_file_is_reported_the_third_time(line: str) -> None:
    bad = [claude_code(line.format("cart"), FIXED[line], 3 if not FIXED[line] else 0)] * 4
    assert spoken(edited_and(bad)) == [5]


def test_an_exit_code_is_the_same_with_other_options() -> None:
    bad = [claude_code(f"./build.sh {option}".strip(), "", 2) for option in ("", "-v", "--debug", "-vv")]
    assert spoken(edited_and(bad)) == [5]


def asked(**params: object) -> MadeCall:
    return "create_order", params, json.dumps({"code": 50012, "msg": "\u5e93\u5b58\u4e0d\u8db3", "data": None})


LD = "cc -o app main.o -lzap\n/usr/bin/ld: -lzap kann nicht gefunden werden\ncollect2: Fehler: ld gab 1 zur\u00fcck"
SCENE = "SCRIPT ERROR: Invalid call. Nonexistent function 'jmp' in base 'Node2D'.\n   at: _ready (res://t.gd:9)"
STUCK = {
    "a service": [asked(sku="A1", qty=n) for n in (1, 2, 3)],
    "a linker": edited_and([swe_agent("make app", LD)] * 3),
    "a game": edited_and([codex_exec("godot --headless -s t.gd", SCENE)] * 3),
}


@pytest.mark.parametrize("way", STUCK)
def test_a_failure_in_any_words_is_reported_the_third_time(way: str) -> None:
    assert spoken(STUCK[way]) in ([5], [3])


def typeset(line: int, name: str) -> MadeCall:
    return swe_agent("pdflatex t.tex | tail -3", f"! Undefined control sequence.\nl.{line} \\macro{name}")


def test_another_command_that_tex_does_not_know_is_another_failure() -> None:
    assert nudges_in(edited_and([typeset(35 * n, name) for n, name in enumerate("abcd", 1)])) == []
    again = [typeset(35 + n, "a") for n in range(4)]
    assert [call for call, _ in nudges_in(edited_and(again))] == [5]


def test_a_text_that_is_not_there_is_a_refused_edit_whatever_is_suggested() -> None:
    calls: list[MadeCall] = [
        (
            "StringReplace",
            {"path": "a.py", "old_str": f"{space}x = 1", "new_str": "x = 2"},
            f"String '{space}x = 1' not found in a.py.\n\nPossible similar strings: x=1",
        )
        for space in ("", " ", "  ")
    ]
    assert spoken(calls) == [3]
