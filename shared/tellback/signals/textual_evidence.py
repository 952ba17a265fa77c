"""Textual evidence about facts: ids that a response names or rejects, and wording that it repeats.

Wording is compared in windows: each chunk of a fact, at most 50 words, against stretches of the response of the same
length. A whole fact against a whole response would say little, since either may be ten times as long as the other.

`languages.toml` has the words that carry no meaning, and the phrases by which people say that they did not use a fact.
Scripts without spaces between words are compared by pairs of characters.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

import msgspec

_LONG: Final = 8  # characters from which an id is found in any case; a shorter one may be a word by chance

OPEN: Final = "\ue000"
"""Precedes the number of a mention in a marked text: a private-use character, which is first removed from the text."""

CLOSE: Final = "\ue001"
"""Follows the number."""

_MENTION_MARK: Final = re.compile(f"{OPEN}([0-9]+){CLOSE}")


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


class Mention(NamedTuple):
    """A fact's id at a position in a text."""

    start: int
    end: int
    fact_id: str


class NamedFacts(NamedTuple):
    """The facts that a text names as used, and those that it rejects; a fact may be in both."""

    used: frozenset[str]
    rejected: frozenset[str]


def find_named_facts(text: str, fact_ids: Iterable[str]) -> NamedFacts:
    """Return the facts that a text names by id.

    An id with a letter and a digit, or with a sign such as `-`, counts wherever it stands alone. A plain word or number
    counts only where it is cited: `[42]`, `#42`, `fact 42`.
    """
    text = text.replace(OPEN, " ").replace(CLOSE, " ")
    mentions = _find_mentions(text, fact_ids)
    if not mentions:
        return NamedFacts(frozenset(), frozenset())
    denied = _rejected_mentions(_mark_mentions(text, mentions))
    used = {mention.fact_id for number, mention in enumerate(mentions) if number not in denied}
    rejected = {mention.fact_id for number, mention in enumerate(mentions) if number in denied}
    return NamedFacts(frozenset(used), frozenset(rejected))


def _find_mentions(text: str, fact_ids: Iterable[str]) -> list[Mention]:
    """Return the mentions in order, without overlaps; the longer of two wins."""
    lower = text.lower()
    found: list[Mention] = []
    for fact_id in dict.fromkeys(fact_ids):
        loose = len(fact_id) >= _LONG and len(lower) == len(text)
        where, what = (lower, fact_id.lower()) if loose else (text, fact_id)
        at = where.find(what)
        while at >= 0:
            if _stands_alone(text, at, at + len(what)):
                found.append(Mention(at, at + len(what), fact_id))
            at = where.find(what, at + 1)
    found.sort(key=lambda mention: (mention.start, -mention.end))
    return _cited_mentions(text, found)


def _cited_mentions(text: str, found: Sequence[Mention]) -> list[Mention]:
    kept: list[Mention] = []
    end = 0
    for mention in found:
        if mention.start < end:
            continue
        before = text[max(0, mention.start - 24) : mention.start]
        listed = bool(kept) and load_languages().listed.fullmatch(text, kept[-1].end, mention.start) is not None
        if _is_distinctive(mention.fact_id) or load_languages().cites.search(before) or listed:
            kept.append(mention)
            end = mention.end
    return kept


def _is_distinctive(fact_id: str) -> bool:
    """Return whether an id is not a word or number that a text may contain by chance."""
    letters = any(sign.isalpha() for sign in fact_id)
    if any(sign in "-_:/#@." for sign in fact_id[1:-1]):
        return letters or len(fact_id) >= _LONG
    return letters and any(sign.isdigit() for sign in fact_id)


def _stands_alone(text: str, start: int, end: int) -> bool:
    return not (_continues_word(text, start, start - 1, start - 2) or _continues_word(text, end - 1, end, end + 1))


def _continues_word(text: str, edge: int, outside: int, beyond: int) -> bool:
    """Return whether the word that ends at `edge` continues at `outside`: `f1` in `f12`, `f1-b`, `a/f1`."""
    if not 0 <= outside < len(text):
        return False
    sign = text[outside]
    if sign in "-/.@":
        return 0 <= beyond < len(text) and _is_word_character(text[beyond], text[edge])
    return _is_word_character(sign, text[edge])


def _is_word_character(sign: str, edge: str) -> bool:
    """Return whether `sign` can belong to the same word as `edge`.

    Letters of another script cannot: in Chinese or Japanese text an id stands beside them without a space.
    """
    if not (sign.isalnum() or sign == "_") or is_unsegmented_script(sign) or is_unsegmented_script(edge):
        return False
    return sign.isascii() == edge.isascii()


