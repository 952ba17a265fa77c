"""Placing a batch's queries into contexts, in order: where one matches none, the batch begins a context."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tellback.errors import StateConflict
from tellback.signals.matching import MARGIN, ContextMatrix, Match, Vectors, exact_cosine, reaches


@dataclass(frozen=True, slots=True)
class Place:
    """A context that the batch signals; `vector` is set where the batch begins it, in a free or an evicted slot."""

    slot: int
    query: str
    vector: Vectors | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """The contexts of a batch, and for each query of the batch the index of its context among them."""

    places: tuple[Place, ...]
    of: tuple[int, ...]


def place(
    queries: Sequence[str],
    vectors: Mapping[str, Vectors],
    matrix: ContextMatrix,
    *,
    threshold: float,
    cap: int,
    oldest: Iterable[int] = (),
) -> Placement:
    """Where each query of a batch belongs, as if its signals came one by one.

    Args:
        queries: one for each signal, in order, repeats included.
        vectors: the embedding of each distinct query.
        matrix: the bank's contexts now; it is not changed.
        threshold: the bank's threshold.
        cap: contexts that the bank may hold.
        oldest: slots by last signal, the longest ago first; needed where the batch may pass the cap.

    Raises:
        StateConflict: the cap is reached and `oldest` names no slot that the batch leaves alone.
    """
    distinct = list(dict.fromkeys(queries))
    return _Placing(distinct, vectors, matrix, threshold=threshold, cap=cap, oldest=oldest).run(queries)


class _Placing:
    """The state of one placing: the best context of each distinct query so far, and the contexts begun."""

    def __init__(
        self,
        distinct: list[str],
        vectors: Mapping[str, Vectors],
        matrix: ContextMatrix,
        *,
        threshold: float,
        cap: int,
        oldest: Iterable[int],
    ) -> None:
        self._distinct = distinct
        self._row = {query: row for row, query in enumerate(distinct)}
        self._vectors = np.stack([vectors[query] for query in distinct])
        self._threshold = threshold
        self._best = matrix.best_of({query: vectors[query] for query in distinct}, threshold)
        # A context that the batch itself signals is not its victim, even where it is the oldest.
        kept = {match.slot for match in self._best.values() if match}
        self._free = iter(range(matrix.count, cap))
        self._victims = (slot for slot in oldest if slot not in kept)
        self._places: dict[int, Place] = {}
        self._index: dict[int, int] = {}

    def run(self, queries: Sequence[str]) -> Placement:
        slots = [self._slot(query) for query in queries]
        return Placement(tuple(self._places.values()), tuple(self._index[slot] for slot in slots))

    def _slot(self, query: str) -> int:
        match = self._best[query]
        if match is None:
            return self._begin(query)
        if match.slot not in self._places:
            self._add(Place(match.slot, query))
        return match.slot

    def _begin(self, query: str) -> int:
        slot = next(self._free, None)
        if slot is None:
            slot = next(self._victims, None)
        if slot is None:
            raise StateConflict("the bank holds fewer contexts than one batch needs; raise its cap")
        vector = self._vectors[self._row[query]]
        self._add(Place(slot, query, vector))
        self._offer(slot, vector)
        self._best[query] = Match(slot, 1.0)
        return slot

    def _offer(self, slot: int, vector: Vectors) -> None:
        """Let the batch's other queries take the new context where it matches them better."""
        for row in np.nonzero(self._vectors @ vector >= self._threshold - MARGIN)[0].tolist():
            match = Match(slot, exact_cosine(self._vectors[row], vector))
            known = self._best[self._distinct[row]]
            if reaches(match.cosine, self._threshold) and (known is None or match.better_than(known)):
                self._best[self._distinct[row]] = match

    def _add(self, place: Place) -> None:
        self._index[place.slot] = len(self._places)
        self._places[place.slot] = place
