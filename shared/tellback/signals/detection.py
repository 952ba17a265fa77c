"""Detection of the recalled facts that a response used or ignored, from the texts alone.

Agents rarely say what helped them, so signals are inferred, each with the confidence that its evidence justifies. The
weights below were checked on 327 answers of real conversations: 96 % of the `used` and 97 % of the `ignored` signals
were right (docs/loops/tuning-signals.md). Pure: no Redis, no model. Requirements S-65 and S-66.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, cast

import msgspec

from tellback.contracts.signals import SignalItem
from tellback.errors import InvalidInput
from tellback.signals.textual_evidence import (
    NamedFacts,
    ResponseWindows,
    best_overlap,
    carries_meaning,
    comparable_words,
    find_named_facts,
    values_in,
)
from tellback.signals.validation import check_id, check_query, check_share

MAX_FACTS: Final = 1_000
MAX_RESPONSE: Final = 40_000
"""Characters of a response that are read. In a longer one no fact counts as ignored: it may be used in the rest."""
MAX_FACT: Final = 8_000
"""Characters of a fact that are read."""

# How sure each kind of evidence is, by judgement: an id is nearly proof, and repeated wording is not, since a model may
# have written the same by itself.
REFERENCE: Final = 0.95
OVERLAP: Final = 0.85  # times the Jaccard index, from 0.5 on
MEANING: Final = 0.85  # times the cosine, from 0.75 on
MEANING_FROM: Final = 0.75
UNRELATED: Final = 0.3  # a cosine up to this is unrelated; between here and 0.75, absence of the words weighs less
VALUES: Final = (0.6, 0.7)  # for one shared value, for several
FILE: Final = 0.5
TOPIC: Final = 0.4  # times the share of the fact's words: below the default min_confidence, so topic alone sends none
IGNORED: Final = 0.5  # halves the evidence against use: silence is never more than 0.5 sure
DECIDED: Final = 0.2  # net evidence, either way, from which there is a verdict
_FULL: Final = 10  # words of a response from which a missing fact counts in full; a shorter one proves little
_SENTENCES: Final = 200
_SENTENCE: Final = 500

FactVerdict = Literal["used", "ignored", "unclear"]
Similarity = Callable[[Sequence[str], Sequence[str]], Sequence[float]]
"""Returns for each of the first texts its highest cosine with any of the second; see `tellback.embedding.embedder`."""

# Chinese, Japanese and Arabic ends of sentences (\u3002, \uff01, \uff1f, \u061f) are not followed by a space.
_SENTENCE_ENDS: Final = re.compile(r"(?<=[.!?])\s+|[\n\u3002\uff01\uff1f\u061f]+")
_PATH: Final = re.compile(r"[\w.~@+-]+(?:[/\\][\w.@+-]+)*")


class FactEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence of a response about one fact: `used` and `ignored` weigh each side, from 0 to 1.

    `confidence` is the absolute value of the net, used - 0.5 x ignored: above 0.2 the verdict is used, below -0.2
    ignored, in between unclear. `because` names the evidence: `reference`, `overlap`, `meaning`, `values`, `file`,
    `topic`; `rejected`, `absent`; `contradicted`, if the response states the opposite of the fact.
    """

    fact_id: str
    verdict: FactVerdict
    confidence: float
    used: float
    ignored: float
    because: tuple[str, ...] = ()


def detect_signals(
    response: str,
    facts: Mapping[str, str] | Iterable[tuple[str, str]],
    *,
    query: str,
    files: Iterable[str] = (),
    min_confidence: float = 0.5,
    similarity: Similarity | None = None,
) -> list[SignalItem]:
    """Return `used` and `ignored` signals, ready for `bank.signal`, for the facts that were recalled for a response.

    Args:
        response: the agent's answer.
        facts: the recalled facts by id, with their texts; '' if you have only the id.
        query: the query of the recall; its words are not evidence.
        files: paths that the agent touched.
        min_confidence: omit signals that are less certain, from 0 to 1; do not go below 0.5 without a reason.
        similarity: cosines from your model, to recognise a fact in other words.

    Returns:
        One signal for each fact with a verdict, in the order of the facts; `context` names the evidence.

    Raises:
        InvalidInput: an argument is wrong; the message names it.
    """
    check_query(query, "query")
    check_share(min_confidence, "min_confidence")
    found = weigh_facts(response, facts, query=query, files=files, similarity=similarity)
    return [
        SignalItem(
            fact_id=each.fact_id,
            signal_type=each.verdict,
            query=query,
            confidence=each.confidence,
            context=f"detected: {', '.join(each.because)}",
        )
        for each in found
        if each.verdict != "unclear" and each.confidence >= min_confidence
    ]


