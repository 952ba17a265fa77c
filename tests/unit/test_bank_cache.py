"""The banks in memory: which one goes, and when."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tellback.embedding import clusters
from tellback.embedding.clusters import BankCache
from tellback.state.keys import Layout

SHARD = Layout("acme", 1).shard(0)


@dataclass
class Matrix:
    nbytes: int = 0


@dataclass
class FakeBank:
    matrix: Matrix = field(default_factory=Matrix)


def cache(dropped: list[str], room: int = 100) -> BankCache[FakeBank]:
    return BankCache[FakeBank](room, dropped.append)


def test_the_bank_used_longest_ago_goes_once_another_has_grown() -> None:
    """Reading the sizes of all must not count as use of all."""
    dropped: list[str] = []
    banks = cache(dropped)
    for name in ("a", "b", "c", "a"):
        banks.use((SHARD, name), FakeBank).matrix.nbytes = 40
    banks.use((SHARD, "a"), FakeBank)
    assert dropped == ["b"]


def test_a_bank_larger_than_all_room_is_kept_while_it_is_used() -> None:
    dropped: list[str] = []
    banks = cache(dropped)
    banks.use((SHARD, "small"), FakeBank).matrix.nbytes = 1
    large = banks.use((SHARD, "large"), FakeBank)
    large.matrix.nbytes = 1_000
    assert banks.use((SHARD, "large"), FakeBank) is large
    assert dropped == ["small"]


def test_the_number_of_banks_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "MAX_BANKS", 2)
    dropped: list[str] = []
    banks = cache(dropped)
    for name in ("a", "b", "a", "c"):
        banks.use((SHARD, name), FakeBank)
    assert dropped == ["b"]
    assert len(banks) == 2
    assert (SHARD, "a") in banks
