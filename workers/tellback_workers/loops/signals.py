"""The signals loop: embed what no cache has, place it into contexts, apply whole batches."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec
import structlog

from tellback.contracts.signals import MAX_BATCH, SignalBatch, SignalItem
from tellback.embedding.contexts import BankContexts, Contexts
from tellback.errors import Unavailable
from tellback.signals.matching import Vectors, as_bytes
from tellback.signals.models import OtherModel, default_threshold
from tellback.signals.placing import Placement, place
from tellback.signals.scoring import delta
from tellback.state.banks import KINDS, Plan, PlannedPlace, PlannedSignal
from tellback.state.intake import Entry, Fenced, Lease
from tellback_workers.contexts import contexts_of
from tellback_workers.loops.memories import Memories
from tellback_workers.loops.refusals import Refusals
from tellback_workers.runtime import Runtime

TRIES: Final = 5
APPLIED_AT_ONCE: Final = 250  # signals of several batches; one of 500 takes Redis 5 to 10 ms where contexts are full
KEPT_TEXT: Final = 2_048  # characters of a query or remark in the history and beside a context

_log = structlog.get_logger("tellback.signals")


class _Logged(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A signal as history and log show it, after its kind and time."""

    bank: str
    fact_id: str
    signal_type: str
    confidence: float
    query: str
    context: str | None = None


class SignalsLoop:
    """Applies batches of signals, at most 500 signals at a time; what they need of the model, others wait for too."""

    def __init__(self, runtime: Runtime, team: str, contexts: Contexts | None = None) -> None:
        """Take the connections and the team; `contexts` other than the process's own brings another model."""
        self._contexts = contexts or contexts_of(runtime, team)
        self._intake = runtime.intake(team)
        self._memories = Memories(self._contexts)
        self._refusals = Refusals()

    def ready(self) -> None:
        """Return if the model is loaded.

        Raises:
            Unavailable: it does not load; signals wait in their stream.
        """
        self._contexts.ready()

    def apply(self, lease: Lease, entries: Sequence[Entry]) -> None:
        """Apply every batch of every bank, in order within a bank; a bank that fails does not hold up the others."""
        facts = [entry for entry in entries if not isinstance(entry.message, SignalBatch)]
        failures = self._memories.apply(lease, facts, partial(self._keep, lease)) if facts else []
        batches, refused = self._served(lease, [each for each in entries if isinstance(each.message, SignalBatch)])
        failures += refused
        for part in _parts(batches, MAX_BATCH):
            vectors, unfit = self._vectors(lease, part)
            failures += unfit.values()
            for bank, of_bank in _by_bank([entry for entry in part if entry.id not in unfit]).items():
                try:
                    for some in _parts(of_bank, APPLIED_AT_ONCE):
                        self._apply_bank(lease, bank, some, vectors)
                except (Fenced, Unavailable):
                    raise
                except OtherModel as error:
                    self._refusals.note(lease.shard, bank, error)
                    self._contexts.refused(error)
                    failures.append(error)
                except Exception as error:  # noqa: BLE001 - raised below, when the other banks have had theirs
                    failures.append(error)
                    if len(entries) > 1:
                        _log.warning("signals.bank_failed", bank=bank, reason=str(error))
        if failures:
            # What another worker can apply is no fault: one that is comes first.
            raise min(failures, key=lambda failure: isinstance(failure, OtherModel))

    def _served(self, lease: Lease, entries: Sequence[Entry]) -> tuple[list[Entry], list[Exception]]:
        """The entries of banks that are not known to have another model, and why the others are left out."""
        refused = {bank: self._refusals.of(lease.shard, bank) for bank in {_batch(entry).bank for entry in entries}}
        served = [entry for entry in entries if refused[_batch(entry).bank] is None]
        return served, [error for error in refused.values() if error]

    def _keep(self, lease: Lease) -> None:
        self._intake.renew(lease, self._contexts.settings.embed_lease)

    def _vectors(self, lease: Lease, part: Sequence[Entry]) -> tuple[dict[str, Vectors], dict[str, Exception]]:
        """The vector of each query, and by id the entries that have a query which the model fails at."""
        texts = (item.query for entry in part for item in _batch(entry).items)
        alone = any(entry.deliveries > 1 for entry in part)  # it may have ended the process that tried it
        keep = partial(self._keep, lease)
        vectors, failures = self._contexts.embedder.embed_each(texts, lease.shard, alone=alone, keep=keep)
        unfit: dict[str, Exception] = {}
        for entry in part if failures else ():
            failed = (failures[item.query] for item in _batch(entry).items if item.query in failures)
            if (failure := next(failed, None)) is not None:
                unfit[entry.id] = failure
        return vectors, unfit

    def _apply_bank(self, lease: Lease, bank: str, entries: Sequence[Entry], vectors: Mapping[str, Vectors]) -> None:
        contexts = self._contexts.of(lease.shard, bank)
        signals = _signals(entries)
        with contexts.lock:
            for _ in range(TRIES):
                if self._attempt(lease, contexts, entries, signals, vectors):
                    return
        raise Unavailable(f"bank {bank!r} was changed {TRIES} times while signals were placed; they are tried again")

    def _attempt(
        self,
        lease: Lease,
        contexts: BankContexts,
        entries: Sequence[Entry],
        signals: Mapping[str, tuple[SignalItem, str | None]],
        vectors: Mapping[str, Vectors],
    ) -> bool:
        ids = list(signals)
        seen, oldest = self._load(contexts, ids)
        fresh = {signal_id: signals[signal_id] for signal_id in ids if signal_id not in seen}
        queries = [item.query for item, _ in fresh.values()]
        placement = Placement((), ())
        if fresh:
            cap = self._contexts.settings.bank_contexts
            placement = place(queries, vectors, contexts.matrix, threshold=contexts.threshold, cap=cap, oldest=oldest)
        plan, sessions = self._plan(contexts, fresh, placement)
        begun = [as_bytes(spot.vector) for spot in placement.places if spot.vector is not None]
        applied = contexts.store.apply(lease, entries, plan, begun, sessions)
        if applied and fresh:
            contexts.begun(placement, plan.known or plan.id)
        return applied

    def _load(self, contexts: BankContexts, ids: list[str]) -> tuple[set[str], tuple[int, ...]]:
        """Which of the signals were applied before, and, near the cap, the contexts that may make room."""
        loaded = contexts.sync(signal_ids=ids)
        if contexts.matrix.count + len(ids) > self._contexts.settings.bank_contexts:
            # As many as the batch may begin, beside as many as it may match.
            loaded = contexts.sync(oldest=2 * len(ids), signal_ids=ids)
        return {signal_id for signal_id, seen in zip(ids, loaded.seen, strict=True) if seen}, loaded.oldest

    def _plan(
        self,
        contexts: BankContexts,
        fresh: Mapping[str, tuple[SignalItem, str | None]],
        placement: Placement,
    ) -> tuple[Plan, list[str]]:
        encoder, settings = self._contexts.embedder.encoder, self._contexts.settings
        sessions = list(dict.fromkeys(session for _, session in fresh.values() if session))
        bank = contexts.store.bank
        items = [
            PlannedSignal(
                signal_id,
                item.fact_id,
                KINDS.index(item.signal_type) + 1,
                delta(item.signal_type, item.confidence),
                index + 1,
                sessions.index(session) + 1 if session else 0,
                _log_text(bank, item),
            )
            for (signal_id, (item, session)), index in zip(fresh.items(), placement.of, strict=True)
        ]
        plan = Plan(
            bank=bank,
            known=contexts.matrix.bank_id,
            version=contexts.matrix.version,
            id=secrets.token_hex(8),
            model=encoder.model,
            dimension=encoder.dimension,
            threshold=default_threshold(encoder.model),
            weights=encoder.weights,
            lease_ms=int(settings.embed_lease * 1000),
            facts_cap=settings.bank_facts,
            places=[
                PlannedPlace(spot.slot, spot.vector is not None, spot.query[:KEPT_TEXT]) for spot in placement.places
            ],
            items=items,
        )
        return plan, sessions


