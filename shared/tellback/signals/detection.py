"""Which recalled facts a response has used and which it has ignored, told from texts alone.

Source: feedback-signals, "Implicit vs Explicit Signals" and "Confidence Values". Agents rarely say what helped them, so
signals have to be inferred, each with the confidence that its evidence earns. Pure: no Redis, no model.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

import msgspec

from tellback.contracts.signals import SignalItem
from tellback.errors import InvalidInput
from tellback.signals.mentions import Named, named_in
from tellback.signals.overlap import Chunks, best_overlap
from tellback.signals.validation import check_id, check_query, check_share
from tellback.signals.words import carries_meaning, values_in, words_of

MAX_FACTS: Final = 1_000
MAX_RESPONSE: Final = 40_000
"""Characters of a response that are read; of a longer one no fact is said to be ignored."""
MAX_FACT: Final = 8_000
"""Characters of a fact that are read."""

REFERENCE: Final = 0.95
OVERLAP: Final = 0.85  # times the Jaccard index, from 0.5 on
MEANING: Final = 0.85  # times the cosine, from 0.75 on
MEANING_FROM: Final = 0.75
STRANGE: Final = 0.3  # cosine up to which a sentence has nothing of a fact; from there to 0.75 silence tells less
VALUES: Final = (0.6, 0.7)  # one value, more
FILE: Final = 0.5
TOPIC: Final = 0.4  # times the share of the fact's words
IGNORED: Final = 0.5  # times what speaks against use
DECIDED: Final = 0.2  # of the net, either way
_FULL: Final = 10  # words from which a response says by its silence that it did without a fact
_SENTENCES: Final = 200
_SENTENCE: Final = 500

Verdict = Literal["used", "ignored", "unclear"]
Similarity = Callable[[Sequence[str], Sequence[str]], Sequence[float]]
"""For each of the first texts its highest cosine with any of the second; see `tellback.embedding.similarity`."""

_SENTENCE_ENDS: Final = re.compile(r"(?<=[.!?])\s+|[\n\u3002\uff01\uff1f\u061f]+")
_PATH: Final = re.compile(r"[\w.~@+-]+(?:[/\\][\w.@+-]+)*")


class FactEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """What a response says of one fact: `used` and `ignored` are what speaks for either, from 0 to 1.

    `confidence` is the size of the net, used - 0.5 x ignored: above 0.2 the fact was used, below -0.2 it was ignored,
    between them that is unclear. `because` names the evidence: `reference`, `overlap`, `meaning`, `values`, `file`,
    `topic`; `rejected`, `absent`; `contradicted`, where the response says the contrary of the fact.
    """

    fact_id: str
    verdict: Verdict
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
    """Signals `used` and `ignored` for the facts that a response was written with, for `bank.signal`.

    Args:
        response: what the agent answered.
        facts: the recalled facts by id, with their texts; '' where the host has only the id.
        query: what the facts were recalled for; words of it are no evidence.
        files: paths that the agent touched on the way.
        min_confidence: leave out what is less certain, from 0 to 1; below 0.5 it is better not to submit.
        similarity: cosines from the host's model, to find what the response says in other words.

    Returns:
        One signal for each fact of which it can be told, in the order of the facts; the remark names the evidence.

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
    """The evidence behind `detect_signals`, for every fact and whatever its confidence.

    Raises:
        InvalidInput: an argument is wrong; the message names it.
    """
    texts = _checked(facts)
    for name, text in (("response", response), ("query", query)):
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # hosts without a type checker
            raise InvalidInput(f"{name} is {text!r:.60}: use text")
    known = [_Fact(fact_id, text[:MAX_FACT]) for fact_id, text in texts.items()]
    read = _Response(response, query, known)
    paths = [_parts(path) for path in files]
    cosines = _cosines(read, known, similarity)
    named = named_in(read.text, texts)
    return [_weigh(fact, read, named, paths, cosine) for fact, cosine in zip(known, cosines, strict=True)]


class _Fact:
    """A fact as it is compared."""

    def __init__(self, fact_id: str, text: str) -> None:
        self.fact_id = fact_id
        self.text = text
        self.words = words_of(text)
        self.vocabulary = frozenset(self.words)
        self.values = values_in(text)

    @cached_property
    def paths(self) -> list[tuple[str, ...]]:
        return [_parts(path) for path in _PATH.findall(self.text) if "." in path.strip(".")]


