"""The parts of a text in which values that seem random can stand, with the names before them.

Hostile text is full of names, at each of which the rules of layouts and sentences take 0.5 to 2 µs, and has no such
values. To judge each of its words once takes 10 ns a character.
"""

from __future__ import annotations

from typing import Final

from tellback.lazy_pattern import lazy_pattern
from tellback.redaction.assignments import ISSUED_VALUE, ISSUERS
from tellback.redaction.substrings import Located
from tellback.redaction.token_runs import Window, add_window
from tellback.redaction.values import seems_random

_NAMES_APART: Final = 30  # characters; to judge words costs more than to try fewer names
_SHORT: Final = 4_000  # characters; to judge words, or to look for all issuers, costs more than to search less text
_BLOCK: Final = 1_000  # characters in which one value that seems random is looked for; a name stands as near before it
_SKIPPED: Final = 4 * _BLOCK
_LONGEST_VALUE: Final = 500  # characters
_SHORTEST: Final = 8  # characters of a value
_SEEN: Final = 80  # characters of a value that `seems_random` reads
_LONG: Final = 2 * _SEEN
_JUDGED: Final = 20  # to judge a greater part of the text, and of what was read, would take longer than it may save
# Signs of ASCII that no such value has.
_APART: Final = dict.fromkeys(map(ord, "\"'`(){}[]<>|,;:\\\n\r\t"), " ")
_VALUE_STARTS: Final = lazy_pattern(r"\b|(?=\W)")
# The pieces of a long run, each from where a word and so a value may begin; nothing for the rest of its last word.
_PIECES: Final = lazy_pattern(
    rf"(?:(?<!\w)|(?!\w))(?=(\S{{{_SHORTEST},{_LONG - 1}}}+\s|\S{{{_LONG}}}))\S{{{_SHORTEST},{_SEEN}}}"
    r"|(?<=\w)[\w0-9A-Za-z_]+"
)
_ISSUED: Final = lazy_pattern(ISSUED_VALUE)


def near_random(text: str, values: list[Window], names: int) -> list[Window]:
    """Return the parts, of a long text that is searched as a whole for so many names; else what is searched."""
    if values == [(0, len(text))] and len(text) > _SHORT and names * _NAMES_APART > len(text):
        return _judged_windows(text)
    return values


def _judged_windows(text: str) -> list[Window]:
    """Return the parts of a text. After many different words, the rest of it counts as having such values."""
    spaced = f"{text.translate(_APART) if text.isascii() else text} "
    windows: list[Window] = []
    plain: set[str] = set()
    random: set[str] = set()
    known: set[str] = set()  # values
    judged = begin = 0
    while begin < len(text):
        end = spaced.find(" ", begin + _BLOCK, begin + _BLOCK + _LONG)
        words: set[str] = set(spaced[begin:end].split()) if end > 0 else set()
        if end < 0 or max(map(len, words), default=0) > _SEEN:
            end = begin + _BLOCK
            pieces: list[str] = _PIECES.findall(spaced, begin, end + _LONG)
            words = set(pieces)
        most = (len(text) + begin) // _JUDGED
        if random.isdisjoint(words):
            for word in words - plain:
                if len(word) < _SHORTEST:
                    plain.add(word)
                    continue
                last = min(_SEEN, len(word) - _SHORTEST)
                starts = [match.start() for match in _VALUE_STARTS.finditer(word, 0, last + 1)]
                values = {word[start : start + _SEEN] for start in starts} - known
                judged += sum(map(len, values))
                if judged > most or any(seems_random(value, 0) for value in values):
                    random.add(word)
                    break
                known |= values
                plain.add(word)
            else:
                begin = end
                continue
        # Where one such value is, others are near: the next blocks are not looked at.
        start = max(0, begin - _BLOCK)
        begin = len(text) if judged > most else begin + _SKIPPED
        if windows and start <= windows[-1][1]:
            start, _ = windows.pop()
        windows.append((start, min(len(text), begin + _LONGEST_VALUE)))
    return windows


def may_be_issued(folded: str, within: Located) -> bool:
    """Return whether to look for values of issuers: their names take longer than all values, where these are rare."""
    rare = len(folded) < _SHORT or not issued_windows(folded[:_SHORT])
    return rare or any(issuer in within for issuer in ISSUERS)


def issued_windows(folded: str) -> list[Window]:
    """Return the parts of a text in which an issuer's name may come before a value."""
    windows: list[Window] = []
    for match in _ISSUED.finditer(folded):
        add_window(windows, match.start(), min(len(folded), match.end() + 100))
    return windows