def _batch(entry: Entry) -> SignalBatch:
    assert isinstance(entry.message, SignalBatch), entry.message
    return entry.message


def _parts(entries: Sequence[Entry], most: int) -> Iterator[list[Entry]]:
    """Entries in order, cut so that each part has at most so many signals, or is one entry."""
    part: list[Entry] = []
    count = 0
    for entry in entries:
        size = len(_batch(entry).items)
        if part and count + size > most:
            yield part
            part, count = [], 0
        part.append(entry)
        count += size
    if part:
        yield part


def _by_bank(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    banks: dict[str, list[Entry]] = {}
    for entry in entries:
        banks.setdefault(_batch(entry).bank, []).append(entry)
    return banks


def _signals(entries: Sequence[Entry]) -> dict[str, tuple[SignalItem, str | None]]:
    """The signals in order with their sessions, each id once: the first counts."""
    signals: dict[str, tuple[SignalItem, str | None]] = {}
    for entry in entries:
        batch = _batch(entry)
        for signal_id, item in zip(batch.signal_ids, batch.items, strict=True):
            signals.setdefault(signal_id, (item, batch.session))
    return signals


def _log_text(bank: str, item: SignalItem) -> str:
    logged = _Logged(
        bank=bank,
        fact_id=item.fact_id,
        signal_type=item.signal_type,
        confidence=item.confidence,
        query=item.query[:KEPT_TEXT],
        context=item.context[:KEPT_TEXT] if item.context else None,
    )
    return msgspec.json.encode(logged).decode()[1:]
