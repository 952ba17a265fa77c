"""Comparable words and values of texts in any script, and the word lists of languages.

`languages.toml` has the words that carry no meaning, and the phrases by which people say that they did not use a fact.
Scripts without spaces between words are compared by pairs of characters.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from functools import cache
from importlib.resources import files
from typing import Final

import msgspec

OPEN: Final = "\ue000"
"""Precedes the number of a mention in a marked text: a private-use character, which is first removed from the text."""

CLOSE: Final = "\ue001"
"""Follows the number."""


class _WordLists(msgspec.Struct, frozen=True):
    words: str
    unparted: str


class _DoubleNegation(msgspec.Struct, frozen=True):
    before: str
    after: str
    negation: str
    rejection: str


class _LanguageFile(msgspec.Struct, frozen=True):
    stop: dict[str, str]
    citing: _WordLists
    joining: _WordLists
    filler: _WordLists
    before: dict[str, list[str]]
    after: dict[str, list[str]]
    twice: _DoubleNegation
    negations: _WordLists


class Languages(msgspec.Struct, frozen=True):
    """The compiled word lists of `languages.toml`; `denied_before` and `denied_after` search a marked text.

    Both have two named groups: the rejected `facts`, and the `cue` that rejects them.
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
def load_languages() -> Languages:
    """Read and compile `languages.toml` once, at the first response."""
    raw = (files("tellback.signals") / "languages.toml").read_text("utf-8")
    file = msgspec.convert(tomllib.loads(raw), _LanguageFile)
    unparted = _any_word_pattern(file.filler.unparted)
    filler = rf"(?:[\s\"'`«“\[(#:]|\b(?:{_any_word_pattern(file.filler.words)})\b|{unparted})*+"
    joins = rf"(?:[,;/&+]|\b(?:{_any_word_pattern(file.joining.words)})\b|{_any_word_pattern(file.joining.unparted)})"
    mark = f"{OPEN}[0-9]+{CLOSE}"
    # Bounded and possessive: a text of thousands of ids in a row must take linear time.
    facts = rf"(?P<facts>{mark}(?:[\s\])`\"'»”]*+{joins}{filler}{mark}){{0,30}}+)"
    before, after = ("|".join(p for each in part.values() for p in each) for part in (file.before, file.after))
    return Languages(
        stop=frozenset(word for text in file.stop.values() for word in text.split()),
        cites=_compiled(
            rf"(?:[\[#`{{<№]|\b(?:{_any_word_pattern(file.citing.words)})[\s:#(\[`\"']{{1,4}}|(?:{_any_word_pattern(file.citing.unparted)})[\s:#]{{0,3}})$"
        ),
        listed=_compiled(rf"[\])`}}>]?\s*{joins}?\s*[\[#`{{<]?"),
        denied_before=_compiled(rf"(?P<cue>{before}){filler}{facts}"),
        denied_after=_compiled(rf"{facts}[\s\])`\"'»”,]*+(?P<cue>{after})"),
        twice=_compiled(file.twice.before),
        taken_back=_compiled(file.twice.after),
        negation=_compiled(file.twice.negation),
        rejection=_compiled(file.twice.rejection),
        negating_words=frozenset(file.negations.words.split()),
        negating_signs=tuple(file.negations.unparted.split()),
    )


def _any_word_pattern(words: str) -> str:
    return "|".join(words.split())


def _compiled(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


# Thai, Lao, Burmese, Khmer, Japanese kana and Chinese characters: scripts that put no spaces between words.
_UNSEGMENTED: Final = (
    r"\u0e00-\u0e7f\u0e80-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
)

_TOKEN: Final = re.compile(rf"[{_UNSEGMENTED}]+|(?:(?![{_UNSEGMENTED}])\w)+(?:['\u2019](?:(?![{_UNSEGMENTED}])\w)+)?")

_RUN: Final = re.compile(rf"[{_UNSEGMENTED}]")

_VALUE: Final = re.compile(r"[^\W_]+(?:[-.,:/@_][^\W_]+)*")

# Separators of thousands: 12,000 and 12 000 are the value 12000.
_GROUPED: Final = re.compile(r"(?<=\d)[,\u00a0](?=\d{3}(?!\d))")


def comparable_words(text: str) -> list[str]:
    """Return the case-folded words in order; in scripts without spaces, each pair of adjacent characters."""
    found: list[str] = []
    # NFKC and casefold make full-width letters, ligatures and "ß" equal to their plain forms.
    for token in _TOKEN.findall(unicodedata.normalize("NFKC", text).casefold()):
        if not _RUN.match(token):
            found.append(token.replace("\u2019", "'").removesuffix("'s"))
        elif len(token) == 1:
            found.append(token)
        else:
            found.extend(token[i : i + 2] for i in range(len(token) - 1))
    return found


def carries_meaning(word: str) -> bool:
    """Return whether a word says anything about a text's subject: no stop word, and not one or two letters."""
    if _RUN.match(word):
        return True
    return word not in load_languages().stop and (len(word) > 2 or word.isdigit())


def values_in(text: str) -> set[str]:
    """Return the numbers, dates and codes in a text: four or more letters and digits with a digit among them.

    Three are enough if one is a letter. Shorter ones occur in too many texts by chance.
    """
    plain = _GROUPED.sub("", unicodedata.normalize("NFKC", text).casefold())
    return {value for value in set(_VALUE.findall(plain)) if not value.isalpha() and _is_value(value)}


def _is_value(value: str) -> bool:
    digits = sum(sign.isdigit() for sign in value)
    letters = sum(sign.isalpha() for sign in value)
    return digits > 0 and digits + letters >= (3 if letters else 4)


def is_negation(word: str) -> bool:
    """Return whether a word negates a statement."""
    if _RUN.match(word):
        return any(sign in word for sign in load_languages().negating_signs)
    return word in load_languages().negating_words or word.endswith("n't")


def is_unsegmented_script(sign: str) -> bool:
    """Return whether a character belongs to a script without spaces between words."""
    return _RUN.match(sign) is not None
