"""How much of a fact's wording a response repeats: windows of the response beside chunks of the fact."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from tellback.signals.words import turns_round

CHUNK: Final = 50
"""Words of a chunk."""
LEAST: Final = 0.5
"""Jaccard index from which wording counts as repeated."""
MOST_WINDOWS: Final = 400_000
"""Windows that are looked at for one response, a second or two; beyond, wording is not compared."""
_BEFORE: Final = 4  # words
_FEWEST: Final = 4  # words of a chunk; fewer are repeated by chance


class Overlap(NamedTuple):
    """The highest Jaccard index of a chunk, or 0 below 0.5; or that the response repeats the fact turned round."""

    jaccard: float = 0.0
    contradicted: bool = False


class Chunks:
    """A response in which chunks are looked for; what was asked once is remembered."""

    def __init__(self, sentences: Sequence[Sequence[str]]) -> None:
        """Take the words of each of the response's sentences."""
        self.words = [word for sentence in sentences for word in sentence]
        self.vocabulary = frozenset(self.words)
        self._begins = [place for sentence in sentences for place in range(len(sentence))]
        self._found: dict[tuple[str, ...], tuple[float, Sequence[str]]] = {}
        self._left = MOST_WINDOWS

    def best(self, chunk: Sequence[str]) -> tuple[float, Sequence[str]]:
        """The highest Jaccard index of the chunk with a window of its length, and that window.

        The words of the same sentence shortly before come with it: a "do not" may stand there.
        """
        key = tuple(chunk)
        if key not in self._found:
            self._found[key] = self._search(frozenset(chunk), len(chunk))
        return self._found[key]

    def _search(self, wanted: frozenset[str], size: int) -> tuple[float, Sequence[str]]:
        # No window can do better than the whole response.
        if len(wanted & self.vocabulary) < LEAST * len(wanted) or self._left <= 0:
            return 0.0, ()
        step = max(1, size // 5)
        self._left -= len(self.words) // step + 2 * step
        last = max(0, len(self.words) - size)
        best = max((self._at(start, size, wanted) for start in [*range(0, last, step), last]), default=(0.0, 0))
        around = range(max(0, best[1] - step + 1), min(last, best[1] + step - 1) + 1)
        jaccard, start = max([best, *(self._at(start, size, wanted) for start in around)])
        before = min(_BEFORE, self._begins[start]) if self.words else 0
        return jaccard, self.words[start - before : start + size]

    def _at(self, start: int, size: int, wanted: frozenset[str]) -> tuple[float, int]:
        window = set(self.words[start : start + size])
        return len(window & wanted) / len(window | wanted), start


def best_overlap(fact: Sequence[str], response: Chunks, telling: Collection[str]) -> Overlap:
    """How well the best chunk of a fact is repeated; words that tell nothing about the fact do not suffice."""
    found = Overlap()
    for start in range(0, len(fact), CHUNK):
        chunk = fact[start : start + CHUNK]
        if len(chunk) < _FEWEST or not any(word in telling for word in chunk):
            continue
        jaccard, window = response.best(chunk)
        if jaccard < LEAST or not any(word in telling for word in window) or jaccard <= found.jaccard:
            continue
        found = Overlap(jaccard, any(map(turns_round, window)) != any(map(turns_round, chunk)))
    return Overlap(0.0, contradicted=True) if found.contradicted else found
