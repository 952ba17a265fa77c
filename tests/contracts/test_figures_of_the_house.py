"""The figures of docs/decisions/vocabulary.md, counted again: they may be out of date by little."""

from __future__ import annotations

import ast
import re
import statistics
import tokenize
from pathlib import Path
from typing import Final

import pytest

from tests.support.pages import ROOT

SOURCES: Final = sorted(path for top in ("shared", "workers", "beat") for path in (ROOT / top).rglob("*.py"))
SMALL: Final = 50  # lines
NEAR: Final = 0.05  # a change need not correct the page, but a page that nobody corrects fails


def comments(path: Path) -> tuple[int, int]:
    """The lines with nothing but a comment, and those with code before it."""
    with path.open("rb") as file:
        found = [token for token in tokenize.tokenize(file.readline) if token.type == tokenize.COMMENT]
    alone = sum(token.line.lstrip().startswith("#") for token in found)
    return alone, len(found) - alone


def docstring_lines(text: str) -> int:
    """The lines of all docstrings of a module."""
    total = 0
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if ast.get_docstring(node) is not None:
                total += (first.end_lineno or first.lineno) - first.lineno + 1
    return total


def counted() -> dict[str, float]:
    texts = {path: path.read_text("utf-8") for path in SOURCES}
    lines = {path: len(text.splitlines()) for path, text in texts.items()}
    alone, beside = (sum(column) for column in zip(*map(comments, SOURCES), strict=True))
    return {
        "modules": len(SOURCES),
        "lines": sum(lines.values()),
        "lines of a module: median; most": statistics.median(lines.values()),
        "modules below 50 lines": sum(each < SMALL for each in lines.values()),
        "lines with nothing but a comment": alone,
        "lines with code and a comment": beside,
        "lines of docstrings": 100 * sum(map(docstring_lines, texts.values())) / sum(lines.values()),
    }


def test_the_figures_are_those_of_today() -> None:
    page = (ROOT / "docs" / "decisions" / "vocabulary.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| ([a-z][^|]+) \| [^|]+ \| ([\d.,]+)[^|]*\|$", page, re.MULTILINE))
    for row, figure in counted().items():
        assert float(rows[row].rstrip(".").replace(",", "")) == pytest.approx(figure, rel=NEAR), row