def weigh_facts(
    response: str,
    facts: Mapping[str, str] | Iterable[tuple[str, str]],
    *,
    query: str = "",
    files: Iterable[str] = (),
    similarity: Similarity | None = None,
) -> list[FactEvidence]:
    """Return the evidence behind `detect_signals` for every fact, whatever its confidence.

    Raises:
        InvalidInput: an argument is wrong; the message names it.
    """
    texts = _checked_facts(facts)
    for name, text in (("response", response), ("query", query)):
        if not isinstance(cast("object", text), str):  # a host may have no type checker
            raise InvalidInput(f"{name} is {text!r:.60}: use text")
    known = [_PreparedFact(fact_id, text[:MAX_FACT]) for fact_id, text in texts.items()]
    read = _PreparedResponse(response, query, known)
    paths = [_path_parts(path) for path in files]
    cosines = _cosines(read, known, similarity)
    named = find_named_facts(read.text, texts)
    return [_weigh_fact(fact, read, named, paths, cosine) for fact, cosine in zip(known, cosines, strict=True)]


class _PreparedFact:
    """A fact, prepared for comparison."""

    def __init__(self, fact_id: str, text: str) -> None:
        self.fact_id = fact_id
        self.text = text
        self.words = comparable_words(text)
        self.vocabulary = frozenset(self.words)
        self.values = values_in(text)

    @cached_property
    def paths(self) -> list[tuple[str, ...]]:
        return [_path_parts(path) for path in _PATH.findall(self.text) if "." in path.strip(".")]


class _PreparedResponse:
    """A response, prepared for comparison, and the words that distinguish one of these facts from the others."""

    def __init__(self, response: str, query: str, facts: Sequence[_PreparedFact]) -> None:
        self.text = response[:MAX_RESPONSE]
        self.windows = ResponseWindows([comparable_words(sentence) for sentence in _SENTENCE_ENDS.split(self.text)])
        self.values = values_in(self.text) - values_in(query)
        self._values_in = Counter(value for fact in facts for value in fact.values)
        # A word of most facts distinguishes none. Up to three facts are too few for "most" to mean anything.
        many = max(2, len(facts) / 2) if len(facts) > 3 else len(facts)
        facts_with = Counter(word for fact in facts for word in fact.vocabulary)
        shared = {word for word, count in facts_with.items() if count > many}
        self._distinguishing = {
            word for word in facts_with.keys() - comparable_words(query) - shared if carries_meaning(word)
        }
        # A fact's absence proves little if the response was truncated or says little.
        self.silence = 0.0 if len(response) > MAX_RESPONSE else min(1.0, len(self.windows.words) / _FULL)

    def distinguishing_words(self, fact: _PreparedFact) -> set[str]:
        """Return the words of a fact that neither the query nor most of the other facts have."""
        return self._distinguishing & fact.vocabulary

    def distinguishing_values(self, fact: _PreparedFact) -> set[str]:
        """Return the response's values that appear in this fact and in no other."""
        return {value for value in fact.values & self.values if self._values_in[value] == 1}


@dataclass(slots=True)
class _EvidenceWeight:
    """The strongest evidence on either side, and the names of all evidence."""

    used: float = 0.0
    ignored: float = 0.0
    because: tuple[str, ...] = ()

    def add_used(self, name: str, weight: float) -> None:
        if weight > 0:
            self.used = max(self.used, weight)
            self.because += (name,)

    def add_ignored(self, name: str, weight: float) -> None:
        if weight > 0:
            self.ignored = max(self.ignored, weight)
            self.because += (name,)

    def to_evidence(self, fact: _PreparedFact) -> FactEvidence:
        net = self.used - IGNORED * self.ignored
        verdict: FactVerdict = "used" if net > DECIDED else "ignored" if net < -DECIDED else "unclear"
        return FactEvidence(
            fact_id=fact.fact_id,
            verdict=verdict,
            confidence=round(abs(net), 4),
            used=self.used,
            ignored=self.ignored,
            because=self.because,
        )


