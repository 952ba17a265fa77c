"""Words that carry meaning, in the form in which they are compared.

Light on purpose: a stem is a word without its commonest endings; scripts that do not part words are compared by runs
of characters. It serves to say what a result does not mention, not to understand it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import msgspec

from tellback.guidance.observations.lexicon import lexicon

_WORD: Final = re.compile(r"\w+(?:['\u2019]\w+)?")
_UNPARTED: Final = re.compile(
    r"[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff]+|[\u30a0-\u30ff]+|[\u0e00-\u0e7f]+|[\uac00-\ud7af]+"
)
_HIRAGANA: Final = re.compile(r"[\u3040-\u309f]+")
_FUNCTION_RUNS: Final = re.compile(
    "什么|什麼|哪里|哪裡|哪儿|哪个|哪些|谁|誰|多少|怎么|怎麼|怎样|为什么|為什麼|何时|什么时候|请|問|吗|嗎|呢|的|了|是|在|和|与|與|有|何|いつ|どこ|です"
)
_STEM_MIN: Final = 4
_WORDS_MAX: Final = 48
_NUMBERED: Final = frozenset(["year", "date", "day", "month", "time", "number", "amount", "century", "age"])


class Word(msgspec.Struct, frozen=True):
    """A content word: as it was written, its stem, and whether it names something."""

    text: str
    stem: str
    name: bool = False
    phrase: int = 0  # words with nothing between them have the same


@lru_cache(maxsize=512)
def content_words(text: str) -> tuple[Word, ...]:
    """The words of a question that carry meaning, in order, each once; cached, since questions come again."""
    found: dict[str, Word] = {}
    phrase = 0
    first = True
    end = 0
    for match in _WORD.finditer(text[:4_000]):
        if any(char not in " \t" for char in text[end : match.start()]):
            phrase += 1
        begins = first or "." in text[end : match.start()]
        end, first = match.end(), False
        for word in _parts(match.group()):
            if word.casefold() in lexicon().stop or (
                len(word) < 2 and not word.isdigit() and not _UNPARTED.match(word)
            ):
                phrase += 1
                continue
            stem = stem_of(word)
            name = (word[:1].isupper() and not begins) or (len(word) > 1 and word.isupper())
            found.setdefault(stem, Word(word, stem, name, phrase))
    return tuple(found.values())[:_WORDS_MAX]


def _parts(word: str) -> Iterable[str]:
    """A written word as it is, without a possessive; runs of scripts that part none, without function characters."""
    if not _UNPARTED.search(word):
        if not _HIRAGANA.fullmatch(word):
            yield re.split("['\u2019]s?$|['\u2019](?=s$)", word)[0]
        return
    for run in _UNPARTED.findall(_HIRAGANA.sub(" ", word)):
        yield from (part for part in _FUNCTION_RUNS.split(run) if part)


def stems_in(text: str) -> set[str]:
    """The stems of all words of a text."""
    return {stem_of(word) for word in set(_WORD.findall(text))} | {
        stem_of(part) for part in set(re.findall(r"\w+", text))
    }


@lru_cache(maxsize=16_384)
def stem_of(word: str) -> str:
    """The word in small letters, without accents and its commonest ending."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", word.casefold()) if not unicodedata.combining(c))
    plain = plain.removesuffix("'s").removesuffix("\u2019s")
    for ending in lexicon().endings:
        if (
            plain.endswith(ending)
            and len(plain) - len(ending) >= _STEM_MIN
            and not (ending == "s" and plain.endswith("ss"))
        ):
            return plain[: -len(ending)]
    return plain


def carried(words: Iterable[Word], text: str) -> set[str]:
    """The stems of those words that a text mentions, also by another word for the same."""
    stems = stems_in(text)
    folded = text.casefold()
    return {word.stem for word in words if _mentions(word, stems, folded)}


def _mentions(word: Word, stems: set[str], folded: str) -> bool:
    if word.stem in stems:
        return True
    plain = word.text.casefold()
    if _UNPARTED.match(plain):
        pairs = [plain[n : n + 2] for n in range(len(plain) - 1)]
        return plain in folded or (bool(pairs) and 2 * sum(pair in folded for pair in pairs) > len(pairs))
    if plain in _NUMBERED and any(char.isdigit() for char in folded):
        return True
    return any(stem_of(other) in stems for other in lexicon().alike.get(plain, ()))
