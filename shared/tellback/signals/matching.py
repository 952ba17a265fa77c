"""Exact matching of queries to a bank's query clusters by cosine, with a prefilter for large banks.

One float32 matrix product finds the candidates. Pairs near the threshold or near the best are measured again one by
one, so the answer does not depend on the shape of the product: BLAS rounds differently for other shapes.

A bank of 16,384 clusters or more uses `CosinePrefilter`. It rotates vectors onto the directions in which the clusters
differ most and keeps of each the first numbers (the head) and the length of the rest (the tail). The product of two
vectors is the product of their heads plus that of their rests, which is at most the product of the tails. So a product
a quarter as wide bounds every cosine from above and drops no match. Under all-MiniLM-L6-v2 two pairs in a thousand of
real sentences pass it at 0.81. docs/decisions/exact-matching.md compares approximate indexes.

Needs numpy, which comes with the workers: base code must not import this module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

HEAD: Final = 95  # 96 numbers with the tail; 63 let twice as many pairs through at 0.81, 127 gain little

SLACK: Final = 1e-4  # far above the rounding of a float32 product of heads and tails


class CosinePrefilter:
    """Upper bounds of cosines, by directions fitted to a sample. Any fit is correct; a good fit gives tight bounds."""

    def __init__(self, sample: NDArray[np.float32]) -> None:
        wide = sample.astype(np.float64)
        _, directions = np.linalg.eigh(wide.T @ wide)
        self._head: NDArray[np.float64] = np.ascontiguousarray(directions[:, ::-1][:, :HEAD])

    @property
    def width(self) -> int:
        """Numbers in a projected vector: the head and the tail."""
        return int(self._head.shape[1]) + 1

    def project(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return head and tail of each row: their product bounds that of the whole rows from above, up to rounding."""
        wide = rows.astype(np.float64)  # float32 would lose a short tail, the difference of two close numbers
        heads = wide @ self._head
        left = np.einsum("ij,ij->i", wide, wide) - np.einsum("ij,ij->i", heads, heads)
        return np.column_stack((heads, np.sqrt(np.maximum(left, 0)))).astype(np.float32)


Vectors = NDArray[np.float32]
"""Rows of unit length."""

MARGIN: Final = 1e-5  # far above the rounding of a float32 product of unit vectors, far below what separates texts

BLOCK: Final = 16_384  # clusters in one array: a growing bank need not copy all of its vectors

PREFILTER_FROM: Final = 16_384  # clusters; below, the whole product is as fast as the prefilter

_SAMPLE: Final = 8_192  # clusters that the prefilter is fitted to

_CACHED_QUERIES: Final = 10_000

_BLOCK_CELLS: Final = 4 << 20  # cells of one partial product: 16 MiB

_PAIRS: Final = 8_192  # pairs measured at once: 25 MB at 384 dimensions

_MAX_PREFILTER_SHARE: Final = 32  # one pair measured by itself costs as much as 32 in a product


@dataclass(frozen=True, slots=True)
class ClusterMatch:
    """A cluster of a bank and its cosine with a query."""

    slot: int
    cosine: float

    def better_than(self, other: ClusterMatch) -> bool:
        """Return whether this match has the higher cosine; the lower slot breaks a tie."""
        return (self.cosine, -self.slot) > (other.cosine, -other.slot)


