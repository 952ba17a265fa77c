"""Answers to recalls: the bank's stored facts, or a host's candidates, ranked by the scores of the query's cluster.

Stored facts are searched in a vector set of Redis where the server has them (Redis 8), else exactly, over a copy of the
vectors in this process.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
import structlog

from tellback.contracts.limits import MAX_CANDIDATES
from tellback.contracts.signals import Candidate, RecallReply, RecallRequested
from tellback.embedding.clusters import BankCache, ClusterCache
from tellback.embedding.encoder import Encoder
from tellback.errors import ConfigurationError
from tellback.redaction import redact_text
from tellback.signals.matching import Vectors, as_bytes, as_vectors
from tellback.signals.models import ModelMismatch
from tellback.signals.ranking import Usefulness, rank_candidates
from tellback.state.database import Database
from tellback.state.keys import Shard
from tellback.state.stored_facts import FactStore, StoredFactsInfo

# Bytes of vectors in this process. Beyond that, the least recently used bank is dropped, and loaded again when needed.
MAX_FACT_BYTES: Final = 256 << 20

_logger = structlog.get_logger("tellback.facts")


class FactMatrix:
    """The vectors of one bank's stored facts, as this process knows them at `version` and `stamp`."""

    def __init__(self, dimension: int) -> None:
        self.id = ""
        self.version = 0
        self.stamp = ""
        self._rows: Vectors = np.empty((0, dimension), np.float32)
        self._names: list[str] = []
        self._row_of: dict[str, int] = {}

    def __len__(self) -> int:
        """Return the number of facts."""
        return len(self._names)

    @property
    def nbytes(self) -> int:
        """Bytes of the vectors."""
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
        """Remove a fact, if it is there; the last fact moves to its row, which leaves no gap."""
        row = self._row_of.pop(name, None)
        if row is None:
            return
        last = self._names.pop()
        if last != name:
            self._names[row] = last
            self._row_of[last] = row
            self._rows[row] = self._rows[len(self._names)]

    def nearest(self, vector: Vectors, count: int) -> list[tuple[str, float]]:
        """Return the facts of highest cosine, best first, ties by id."""
        cosines = self._rows[: len(self._names)] @ vector
        rows = np.arange(len(cosines))
        if count < len(rows):
            least = np.partition(cosines, len(rows) - count)[len(rows) - count]
            rows = np.nonzero(cosines >= least)[0]  # every tie with the last one, for the order by id to decide
        found = [(self._names[row], float(cosines[row])) for row in rows.tolist()]
        return sorted(found, key=_by_cosine)[:count]


class _BankFacts:
    """The matrix of one bank; hold `lock` while you use it."""

    def __init__(self, dimension: int) -> None:
        self.lock = threading.Lock()
        self.matrix = FactMatrix(dimension)


class FactSearch:
    """A search of banks' stored facts by vector, shared by the threads of this process; banks load on first use."""

    def __init__(self, database: Database, encoder: Encoder) -> None:
        self._db = database
        self._encoder = encoder
        self._banks = BankCache[_BankFacts](MAX_FACT_BYTES, lambda bank: _logger.info("facts.dropped", bank=bank))

    def nearest(self, shard: Shard, bank: str, vector: Vectors, count: int) -> list[tuple[str, float]]:
        """Return at most `count` facts of a bank with their cosines, best first, ties by id.

        Raises:
            ConfigurationError: the facts were embedded with another model.
        """
        store = FactStore(self._db, shard, bank)
        # `store.nearest` returns None if the facts got another model since `info`: look again.
        while (info := store.info()) is not None and info.kind == "set":
            self._check_model(info, bank)
            found = store.nearest(info.id, as_bytes(vector), count)
            if found is not None:
                return sorted(found, key=_by_cosine)
        if info is None:
            return []
        facts = self._banks.use((shard, bank), lambda: _BankFacts(self._encoder.dimension))
        with facts.lock:
            self._sync_facts(store, facts)
            return facts.matrix.nearest(vector, count)

    def _sync_facts(self, store: FactStore, facts: _BankFacts) -> None:
        complete = False
        while not complete:
            updates = store.load(facts.matrix.id, facts.matrix.version, facts.matrix.stamp)
            if updates.info:
                self._check_model(updates.info, store.bank)
            if updates.is_reset:
                facts.matrix = FactMatrix(self._encoder.dimension)
                facts.matrix.id = updates.info.id if updates.info else ""
            for name in updates.deleted:
                facts.matrix.drop(name)
            if updates.vectors:
                rows = as_vectors(list(updates.vectors.values()), self._encoder.dimension)
                facts.matrix.put_all(list(updates.vectors), rows)
            facts.matrix.version = updates.version
            facts.matrix.stamp = updates.info.stamp if updates.info else ""
            complete = updates.is_complete

    def _check_model(self, info: StoredFactsInfo, bank: str) -> None:
        info.check(bank, self._encoder.model, self._encoder.weights, self._encoder.dimension)


