"""Assignment of a batch's queries to query clusters, in order; a query that matches none begins a new cluster.

The result is the same as if the signals had come one by one: a cluster that the batch begins takes part in matching the
queries after it. A full bank evicts the cluster whose last signal is the oldest, but never one that the batch signals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tellback.errors import StateConflict
from tellback.signals.matching import MARGIN, ClusterMatch, ClusterMatrix, Vectors, exact_cosine, reaches_threshold


@dataclass(frozen=True, slots=True)
class ClusterTarget:
    """A cluster that the batch signals; `vector` is set if the batch begins it, in a free or an evicted slot."""

    slot: int
    query: str
    vector: Vectors | None = None


@dataclass(frozen=True, slots=True)
class ClusterAssignment:
    """The clusters of a batch, and for each of its queries the index of that query's cluster."""

    targets: tuple[ClusterTarget, ...]
    target_indexes: tuple[int, ...]


def assign_clusters(
    queries: Sequence[str],
    vectors: Mapping[str, Vectors],
    matrix: ClusterMatrix,
    *,
    threshold: float,
    cap: int,
    oldest: Iterable[int] = (),
) -> ClusterAssignment:
    """Assign each query of a batch to a cluster, as if its signals came one by one.

    Args:
        queries: one per signal, in order, repeats included.
        vectors: the embedding of each distinct query.
        matrix: the bank's current clusters; it is not changed.
        threshold: the bank's threshold, a cosine.
        cap: maximum number of clusters in the bank.
        oldest: slots by last signal, oldest first; required if the batch may exceed the cap.

    Raises:
        StateConflict: the cap is reached, and `oldest` has no slot that the batch does not use.
    """
    distinct = list(dict.fromkeys(queries))
    return _Assignment(distinct, vectors, matrix, threshold=threshold, cap=cap, oldest=oldest).run(queries)


class _Assignment:
    """The state of one assignment: the best cluster of each distinct query so far, and the clusters begun."""

    def __init__(
        self,
        distinct: list[str],
        vectors: Mapping[str, Vectors],
        matrix: ClusterMatrix,
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
        # Never evict a cluster that the batch itself signals, even if it is the oldest.
        kept = {match.slot for match in self._best.values() if match}
        self._free = iter(range(matrix.count, cap))
        self._victims = (slot for slot in oldest if slot not in kept)
        self._targets: dict[int, ClusterTarget] = {}
        self._index: dict[int, int] = {}

    def run(self, queries: Sequence[str]) -> ClusterAssignment:
        slots = [self._slot_for(query) for query in queries]
        return ClusterAssignment(tuple(self._targets.values()), tuple(self._index[slot] for slot in slots))

    def _slot_for(self, query: str) -> int:
        match = self._best[query]
        if match is None:
            return self._begin_cluster(query)
        if match.slot not in self._targets:
            self._add_target(ClusterTarget(match.slot, query))
        return match.slot

    def _begin_cluster(self, query: str) -> int:
        # Free slots before evicted ones: a bank loses nothing until it is full.
        slot = next(self._free, None)
        if slot is None:
            slot = next(self._victims, None)
        if slot is None:
            raise StateConflict("the bank holds fewer clusters than one batch needs; raise its cap")
        vector = self._vectors[self._row[query]]
        self._add_target(ClusterTarget(slot, query, vector))
        self._offer_cluster(slot, vector)
        self._best[query] = ClusterMatch(slot, 1.0)
        return slot

    def _offer_cluster(self, slot: int, vector: Vectors) -> None:
        """Offer the new cluster to the batch's other queries; each takes it if it matches better."""
        # The product only selects candidates; `exact_cosine` decides, as it does for clusters that exist already.
        for row in np.nonzero(self._vectors @ vector >= self._threshold - MARGIN)[0].tolist():
            match = ClusterMatch(slot, exact_cosine(self._vectors[row], vector))
            known = self._best[self._distinct[row]]
            if reaches_threshold(match.cosine, self._threshold) and (known is None or match.better_than(known)):
                self._best[self._distinct[row]] = match

    def _add_target(self, target: ClusterTarget) -> None:
        self._index[target.slot] = len(self._targets)
        self._targets[target.slot] = target
