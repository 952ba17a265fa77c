"""The decisions of one run: drawn from its seed, recorded, and replayed without those that a failure does not need."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


def _mixed(seed: int, index: int) -> int:
    """Return 64 random bits that depend on nothing but the seed and the decision's number (splitmix64)."""
    value = (seed * 0xD1342543DE82EF95 + (index + 1) * _GOLDEN) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


class Choices:
    """The decisions of a run. Each has a default, the least eventful outcome.

    `taken` has the numbers of the decisions with another outcome; `on_taken` is called
    with the label of each. With `only`, every decision whose number is not in it has its default.
    """

    def __init__(self, seed: int, only: Collection[int] | None = None) -> None:
        self._seed = seed
        self._only = None if only is None else frozenset(only)
        self._index = 0
        self.taken: list[int] = []
        self.on_taken: Callable[[str], None] | None = None

    def chance(self, probability: float, label: str) -> bool:
        """Decide whether something happens; by default it does not."""
        index, bits = self._draw()
        happens = bits < probability * (1 << 64) and self._allowed(index)
        if happens:
            self._note(index, label)
        return happens

    def pick(self, count: int, label: str) -> int:
        """Pick a number below `count`; 0 by default."""
        index, bits = self._draw()
        picked = bits % count if self._allowed(index) else 0
        if picked:
            self._note(index, f"{label}: {picked}")
        return picked

    def between(self, low: float, high: float, label: str) -> float:
        """Draw a number between two; the lower one by default."""
        index, bits = self._draw()
        if not self._allowed(index):
            return low
        self._note(index, f"{label}: {low + (high - low) * (bits / (1 << 64)):.3f}")
        return low + (high - low) * (bits / (1 << 64))

    def _draw(self) -> tuple[int, int]:
        index = self._index
        self._index += 1
        return index, _mixed(self._seed, index)

    def _allowed(self, index: int) -> bool:
        return self._only is None or index in self._only

    def _note(self, index: int, label: str) -> None:
        self.taken.append(index)
        if self.on_taken is not None:
            self.on_taken(label)


def shrink(taken: Sequence[int], fails: Callable[[Sequence[int]], bool], tries: int = 400) -> list[int]:
    """Return a smaller set of decisions with which the run still fails, by delta debugging with `tries` runs."""
    kept, size = list(taken), max(1, len(taken) // 2)
    while size >= 1 and tries > 0:
        start, smaller = 0, False
        while start < len(kept) and tries > 0:
            candidate = kept[:start] + kept[start + size :]
            tries -= 1
            if fails(candidate):
                kept, smaller = candidate, True
            else:
                start += size
        size = size if smaller and size == 1 else size // 2
    return kept
