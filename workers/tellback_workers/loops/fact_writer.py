"""The writer of stored facts: it applies `remember` and `forget` for the signals loop, which has the model loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Final

from tellback.contracts.signals import FactForgotten, FactRemembered
from tellback.embedding.clusters import ClusterCache
from tellback.signals.matching import Vectors, as_bytes
from tellback.signals.models import ModelMismatch
from tellback.state.intake_lease import IntakeEntry, Lease
from tellback.state.script_calls import ScriptCall
from tellback.state.stored_facts import EmbeddedFact, FactModel, FactStore, check_written, has_vector_sets
from tellback_workers.loops.clusters import RECHECK_SECONDS, ModelMismatches

BATCH: Final = 64  # facts in one call of the model and one round trip; each is a script of a few milliseconds

FORGET_RECHECK_SECONDS: Final = 30.0
"""Seconds for which `forget` is deferred after a `remember` of the same bank was deferred, for want of its model.

The fact to forget may be the one that still waits for another worker. Each deferred `remember` restarts the time.
"""


class FactWriter:
    """Writes the facts that banks store. Each entry is applied by itself, so one that fails affects no other."""

    def __init__(self, clusters: ClusterCache) -> None:
        self._clusters = clusters
        self._mismatches = ModelMismatches()

    def apply(self, lease: Lease, entries: Sequence[IntakeEntry], keep: Callable[[], None]) -> list[Exception]:
        """Apply entries in order, calling `keep` while the model computes; return the errors of those that failed.

        Raises:
            Fenced: another consumer has the lease.
            Unavailable: Redis is unavailable, or the model does not load.
        """
        failures: list[Exception] = []
        failed: set[tuple[str, str]] = set()  # facts whose later entries must wait, or their order would change
        for start in range(0, len(entries), BATCH):
            served, refused = self._with_our_model(lease, entries[start : start + BATCH])
            failures += [*refused, *self._apply(lease, served, keep, failed)]
        return failures

    def _with_our_model(
        self, lease: Lease, entries: Sequence[IntakeEntry]
    ) -> tuple[list[IntakeEntry], list[ModelMismatch]]:
        """Split off the entries of banks with another model; return the others and the mismatches."""
        served: list[IntakeEntry] = []
        mismatched: dict[str, ModelMismatch] = {}
        asked = set[str]()
        for entry in entries:
            message = _message_of(entry)
            within = RECHECK_SECONDS if isinstance(message, FactRemembered) else FORGET_RECHECK_SECONDS
            error = self._mismatches.recent(lease.shard, message.bank, within)
            if error is None and isinstance(message, FactRemembered) and message.bank not in asked:
                asked.add(message.bank)
                error = self._model_mismatch(lease, message.bank)
            if error is not None:
                mismatched[message.bank] = error
            else:
                served.append(entry)
        return served, list(mismatched.values())

    def _model_mismatch(self, lease: Lease, bank: str) -> ModelMismatch | None:
        """Return why this bank's facts cannot be embedded here, or None; checked first to save the embedding."""
        encoder = self._clusters.embedder.encoder
        info = FactStore(self._clusters.database, lease.shard, bank).info()
        try:
            if info is not None:
                info.check(bank, encoder.model, encoder.weights, encoder.dimension)
        except ModelMismatch as error:
            return self._note_mismatch(lease, bank, error)
        return None

    def _note_mismatch(self, lease: Lease, bank: str, error: ModelMismatch) -> ModelMismatch:
        self._mismatches.note(lease.shard, bank, error)
        self._clusters.report_model_mismatch(error)
        return error

    def _apply(
        self, lease: Lease, entries: Sequence[IntakeEntry], keep: Callable[[], None], failed: set[tuple[str, str]]
    ) -> list[Exception]:
        vectors, failures = self._embed(entries, keep)
        model = self._model(lease)
        calls: list[tuple[str, ScriptCall]] = []
        for entry in entries:
            message = _message_of(entry)
            which = (message.bank, message.fact_id)
            if isinstance(message, FactRemembered) and message.text in failures:
                failed.add(which)
            if which not in failed:
                calls.append((message.bank, self._call(lease, entry, message, vectors, model)))
        refused = self._run_calls(lease, calls, model)
        return [*(failures[text] for text in failures), *refused]

    def _run_calls(self, lease: Lease, calls: Sequence[tuple[str, ScriptCall]], model: FactModel) -> list[Exception]:
        refused: dict[str, Exception] = {}
        # A round trip for each run of one script: if Redis has forgotten one of two, its calls run after the other's
        for _, run in groupby(calls, key=lambda each: each[1].script):
            # A bank may have got another model since it was checked. What it is to forget waits behind what it refused.
            sent = [(bank, call) for bank, call in run if bank not in refused]
            replies = self._clusters.database.run_all([call for _, call in sent])
            for (bank, _), reply in zip(sent, replies, strict=True):
                try:
                    check_written(reply, bank, model)
                except ModelMismatch as error:
                    refused[bank] = self._note_mismatch(lease, bank, error)
        return list(refused.values())

    def _embed(
        self, entries: Sequence[IntakeEntry], keep: Callable[[], None]
    ) -> tuple[dict[str, Vectors], dict[str, Exception]]:
        messages = map(_message_of, entries)
        texts = list(dict.fromkeys(fact.text for fact in messages if isinstance(fact, FactRemembered)))
        alone = any(entry.deliveries > 1 for entry in entries)  # it may have killed the process that embedded it
        return self._clusters.embedder.encode_each(texts, alone=alone, keep=keep)

    def _model(self, lease: Lease) -> FactModel:
        encoder, settings = self._clusters.embedder.encoder, self._clusters.settings
        return FactModel(
            encoder.model,
            encoder.dimension,
            "set" if has_vector_sets(self._clusters.database, lease.shard) else "vectors",
            settings.bank_stored_facts,
            settings.bank_stored_bytes,
            encoder.weights,
        )

    def _call(
        self,
        lease: Lease,
        entry: IntakeEntry,
        message: FactRemembered | FactForgotten,
        vectors: dict[str, Vectors],
        model: FactModel,
    ) -> ScriptCall:
        store = FactStore(self._clusters.database, lease.shard, message.bank)
        if isinstance(message, FactForgotten):
            return store.forget(lease, entry, message.fact_id)
        return store.remember(
            lease, entry, EmbeddedFact(message.fact_id, message.text, as_bytes(vectors[message.text])), model
        )


def _message_of(entry: IntakeEntry) -> FactRemembered | FactForgotten:
    assert isinstance(entry.message, FactRemembered | FactForgotten), entry.message
    return entry.message
