"""The facts that banks are told to hold, or to hold no longer: a part of the signals loop, since it too must embed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tellback.contracts.signals import FactForgotten, FactRemembered
from tellback.embedding.contexts import Contexts
from tellback.signals.matching import Vectors, as_bytes
from tellback.signals.models import OtherModel
from tellback.state.intake import Entry, Lease
from tellback.state.memories import Embedded, MemoryStore, Model, has_vector_sets, written
from tellback.state.script import Call
from tellback_workers.loops.refusals import ASK_AGAIN, Refusals

AT_ONCE: Final = 64  # of one call of the model and one round trip to Redis, each fact a script of a few milliseconds

FORGET_LATER: Final = 30.0
"""Seconds for which a bank's facts are not forgotten here after one was not remembered here, for want of its model.

What is to be forgotten may wait for another worker yet. Whoever comes by meets that first, and it begins anew.
"""


class Memories:
    """Writes what banks remember. Each entry is applied for itself, so one that fails costs no other."""

    def __init__(self, contexts: Contexts) -> None:
        """Take what the signals loop has."""
        self._contexts = contexts
        self._refusals = Refusals()

    def apply(self, lease: Lease, entries: Sequence[Entry], keep: Callable[[], None]) -> list[Exception]:
        """Apply entries in order; `keep` is called while the model computes. Returns why some of them failed.

        Raises:
            Fenced: the lease has passed on.
            Unavailable: Redis is away, or the model does not load.
        """
        failures: list[Exception] = []
        for start in range(0, len(entries), AT_ONCE):
            served, refused = self._served(lease, entries[start : start + AT_ONCE])
            failures += [*refused, *self._apply(lease, served, keep)]
        return failures

    def _served(self, lease: Lease, entries: Sequence[Entry]) -> tuple[list[Entry], list[OtherModel]]:
        """The entries that may be applied here, and of banks that have another model why the others are left."""
        served: list[Entry] = []
        left: dict[str, OtherModel] = {}
        asked = set[str]()
        for entry in entries:
            fact = _fact(entry)
            within = ASK_AGAIN if isinstance(fact, FactRemembered) else FORGET_LATER
            error = self._refusals.of(lease.shard, fact.bank, within)
            if error is None and isinstance(fact, FactRemembered) and fact.bank not in asked:
                asked.add(fact.bank)
                error = self._other_model(lease, fact.bank)
            if error is not None:
                left[fact.bank] = error
            else:
                served.append(entry)
        return served, list(left.values())

    def _other_model(self, lease: Lease, bank: str) -> OtherModel | None:
        """Why this bank's facts cannot be embedded here; asked before, so that none is embedded in vain."""
        encoder = self._contexts.embedder.encoder
        info = MemoryStore(self._contexts.database, lease.shard, bank).info()
        try:
            if info is not None:
                info.check(bank, encoder.model, encoder.weights, encoder.dimension)
        except OtherModel as error:
            return self._refused(lease, bank, error)
        return None

    def _refused(self, lease: Lease, bank: str, error: OtherModel) -> OtherModel:
        self._refusals.note(lease.shard, bank, error)
        self._contexts.refused(error)
        return error

    def _apply(self, lease: Lease, entries: Sequence[Entry], keep: Callable[[], None]) -> list[Exception]:
        vectors, failures = self._embedded(entries, keep)
        model = self._model(lease)
        calls: list[tuple[str, Call]] = []
        failed: set[tuple[str, str]] = set()
        for entry in entries:
            fact = _fact(entry)
            which = (fact.bank, fact.fact_id)
            if isinstance(fact, FactRemembered) and fact.text in failures:
                failed.add(which)  # what was told of this fact later must wait for it, or the order would turn
            if which not in failed:
                calls.append((fact.bank, self._call(lease, entry, fact, vectors, model)))
        refused = self._written(lease, calls, model)
        return [*(failures[text] for text in failures), *refused]

    def _written(self, lease: Lease, calls: Sequence[tuple[str, Call]], model: Model) -> list[Exception]:
        refused: dict[str, Exception] = {}
        replies = self._contexts.database.run_all([call for _, call in calls])
        for (bank, _), reply in zip(calls, replies, strict=True):
            try:
                written(reply, bank, model)
            except OtherModel as error:
                refused[bank] = self._refused(lease, bank, error)
        return list(refused.values())

    def _embedded(
        self, entries: Sequence[Entry], keep: Callable[[], None]
    ) -> tuple[dict[str, Vectors], dict[str, Exception]]:
        facts = map(_fact, entries)
        texts = list(dict.fromkeys(fact.text for fact in facts if isinstance(fact, FactRemembered)))
        alone = any(entry.deliveries > 1 for entry in entries)  # it may have ended the process that tried it
        return self._contexts.embedder.encode_each(texts, alone=alone, keep=keep)

    def _model(self, lease: Lease) -> Model:
        encoder, settings = self._contexts.embedder.encoder, self._contexts.settings
        return Model(
            encoder.model,
            encoder.dimension,
            "set" if has_vector_sets(self._contexts.database, lease.shard) else "vectors",
            settings.bank_memories,
            settings.bank_memory_bytes,
            encoder.weights,
        )

    def _call(
        self,
        lease: Lease,
        entry: Entry,
        fact: FactRemembered | FactForgotten,
        vectors: dict[str, Vectors],
        model: Model,
    ) -> Call:
        store = MemoryStore(self._contexts.database, lease.shard, fact.bank)
        if isinstance(fact, FactForgotten):
            return store.forget(lease, entry, fact.fact_id)
        return store.remember(lease, entry, Embedded(fact.fact_id, fact.text, as_bytes(vectors[fact.text])), model)


def _fact(entry: Entry) -> FactRemembered | FactForgotten:
    assert isinstance(entry.message, FactRemembered | FactForgotten), entry.message
    return entry.message
