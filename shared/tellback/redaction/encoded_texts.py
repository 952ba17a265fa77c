"""Texts in base64, decoded to be searched as others are: contents of files in JSON of APIs, `user-data` of machines.

Text is printable from its first character on. One of 50 random values has the first sixteen characters for that, so
digests, pictures and keys cost little more than to find where they begin.
"""

from __future__ import annotations

import re
from binascii import a2b_base64
from collections.abc import Generator, Iterable
from typing import Final

from tellback.lazy_pattern import lazy_pattern
from tellback.redaction.values import BASE64_OF_MARK, BASE64_OF_TEXT

_CHARACTERS: Final = b"+/-_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_TABLE: Final = bytes(ord("w") if byte in _CHARACTERS else ord(" ") for byte in range(256))
_APART: Final = {byte: " " for byte in range(256) if byte not in _CHARACTERS}
_SHORTEST: Final = 20  # characters: of `password=hunter2`, without the signs that fill it up
_LONGEST: Final = 1 << 16  # characters of one text that are decoded
_FEWEST: Final = 12  # characters that it has to say; of random values one in 50,000 does
_WIDTHS: Final = frozenset({60, 64, 72, 76})  # at which programs wrap it; lines of others are texts of their own
# Three bytes of UTF-8 in four characters. Each but the last tells whether a byte is of ASCII, begins a longer character
# or goes on with one: what begins one goes on, and ASCII does not. A byte order mark has this form too.
_OF_UTF8: Final = (
    "(?:[CDI-Za-f](?:[AC-HQS-Xgi-nwyz0-3][^CGKOSWaeimquy26+-]|[MNOPc-fs-v89+/_-][CGKOSWaeimquy26+-])"
    r"|[g-v](?:[AC-HQS-Xgi-nwyz0-3][^CGKOSWaeimquy26+-]|[I-LYZabo-r4-7][\w+/-]|[MNOPc-fs-v89+/_-][CGKOSWaeimquy26+-])"
    r"|[w-z0-9][I-LYZabo-r4-7][\w+/-])[\w+/-]"
)
# The others are those of Windows' shell, with a zero after each character, and the byte order marks of UTF-16.
_BEGINS: Final = lazy_pattern(
    rf"(?:{BASE64_OF_TEXT}){{2}}|(?![g-v])(?:{_OF_UTF8}){{4}}"
    rf"|[CDI-Za-f][AQgw][AB][0-9A-Za-z+/]A[AC-H][AEIMQUYcgkosw048]A|{BASE64_OF_MARK}|[/_]v8A"
)
_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")  # of the order of bytes in UTF-16
_NEXT_LINE: Final = lazy_pattern(
    r"[\"']?\\?\r?\n[ \t\"'>|]{0,40}+([\w+/-]{1,76}+)(?=={0,2}[\"',;)\\ \t\r]{0,8}(?:\n|\Z))",
    re.ASCII,
)
_CONTROLS: Final = bytes({*range(9), *range(14, 27), *range(28, 32), 127})
_NO_TEXT: Final = lazy_pattern(f"[{_CONTROLS.decode()}]")


def within(text: str, once: str | None = None) -> Generator[tuple[list[int], str]]:
    """Yield where the lines of each text in base64 begin, and what it says; one that comes again is decoded once.

    `once` has each different run of `text`: if none of them may hold a text, no place is looked for.
    """
    if once is not None and not _may_hold_text(once):
        return
    found: dict[str, list[int]] = {}
    # Places by run: one that came before, as most of a dense text did, needs no second look.
    alone: dict[str, list[int]] = {}
    classes = text.encode("latin-1", "replace").translate(_TABLE)
    run, end = b"w" * _SHORTEST, 0
    while (start := classes.find(run, end)) >= 0:
        end = classes.find(b" ", start + _SHORTEST)
        end = len(text) if end < 0 else end
        value = text[start:end]
        places = alone.get(value)
        if places is None:
            begins = _BEGINS.match(value) is not None
            if begins and end - start in _WIDTHS:  # other lines may follow, each time
                lines, encoded, end = _lines(text, start, end)
                found.setdefault(encoded[:_LONGEST], []).extend(lines)
                continue
            places = alone[value] = found.setdefault(value[:_LONGEST], []) if begins else []
        places.append(start)
    for encoded, places in found.items():
        decoded = _decoded(encoded)
        if len(decoded) >= _FEWEST:
            yield places, decoded


def _may_hold_text(runs: str) -> bool:
    """Return whether one of the runs may be the base64 of a text."""
    words: list[str] = runs.translate(_APART).split()
    return any(len(word) >= _SHORTEST and _BEGINS.match(word) is not None for word in words)


def joined(texts: Iterable[tuple[list[int], str]]) -> str:
    """Return what such texts say as one text."""
    return "\n".join(decoded for _, decoded in texts)


def _lines(text: str, start: int, end: int) -> tuple[list[int], str, int]:
    """Return where the lines begin on which the text goes on, all of it, and where it ends."""
    width = end - start
    places, parts = [start], [text[start:end]]
    while width in _WIDTHS and len(parts[-1]) == width and (line := _NEXT_LINE.match(text, end)):
        if len(line[1]) > width:
            break
        places.append(line.start(1))
        parts.append(line[1])
        end = line.end()
    return places, "".join(parts), end


def _decoded(encoded: str) -> str:
    """Return the text up to what is none."""
    whole = encoded[: len(encoded) - (len(encoded) % 4 == 1)].replace("-", "+").replace("_", "/")
    data = a2b_base64(whole + "=" * (-len(whole) % 4))
    unmarked = "utf-8-sig" if any(data[1:_FEWEST:2]) else "utf-16-le"
    encoding = "utf-16" if data.startswith(_MARKS) else unmarked
    try:
        decoded = data.decode(encoding)
    except UnicodeDecodeError as error:  # a picture behind text, or a character that is torn
        decoded = data[: error.start].decode(encoding)
    end = _NO_TEXT.search(decoded) if data.translate(None, _CONTROLS) != data else None  # `re` takes ten times as long
    return decoded[: end.start()] if end else decoded
