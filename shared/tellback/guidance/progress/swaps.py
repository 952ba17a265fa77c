"""The changes that a command line or a tool makes to a text, so that one that is taken back is known as such.

An editor says which text it replaces by which. So do `sed -i s/a/b/` and a script that calls `replace`, in other words;
whoever writes whole files replaces the content that was written before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from tellback.guidance.progress.features import PATH_PARTS, Edit
from tellback.guidance.progress.substance import mark_of
from tellback.guidance.shell import SimpleCommand

_SWAPS_MAX: Final = 4  # of one call, by judgement
# `s/old/new/`, with any of the usual separators, after an address or none.
_SUBSTITUTION: Final = re.compile(
    r"(?:[\d,$]{1,12}|/[^/\n]{1,80}/)? ?s([/|#,@!])((?:\\.|(?!\1).){1,300}+)\1((?:\\.|(?!\1).){0,300}+)\1\w{0,3}"
)
_REPLACE: Final = re.compile(
    r"\.replace\(\s{0,80}r?(\'\'\'|\"\"\"|\'|\")(.{1,400}?)\1,\s{0,80}r?(\'\'\'|\"\"\"|\'|\")(.{0,400}?)\3\s{0,80}[,)]",
    re.DOTALL,
)


# `sed -i 41s/.*/new/` and `sed -i '41c new'`, which write a line whatever stood there.
_LINE: Final = re.compile(r"(\d{1,7}(?:,\d{1,7})?) ?(?:s([/|#])\.\*\2(.{0,300})\2|c ?\\?\s?(.{0,300}))", re.DOTALL)
# SWE-agent's `edit 41:43`, with the new text in the lines below.
_BLOCK: Final = re.compile(r"\s*edit (\d{1,7}:\d{1,7})[^\n]{0,200}\n(.{0,8000}?)\s*end_of_edit\s*$", re.DOTALL)


def block_edit(line: str) -> Edit | None:
    """Return the edit of numbered lines that SWE-agent makes; the file is the one that is open."""
    block = _BLOCK.match(line) if "end_of_edit" in line else None
    return None if block is None else Edit(f"lines {block[1]}", 0, mark_of(block[2]))


def placed_texts(command: SimpleCommand, paths: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """Return the lines that a command writes whatever stood there, each with the fingerprint of its text."""
    if command.program not in ("sed", "gsed") or len(paths) != 1:
        return ()
    found = filter(None, map(_LINE.fullmatch, command.words))
    return tuple((f"{paths[0]}:{each[1]}", mark_of(each[3] or each[4] or "")) for each in islice(found, _SWAPS_MAX))


def is_placed(edit: Edit) -> bool:
    """Check whether an edit is of lines by their numbers, whatever stood there."""
    return edit.path.rpartition(":")[2].replace(",", "").isdigit()


def swaps_of(command: SimpleCommand, paths: tuple[str, ...], folder: str = "") -> tuple[Edit, ...]:
    """Return the replacements that a command makes in the file that it writes, from the folder that it ran in."""
    if not paths or not paths[-1]:
        return ()
    found: Iterator[re.Match[str]] = iter(())
    if command.program in ("sed", "gsed", "perl"):
        found, new = filter(None, map(_SUBSTITUTION.fullmatch, command.words)), 3
    elif ".replace(" in command.stdin:
        found, new = _REPLACE.finditer(command.stdin), 4
    else:
        return ()
    where = original_of(paths[-1] if paths[-1].startswith("/") else f"{folder}/{paths[-1].removeprefix('./')}")
    path = paths[-1].rpartition("/")[2]
    return tuple(
        Edit(path, mark_of(each[2]), mark_of(each[new]), mark_of(f"{where} {each[0]}"))
        for each in islice(found, _SWAPS_MAX)
        if each[2] != each[new]
    )


def original_of(path: str) -> str:
    """Return the end of a path, without what a copy of the file has behind the extension: `app.py` of `app.py.new`."""
    *folders, name = path.removeprefix("./").split("/")[-PATH_PARTS:]
    return "/".join([*folders, ".".join(name.split(".")[:2])])
