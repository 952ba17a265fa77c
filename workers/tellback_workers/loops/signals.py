"""The signals loop: it embeds queries that no cache has, assigns them to query clusters, and applies whole batches.

Facts to remember or forget come in the same family and go to `FactWriter`. A bank that fails does not hold up others.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec
import structlog

from tellback.contracts.limits import MAX_BATCH_SIGNALS
from tellback.contracts.signal_types import KINDS
from tellback.contracts.signals import SignalBatch, SignalItem
from tellback.embedding.clusters import BankClusters, ClusterCache
from tellback.errors import Unavailable
from tellback.signals.assignment import ClusterAssignment, assign_clusters
from tellback.signals.matching import Vectors, as_bytes
from tellback.signals.models import ModelMismatch, default_threshold
from tellback.signals.ranking import score_delta
from tellback.state.banks import PlannedCluster, PlannedSignal, SignalPlan
from tellback.state.intake_lease import Fenced, IntakeEntry, Lease
from tellback_workers.loops.clusters import ModelLoop, ModelMismatches
from tellback_workers.loops.fact_writer import FactWriter
from tellback_workers.runtime import Runtime

TRIES: Final = 5  # another process may change a bank between reading its clusters and applying the plan
# Signals of several batches in one script: 500 of them block Redis for 5 to 10 ms if the clusters are full.
BATCH: Final = 250
MAX_LOGGED_TEXT: Final = 2_048  # characters of a query or remark in the history and beside a cluster

_logger = structlog.get_logger("tellback.signals")


class _LoggedSignal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A signal's entry in the history, less its kind and time."""

    bank: str
    fact_id: str
    signal_type: str
    confidence: float
    query: str
    context: str | None = None


