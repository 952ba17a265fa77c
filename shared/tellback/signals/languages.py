"""`languages.toml`: words by which it is told whether a text used a fact."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Final

import msgspec

OPEN: Final = "\ue000"
"""Before the number of a mention in a marked text; a private character, taken out of texts before."""
CLOSE: Final = "\ue001"
"""After it."""


class _Words(msgspec.Struct, frozen=True):
    words: str
    unparted: str


class _Twice(msgspec.Struct, frozen=True):
    before: str
    after: str
    negation: str
    rejection: str


class _File(msgspec.Struct, frozen=True):
    stop: dict[str, str]
    citing: _Words
    joining: _Words
    filler: _Words
    before: dict[str, list[str]]
    after: dict[str, list[str]]
    twice: _Twice
    negations: _Words


class Languages(msgspec.Struct, frozen=True):
    """The file as sets of words and as patterns; `denied_before` and `denied_after` read a marked text.

    Both name what they have found: the `facts`, and the `cue` of their rejection.
    """

    stop: frozenset[str]
    cites: re.Pattern[str]
    listed: re.Pattern[str]
    denied_before: re.Pattern[str]
    denied_after: re.Pattern[str]
    twice: re.Pattern[str]
    taken_back: re.Pattern[str]
    negation: re.Pattern[str]
    rejection: re.Pattern[str]
    negating_words: frozenset[str]
    negating_signs: tuple[str, ...]


@cache
def languages() -> Languages:
    """Read once, when the first response is looked at."""
    raw = (files("tellback.signals") / "languages.toml").read_text("utf-8")
    file = msgspec.convert(tomllib.loads(raw), _File)
    filler = rf"(?:[\s\"'`«“\[(#:]|\b(?:{_any(file.filler.words)})\b|{_any(file.filler.unparted)})*+"
    joins = rf"(?:[,;/&+]|\b(?:{_any(file.joining.words)})\b|{_any(file.joining.unparted)})"
    mark = f"{OPEN}[0-9]+{CLOSE}"
    # Bounded and never given back: a text of thousands of ids in a row costs no more than its length.
    facts = rf"(?P<facts>{mark}(?:[\s\])`\"'»”]*+{joins}{filler}{mark}){{0,30}}+)"
    before, after = ("|".join(p for each in part.values() for p in each) for part in (file.before, file.after))
    return Languages(
        stop=frozenset(word for text in file.stop.values() for word in text.split()),
        cites=_pattern(
            rf"(?:[\[#`{{<№]|\b(?:{_any(file.citing.words)})[\s:#(\[`\"']{{1,4}}|(?:{_any(file.citing.unparted)})[\s:#]{{0,3}})$"
        ),
        listed=_pattern(rf"[\])`}}>]?\s*{joins}?\s*[\[#`{{<]?"),
        denied_before=_pattern(rf"(?P<cue>{before}){filler}{facts}"),
        denied_after=_pattern(rf"{facts}[\s\])`\"'»”,]*+(?P<cue>{after})"),
        twice=_pattern(file.twice.before),
        taken_back=_pattern(file.twice.after),
        negation=_pattern(file.twice.negation),
        rejection=_pattern(file.twice.rejection),
        negating_words=frozenset(file.negations.words.split()),
        negating_signs=tuple(file.negations.unparted.split()),
    )


def _any(words: str) -> str:
    return "|".join(words.split())


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)
