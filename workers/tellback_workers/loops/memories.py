"""The facts that banks are told to hold, or to hold no longer: a part of the signals loop, since it too must embed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import structlog

from tellback.contracts.signals import FactForgotten, FactRemembered
from tellback.embedding.contexts import Contexts
from tellback.errors import ConfigurationError
from tellback.signals.matching import Vectors, as_bytes
from tellback.state.intake import Entry, Lease
from tellback.state.memories import Embedded, MemoryStore, Model, has_vector_sets, written
from tellback.state.script import Call

AT_ONCE: Final = 64  # of one call of the model and one round trip to Redis, each fact a script of a few milliseconds

_log = structlog.get_logger("tellback.memories")


class Memories:
    """Writes what banks remember. Each entry is applied for itself, so one that fails costs no other."""

    def __init__(self, contexts: Contexts) -> None:
        """Take what the signals loop has."""
        self._contexts = contexts

    def apply(self, lease: Lease, entries: Sequence[Entry], keep: Callable[[], None]) -> list[Exception]:
        """Apply entries in order; `keep` is called while the model computes. Returns why some of them failed.

        Raises:
            Fenced: the lease has passed on.
            Unavailable: Redis is away, or the model does not load.
        """
        failures: list[Exception] = []
        for start in range(0, len(entries), AT_ONCE):
            failures += self._apply(lease, entries[start : start + AT_ONCE], keep)
        return failures

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
        refused = self._written(calls, model)
        return [*(failures[text] for text in failures), *refused]

    def _written(self, calls: Sequence[tuple[str, Call]], model: Model) -> list[Exception]:
        refused: dict[str, Exception] = {}
        replies = self._contexts.database.run_all([call for _, call in calls])
        for (bank, _), reply in zip(calls, replies, strict=True):
            try:
                written(reply, bank, model)
            except ConfigurationError as error:
                if bank not in refused:
                    _log.warning("memories.refused", bank=bank, reason=str(error))
                refused[bank] = error
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
