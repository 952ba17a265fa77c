"""Alternations of words in patterns, written out where a pattern is compiled.

To write all of them took 2 of the 50 ms of a hook process, which compiles the patterns of few rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import groupby
from typing import Final

_WORDS: Final = "\3"  # in a pattern: around words, each after a sign of its own, whose alternation is to come here
_WORD: Final = "\4"
_MANY_CHECKS: Final = 3


def preceded_by(words: Iterable[str], *, unless: bool = False) -> str:
    """Return a check that one of the words ends here, or with `unless` that none does, for `written_out`."""
    return f"{_WORDS}{_WORD.join(('!' if unless else '=', *words))}{_WORDS}"


def trie(words: Iterable[str]) -> str:
    """Return an alternation of the words that reads each character once, for `written_out`."""
    return f"{_WORDS}{_WORD.join(('', *words))}{_WORDS}"


def written_out(pattern: str) -> str:
    """Return a pattern as `re` reads it, with its alternations of words."""
    if _WORDS not in pattern:
        return pattern
    parts = pattern.split(_WORDS)
    parts[1::2] = map(_alternation, parts[1::2])
    return "".join(parts)


@cache  # many patterns have the same
def _alternation(given: str) -> str:
    sign, *words = given.split(_WORD)
    if sign:
        return _lookbehinds(words, sign)
    return _trie_of(sorted(set(words))) if words else "(?:)"  # without any it matches everywhere


def _lookbehinds(words: Iterable[str], sign: str) -> str:
    # A lookbehind has one width, so the words go into one for each length. Before many, one for the last characters
    # of all words decides nearly every place.
    ordered = sorted(set(words), key=lambda word: (len(word), word))
    checks = [f"(?<{sign}{_trie_of([*same])})" for _, same in groupby(ordered, key=len)]
    unless = sign == "!"
    if len(checks) < _MANY_CHECKS:
        return "".join(checks) if unless else f"(?:{'|'.join(checks)})"
    common = next(
        size for size in range(len(ordered[0]) + 1) if len({word[len(word) - size - 1 :] for word in ordered}) > 1
    )
    ends = _trie_of(sorted({word[-min(len(ordered[0]), common + 3) :] for word in ordered}))
    return f"(?>(?<!{ends})|{''.join(checks)})" if unless else f"(?<={ends})(?>{'|'.join(checks)})"


def _trie_of(words: Sequence[str]) -> str:
    """Return the alternation of words in order; a single one, or the common beginning of all, is not taken apart."""
    first, last = words[0], words[-1]
    if len(words) == 1:
        return _quoted(first)
    if first[0] != last[0]:
        branches: dict[str, list[str]] = {}
        for word in words:
            branches.setdefault(word[0], []).append(word)
        return f"(?:{'|'.join(map(_trie_of, branches.values()))})"
    size = 1
    while size < len(first) and first[size] == last[size]:  # which all words between them share
        size += 1
    rests = [word[size:] for word in words]
    begun = _quoted(first[:size])
    return begun + _trie_of(rests) if rests[0] else f"{begun}(?:{_trie_of(rests[1:])})?"


_ESCAPES: Final = str.maketrans({sign: f"\\{sign}" for sign in ".^$*+?{}[]\\|()"})


def _quoted(word: str) -> str:
    return word if word.isalnum() else word.translate(_ESCAPES)