def _weigh_fact(
    fact: _PreparedFact,
    response: _PreparedResponse,
    named: NamedFacts,
    paths: Collection[tuple[str, ...]],
    cosine: float,
) -> FactEvidence:
    weight = _EvidenceWeight()
    if fact.fact_id in named.used:
        weight.add_used("reference", REFERENCE)
    if any(_same_file(one, other) for one in paths for other in fact.paths):
        weight.add_used("file", FILE)
    if fact.fact_id in named.rejected:
        weight.add_ignored("rejected", 1.0)
        return weight.to_evidence(fact)
    distinguishing = response.distinguishing_words(fact)
    overlap = best_overlap(fact.words, response.windows, distinguishing)
    if overlap.contradicted:
        weight.because += ("contradicted",)
        return weight.to_evidence(fact)
    weight.add_used("overlap", OVERLAP * overlap.jaccard)
    weight.add_used("meaning", MEANING * cosine if cosine >= MEANING_FROM else 0.0)
    shared = response.distinguishing_values(fact)
    weight.add_used("values", VALUES[min(len(shared), 2) - 1] if shared else 0.0)
    _weigh_topic(weight, distinguishing, response, cosine)
    return weight.to_evidence(fact)


def _weigh_topic(
    weight: _EvidenceWeight, distinguishing: Collection[str], response: _PreparedResponse, cosine: float
) -> None:
    if not distinguishing:
        return
    share = len(response.windows.vocabulary.intersection(distinguishing)) / len(distinguishing)
    strong = weight.used > 0
    weight.add_used("topic", TOPIC * share)
    if not strong:
        near = min(1.0, max(0.0, (cosine - UNRELATED) / (MEANING_FROM - UNRELATED)))
        weight.add_ignored("absent", (1 - share) * (1 - near) * response.silence)


def _cosines(response: _PreparedResponse, facts: Sequence[_PreparedFact], similarity: Similarity | None) -> list[float]:
    if similarity is None:
        return [0.0] * len(facts)
    sentences = [part.strip()[:_SENTENCE] for part in _SENTENCE_ENDS.split(response.text) if part.strip()][:_SENTENCES]
    texted = [fact for fact in facts if fact.text.strip()]
    if not sentences or not texted:
        return [0.0] * len(facts)
    found = dict(
        zip((fact.fact_id for fact in texted), similarity([fact.text for fact in texted], sentences), strict=True)
    )
    return [float(found.get(fact.fact_id, 0.0)) for fact in facts]


def _path_parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in re.split(r"[/\\]+", path.rstrip(".,;:")) if part not in {"", ".", "~"})


def _same_file(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return whether the shorter path is the end of the longer: one may be relative."""
    shorter = min(len(one), len(other))
    return shorter > 0 and one[-shorter:] == other[-shorter:]


def _checked_facts(facts: Any) -> dict[str, str]:
    pairs: list[Any] = list(facts.items() if hasattr(facts, "items") else facts)
    if len(pairs) > MAX_FACTS:
        raise InvalidInput(f"facts has {len(pairs)} facts: a response is compared with at most {MAX_FACTS}")
    texts: dict[str, str] = {}
    for i, pair in enumerate(pairs):
        fact_id: Any
        text: Any
        try:
            fact_id, text = pair
        except (TypeError, ValueError):
            raise InvalidInput(f"facts[{i}] is {pair!r:.60}: use (fact_id, text)") from None
        check_id(fact_id, f"facts[{i}].fact_id")
        if not isinstance(text, str):
            raise InvalidInput(f"facts[{i}].text is {text!r:.60}: use text, '' where there is none")
        if fact_id in texts:
            raise InvalidInput(f"facts[{i}].fact_id {fact_id!r:.60} is a duplicate")
        texts[fact_id] = text
    return texts
