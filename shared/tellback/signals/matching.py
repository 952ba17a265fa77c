"""Which contexts of a bank a query belongs to: exact cosine over all of them, to the last bit at the border.

One float32 product finds who may match; those near the border or near the best are measured again pair by pair, so
that the answer does not depend on the shape of the product. numpy comes with the workers: base code does not import
this module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
"""Rows of unit length."""

MARGIN: Final = 1e-5  # far above the rounding of a float32 product of unit vectors, far below what separates texts
_REMEMBERED: Final = 10_000
_BLOCK_CELLS: Final = 4 << 20  # cells of one partial product: 16 MiB


@dataclass(frozen=True, slots=True)
class Match:
    """A context of a bank and its cosine with a query."""

    slot: int
    cosine: float

    def better_than(self, other: Match) -> bool:
        """Whether it is the higher cosine; of equal ones the lower slot counts."""
        return (self.cosine, -self.slot) > (other.cosine, -other.slot)


class ContextMatrix:
    """The contexts of one bank as this process knows them at `version`: row i is slot i."""

    def __init__(self, dimension: int) -> None:
        """Begin without a context."""
        self.bank_id = ""
        self.version = 0
        self.count = 0
        self._rows: Vectors = np.empty((0, dimension), np.float32)
        self._found: dict[tuple[str, float], Match | None] = {}

    @property
    def dimension(self) -> int:
        """Numbers in a vector."""
        return int(self._rows.shape[1])

    @property
    def nbytes(self) -> int:
        """Memory of the vectors."""
        return int(self._rows.nbytes)

    def put(self, slot: int, vector: Vectors) -> None:
        """Set the context of a slot; slots fill from 0 without gaps, and are used again after an eviction."""
        if slot >= len(self._rows):
            grown = np.zeros((max(64, 2 * slot), self.dimension), np.float32)
            grown[: len(self._rows)] = self._rows
            self._rows = grown
        self._rows[slot] = vector
        self._found.clear()
        self.count = max(self.count, slot + 1)

    def best_of(self, vectors: Mapping[str, Vectors], threshold: float) -> dict[str, Match | None]:
        """`best` for queries by text; what was asked before is remembered until a context changes."""
        new = [text for text in vectors if (text, threshold) not in self._found]
        if new:
            if len(self._found) + len(new) > _REMEMBERED:
                self._found.clear()
                new = list(vectors)
            found = self.best(np.stack([vectors[text] for text in new]), threshold)
            self._found.update(zip(((text, threshold) for text in new), found, strict=True))
        return {text: self._found[text, threshold] for text in vectors}

    def best(self, queries: Vectors, threshold: float) -> list[Match | None]:
        """For each query the context of highest cosine, if that reaches the threshold; equal ones: the lower slot."""
        found: list[Match | None] = [None] * len(queries)
        for query, match in self._near(queries, threshold, best_only=True):
            known = found[query]
            if known is None or match.better_than(known):
                found[query] = match
        return found

    def all_matches(self, query: Vectors, threshold: float) -> list[Match]:
        """Every context that reaches the threshold, best first; equal ones by slot."""
        found = [match for _, match in self._near(query[None, :], threshold, best_only=False)]
        return sorted(found, key=lambda match: (-match.cosine, match.slot))

    def _near(self, queries: Vectors, threshold: float, *, best_only: bool) -> list[tuple[int, Match]]:
        """Pairs that reach the threshold; with `best_only`, of each query those near its best in a block."""
        pairs: list[tuple[int, Match]] = []
        block = max(1, _BLOCK_CELLS // max(1, len(queries)))
        for start in range(0, self.count, block):
            rows = self._rows[start : min(start + block, self.count)]
            product = queries @ rows.T
            least = np.full(len(queries), threshold, np.float32)
            if best_only:
                least = np.maximum(least, product.max(axis=1))
            which, where = np.nonzero(product >= (least - np.float32(MARGIN))[:, None])
            for query, row in zip(which.tolist(), where.tolist(), strict=True):
                cosine = exact_cosine(queries[query], rows[row])
                if reaches(cosine, threshold):
                    pairs.append((query, Match(start + row, cosine)))
        return pairs


def exact_cosine(a: Vectors, b: Vectors) -> float:
    """The cosine of two vectors of unit length as a float32, whatever product found them."""
    return float(np.float32(np.dot(a.astype(np.float64), b.astype(np.float64))))


def reaches(cosine: float, threshold: float) -> bool:
    """Whether the cosine is at or above the threshold, both as float32."""
    return bool(np.float32(cosine) >= np.float32(threshold))


def as_vectors(rows: Sequence[bytes], dimension: int) -> Vectors:
    """Vectors from their little-endian float32 bytes, as Redis keeps them."""
    return np.frombuffer(b"".join(rows), "<f4").reshape(len(rows), dimension).astype(np.float32, copy=False)


def as_bytes(vector: Vectors) -> bytes:
    """A vector as little-endian float32."""
    return vector.astype("<f4", copy=False).tobytes()
