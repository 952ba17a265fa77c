"""The facts that banks remember, searched: in a vector set of Redis, else exactly, over a copy in this process."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import structlog

from tellback.embedding.encoder import Encoder
from tellback.signals.matching import Vectors, as_bytes, as_vectors
from tellback.state.database import Database
from tellback.state.keys import Shard
from tellback.state.memories import MemoryInfo, MemoryStore

MEMORY: Final = 256 << 20  # bytes of vectors; beyond, the bank used longest ago is dropped and loaded again when needed

_log = structlog.get_logger("tellback.memories")


class FactMatrix:
    """The vectors of one bank's facts, as this process knows them at `version`."""

    def __init__(self, dimension: int) -> None:
        """Begin without a fact."""
        self.id = ""
        self.version = 0
        self._rows: Vectors = np.empty((0, dimension), np.float32)
        self._names: list[str] = []
        self._row_of: dict[str, int] = {}

    def __len__(self) -> int:
        """Facts."""
        return len(self._names)

    @property
    def nbytes(self) -> int:
        """Memory of the vectors."""
        return int(self._rows.nbytes)

    def put_all(self, names: Sequence[str], vectors: Vectors) -> None:
        """Set the vectors of facts."""
        for name, vector in zip(names, vectors, strict=True):
            row = self._row_of.get(name)
            if row is None:
                row = self._row_of[name] = len(self._names)
                self._names.append(name)
                if row >= len(self._rows):
                    grown = np.zeros((max(64, row + row // 2), self._rows.shape[1]), np.float32)
                    grown[: len(self._rows)] = self._rows
                    self._rows = grown
            self._rows[row] = vector

    def drop(self, name: str) -> None:
        """Take a fact out, if it is there; the last one takes its row."""
        row = self._row_of.pop(name, None)
        if row is None:
            return
        last = self._names.pop()
        if last != name:
            self._names[row] = last
            self._row_of[last] = row
            self._rows[row] = self._rows[len(self._names)]

    def nearest(self, vector: Vectors, count: int) -> list[tuple[str, float]]:
        """The facts of highest cosine, best first; equal ones by their ids."""
        cosines = self._rows[: len(self._names)] @ vector
        rows = np.arange(len(cosines))
        if count < len(rows):
            least = np.partition(cosines, len(rows) - count)[len(rows) - count]
            rows = np.nonzero(cosines >= least)[0]  # with all that are as near as the last one
        found = [(self._names[row], float(cosines[row])) for row in rows.tolist()]
        return sorted(found, key=_order)[:count]


class _BankFacts:
    """One bank's matrix; hold `lock` while using it."""

    def __init__(self, dimension: int) -> None:
        self.lock = threading.Lock()
        self.matrix = FactMatrix(dimension)


class MemorySearch:
    """Finds the facts nearest to a vector, for the threads of this process."""

    def __init__(self, database: Database, encoder: Encoder) -> None:
        """Take the Redis and the model; nothing is loaded yet."""
        self._db = database
        self._encoder = encoder
        self._banks: OrderedDict[tuple[Shard, str], _BankFacts] = OrderedDict()
        self._guard = threading.Lock()

    def nearest(self, shard: Shard, bank: str, vector: Vectors, count: int) -> list[tuple[str, float]]:
        """At most `count` facts of a bank with their cosines, best first; equal ones by their ids.

        Raises:
            ConfigurationError: the facts were embedded with another model.
        """
        store = MemoryStore(self._db, shard, bank)
        while (info := store.info()) is not None and info.kind == "set":
            self._check(info, bank)
            found = store.nearest(info.id, as_bytes(vector), count)
            if found is not None:
                return sorted(found, key=_order)
        if info is None:
            return []
        facts = self._of(shard, bank)
        with facts.lock:
            self._sync(store, facts)
            return facts.matrix.nearest(vector, count)

    def _sync(self, store: MemoryStore, facts: _BankFacts) -> None:
        complete = False
        while not complete:
            news = store.load(facts.matrix.id, facts.matrix.version)
            if news.info:
                self._check(news.info, store.bank)
            if news.anew:
                facts.matrix = FactMatrix(self._encoder.dimension)
                facts.matrix.id = news.info.id if news.info else ""
            for name in news.gone:
                facts.matrix.drop(name)
            _put(facts.matrix, news.vectors, self._encoder.dimension)
            facts.matrix.version = news.version
            complete = news.complete

    def _check(self, info: MemoryInfo, bank: str) -> None:
        info.check(bank, self._encoder.model, self._encoder.weights, self._encoder.dimension)

    def _of(self, shard: Shard, bank: str) -> _BankFacts:
        with self._guard:
            known = self._banks.get((shard, bank))
            if known is None:
                known = self._banks[shard, bank] = _BankFacts(self._encoder.dimension)
            self._banks.move_to_end((shard, bank))
            while len(self._banks) > 1 and sum(each.matrix.nbytes for each in self._banks.values()) > MEMORY:
                _log.info("memories.dropped", bank=self._banks.popitem(last=False)[0][1])
            return known


def _put(matrix: FactMatrix, vectors: Mapping[str, bytes], dimension: int) -> None:
    if vectors:
        matrix.put_all(list(vectors), as_vectors(list(vectors.values()), dimension))


def _order(found: tuple[str, float]) -> tuple[float, str]:
    return -found[1], found[0]