class ClusterMatrix:
    """The clusters of one bank as this process knows them at `version` and `stamp`: row i is slot i."""

    def __init__(self, dimension: int) -> None:
        self.bank_id = ""
        self.version = 0
        self.stamp = ""
        self.count = 0
        self.dimension = dimension
        self._blocks: list[_VectorBlock] = []
        self._cosine_prefilter: CosinePrefilter | None = None
        self._fitted_at = 0
        self._found: dict[tuple[str, float], ClusterMatch | None] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of the vectors and their bounds."""
        return sum(block.nbytes for block in self._blocks)

    def put(self, slot: int, vector: Vectors) -> None:
        """Set the cluster of a slot; slots fill from 0 without gaps and are reused after an eviction."""
        self.put_all([slot], vector[None, :])

    def put_all(self, slots: Sequence[int], vectors: Vectors) -> None:
        """Set the clusters of several slots; the last one wins if a slot appears twice."""
        if not slots:
            return
        self.count = max(self.count, max(slots) + 1)
        while len(self._blocks) * BLOCK < self.count:
            self._blocks.append(_VectorBlock(self.dimension))
        for slot, vector in zip(slots, vectors, strict=True):
            self._blocks[slot // BLOCK].put(slot % BLOCK, vector)
        self._found.clear()

    def vector(self, slot: int) -> Vectors:
        """Return the vector of a slot's cluster."""
        found: Vectors = self._blocks[slot // BLOCK].rows[slot % BLOCK]
        return found

    def best_of(self, vectors: Mapping[str, Vectors], threshold: float) -> dict[str, ClusterMatch | None]:
        """Return `best` for queries by text, cached until a cluster changes."""
        new = [text for text in vectors if (text, threshold) not in self._found]
        if new:
            if len(self._found) + len(new) > _CACHED_QUERIES:
                self._found.clear()
                new = list(vectors)
            found = self.best(np.stack([vectors[text] for text in new]), threshold)
            self._found.update(zip(((text, threshold) for text in new), found, strict=True))
        return {text: self._found[text, threshold] for text in vectors}

    def best(self, queries: Vectors, threshold: float) -> list[ClusterMatch | None]:
        """Return each query's cluster of highest cosine that reaches the threshold; the lower slot breaks a tie."""
        found: list[ClusterMatch | None] = [None] * len(queries)
        least = np.full(len(queries), threshold, np.float32)
        for query, match in self._near_pairs(queries, threshold, least):
            known = found[query]
            if known is None or match.better_than(known):
                found[query] = match
                least[query] = max(least[query], np.float32(match.cosine))  # later blocks only matter if they come near
        return found

    def all_matches(self, query: Vectors, threshold: float) -> list[ClusterMatch]:
        """Return every cluster that reaches the threshold, best first, ties by slot."""
        found = [match for _, match in self._near_pairs(query[None, :], threshold, None)]
        return sorted(found, key=lambda match: (-match.cosine, match.slot))

    def _near_pairs(
        self, queries: Vectors, threshold: float, least: NDArray[np.float32] | None
    ) -> Iterator[tuple[int, ClusterMatch]]:
        """Yield the pairs that reach the threshold.

        With `least`, which the caller may raise in the meantime, yield only each query's pairs near its best.
        """
        prefilter = self._prefilter()
        asked = prefilter.project(queries) if prefilter else None
        for number, block in enumerate(self._blocks):
            first = number * BLOCK
            bounds = block.bounds(prefilter) if prefilter else None
            step = max(1, _BLOCK_CELLS // max(1, len(queries)))
            for start in range(0, block.count, step):
                end = min(start + step, block.count)
                floor = np.full(len(queries), threshold, np.float32) if least is None else least
                near = None
                if asked is not None and bounds is not None:
                    near = _prefiltered(asked, bounds[start:end], floor)
                rows = block.rows[start:end]
                pairs = _pairs_by_product(queries, rows, floor, best_only=least is not None) if near is None else near
                for query, row, cosine in _measure_exactly(queries, rows, pairs, floor):
                    if reaches_threshold(cosine, threshold):
                        yield query, ClusterMatch(first + start + row, cosine)

    def _prefilter(self) -> CosinePrefilter | None:
        """Return the prefilter of a large bank, or None; refit it when the bank has grown fourfold."""
        if self.count < PREFILTER_FROM:
            return None
        if self._cosine_prefilter is None or self.count >= 4 * self._fitted_at:
            every = max(1, self.count // _SAMPLE)
            self._cosine_prefilter = CosinePrefilter(
                np.concatenate([block.rows[: block.count : every] for block in self._blocks])
            )
            self._fitted_at = self.count
            for block in self._blocks:
                block.drop_bounds()
        return self._cosine_prefilter


class _VectorBlock:
    """Up to `BLOCK` clusters in one array, with their projections if the bank has a prefilter."""

    def __init__(self, dimension: int) -> None:
        self.count = 0
        self.rows: Vectors = np.empty((0, dimension), np.float32)
        self._bounds: Vectors | None = None
        self._stale: set[int] = set()

    @property
    def nbytes(self) -> int:
        return int(self.rows.nbytes) + (0 if self._bounds is None else int(self._bounds.nbytes))

    def put(self, row: int, vector: Vectors) -> None:
        if row >= len(self.rows):
            grown = np.zeros((min(BLOCK, max(64, 2 * row)), self.rows.shape[1]), np.float32)
            grown[: len(self.rows)] = self.rows
            self.rows = grown
        self.rows[row] = vector
        self.count = max(self.count, row + 1)
        if self._bounds is not None:
            self._stale.add(row)

    def drop_bounds(self) -> None:
        self._bounds = None
        self._stale.clear()

    def bounds(self, prefilter: CosinePrefilter) -> Vectors:
        if self._bounds is None or len(self._bounds) < self.count:
            self._bounds = np.zeros((len(self.rows), prefilter.width), np.float32)
            self._bounds[: self.count] = prefilter.project(self.rows[: self.count])
        elif self._stale:
            rows = sorted(self._stale)
            self._bounds[rows] = prefilter.project(self.rows[rows])
        self._stale.clear()
        return self._bounds


_Pairs = tuple[NDArray[np.intp], ...]
"""The query indexes and the row indexes of pairs."""


def _prefiltered(queries: Vectors, bounds: Vectors, least: NDArray[np.float32]) -> _Pairs | None:
    """Return the pairs of projected queries and clusters whose bound reaches `least`; None if it spares too few."""
    pairs = np.nonzero(queries @ bounds.T >= (least - np.float32(SLACK))[:, None])
    return None if len(pairs[0]) > len(queries) * len(bounds) // _MAX_PREFILTER_SHARE else pairs


def _pairs_by_product(queries: Vectors, rows: Vectors, least: NDArray[np.float32], *, best_only: bool) -> _Pairs:
    """Return the pairs whose product comes near `least`; with `best_only`, each query's pairs near its best."""
    product = queries @ rows.T
    if best_only:
        least = np.maximum(least, product.max(axis=1))
    return np.nonzero(product >= (least - np.float32(MARGIN))[:, None])


def _measure_exactly(
    queries: Vectors, rows: Vectors, pairs: _Pairs, least: NDArray[np.float32]
) -> Iterator[tuple[int, int, float]]:
    """Yield the exact cosines of the pairs that come near `least`."""
    for start in range(0, len(pairs[0]), _PAIRS):
        which, where = pairs[0][start : start + _PAIRS], pairs[1][start : start + _PAIRS]
        products = np.einsum("ij,ij->i", queries[which], rows[where])
        near = np.nonzero(products >= least[which] - np.float32(MARGIN))[0]
        for query, row in zip(which[near].tolist(), where[near].tolist(), strict=True):
            yield query, row, exact_cosine(queries[query], rows[row])


def exact_cosine(a: Vectors, b: Vectors) -> float:
    """Return the cosine of two unit vectors, computed in float64 and rounded to float32: the same on every path."""
    return float(np.float32(np.dot(a.astype(np.float64), b.astype(np.float64))))


def reaches_threshold(cosine: float, threshold: float) -> bool:
    """Return whether the cosine is at or above the threshold, compared as float32."""
    return bool(np.float32(cosine) >= np.float32(threshold))


def as_vectors(rows: Sequence[bytes], dimension: int) -> Vectors:
    """Return vectors from their little-endian float32 bytes, the form in Redis."""
    return np.frombuffer(b"".join(rows), "<f4").reshape(len(rows), dimension).astype(np.float32, copy=False)


def as_bytes(vector: Vectors) -> bytes:
    """Return a vector as little-endian float32 bytes."""
    return vector.astype("<f4", copy=False).tobytes()
