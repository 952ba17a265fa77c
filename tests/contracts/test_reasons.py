"""Whoever silences a checker, leaves out a test, or bounds a version says why on the same line."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.contracts.test_house_style import ROOT, SOURCES, TESTS, TOOLS, where

SUPPRESSION: Final = re.compile(r"# ?(?:noqa|type: ignore|pyright: ?\w|pragma: no)")
WITH_REASON: Final = re.compile(r"# (?:noqa: [A-Z0-9, ]+|(?:type|pyright): ignore\[[\w, -]+\])(?:  ?# | - )\S")


def unexplained(text: str) -> Iterator[int]:
    """The lines that silence a checker without saying which rule and why."""
    for number, line in enumerate(text.splitlines(), 1):
        if SUPPRESSION.search(line) and not WITH_REASON.search(line):
            yield number


def test_every_suppression_gives_its_reason_on_its_line() -> None:
    found = [
        where(path, line)
        for path in [*SOURCES, *TESTS, *TOOLS]
        if path != Path(__file__).resolve()
        for line in unexplained(path.read_text("utf-8"))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("line", "fine"),
    [
        ("x = 1  # noqa: A001 - the name is the protocol's", True),
        ("x = 1  # type: ignore[misc]  # pyright: ignore[reportX]  # one or the other", True),
        ("x = 1  # noqa", False),
        ("x = 1  # noqa: A001", False),
        ("x = 1  # pyright: ignore[reportX]", False),
        ("x = 1  # type: ignore", False),
        ("# pyright: basic", False),
    ],
)
def test_a_suppression_without_a_reason_is_found(line: str, *, fine: bool) -> None:
    assert (list(unexplained(line)) == []) is fine


LEAVES_OUT: Final = re.compile(r"skip|xfail")
WARNS: Final = re.compile(r"(?:filterwarnings|simplefilter)\(")


def left_out(source: str) -> Iterator[int]:
    """The lines that leave out a test, or let it fail, without a text that says why."""
    if not LEAVES_OUT.search(source):
        return
    tree = ast.parse(source)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Attribute(attr="mark"), attr="skip" | "skipif" | "xfail") if (
                id(node) not in called
            ):
                yield node.lineno
            case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="mark"), attr="skip" | "skipif" | "xfail")) | (
                ast.Call(func=ast.Attribute(attr="importorskip"))
            ):
                if not any(keyword.arg == "reason" and _says(keyword.value) for keyword in node.keywords):
                    yield node.lineno
            case ast.Call(func=ast.Attribute(value=ast.Name(id="pytest"), attr="skip" | "xfail")):
                reasons = [*node.args[:1], *(given.value for given in node.keywords if given.arg == "reason")]
                if not any(map(_says, reasons)):
                    yield node.lineno
            case _:
                pass


def _says(reason: ast.expr) -> bool:
    """Check whether a reason is more than an empty text; a name or a call is taken for one."""
    return not isinstance(reason, ast.Constant) or bool(reason.value)


def test_every_test_that_is_left_out_says_why() -> None:
    found = [where(path, line) for path in TESTS for line in left_out(path.read_text("utf-8"))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("code", "fine"),
    [
        ("@pytest.mark.skipif(x, reason='only Linux has it')\ndef test_x(): ...", True),
        ("pytest.skip(why)", True),
        ("pytest.importorskip('x', reason='an extra')", True),
        ("@pytest.mark.skip\ndef test_x(): ...", False),
        ("@pytest.mark.xfail(strict=True)\ndef test_x(): ...", False),
        ("pytestmark = pytest.mark.skipif(x, reason='')", False),
        ("pytest.skip()", False),
        ("pytest.skip(allow_module_level=True)", False),
        ("pytest.importorskip('x')", False),
    ],
)
def test_a_skip_without_a_reason_is_found(code: str, *, fine: bool) -> None:
    assert (list(left_out(code)) == []) is fine


def test_every_ignored_warning_gives_its_reason_on_its_line() -> None:
    found = [
        f"{where(path, number)} {line.strip()}"
        for path in [*SOURCES, *TESTS, *TOOLS]
        if path != Path(__file__).resolve()
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if WARNS.search(line) and "ignore" in line and "  # " not in line
    ]
    assert not found, "\n".join(found)


BOUND: Final = re.compile(r'^\s+"[\w.-]+(?:\[[\w,-]+\])?[<>=!~]')
IGNORED_RULE: Final = re.compile(r'^\s+"[A-Z]{1,4}\d*",|^"[^"]+" = \["[A-Z]|^report\w+ = false')


def test_every_version_bound_and_ignored_rule_gives_its_reason_on_its_line() -> None:
    path = ROOT / "pyproject.toml"
    lines = path.read_text("utf-8").splitlines()
    asked = {number: line for number, line in enumerate(lines, 1) if BOUND.match(line) or IGNORED_RULE.search(line)}
    assert len(asked) > 60
    assert [f"{where(path, number)} {line.strip()}" for number, line in asked.items() if "# " not in line] == []
