"""The findings of compilers, type checkers and linters: how many, which falls as an agent gets on, or after an edit."""

from __future__ import annotations

import re
from typing import Final

_N: Final = r"(\d{1,9})"
# Totals that tools print themselves. Of several, as of a build of many parts, the last one counts.
_TOTAL: Final = re.compile(
    rf"[Ff]ound {_N} (?:error|problem|issue|offense|diagnostic)"  # tsc, mypy, ruff, Biome; Android's lint
    rf"|\u2716 {_N} problem"  # ESLint
    rf"|\b{_N} (?:errors? generated|previous errors?\b|Error\(s\)|offenses? detected)"  # clang, cargo, MSBuild, RuboCop
    rf"|^{_N} errors?(?:,|$)",  # pyright, javac
    re.MULTILINE,
)
# What stands in front of the message of one finding: "a.c:3:1: error:", "a.ts(3,1): error TS2304:", "a.py:3:1: F821".
_ONE: Final = re.compile(
    r"^[^\s:()]{1,200}(?::\d{1,7}|\(\d{1,7})(?:[:,]\d{1,7}\)?)?:? (?:fatal )?(?:error|[A-Z]{1,4}\d{2,5})\b"
    r"|^error(?:\[E\d{4}\])?: ",
    re.MULTILINE,
)


def count_findings(text: str, *, whole: bool) -> int | None:
    """Return how many findings the output reports, None if it names none.

    Single findings are counted only in a `whole` text; of one that was cut, their number says nothing.
    """
    totals = _TOTAL.findall(text)
    if totals:
        return int(max(totals[-1], key=len))
    return (len(_ONE.findall(text)) or None) if whole else None


# Behind the place, as ESLint, ruff and pyright have it, or above it.
_FIRST: Final = re.compile(
    r"^ {2,8}\d{1,7}:\d{1,7} +error +\S.*$|^[^\s:()]{1,200}:\d{1,7}:\d{1,7}:? [A-Z]{1,4}\d{2,5} .*$"
    r"|^ *[^\s:()]{1,200}:\d{1,7}:\d{1,7} - error: .*$|^(?!warning)\S.*$(?=\n *--> )",
    re.MULTILINE,
)


def first_finding(text: str) -> str:
    """Return the first finding of a linter that ends with their number, "" of any other text."""
    found = _FIRST.search(text)
    return " ".join(found.group().split()) if found else ""


# OpenCode, Kilo Code and Crush; what is wrong in other files was mostly there before.
_AFTER_EDIT: Final = re.compile(
    r"\b(?:errors detected in this file|This file has errors)[^\n]{0,40}\n<[^\n]{1,400}>\n(.{1,4000}?)\n</", re.DOTALL
)
_WHERE: Final = re.compile(r"^\W{0,3}(?:ERROR|Error):? (?:\[\d{1,7}:\d{1,7}\]|\S{0,200}:\d{1,7}\b)\s?", re.MULTILINE)


def found_after_edit(text: str) -> str:
    """Return what an editor's checker finds in the file that was edited, without the places; "" if nothing."""
    if "in this file" not in text and "This file has" not in text:  # most edits
        return ""
    found = _AFTER_EDIT.search(text)
    return _WHERE.sub("", found[1]) if found else ""
