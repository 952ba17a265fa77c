"""The lines that results have shown: by them a result is known that says nothing new, though it is not the same text.

A line is known by 16 bits of its text; the newest `SEEN_MAX` of an evaluation are remembered, in 2 bytes each.
"""

from __future__ import annotations

import zlib
from array import array
from typing import Final

from tellback.guidance.progress.substance import without_times

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
    for line in without_times(text).splitlines():
        said = line.strip()
        plain = said.lstrip(_DIGITS).lstrip(_AFTER_NUMBER)
        if len(plain) >= _LINE_CHARS and said not in asked:
            marks[zlib.crc32(plain.encode("utf-8", "replace")) & 0xFFFF] = None
            if len(marks) >= LINES_MAX:
                break
    return tuple(marks)


def last_line(text: str) -> str:
    """Return the last line of a result that says something."""
    lines = text.rstrip().rsplit("\n", 1)
    return lines[-1].strip()


def add_lines(seen: bytes, marks: tuple[int, ...]) -> tuple[float, bytes]:
    """Return the share of a result's lines that was seen before, and the lines seen with them, the newest last.

    The share of a result without lines is 0.
    """
    if not marks:
        return 0.0, seen
    known = set(array("H", seen))  # made once: with 600 lines it costs more than all detectors
    new = array("H", [each for each in marks if each not in known])
    share = (len(marks) - len(new)) / len(marks)
    return share, (seen + new.tobytes())[-2 * SEEN_MAX :] if new else seen
