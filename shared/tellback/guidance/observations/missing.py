"""What a question asks and no result mentions.

Source: actionable-feedback, "SUCCESS - Partial/Ambiguous Results".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from tellback.guidance.observations.emptiness import looks_up
from tellback.guidance.observations.values import leaves
from tellback.guidance.observations.words import Word, carried, content_words

PROSE_WORDS: Final = 4
_LEAF_WORDS: Final = 8
_QUESTION_WORDS: Final = 24  # of meaning; what is longer is a briefing
_QUESTION_CHARS: Final = 600
_TEXT: Final = 64 << 10
_NAME: Final = re.compile(r"\b[A-Z][\w'\u2019.-]+ (?:[a-z]{1,3} )?[A-Z][\w'\u2019.-]+")
_WHO: Final = re.compile(r"\b(?:who|whom|whose|wer|qui|quién|chi|кто|quem)\b", re.IGNORECASE)


def prose_of(text: str, data: object) -> str:
    """The running text of a result: all of a text, the sentences within records; "" where there is none."""
    if data is None or isinstance(data, str):
        plain = (data if isinstance(data, str) else text)[:_TEXT]
        dense = sum(ord(char) > 0x2E7F for char in plain[:200]) >= PROSE_WORDS
        return plain if dense or len(plain.split(maxsplit=PROSE_WORDS)) >= PROSE_WORDS else ""
    found: list[str] = []
    long = False
    for leaf in leaves(data):
        found.append(leaf[:_TEXT])
        long = long or len(leaf.split(maxsplit=_LEAF_WORDS)) >= _LEAF_WORDS
    return "\n".join(found)[:_TEXT] if long else ""


def missing_words(
    question: str, prose: str, *, asked: str, known: Collection[str], tool: str, params: Mapping[str, Any]
) -> list[Word]:
    """The question's words that neither this result nor one before it mentions.

    `asked` is what was searched for, `known` the stems that earlier results mention. Where the search led to something
    under another name (it asked for "Ruby creator" and found Yukihiro Matsumoto), its own words are not missed.
    """
    words = content_words(question) if len(question) <= _QUESTION_CHARS else ()
    if not prose or not words or len(words) > _QUESTION_WORDS or not looks_up(tool, params):
        return []
    here = carried(words, prose)
    missing = [word for word in words if word.stem not in here and word.stem not in known]
    if not missing:
        return []
    sought = {word.stem for word in content_words(asked)}
    beyond = [word.stem for word in words if word.stem not in sought]
    if beyond and here.issuperset(beyond):
        return []  # the search led to its subject, and what it did not ask for is there too
    subject = {word.stem for word in words if word.name and word.stem in sought} or {w.stem for w in words} & sought
    elsewhere = bool(subject) and not subject & here
    if elsewhere and (here or (_WHO.search(question[:400]) and _NAME.search(prose[:4_000]))):
        phrases = {word.phrase for word in words if word.stem in subject}
        return [word for word in missing if word.stem not in sought and word.phrase not in phrases]
    return missing
