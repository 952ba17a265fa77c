"""The changes that a command line or a tool makes to a text, so that one that is taken back is known as such.

An editor says which text it replaces by which. So do `sed -i s/a/b/` and a script that calls `replace`, in other words;
whoever writes whole files replaces the content that was written before.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from typing import Final

from tellback.guidance.progress.features import Edit
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


def mark_of(text: str) -> int:
    """Return the fingerprint of a text that is replaced or written."""
    return zlib.crc32(text.encode("utf-8", "replace"))


def swaps_of(command: SimpleCommand, paths: tuple[str, ...]) -> tuple[Edit, ...]:
    """Return the replacements that a command makes in the file that it writes."""
    if not paths or not paths[-1]:
        return ()
    pairs: Iterator[tuple[str, str]] = iter(())
    if command.program in ("sed", "gsed", "perl"):
        found = filter(None, map(_SUBSTITUTION.fullmatch, command.words))
        pairs = ((each[2], each[3]) for each in found)
    elif ".replace(" in command.stdin:
        pairs = ((each[2], each[4]) for each in _REPLACE.finditer(command.stdin))
    path = paths[-1].rpartition("/")[2]
    return tuple(Edit(path, mark_of(old), mark_of(new)) for old, new in list(pairs)[:_SWAPS_MAX] if old != new)