def _mark_mentions(text: str, mentions: Sequence[Mention]) -> str:
    parts: list[str] = []
    last = 0
    for number, mention in enumerate(mentions):
        parts += [text[last : mention.start], f"{OPEN}{number}{CLOSE}"]
        last = mention.end
    return "".join([*parts, text[last:]])


def _rejected_mentions(marked: str) -> set[int]:
    """Return the numbers of the mentions that the text rejects; "do not ignore it" rejects nothing."""
    known = load_languages()
    denied: set[int] = set()
    for match in known.denied_before.finditer(marked):
        twice = known.twice.search(marked[max(0, match.start() - 40) : match.start()])
        if not twice and not known.taken_back.match(marked, match.end(), match.end() + 80):
            denied.update(map(int, _MENTION_MARK.findall(match["facts"])))
    for match in known.denied_after.finditer(marked):
        if not (known.negation.search(match["cue"]) and known.rejection.search(match["cue"])):
            denied.update(map(int, _MENTION_MARK.findall(match["facts"])))
    return denied


CHUNK: Final = 50
"""Most words in a chunk."""

LEAST: Final = 0.5
"""Jaccard index from which wording counts as repeated."""

MOST_WINDOWS: Final = 400_000
"""Windows compared for one response, a second or two of work; beyond that, wording is not compared."""

_BEFORE: Final = 4  # words before a window that are also searched for a negation

_FEWEST: Final = 4  # words of a chunk; fewer are repeated by chance


class ChunkOverlap(NamedTuple):
    """The highest Jaccard index of any chunk (0 if below 0.5), and whether the response negates the repeated text."""

    jaccard: float = 0.0
    contradicted: bool = False


class ResponseWindows:
    """The words of a response, sentence by sentence, in which chunks are searched; results are cached by chunk."""

    def __init__(self, sentences: Sequence[Sequence[str]]) -> None:
        self.words = [word for sentence in sentences for word in sentence]
        self.vocabulary = frozenset(self.words)
        self._begins = [place for sentence in sentences for place in range(len(sentence))]
        self._found: dict[tuple[str, ...], tuple[float, Sequence[str]]] = {}
        self._left = MOST_WINDOWS

    def best_window(self, chunk: Sequence[str]) -> tuple[float, Sequence[str]]:
        """Return the highest Jaccard index of the chunk with a window of its length, and that window.

        The window includes up to four words before it in the same sentence, where a "do not" may stand.
        """
        key = tuple(chunk)
        if key not in self._found:
            self._found[key] = self._search_windows(frozenset(chunk), len(chunk))
        return self._found[key]

    def _search_windows(self, wanted: frozenset[str], size: int) -> tuple[float, Sequence[str]]:
        # No window can do better than the whole response.
        if len(wanted & self.vocabulary) < LEAST * len(wanted) or self._left <= 0:
            return 0.0, ()
        # Coarse steps of a fifth of a window first, then every position around the best: far fewer comparisons.
        step = max(1, size // 5)
        self._left -= len(self.words) // step + 2 * step
        last = max(0, len(self.words) - size)
        best = max(
            (self._window_score(start, size, wanted) for start in [*range(0, last, step), last]), default=(0.0, 0)
        )
        around = range(max(0, best[1] - step + 1), min(last, best[1] + step - 1) + 1)
        jaccard, start = max([best, *(self._window_score(start, size, wanted) for start in around)])
        before = min(_BEFORE, self._begins[start]) if self.words else 0
        return jaccard, self.words[start - before : start + size]

    def _window_score(self, start: int, size: int, wanted: frozenset[str]) -> tuple[float, int]:
        window = set(self.words[start : start + size])
        return len(window & wanted) / len(window | wanted), start


def best_overlap(fact: Sequence[str], response: ResponseWindows, distinguishing: Collection[str]) -> ChunkOverlap:
    """Return how well the response repeats a fact's best chunk, with at least one word that distinguishes the fact."""
    found = ChunkOverlap()
    for start in range(0, len(fact), CHUNK):
        chunk = fact[start : start + CHUNK]
        if len(chunk) < _FEWEST or not any(word in distinguishing for word in chunk):
            continue
        jaccard, window = response.best_window(chunk)
        if jaccard < LEAST or not any(word in distinguishing for word in window) or jaccard <= found.jaccard:
            continue
        found = ChunkOverlap(jaccard, any(map(is_negation, window)) != any(map(is_negation, chunk)))
    return ChunkOverlap(0.0, contradicted=True) if found.contradicted else found
