"""Extract the content words of a text, and check which of them another text mentions.

This is deliberately light: a stem is a word without its most common ending, and scripts without spaces are compared by
runs of characters. It is enough to name what a result does not mention. The word lists are in `lexicon.toml`.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterable
from functools import cache, lru_cache
from importlib.resources import files
from typing import Final

import msgspec

from tellback.contracts.guidance import OutcomeCode


class Lexicon(msgspec.Struct, frozen=True):
    """The word lists of `lexicon.toml` as sets, and its tables by word."""

    stop: frozenset[str]
    endings: tuple[str, ...]
    alike: dict[str, tuple[str, ...]]
    lookups: frozenset[str]
    acts: frozenset[str]
    no_search: frozenset[str]
    lists: frozenset[str]
    found: frozenset[str]
    answers: frozenset[str]
    beside_results: frozenset[str]
    counts: frozenset[str]
    beside_error: frozenset[str]
    exceptions: dict[str, OutcomeCode]
    error_codes: dict[str, OutcomeCode]
    said: dict[OutcomeCode, tuple[str, ...]]
    challenges: tuple[str, ...]


@cache
def load_lexicon() -> Lexicon:
    """Load the lexicon on first use, since importing the client must not pay for it."""
    raw = (files("tellback.guidance.observations") / "lexicon.toml").read_text("utf-8")
    file = msgspec.convert(tomllib.loads(raw), dict[str, dict[str, str]])
    endings = {ending for text in file["endings"].values() for ending in text.split()}
    return msgspec.convert(
        {name: text.split() for table in ("tools", "fields") for name, text in file[table].items()}
        | {table: {name: code for code, names in file[table].items() for name in names.split()} for table in _CODED}
        | {
            "stop": " ".join(file["stop"].values()).split(),
            "endings": sorted(sorted(endings), key=len, reverse=True),
            "alike": {word: text.split() for word, text in file["alike"].items()},
            "said": {code: _split_phrases(text) for code, text in file["said"].items()},
            "challenges": _split_phrases("|".join(file["challenges"].values())),
        },
        Lexicon,
    )


_CODED: Final = ("exceptions", "error_codes")


def _split_phrases(text: str) -> tuple[str, ...]:
    return tuple(phrase for part in text.split("|") if (phrase := " ".join(part.split())))


# An apostrophe belongs to its word: "what's" is a stop word, "what" and "s" would be two words.
_WORD: Final = re.compile(r"\w+(?:['\u2019]\w+)?")

# Han, Katakana, Thai and Hangul; one range each, since a change of script is a border between words.
_UNSEGMENTED: Final = re.compile(
    r"[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff]+|[\u30a0-\u30ff]+|[\u0e00-\u0e7f]+|[\uac00-\ud7af]+"
)

# Mostly particles and endings, so it separates words instead of being one.
_HIRAGANA: Final = re.compile(r"[\u3040-\u309f]+")

# The stop words of Chinese and Japanese: they split a run, since there are no spaces to find them between.
_FUNCTION_RUNS: Final = re.compile(
    "什么|什麼|哪里|哪裡|哪儿|哪个|哪些|谁|誰|多少|怎么|怎麼|怎样|为什么|為什麼|何时|什么时候|请|問|吗|嗎|呢|的|了|是|在|和|与|與|有|何|いつ|どこ|です"
)

# A shorter stem would match unrelated words.
_STEM_MIN: Final = 4
# Of one text, and twice those of a question that is taken for one (`emptiness`): whatever is longer is a briefing.
_WORDS_MAX: Final = 48
# A result answers these with digits, not with the word: "in which year" by "2 September 1945".
_NUMBERED: Final = frozenset(["year", "date", "day", "month", "time", "number", "amount", "century", "age"])


class ContentWord(msgspec.Struct, frozen=True):
    """A content word as written, its stem, and `name` for a likely proper name."""

    text: str
    stem: str
    name: bool = False
    phrase: int = 0  # adjacent words share a number


@lru_cache(maxsize=512)
def content_words(text: str) -> tuple[ContentWord, ...]:
    """Return the content words of a text in order, each once; cached, since each call repeats the question."""
    found: dict[str, ContentWord] = {}
    phrase = 0
    first = True
    end = 0
    for match in _WORD.finditer(text[:4_000]):
        if any(char not in " \t" for char in text[end : match.start()]):
            phrase += 1
        begins = first or "." in text[end : match.start()]
        end, first = match.end(), False
        for word in _split_word(match.group()):
            if word.casefold() in load_lexicon().stop or (
                len(word) < 2 and not word.isdigit() and not _UNSEGMENTED.match(word)
            ):
                phrase += 1
                continue
            stem = stem_of(word)
            # The first word of a sentence has a capital anyway.
            name = (word[:1].isupper() and not begins) or (len(word) > 1 and word.isupper())
            found.setdefault(stem, ContentWord(word, stem, name, phrase))
    return tuple(found.values())[:_WORDS_MAX]


def _split_word(word: str) -> Iterable[str]:
    """Split off possessives, and split runs of scripts without spaces at their function characters."""
    if not _UNSEGMENTED.search(word):
        if not _HIRAGANA.fullmatch(word):
            yield re.split("['\u2019]s?$|['\u2019](?=s$)", word)[0]
        return
    for run in _UNSEGMENTED.findall(_HIRAGANA.sub(" ", word)):
        yield from (part for part in _FUNCTION_RUNS.split(run) if part)


def stems_in(text: str) -> set[str]:
    """Return the stems of all words of a text, with and without their parts around an apostrophe."""
    return {stem_of(word) for word in set(_WORD.findall(text))} | {
        stem_of(part) for part in set(re.findall(r"\w+", text))
    }


@lru_cache(maxsize=16_384)
def stem_of(word: str) -> str:
    """Return the word in lower case, without accents and its longest known ending."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", word.casefold()) if not unicodedata.combining(c))
    plain = plain.removesuffix("'s").removesuffix("\u2019s")
    for ending in load_lexicon().endings:  # longest first
        if (
            plain.endswith(ending)
            and len(plain) - len(ending) >= _STEM_MIN
            and not (ending == "s" and plain.endswith("ss"))  # "address" is no plural
        ):
            return plain[: -len(ending)]
    return plain


def mentioned_stems(words: Iterable[ContentWord], text: str) -> set[str]:
    """Return the stems of the words that a text mentions, directly or by a synonym of the lexicon."""
    stems = stems_in(text)
    folded = text.casefold()
    return {word.stem for word in words if _is_mentioned(word, stems, folded)}


def _is_mentioned(word: ContentWord, stems: set[str], folded: str) -> bool:
    if word.stem in stems:
        return True
    plain = word.text.casefold()
    if _UNSEGMENTED.match(plain):
        # Without word borders, most pairs of neighbouring characters must occur: the run may be split or inflected.
        pairs = [plain[n : n + 2] for n in range(len(plain) - 1)]
        return plain in folded or (bool(pairs) and 2 * sum(pair in folded for pair in pairs) > len(pairs))
    if plain in _NUMBERED and any(char.isdigit() for char in folded):
        return True
    return any(stem_of(other) in stems for other in load_lexicon().alike.get(plain, ()))