class SignalsLoop(ModelLoop):
    """Applies the signals and facts of one team, at most 500 signals for one call of the model."""

    def __init__(self, runtime: Runtime, team: str, clusters: ClusterCache | None = None) -> None:
        super().__init__(runtime, team, clusters)
        self._fact_writer = FactWriter(self._clusters)
        self._mismatches = ModelMismatches()

    def apply(self, lease: Lease, entries: Sequence[IntakeEntry]) -> None:
        """Apply every batch of every bank, in order within a bank; a bank that fails does not hold up the others."""
        fact_entries = [entry for entry in entries if not isinstance(entry.message, SignalBatch)]
        failures = (
            self._fact_writer.apply(lease, fact_entries, partial(self._renew_lease, lease)) if fact_entries else []
        )
        batches, refused = self._with_our_model(
            lease, [each for each in entries if isinstance(each.message, SignalBatch)]
        )
        failures += refused
        for part in _parts(batches, MAX_BATCH_SIGNALS):
            vectors, unfit = self._vectors(lease, part)
            failures += unfit.values()
            for bank, of_bank in _by_bank([entry for entry in part if entry.id not in unfit]).items():
                try:
                    for some in _parts(of_bank, BATCH):
                        self._apply_bank(lease, bank, some, vectors)
                except (Fenced, Unavailable):
                    raise
                except ModelMismatch as error:
                    self._mismatches.note(lease.shard, bank, error)
                    self._clusters.report_model_mismatch(error)
                    failures.append(error)
                except Exception as error:  # noqa: BLE001 - raised below, after the other banks were applied
                    failures.append(error)
                    if len(entries) > 1:
                        _logger.warning("signals.bank_failed", bank=bank, reason=str(error))
        if failures:
            # A mismatch only defers entries to another worker, so any other error is the one to raise.
            raise min(failures, key=lambda failure: isinstance(failure, ModelMismatch))

    def _with_our_model(
        self, lease: Lease, entries: Sequence[IntakeEntry]
    ) -> tuple[list[IntakeEntry], list[Exception]]:
        """Split off the entries of banks known to have another model; return the others and the mismatches."""
        refused = {
            bank: self._mismatches.recent(lease.shard, bank) for bank in {_batch(entry).bank for entry in entries}
        }
        served = [entry for entry in entries if refused[_batch(entry).bank] is None]
        return served, [error for error in refused.values() if error]

    def _vectors(self, lease: Lease, part: Sequence[IntakeEntry]) -> tuple[dict[str, Vectors], dict[str, Exception]]:
        """Embed the queries; return the vectors, and the errors by id of the entries with a query that failed."""
        texts = (item.query for entry in part for item in _batch(entry).items)
        alone = any(entry.deliveries > 1 for entry in part)  # it may have killed the process that embedded it
        keep = partial(self._renew_lease, lease)
        vectors, failures = self._clusters.embedder.embed_each(texts, lease.shard, alone=alone, keep=keep)
        unfit: dict[str, Exception] = {}
        for entry in part if failures else ():
            failed = (failures[item.query] for item in _batch(entry).items if item.query in failures)
            if (failure := next(failed, None)) is not None:
                unfit[entry.id] = failure
        return vectors, unfit

    def _apply_bank(
        self, lease: Lease, bank: str, entries: Sequence[IntakeEntry], vectors: Mapping[str, Vectors]
    ) -> None:
        clusters = self._clusters.bank_clusters(lease.shard, bank)
        signals = _signals(entries)
        # A first delivery rarely repeats a signal, and the script refuses one that was applied: only then look for it.
        check = any(entry.deliveries > 1 for entry in entries)
        with clusters.lock:
            for _ in range(TRIES):
                if self._attempt(lease, clusters, entries, signals, vectors, check=check):
                    return
                check = True
        raise Unavailable(f"bank {bank!r} was changed {TRIES} times while signals were assigned; they are tried again")

    def _attempt(
        self,
        lease: Lease,
        clusters: BankClusters,
        entries: Sequence[IntakeEntry],
        signals: Mapping[str, tuple[SignalItem, str | None]],
        vectors: Mapping[str, Vectors],
        *,
        check: bool,
    ) -> bool:
        """Plan and apply the batches; return False if the bank has changed, or if a signal that nobody checked is old.

        Signals that were applied before are left out if `check` is true.
        """
        seen, oldest = self._load(clusters, list(signals) if check else [], len(signals))
        fresh = {signal_id: signal for signal_id, signal in signals.items() if signal_id not in seen}
        queries = [item.query for item, _ in fresh.values()]
        placement = ClusterAssignment((), ())
        if fresh:
            cap = self._clusters.settings.bank_clusters
            placement = assign_clusters(
                queries, vectors, clusters.matrix, threshold=clusters.threshold, cap=cap, oldest=oldest
            )
        plan, sessions = self._plan(clusters, fresh, placement)
        begun = [as_bytes(spot.vector) for spot in placement.targets if spot.vector is not None]
        applied = clusters.store.apply(lease, entries, plan, begun, sessions)
        if applied and fresh:
            clusters.add_begun(placement, plan.bank_id or plan.new_bank_id, plan.new_stamp)
        return applied

    def _load(self, clusters: BankClusters, ids: list[str], begun: int) -> tuple[set[str], tuple[int, ...]]:
        """Return those of `ids` that were applied before and, near the cap, the oldest slots that may be evicted.

        A batch begins at most `begun` clusters, one for each signal, and must not evict those that it matches.
        """
        loaded = clusters.sync(signal_ids=ids)
        if clusters.matrix.count + begun > self._clusters.settings.bank_clusters:
            loaded = clusters.sync(oldest=2 * begun, signal_ids=ids)
        return {signal_id for signal_id, seen in zip(ids, loaded.applied_ids, strict=True) if seen}, loaded.oldest_slots

    def _plan(
        self,
        clusters: BankClusters,
        fresh: Mapping[str, tuple[SignalItem, str | None]],
        placement: ClusterAssignment,
    ) -> tuple[SignalPlan, list[str]]:
        encoder, settings = self._clusters.embedder.encoder, self._clusters.settings
        sessions = list(dict.fromkeys(session for _, session in fresh.values() if session))
        bank = clusters.store.bank
        items = [
            PlannedSignal(
                signal_id,
                item.fact_id,
                KINDS.index(item.signal_type) + 1,
                score_delta(item.signal_type, item.confidence),
                index + 1,
                sessions.index(session) + 1 if session else 0,
                _log_text(bank, item),
            )
            for (signal_id, (item, session)), index in zip(fresh.items(), placement.target_indexes, strict=True)
        ]
        plan = SignalPlan(
            bank=bank,
            bank_id=clusters.matrix.bank_id,
            version=clusters.matrix.version,
            stamp=clusters.matrix.stamp,
            new_stamp=secrets.token_hex(8),
            new_bank_id=secrets.token_hex(8),
            model=encoder.model,
            dimension=encoder.dimension,
            threshold=default_threshold(encoder.model),
            weights=encoder.weights,
            lease_ms=int(settings.embed_lease * 1000),
            facts_cap=settings.bank_facts,
            clusters=[
                PlannedCluster(spot.slot, spot.vector is not None, spot.query[:MAX_LOGGED_TEXT])
                for spot in placement.targets
            ],
            items=items,
        )
        return plan, sessions


def _batch(entry: IntakeEntry) -> SignalBatch:
    assert isinstance(entry.message, SignalBatch), entry.message
    return entry.message


def _parts(entries: Sequence[IntakeEntry], most: int) -> Iterator[list[IntakeEntry]]:
    """Split entries in order into parts of at most `most` signals; a larger single entry is a part of its own."""
    part: list[IntakeEntry] = []
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


def _by_bank(entries: Sequence[IntakeEntry]) -> dict[str, list[IntakeEntry]]:
    banks: dict[str, list[IntakeEntry]] = {}
    for entry in entries:
        banks.setdefault(_batch(entry).bank, []).append(entry)
    return banks


def _signals(entries: Sequence[IntakeEntry]) -> dict[str, tuple[SignalItem, str | None]]:
    """Return the signals in order with their sessions; of several with one id the first counts."""
    signals: dict[str, tuple[SignalItem, str | None]] = {}
    for entry in entries:
        batch = _batch(entry)
        for signal_id, item in zip(batch.signal_ids, batch.items, strict=True):
            signals.setdefault(signal_id, (item, batch.session))
    return signals


def _log_text(bank: str, item: SignalItem) -> str:
    logged = _LoggedSignal(
        bank=bank,
        fact_id=item.fact_id,
        signal_type=item.signal_type,
        confidence=item.confidence,
        query=item.query[:MAX_LOGGED_TEXT],
        context=item.context[:MAX_LOGGED_TEXT] if item.context else None,
    )
    return msgspec.json.encode(logged).decode()[1:]