class _Response:
    """A response as it is compared, and the words that are no evidence for one fact among these."""

    def __init__(self, response: str, query: str, facts: Sequence[_Fact]) -> None:
        self.text = response[:MAX_RESPONSE]
        self.chunks = Chunks([words_of(sentence) for sentence in _SENTENCE_ENDS.split(self.text)])
        self.values = values_in(self.text) - values_in(query)
        self._values_in = Counter(value for fact in facts for value in fact.values)
        many = max(2, len(facts) / 2) if len(facts) > 3 else len(facts)
        facts_with = Counter(word for fact in facts for word in fact.vocabulary)
        shared = {word for word, count in facts_with.items() if count > many}
        self._telling = {word for word in facts_with.keys() - words_of(query) - shared if carries_meaning(word)}
        # Of a response that was cut, or says little, silence tells little.
        self.silence = 0.0 if len(response) > MAX_RESPONSE else min(1.0, len(self.chunks.words) / _FULL)

    def telling(self, fact: _Fact) -> set[str]:
        """The words of a fact by which it differs from the query and from most of the others."""
        return self._telling & fact.vocabulary

    def values_of(self, fact: _Fact) -> set[str]:
        """Values that the response has from this fact alone."""
        return {value for value in fact.values & self.values if self._values_in[value] == 1}


@dataclass(slots=True)
class _Weight:
    """The strongest evidence on either side, and the names of all of it."""

    used: float = 0.0
    ignored: float = 0.0
    because: tuple[str, ...] = ()

    def use(self, name: str, weight: float) -> None:
        if weight > 0:
            self.used = max(self.used, weight)
            self.because += (name,)

    def ignore(self, name: str, weight: float) -> None:
        if weight > 0:
            self.ignored = max(self.ignored, weight)
            self.because += (name,)

    def of(self, fact: _Fact) -> FactEvidence:
        net = self.used - IGNORED * self.ignored
        verdict: Verdict = "used" if net > DECIDED else "ignored" if net < -DECIDED else "unclear"
        return FactEvidence(
            fact_id=fact.fact_id,
            verdict=verdict,
            confidence=round(abs(net), 4),
            used=self.used,
            ignored=self.ignored,
            because=self.because,
        )


def _weigh(
    fact: _Fact, response: _Response, named: Named, paths: Collection[tuple[str, ...]], cosine: float
) -> FactEvidence:
    weight = _Weight()
    if fact.fact_id in named.used:
        weight.use("reference", REFERENCE)
    if any(_same_file(one, other) for one in paths for other in fact.paths):
        weight.use("file", FILE)
    if fact.fact_id in named.rejected:
        weight.ignore("rejected", 1.0)
        return weight.of(fact)
    telling = response.telling(fact)
    overlap = best_overlap(fact.words, response.chunks, telling)
    if overlap.contradicted:
        weight.because += ("contradicted",)
        return weight.of(fact)
    weight.use("overlap", OVERLAP * overlap.jaccard)
    weight.use("meaning", MEANING * cosine if cosine >= MEANING_FROM else 0.0)
    shared = response.values_of(fact)
    weight.use("values", VALUES[min(len(shared), 2) - 1] if shared else 0.0)
    _weigh_topic(weight, telling, response, cosine)
    return weight.of(fact)


def _weigh_topic(weight: _Weight, telling: Collection[str], response: _Response, cosine: float) -> None:
    if not telling:
        return
    share = len(response.chunks.vocabulary.intersection(telling)) / len(telling)
    strong = weight.used > 0
    weight.use("topic", TOPIC * share)
    if not strong:
        near = min(1.0, max(0.0, (cosine - STRANGE) / (MEANING_FROM - STRANGE)))
        weight.ignore("absent", (1 - share) * (1 - near) * response.silence)


def _cosines(response: _Response, facts: Sequence[_Fact], similarity: Similarity | None) -> list[float]:
    if similarity is None:
        return [0.0] * len(facts)
    sentences = [part.strip()[:_SENTENCE] for part in _SENTENCE_ENDS.split(response.text) if part.strip()][:_SENTENCES]
    told = [fact for fact in facts if fact.text.strip()]
    if not sentences or not told:
        return [0.0] * len(facts)
    found = dict(zip((fact.fact_id for fact in told), similarity([fact.text for fact in told], sentences), strict=True))
    return [float(found.get(fact.fact_id, 0.0)) for fact in facts]


def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in re.split(r"[/\\]+", path.rstrip(".,;:")) if part not in {"", ".", "~"})


def _same_file(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether the shorter path is the end of the longer."""
    shorter = min(len(one), len(other))
    return shorter > 0 and one[-shorter:] == other[-shorter:]


def _checked(facts: Any) -> dict[str, str]:
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
            raise InvalidInput(f"facts[{i}].fact_id {fact_id!r:.60} is there twice")
        texts[fact_id] = text
    return texts
