"""The banks that a process keeps in memory, bounded by their bytes and their number. Safe across threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from cachetools import Cache, LRUCache

from tellback.state.keys import Shard

MAX_BANKS: Final = 1_000  # whatever their size

BankKey = tuple[Shard, str]


class VectorMatrix(Protocol):
    """The vectors of a bank, which grow while it is cached."""

    @property
    def nbytes(self) -> int:
        """Their bytes."""
        ...


class CachedBank(Protocol):
    """The part of a bank that is kept."""

    @property
    def matrix(self) -> VectorMatrix:
        """Its vectors; another object after the bank was deleted and begun again."""
        ...


Bank = TypeVar("Bank", bound=CachedBank)


class BankCache(Generic[Bank]):
    """Banks by shard and name; the least recently used one is dropped, and loaded again when needed."""

    def __init__(self, max_bytes: int, dropped: Callable[[str], object]) -> None:
        """Prepare an empty cache; `dropped` is called with the name of each bank that is dropped."""
        self._banks = _ReportingCache(dropped)
        self._max_bytes = max_bytes
        self._guard = threading.Lock()

    def use(self, key: BankKey, create: Callable[[], Bank]) -> Bank:
        """Return a bank, created if it is not here, and make it the most recently used."""
        with self._guard:
            bank: Bank | None = self._banks.get(key)
            if bank is None:
                bank = self._banks[key] = create()
            while len(self._banks) > 1 and self._banks.nbytes > self._max_bytes:
                self._banks.popitem()
            return bank

    def __len__(self) -> int:
        """Return the number of banks."""
        return len(self._banks)

    def __contains__(self, key: BankKey) -> bool:
        """Check whether a bank is here, without using it."""
        return key in self._banks


class _ReportingCache(LRUCache[Any, Any]):
    def __init__(self, dropped: Callable[[str], object]) -> None:
        super().__init__(MAX_BANKS)
        self._dropped = dropped

    @property
    def nbytes(self) -> int:
        """The bytes of all banks now: cachetools would keep the size that each had when it was put in."""
        peek = cast("Any", Cache).__getitem__  # the base class's, since reading here is no use of a bank
        return sum(peek(self, key).matrix.nbytes for key in self)

    def popitem(self) -> tuple[Any, Any]:
        """Remove the least recently used bank, and report it."""
        key, bank = super().popitem()
        self._dropped(key[1])
        return key, bank
