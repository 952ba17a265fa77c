"""The contexts of banks in this process's memory, kept up with Redis; shared by the loops of signals and recalls."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, Literal

from tellback import clock
from tellback.embedding.embedder import Embedder
from tellback.embedding.encoder import Encoder
from tellback.errors import Unavailable
from tellback.log import get_logger
from tellback.settings import Settings
from tellback.signals.matching import ContextMatrix, as_vectors
from tellback.signals.models import OtherModel, default_threshold
from tellback.signals.placing import Placement
from tellback.state.banks import BankInfo, BankStore, Loaded
from tellback.state.database import Database
from tellback.state.encoders import Encoders, EncoderState
from tellback.state.keys import Layout, Shard

MEMORY: Final = 512 << 20  # bytes of vectors; beyond, the bank used longest ago is dropped and loaded again when needed
BANKS: Final = 1_000  # banks in memory, of whatever size
SAY_SECONDS: Final = 3600.0
FAILURE_SECONDS: Final = 30.0  # a failure is told anew, so that its time tells whether anybody still has it

_log = get_logger("tellback.contexts")


class BankContexts:
    """One bank as this process knows it. Hold `lock` while using it."""

    def __init__(self, store: BankStore, encoder: Encoder) -> None:
        """Take the bank's store and the model; nothing is loaded yet."""
        self.store = store
        self.lock = threading.Lock()
        self._encoder = encoder
        self.matrix = ContextMatrix(encoder.dimension)
        self.info: BankInfo | None = None

    @property
    def threshold(self) -> float:
        """The bank's threshold; for one that has yet to begin, the model's."""
        return self.info.threshold if self.info else default_threshold(self._encoder.model)

    def sync(self, *, oldest: int = 0, signal_ids: Sequence[str] = ()) -> Loaded:
        """Learn what was written since the last time; returns the last reply, which also tells what was asked.

        Raises:
            OtherModel: the bank was begun with another model than this worker's.
        """
        while True:
            loaded = self.store.load(self.matrix.bank_id, self.matrix.version, oldest=oldest, signal_ids=signal_ids)
            self._learn(loaded)
            if loaded.complete:
                return loaded

    def begun(self, placement: Placement, bank_id: str) -> None:
        """Take over the contexts that a plan of ours has just begun, each at a version of its own."""
        self.matrix.bank_id = bank_id
        for place in placement.places:
            if place.vector is not None:
                self.matrix.put(place.slot, place.vector)
                self.matrix.version += 1

    def _learn(self, loaded: Loaded) -> None:
        self.info = loaded.bank
        bank_id = loaded.bank.id if loaded.bank else ""
        if loaded.bank:
            self._check(loaded.bank)
        if bank_id != self.matrix.bank_id:
            self.matrix = ContextMatrix(self._encoder.dimension)
            self.matrix.bank_id = bank_id
        self.matrix.put_all(loaded.slots, as_vectors(loaded.vectors, self.matrix.dimension))
        self.matrix.version = loaded.version

    def _check(self, bank: BankInfo) -> None:
        """The same files are the same model, whatever they are called; where either does not say, the name counts."""
        encoder = self._encoder
        same = bank.weights == encoder.weights if bank.weights and encoder.weights else bank.model == encoder.model
        if same and bank.dimension == encoder.dimension:
            return
        theirs, ours = _described(bank.model, bank.weights), _described(encoder.model, encoder.weights)
        raise OtherModel(
            f"bank {self.store.bank!r} was begun with the model {theirs} of {bank.dimension} dimensions, and "
            f"this worker has {ours} of {encoder.dimension}: set TELLBACK_MODEL to the former on the workers, or give "
            f"the bank the latter by `tellback bank reembed {self.store.bank}`, then replay the dead letters"
        )


class Contexts:
    """What the loops of signals and recalls of one team share in a process: the model and the banks' contexts."""

    def __init__(self, settings: Settings, database: Database, layout: Layout, encoder: Encoder) -> None:
        """Take the settings, the Redis, the team's shards and the model."""
        self.settings = settings
        self.database = database
        self.embedder = Embedder(encoder, database, linger=settings.embed_linger)
        self._encoders = Encoders(database, layout)
        self._banks: OrderedDict[tuple[Shard, str], BankContexts] = OrderedDict()
        self._guard = threading.Lock()
        self._said = ("", 0.0)
        self._refused_at = -FAILURE_SECONDS

    def ready(self) -> None:
        """Load the model if need be, and say how that went.

        Raises:
            Unavailable: it does not load, or fails at any text.
        """
        try:
            self.embedder.ready()
        except Unavailable as failure:
            self._say(str(failure))
            raise
        self._say("")

    def refused(self, error: OtherModel) -> None:
        """Say that a bank's signals or facts wait for a worker with another model than this one's."""
        now = clock.monotonic()
        if now - self._refused_at >= FAILURE_SECONDS:
            self._refused_at = now
            self._tell("loaded", refuses=str(error))

    def of(self, shard: Shard, bank: str) -> BankContexts:
        """A bank, most recently used."""
        with self._guard:
            known = self._banks.get((shard, bank))
            if known is None:
                store = BankStore(self.database, shard, bank)
                known = self._banks[shard, bank] = BankContexts(store, self.embedder.encoder)
            self._banks.move_to_end((shard, bank))
            while len(self._banks) > 1 and self._over():
                _log.info("contexts.dropped", bank=self._banks.popitem(last=False)[0][1])
            return known

    def _over(self) -> bool:
        return len(self._banks) > BANKS or sum(bank.matrix.nbytes for bank in self._banks.values()) > MEMORY

    def _say(self, failure: str) -> None:
        now = clock.monotonic()
        again = FAILURE_SECONDS if failure else SAY_SECONDS
        if self._said[1] and self._said[0] == failure and now - self._said[1] < again:
            return
        self._tell("failed" if failure else "loaded", reason=failure)
        self._said = (failure, now)

    def _tell(self, state: Literal["loaded", "failed"], *, reason: str = "", refuses: str = "") -> None:
        encoder, host = self.embedder.encoder, self.settings.host_name
        self._encoders.say(
            EncoderState(
                host=host,
                model=encoder.model,
                state=state,
                dimension=encoder.dimension,
                reason=reason,
                refuses=refuses,
            )
        )


def _described(model: str, weights: str) -> str:
    return f"{model} (files {weights})" if weights else model
