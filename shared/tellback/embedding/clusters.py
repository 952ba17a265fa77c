"""Banks' query clusters: this process's cache of them.

A bank counts every change as a version, so a synchronisation loads only the clusters that changed since the last one. A
random stamp beside the version shows whether these clusters are still those of the bank: a Redis that lost the end of
its log gives out the same versions again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, Literal, Protocol, TypeVar, cast

from cachetools import Cache, LRUCache

from tellback import clock
from tellback.embedding.embedder import Embedder
from tellback.embedding.encoder import Encoder
from tellback.errors import Unavailable
from tellback.log import get_logger
from tellback.settings import Settings
from tellback.signals.assignment import ClusterAssignment
from tellback.signals.matching import ClusterMatrix, as_vectors
from tellback.signals.models import ModelMismatch, default_threshold
from tellback.state.banks import BankInfo, BankStore, BankUpdates
from tellback.state.database import Database
from tellback.state.embeddings import Encoders, EncoderState
from tellback.state.keys import Layout, Shard
from tellback.state.stored_facts import describe_model

# Bytes of vectors in this process. Beyond that, the least recently used bank is dropped, and loaded again when needed.
MAX_MEMORY_BYTES: Final = 512 << 20
REPORT_SECONDS: Final = 3600.0

FAILURE_SECONDS: Final = 30.0  # a failure is reported again and again: its time shows whether it still lasts

MAX_BANKS: Final = 1_000  # in this process, whatever their size

_logger = get_logger("tellback.clusters")

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
        peek = cast("Any", Cache).__getitem__  # the base class's, since a bank that is read here is not used
        return sum(peek(self, key).matrix.nbytes for key in self)

    def popitem(self) -> tuple[Any, Any]:
        """Remove the least recently used bank, and report it."""
        key, bank = super().popitem()
        self._dropped(key[1])
        return key, bank


class BankClusters:
    """One bank as this process knows it; `sync` loads it. Hold `lock` while you use it."""

    def __init__(self, store: BankStore, encoder: Encoder) -> None:
        self.store = store
        self.lock = threading.Lock()
        self._encoder = encoder
        self.matrix = ClusterMatrix(encoder.dimension)
        self.info: BankInfo | None = None

    @property
    def threshold(self) -> float:
        """The bank's threshold; the model's for a bank that does not exist yet."""
        return self.info.threshold if self.info else default_threshold(self._encoder.model)

    def sync(self, *, oldest: int = 0, signal_ids: Sequence[str] = ()) -> BankUpdates:
        """Load all changes since the last call; return the last reply, with the answers for `oldest` and `signal_ids`.

        Raises:
            ModelMismatch: the bank was begun with another model than this worker's.
        """
        while True:
            known = self.matrix
            loaded = self.store.load(known.bank_id, known.version, known.stamp, oldest=oldest, signal_ids=signal_ids)
            self._apply_updates(loaded)
            if loaded.is_complete:
                return loaded

    def add_begun(self, assignment: ClusterAssignment, bank_id: str, stamp: str) -> None:
        """Add the clusters that this process has just begun in Redis, each of which raised the version by one."""
        self.matrix.bank_id = bank_id
        for target in assignment.targets:
            if target.vector is not None:
                self.matrix.put(target.slot, target.vector)
                self.matrix.version += 1
                self.matrix.stamp = stamp

    def _apply_updates(self, loaded: BankUpdates) -> None:
        self.info = loaded.bank
        bank_id = loaded.bank.id if loaded.bank else ""
        if loaded.bank:
            self._check_model(loaded.bank)
        # Another id under the same name: the bank was deleted and begun again, or switched to another model. The same
        # id: Redis lost the end of its log, so this process knows clusters that nobody else does. Their signals would
        # count for a cluster that no recall finds, or for the one that took their slot.
        if loaded.is_reset:
            self.matrix = ClusterMatrix(self._encoder.dimension)
            self.matrix.bank_id = bank_id
        self.matrix.put_all(loaded.slots, as_vectors(loaded.vectors, self.matrix.dimension))
        self.matrix.version = loaded.version
        self.matrix.stamp = loaded.bank.stamp if loaded.bank else ""

    def _check_model(self, bank: BankInfo) -> None:
        """Compare models by their files, whatever their names; by name if the files of either are unknown.

        Raises:
            ModelMismatch: they differ.
        """
        encoder = self._encoder
        same = bank.weights == encoder.weights if bank.weights and encoder.weights else bank.model == encoder.model
        if same and bank.dimension == encoder.dimension:
            return
        theirs, ours = describe_model(bank.model, bank.weights), describe_model(encoder.model, encoder.weights)
        raise ModelMismatch(
            f"bank {self.store.bank!r} was begun with the model {theirs} of {bank.dimension} dimensions, and "
            f"this worker has {ours} of {encoder.dimension}: set TELLBACK_MODEL to the former on the workers, or give "
            f"the bank the latter by `tellback bank reembed {self.store.bank}`, then replay the dead letters"
        )


class ClusterCache:
    """The model and the banks' clusters that the signals and recalls loops of one team share in a process."""

    def __init__(self, settings: Settings, database: Database, layout: Layout, encoder: Encoder) -> None:
        self.settings = settings
        self.database = database
        self.embedder = Embedder(encoder, database, delay=settings.embed_delay)
        self._encoders = Encoders(database, layout)
        self._banks = BankCache[BankClusters](
            MAX_MEMORY_BYTES, lambda bank: _logger.info("clusters.dropped", bank=bank)
        )
        self._said = ("", 0.0)
        self._refused_at = -FAILURE_SECONDS

    def ready(self) -> None:
        """Load the model unless it is loaded, and report the result to Redis.

        Raises:
            Unavailable: it does not load, or fails at every text.
        """
        try:
            self.embedder.ready()
        except Unavailable as failure:
            self._report_model(str(failure))
            raise
        self._report_model("")

    def report_model_mismatch(self, error: ModelMismatch) -> None:
        """Report that a bank's signals or facts wait for a worker with another model."""
        now = clock.monotonic()
        if now - self._refused_at >= FAILURE_SECONDS:
            self._refused_at = now
            self._store_encoder_state("loaded", refuses=str(error))

    def bank_clusters(self, shard: Shard, bank: str) -> BankClusters:
        """Return a bank and make it the most recently used."""
        return self._banks.use(
            (shard, bank), lambda: BankClusters(BankStore(self.database, shard, bank), self.embedder.encoder)
        )

    def _report_model(self, failure: str) -> None:
        now = clock.monotonic()
        again = FAILURE_SECONDS if failure else REPORT_SECONDS
        if self._said[1] and self._said[0] == failure and now - self._said[1] < again:
            return
        self._store_encoder_state("failed" if failure else "loaded", reason=failure)
        self._said = (failure, now)

    def _store_encoder_state(self, state: Literal["loaded", "failed"], *, reason: str = "", refuses: str = "") -> None:
        encoder, host = self.embedder.encoder, self.settings.host_name
        self._encoders.report(
            EncoderState(
                host=host,
                model=encoder.model,
                state=state,
                dimension=encoder.dimension,
                reason=reason,
                mismatch=refuses,
            )
        )
