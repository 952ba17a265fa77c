"""Which contexts of a bank a query belongs to: exact cosine over all of them, to the last bit at the border.

One float32 product finds who may match, in a bank of many contexts a narrow one that bounds it from above
(`tellback.signals.screen`); those near the border or near the best are measured again pair by pair, so that the answer
does not depend on the shape of the product. numpy comes with the workers: base code does not import
this module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tellback.signals.screen import SLACK, Screen

Vectors = NDArray[np.float32]
"""Rows of unit length."""

MARGIN: Final = 1e-5  # far above the rounding of a float32 product of unit vectors, far below what separates texts
BLOCK: Final = 16_384  # contexts that stand together: a bank grows without a copy of what it has
SCREENED_FROM: Final = 16_384  # contexts; below, the whole product is as fast as its index
_SAMPLE: Final = 8_192  # contexts that an index is fitted to
_REMEMBERED: Final = 10_000
_BLOCK_CELLS: Final = 4 << 20  # cells of one partial product: 16 MiB
_PAIRS: Final = 8_192  # measured at once: 25 MB at 384 dimensions
_WORTH: Final = 32  # one pair measured alone costs as much as so many within a product


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
        self.dimension = dimension
        self._blocks: list[_Block] = []
        self._screen: Screen | None = None
        self._fitted_at = 0
        self._found: dict[tuple[str, float], Match | None] = {}

    @property
    def nbytes(self) -> int:
        """Memory of the vectors and their index."""
        return sum(block.nbytes for block in self._blocks)

    def put(self, slot: int, vector: Vectors) -> None:
        """Set the context of a slot; slots fill from 0 without gaps, and are used again after an eviction."""
        self.put_all([slot], vector[None, :])

    def put_all(self, slots: Sequence[int], vectors: Vectors) -> None:
        """Set the contexts of several slots; where one stands twice, the last counts."""
        if not slots:
            return
        self.count = max(self.count, max(slots) + 1)
        while len(self._blocks) * BLOCK < self.count:
            self._blocks.append(_Block(self.dimension))
        for slot, vector in zip(slots, vectors, strict=True):
            self._blocks[slot // BLOCK].put(slot % BLOCK, vector)
        self._found.clear()

    def truncate(self, count: int) -> None:
        """Forget the contexts from slot `count` on."""
        if count < self.count:
            self.count = count
            del self._blocks[-(-count // BLOCK) :]
            if self._blocks:
                self._blocks[-1].truncate(count - (len(self._blocks) - 1) * BLOCK)
            self._found.clear()

    def vector(self, slot: int) -> Vectors:
        """The context of a slot."""
        found: Vectors = self._blocks[slot // BLOCK].rows[slot % BLOCK]
        return found

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
        least = np.full(len(queries), threshold, np.float32)
        for query, match in self._near(queries, threshold, least):
            known = found[query]
            if known is None or match.better_than(known):
                found[query] = match
                least[query] = max(least[query], np.float32(match.cosine))  # later blocks must at least come near
        return found

    def all_matches(self, query: Vectors, threshold: float) -> list[Match]:
        """Every context that reaches the threshold, best first; equal ones by slot."""
        found = [match for _, match in self._near(query[None, :], threshold, None)]
        return sorted(found, key=lambda match: (-match.cosine, match.slot))

    def _near(
        self, queries: Vectors, threshold: float, least: NDArray[np.float32] | None
    ) -> Iterator[tuple[int, Match]]:
        """Pairs that reach the threshold; with `least`, which may rise meanwhile, of each query those near its best."""
        screen = self._fitted()
        asked = screen.of(queries) if screen else None
        for number, block in enumerate(self._blocks):
            first = number * BLOCK
            bounds = block.bounds(screen) if screen else None
            step = max(1, _BLOCK_CELLS // max(1, len(queries)))
            for start in range(0, block.count, step):
                end = min(start + step, block.count)
                floor = np.full(len(queries), threshold, np.float32) if least is None else least
                near = None
                if asked is not None and bounds is not None:
                    near = _screened(asked, bounds[start:end], floor)
                rows = block.rows[start:end]
                pairs = _product(queries, rows, floor, best_only=least is not None) if near is None else near
                for query, row, cosine in _measured(queries, rows, pairs, floor):
                    if reaches(cosine, threshold):
                        yield query, Match(first + start + row, cosine)

    def _fitted(self) -> Screen | None:
        """The index of a bank that is large enough for one; fitted anew when the bank has grown fourfold."""
        if self.count < SCREENED_FROM:
            return None
        if self._screen is None or self.count >= 4 * self._fitted_at:
            every = max(1, self.count // _SAMPLE)
            self._screen = Screen(np.concatenate([block.rows[: block.count : every] for block in self._blocks]))
            self._fitted_at = self.count
            for block in self._blocks:
                block.unscreen()
        return self._screen


class _Block:
    """Up to `BLOCK` contexts in a row, with their bounds where the bank has an index."""

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

    def truncate(self, count: int) -> None:
        self.count = count
        self._stale = {row for row in self._stale if row < count}

    def unscreen(self) -> None:
        self._bounds = None
        self._stale.clear()

    def bounds(self, screen: Screen) -> Vectors:
        if self._bounds is None or len(self._bounds) < self.count:
            self._bounds = np.zeros((len(self.rows), screen.width), np.float32)
            self._bounds[: self.count] = screen.of(self.rows[: self.count])
        elif self._stale:
            rows = sorted(self._stale)
            self._bounds[rows] = screen.of(self.rows[rows])
        self._stale.clear()
        return self._bounds


_Pairs = tuple[NDArray[np.intp], ...]
"""Of pairs, the queries and the rows."""


def _screened(asked: Vectors, bounds: Vectors, least: NDArray[np.float32]) -> _Pairs | None:
    """Pairs whose bound reaches what is asked; None where the bounds let so much through that they save nothing."""
    pairs = np.nonzero(asked @ bounds.T >= (least - np.float32(SLACK))[:, None])
    return None if len(pairs[0]) > len(asked) * len(bounds) // _WORTH else pairs


def _product(queries: Vectors, rows: Vectors, least: NDArray[np.float32], *, best_only: bool) -> _Pairs:
    """Pairs whose product comes near what is asked; with `best_only`, of each query those near its best."""
    product = queries @ rows.T
    if best_only:
        least = np.maximum(least, product.max(axis=1))
    return np.nonzero(product >= (least - np.float32(MARGIN))[:, None])


def _measured(
    queries: Vectors, rows: Vectors, pairs: _Pairs, least: NDArray[np.float32]
) -> Iterator[tuple[int, int, float]]:
    """The cosines of pairs that come near what is asked, measured pair by pair."""
    for start in range(0, len(pairs[0]), _PAIRS):
        which, where = pairs[0][start : start + _PAIRS], pairs[1][start : start + _PAIRS]
        products = np.einsum("ij,ij->i", queries[which], rows[where])
        near = np.nonzero(products >= least[which] - np.float32(MARGIN))[0]
        for query, row in zip(which[near].tolist(), where[near].tolist(), strict=True):
            yield query, row, exact_cosine(queries[query], rows[row])


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
