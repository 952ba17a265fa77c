"""Find what a traceback of Python or a cell of Jupyter ends with, whole or cut.

Only of what a program printed about its own run, as in `diagnostics`. Requirement G-81.
"""

from __future__ import annotations

import re
from typing import Final

_LINES: Final = re.MULTILINE

_TRACE: Final = "Traceback (most recent call last):"
# The first line after the frames. Any class name counts, because not all end in "Error".
_RAISED: Final = re.compile(r"([A-Za-z_][\w.]{0,120})(?::[ \t]*(.{0,600}))?$")
# A traceback of a syntax error that the interpreter itself prints has no first line; `compileall` puts stars before it.
_SYNTAX: Final = re.compile(
    r'^(?:\*\*\*)? {2,3}File "[^"\n]{1,300}", line \d+\n(?:[^\n]{0,300}\n){0,3}(?:Syntax|Indentation|Tab)Error: .*$',
    _LINES,
)
# The end of a traceback whose beginning was cut off, as by `| tail -5`: a frame, its code, and what was raised.
# Warnings are printed below frames too: 9 of 29 such ends on the tuning half.
_CUT: Final = re.compile(
    r'^ {2}File "[^"\n]{1,300}", line \d+, in [^\n]{1,200}\n(?: {4}[^\n]{0,400}\n){0,4}'
    r"(?:[A-Za-z_]\w{0,60}\.){0,8}(?!\w{0,60}Warning\b)[A-Z]\w{0,60}(?::[ \t]*[^\n]{0,600})?$",
    _LINES,
)
# The same after the frame itself was cut off: code of a frame or its marks, then what was raised, then nothing more.
_CUT_SHORT: Final = re.compile(
    r"^ {4}(?:\S[^\n]{0,400}|[ ~^]{1,400})\n(?: {4}[ ~^]{1,400}\n)?(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Z]\w{0,60}"
    r"(?:Error|Exception)(?:: \d{1,4} validation errors? for [^\n]{1,200}$|(?::[ \t]*[^\n]{0,600})?\s*\Z)",
    _LINES,
)

_COUNTED: Final = re.compile(r"\d validation errors? for [\w.\[\], ]{1,200}$")

# IPython and Jupyter name the exception first, and say below the frames what it was.
_CELL: Final = re.compile(r"^([A-Z]\w{1,80}) {2,80}Traceback \(most recent call last\)$", _LINES)


def _raised_in_cell(text: str) -> str | None:
    raised = [*_CELL.finditer(text)] if " Traceback (most recent call last)\n" in text else []
    if not raised:
        return None
    name = raised[-1][1]
    below = text[raised[-1].end() :].splitlines()
    return next((line.strip()[:800] for line in reversed(below) if re.match(rf"{name}(?::|\s*$)", line)), name)


def _final_exception(text: str) -> str | None:
    """Return the last line of the last Python traceback, such as "KeyError: 'indexes'"; None without one."""
    if (raised := _raised_in_cell(text)) is not None:
        return raised
    start = text.rfind(_TRACE)
    while start >= 0 and not _begins_line(text, start):
        start = text.rfind(_TRACE, 0, start)
    if start < 0:
        found = (_CUT.search(text) or _SYNTAX.search(text)) if '  File "' in text else None
        found = found or _CUT_SHORT.search(text[-2_000:])
        return None if found is None else _with_field(found.group().rstrip().rpartition("\n")[2], text)
    for line in text[start + len(_TRACE) :].splitlines():
        # A group of exceptions has its lines behind "|"; the marks of one place are indented too.
        if line.strip() and line[:1] not in (" ", "\t", "|", "+"):
            match = _RAISED.match(line.strip()[:800])
            return None if match is None else _with_field(match.group().strip(), text)
    return None  # cut before its end, as by `| head -20`


def _with_field(line: str, text: str) -> str:
    """Add the first field to a line of pydantic's that only counts what is wrong: "1 validation error for Config"."""
    line = line.strip()
    if not _COUNTED.search(line):
        return line
    below = text[text.rfind(line) + len(line) :].strip().split("\n", 2)
    return f"{line}: {': '.join(part.strip()[:300] for part in below[:2])}"


def _begins_line(text: str, place: int) -> bool:
    line = text.rfind("\n", 0, place) + 1
    return place - line <= 8 and not text[line:place].strip(" E")  # pytest puts "E   " before it


def _has_traceback(text: str) -> bool:
    """Check for a traceback of Python, complete or cut at its end."""
    start = text.find(_TRACE)
    while start >= 0:
        if _begins_line(text, start):
            return True
        start = text.find(_TRACE, start + 1)
    return _SYNTAX.search(text) is not None


def raised_line(text: str) -> str | None:
    """Return what the last traceback ends with, its first line if it has no end, or None without one."""
    return _final_exception(text) or (_TRACE.rstrip(":") if _has_traceback(text) else None)
