"""Texts as words that can be compared, for any script, and the values in them."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from tellback.signals.languages import languages

# Scripts that part no words are compared by pairs of characters.
_UNPARTED: Final = (
    r"\u0e00-\u0e7f\u0e80-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
)
_TOKEN: Final = re.compile(rf"[{_UNPARTED}]+|(?:(?![{_UNPARTED}])\w)+(?:['\u2019](?:(?![{_UNPARTED}])\w)+)?")
_RUN: Final = re.compile(rf"[{_UNPARTED}]")
_VALUE: Final = re.compile(r"[^\W_]+(?:[-.,:/@_][^\W_]+)*")
_GROUPED: Final = re.compile(r"(?<=\d)[,\u00a0](?=\d{3}(?!\d))")


def words_of(text: str) -> list[str]:
    """The words in order, without case; of scripts that part none, each pair of characters that stand together."""
    found: list[str] = []
    for token in _TOKEN.findall(unicodedata.normalize("NFKC", text).casefold()):
        if not _RUN.match(token):
            found.append(token.replace("\u2019", "'").removesuffix("'s"))
        elif len(token) == 1:
            found.append(token)
        else:
            found.extend(token[i : i + 2] for i in range(len(token) - 1))
    return found


def carries_meaning(word: str) -> bool:
    """Whether a text that has this word is likely to be about something that another without it is not."""
    if _RUN.match(word):
        return True
    return word not in languages().stop and (len(word) > 2 or word.isdigit())


def values_in(text: str) -> set[str]:
    """Numbers, dates, codes: four letters and digits or more with a digit among them, or three with a letter too."""
    plain = _GROUPED.sub("", unicodedata.normalize("NFKC", text).casefold())
    return {value for value in set(_VALUE.findall(plain)) if not value.isalpha() and _is_value(value)}


def _is_value(value: str) -> bool:
    digits = sum(sign.isdigit() for sign in value)
    letters = sum(sign.isalpha() for sign in value)
    return digits > 0 and digits + letters >= (3 if letters else 4)


def turns_round(word: str) -> bool:
    """Whether a word makes of a statement its contrary."""
    if _RUN.match(word):
        return any(sign in word for sign in languages().negating_signs)
    return word in languages().negating_words or word.endswith("n't")


def unparted(sign: str) -> bool:
    """Whether a character is of a script that parts no words."""
    return _RUN.match(sign) is not None
