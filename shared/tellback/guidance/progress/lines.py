"""The lines that results have shown: by them a result is known that says nothing new, though it is not the same text.

A line is known by 16 bits of its text; the newest `SEEN_MAX` of an evaluation are remembered, in 2 bytes each.
"""

from __future__ import annotations

import zlib
from array import array
from typing import Final

from tellback.guidance.progress.substance import without_wrapping

# The results of about six searches or reads of 100 lines; with 400 a run that read in circles was not seen to.
SEEN_MAX: Final = 600
# Of one result; long ones differ early enough.
LINES_MAX: Final = 160
# A shorter line is a brace or a separator, which every file has.
_LINE_CHARS: Final = 6
# `cat -n` and `grep -n` number lines. A regular expression for it took 17 times as long.
_DIGITS: Final = "0123456789"
_AFTER_NUMBER: Final = " \t:|-"


def line_marks(text: str, asked: str) -> tuple[int, ...]:
    """Return the marks of the lines of a result, without those that the call's own text `asked` already has.

    What a script prints because the agent wrote it there is not news, nor is it known from before.
    """
    marks: dict[int, None] = {}
    for line in without_wrapping(text).splitlines():
        said = line.strip()
        plain = said.lstrip(_DIGITS).lstrip(_AFTER_NUMBER)
        if len(plain) >= _LINE_CHARS and said not in asked:
            marks[zlib.crc32(plain.encode("utf-8", "replace")) & 0xFFFF] = None
            if len(marks) >= LINES_MAX:
                break
    return tuple(marks)


def last_line(text: str) -> str:
    """Return the last line of a result that says something."""
    lines = without_wrapping(text).rstrip().rsplit("\n", 1)
    return lines[-1].strip()


def known_share(seen: bytes, marks: tuple[int, ...]) -> float:
    """Return the share of these lines that was seen before; 0 for a result without lines."""
    known = set(array("H", seen))
    return sum(each in known for each in marks) / len(marks) if marks else 0.0


def with_lines(seen: bytes, marks: tuple[int, ...]) -> bytes:
    """Return the lines seen with those of one more result, the newest last."""
    known = set(array("H", seen))
    new = array("H", (each for each in marks if each not in known))
    return (seen + new.tobytes())[-2 * SEEN_MAX :] if new else seen
