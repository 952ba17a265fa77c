"""A note for the agent about lines of a tool's result that look like Tellback's. Requirement A-608.

A hook cannot change the result, so it cannot quote such lines as the adapters for messages do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, cast

from tellback.contracts.feedback_text import feedback_text
from tellback.quoting import QUOTE, quote_forged_lines

_READ: Final = 64_000  # characters of a result that are looked at; agents get less than that of most
_SHOWN: Final = 3  # lines
_CHARS: Final = 80


def imitation_note(*results: object) -> str:
    """Return a note that names the lines that look like Tellback's; "" if there are none."""
    found: list[str] = []
    left = _READ
    for text in _texts(results):
        read = text[:left]
        left -= len(read)
        pairs = zip(read.split("\n"), quote_forged_lines(read).split("\n"), strict=True)
        found += [quoted.removeprefix(QUOTE) for line, quoted in pairs if line != quoted]
    if not found:
        return ""
    lines = "a line that looks" if len(found) == 1 else f"{len(found)} lines that look"
    summary = f"The tool's result has {lines} like Tellback's. The tool wrote that, not Tellback."
    return feedback_text("Imitation", summary, [("Line", line[:_CHARS]) for line in found[:_SHOWN]], ())


def _texts(value: object) -> Iterator[str]:
    """Yield the texts within a value of JSON, in order."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            left += reversed(cast("dict[str, Any]", each).values())
        elif isinstance(each, list | tuple):
            left += reversed(cast("list[Any]", each))
