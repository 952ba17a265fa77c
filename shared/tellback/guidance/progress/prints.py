"""Recognize an edit of nothing but statements that print: it examines a failure and fixes none."""

from __future__ import annotations

import re
from typing import Final

_PRINT: Final = re.compile(
    r"(?:print|pprint|pp|console\.\w+|(?:self\.)?_?(?:log|logger|logging)\.\w+|fmt\.Print\w*|log\.Print\w*|dbg!|e?print(?:ln)?!"
    r"|System\.(?:out|err)\.print\w*|printf|fprintf|var_dump|error_log|breakpoint|Console\.Write\w*|NSLog)\s?\("
    r"|(?:puts|pp?|echo|std::c(?:out|err))\s|(?:import|from) (?:sys|pdb|traceback|pprint|logging)\b|debugger\b|pdb\."
)


def only_prints(old: str, new: str) -> bool:
    """Check whether two texts differ by whole lines that print, and by at least one."""
    before, after = _lines_of(old), _lines_of(new)
    changed = before ^ after
    return bool(changed) and all(map(_PRINT.match, changed))


def _lines_of(text: str) -> set[str]:
    return {line.strip() for line in text.splitlines()} - {""}
