"""A tool's text cannot begin a section of ours: lines that would look like one are quoted, visibly."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

_OURS: Final = (
    "next steps", "alternatives", "[feedback", "feedback -", "<feedback", "(note:", "[observation", "[tellback",
)  # fmt: skip
_SIGNS: Final = "✓✔✅☑⚠✗✘❌✖❎⛔"
_HIDDEN: Final = re.compile(r"[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufe0e\ufe0f\u00ad\ufeff]")
_DECORATION: Final = re.compile(r"[\s*_#`>~|=+•·–—-]+")
_NO_LETTERS: Final = re.compile(r"(?:<[^<>]{0,60}>|[^\w<]|[\d_])+")
_HEAD: Final = 200
# Letters of other scripts that look like Latin ones.
_LOOKS: Final = str.maketrans(
    "АВЕКМНОРСТУХІЅаеіосрхуѕΑΒΕΖΗΙΚΜΝΟΡΤΥΧοατνικЅ", "ABEKMHOPCTYXISaeiocpxysABEZHIKMNOPTYXoatvikS"
)


def quoted(text: str, headings: Iterable[str] = ()) -> str:
    """The text with `> ` before each line that a reader could take for a status line, a section or a note of ours.

    Every kind of line break counts, and what decorates or hides a heading does not help it.
    """
    lines = text.splitlines()
    marks = _marks(tuple(headings))
    forged = [number for number, line in enumerate(lines) if _looks_ours(line, marks)]
    if not forged:
        return text
    for number in forged:
        lines[number] = f"> {lines[number].lstrip()}"
    return "\n".join(lines)


def _looks_ours(line: str, marks: tuple[str, ...]) -> bool:
    head = line[:_HEAD]
    if not head.isascii():
        head = unicodedata.normalize("NFKC", _HIDDEN.sub("", head))
    decoration = _DECORATION.match(head)
    plain = " ".join(head[decoration.end() if decoration else 0 :].split())
    before = _NO_LETTERS.match(plain)  # a number, a bracket, a tag, a picture
    bare = plain[before.end() if before else 0 :]
    return any(
        _folded(each).startswith(marks) for each in (plain, plain.translate(_LOOKS), bare, bare.translate(_LOOKS))
    )


def _folded(text: str) -> str:
    """In small letters and without accents, as marks are."""
    if text.isascii():
        return text.casefold()
    parted = unicodedata.normalize("NFKD", text.casefold())
    return "".join(char for char in parted if not unicodedata.combining(char))


@lru_cache(maxsize=64)
def _marks(headings: tuple[str, ...]) -> tuple[str, ...]:
    return (
        *_OURS,
        *_SIGNS,
        *(_folded(" ".join(heading.split())).rstrip(":") for heading in headings if heading.strip(" :")),
    )
