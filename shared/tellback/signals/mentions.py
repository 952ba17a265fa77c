"""Where a text names facts by their ids, and whether it says that it used them or that it did not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from tellback.signals.languages import CLOSE, OPEN, languages
from tellback.signals.words import unparted

_LONG: Final = 8  # characters from which an id is found in any case of letters
_MARKED: Final = re.compile(f"{OPEN}([0-9]+){CLOSE}")


class Mention(NamedTuple):
    """A fact's id in a text."""

    start: int
    end: int
    fact_id: str


class Named(NamedTuple):
    """The facts that a text names, and those of which it says that they were not used; a fact may be in both."""

    used: frozenset[str]
    rejected: frozenset[str]


def named_in(text: str, fact_ids: Iterable[str]) -> Named:
    """Which facts a text names by id.

    An id with a letter and a digit, or with a sign such as `-`, counts wherever it stands by itself. A plain word or
    number counts where it is cited: `[42]`, `#42`, `fact 42`.
    """
    text = text.replace(OPEN, " ").replace(CLOSE, " ")
    mentions = _mentions(text, fact_ids)
    if not mentions:
        return Named(frozenset(), frozenset())
    denied = _denied(_marked(text, mentions))
    used = {mention.fact_id for number, mention in enumerate(mentions) if number not in denied}
    rejected = {mention.fact_id for number, mention in enumerate(mentions) if number in denied}
    return Named(frozenset(used), frozenset(rejected))


def _mentions(text: str, fact_ids: Iterable[str]) -> list[Mention]:
    """Mentions in order, none over another: of two the longer."""
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
    return _cited(text, found)


def _cited(text: str, found: Sequence[Mention]) -> list[Mention]:
    kept: list[Mention] = []
    end = 0
    for mention in found:
        if mention.start < end:
            continue
        before = text[max(0, mention.start - 24) : mention.start]
        listed = bool(kept) and languages().listed.fullmatch(text, kept[-1].end, mention.start) is not None
        if _distinct(mention.fact_id) or languages().cites.search(before) or listed:
            kept.append(mention)
            end = mention.end
    return kept


def _distinct(fact_id: str) -> bool:
    """Whether an id is no word or number that a text may hold by chance."""
    letters = any(sign.isalpha() for sign in fact_id)
    if any(sign in "-_:/#@." for sign in fact_id[1:-1]):
        return letters or len(fact_id) >= _LONG
    return letters and any(sign.isdigit() for sign in fact_id)


def _stands_alone(text: str, start: int, end: int) -> bool:
    return not (_joins(text, start, start - 1, start - 2) or _joins(text, end - 1, end, end + 1))


def _joins(text: str, edge: int, outside: int, beyond: int) -> bool:
    """Whether the word of which `edge` is the last character goes on at `outside`: `f1` in `f12`, `f1-b`, `a/f1`."""
    if not 0 <= outside < len(text):
        return False
    sign = text[outside]
    if sign in "-/.@":
        return 0 <= beyond < len(text) and _of_word(text[beyond], text[edge])
    return _of_word(sign, text[edge])


def _of_word(sign: str, edge: str) -> bool:
    """A letter or digit that could belong to the same word; letters of other scripts stand beside ids unparted."""
    if not (sign.isalnum() or sign == "_") or unparted(sign) or unparted(edge):
        return False
    return sign.isascii() == edge.isascii()


def _marked(text: str, mentions: Sequence[Mention]) -> str:
    parts: list[str] = []
    last = 0
    for number, mention in enumerate(mentions):
        parts += [text[last : mention.start], f"{OPEN}{number}{CLOSE}"]
        last = mention.end
    return "".join([*parts, text[last:]])


def _denied(marked: str) -> set[int]:
    """The numbers of the mentions that the text rejects. Twice no is yes: "do not ignore it"."""
    known = languages()
    denied: set[int] = set()
    for match in known.denied_before.finditer(marked):
        twice = known.twice.search(marked[max(0, match.start() - 40) : match.start()])
        if not twice and not known.taken_back.match(marked, match.end(), match.end() + 80):
            denied.update(map(int, _MARKED.findall(match["facts"])))
    for match in known.denied_after.finditer(marked):
        if not (known.negation.search(match["cue"]) and known.rejection.search(match["cue"])):
            denied.update(map(int, _MARKED.findall(match["facts"])))
    return denied