def _by_cosine(found: tuple[str, float]) -> tuple[float, str]:
    return -found[1], found[0]


# Attempts to match a query while signals change the bank's clusters; after them the hits use global scores.
MAX_ATTEMPTS: Final = 5

MAX_CONSIDERED: Final = 100
"""Fewest stored facts to rank, even for a small limit: usefulness can lift a fact above nearer ones."""


class RecallAnswerer:
    """Answers the recalls of one team in this process."""

    def __init__(self, clusters: ClusterCache) -> None:
        self.clusters = clusters
        self._fact_search = FactSearch(clusters.database, clusters.embedder.encoder)

    def answer(self, shard: Shard, request: RecallRequested, vector: Vectors) -> RecallReply:
        """Return the hits for a request whose query has this vector, or the reason why there are none."""
        try:
            if request.candidates is None:
                request = self._with_stored_facts(shard, request, vector)
            usefulness = self._usefulness_of(shard, request, vector)
        except ConfigurationError as error:
            return RecallReply(error=str(error), model_mismatch=isinstance(error, ModelMismatch))
        if usefulness is not None:
            return RecallReply(hits=rank_candidates(request, usefulness))
        return self._by_global_scores(shard, request)

    def answer_without_vector(self, shard: Shard, request: RecallRequested, failure: Exception) -> RecallReply:
        """Return the reply if the model fails at the query: candidates by global scores, otherwise the reason."""
        if request.candidates is None:
            model = self.clusters.embedder.encoder.model
            reason = f"query: the model {model} fails at this text: {type(failure).__name__}: {failure}"
            return RecallReply(error=redact_text(reason)[:2000], unfit=True)
        return self._by_global_scores(shard, request)

    def _by_global_scores(self, shard: Shard, request: RecallRequested) -> RecallReply:
        store = self.clusters.bank_clusters(shard, request.bank).store
        return RecallReply(
            hits=rank_candidates(request, store.global_usefulness(_candidate_ids(request)), degraded=True)
        )

    def _with_stored_facts(self, shard: Shard, request: RecallRequested, vector: Vectors) -> RecallRequested:
        """Return the request with the bank's facts nearest to its query as candidates."""
        count = min(MAX_CANDIDATES, max(MAX_CONSIDERED, 4 * request.limit))
        found = self._fact_search.nearest(shard, request.bank, vector, count)
        # Rounding can take a cosine slightly out of [-1, 1].
        candidates = [Candidate(fact_id, min(1.0, max(-1.0, cosine))) for fact_id, cosine in found]
        return msgspec.structs.replace(request, candidates=candidates)

    def _usefulness_of(self, shard: Shard, request: RecallRequested, vector: Vectors) -> list[Usefulness] | None:
        """Return each candidate's usefulness; None if the clusters change faster than they can be matched."""
        clusters = self.clusters.bank_clusters(shard, request.bank)
        for _ in range(MAX_ATTEMPTS):
            with clusters.lock:
                clusters.sync()
                matrix = clusters.matrix
                slots = [match.slot for match in matrix.all_matches(vector, clusters.threshold)]
                known, version, stamp = matrix.bank_id, matrix.version, matrix.stamp
            # Redis compares the version: after an eviction a slot would be another cluster's.
            usefulness = clusters.store.usefulness(known, version, stamp, slots, _candidate_ids(request))
            if usefulness is not None:
                return usefulness
        return None


def _candidate_ids(request: RecallRequested) -> list[str]:
    return [candidate.fact_id for candidate in request.candidates or ()]
