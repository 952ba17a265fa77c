"""The guidance loop: it applies each evaluation's events in memory and commits the result in one script.

entries ── by evaluation ── one load ── apply, event by event ── one commit each ──▶ counts, mailbox, history

Tool calls that `tellback hook` published are classified here, because the hook's process must cost an agent almost
nothing. If an evaluation changed between load and commit, it is loaded and applied again.

A batch's tool outcomes are reported to the whole team before it is committed. A report may be repeated, so a worker
that dies between report and commit loses nothing.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, lru_cache, partial
from typing import Any, Final, cast

import msgspec
import structlog

from tellback.contracts.guidance import ContextChanged, EvaluationBegun, ProviderSpec, ToolInvoked
from tellback.contracts.limits import HOOK_ID
from tellback.errors import TellbackError
from tellback.guidance.evaluation import apply_event, record_change
from tellback.guidance.measures import read_calls
from tellback.guidance.observations.classify import classify_published_call
from tellback.guidance.progress.judge import CallReading
from tellback.guidance.state import BatchEffects, EvaluationState, new_evaluation
from tellback.state.database import Database
from tellback.state.evaluation_codec import EvaluationCache, EvaluationId, LoadedEvaluation
from tellback.state.evaluations import EvaluationChange, Evaluations, commit_each, load_each
from tellback.state.intake_lease import Fenced, IntakeEntry, Lease
from tellback.state.shared_changes import SharedChange, SharedChanges
from tellback.state.tool_health import FleetHealth, ToolHealth, ToolSighting
from tellback_workers.consumer import Deferred
from tellback_workers.isolation import CUSTOM_SHARE, IsolatedInvoker, ProviderCallMarker
from tellback_workers.runtime import TEAMS, Runtime

REFUSAL_CODES: Final = frozenset({"rate_limited", "unavailable"})

ANSWER_CODES: Final = frozenset({"ok", "partial", "no_results"})  # the tool worked, whether or not it found something

ANSWERED_TOOLS: Final = 4_096  # bounds the memory of a process; when it is full, the process forgets all of them

AT_ONCE_MS: Final = 5_000  # the assumed duration of a call that reports none

_logger = structlog.get_logger("tellback.guidance")


class HealthReport:
    """Reports the health of one team's tools."""

    def __init__(self, runtime: Runtime, team: str) -> None:
        self._runtime = runtime
        self._team = team
        self._answered: dict[str, int] = {}  # when each tool answered last, in milliseconds, server time

    @cached_property
    def _health(self) -> ToolHealth:
        return ToolHealth(self._runtime.database, self._runtime.layout(self._team))

    @cached_property
    def _cooling(self) -> FleetHealth:
        return FleetHealth(self._health)

    def report(self, changes: Iterable[EvaluationChange]) -> None:
        """Note refusals, and answers of tools that are cooling down; calls without an outcome cost nothing.

        Health is advice, so if its shard cannot be reached or read, the report is skipped and the batch continues.
        """
        seen = self._without_doubtful(sighting for change in changes for sighting in _sightings(change))
        if not seen:
            return
        refused = {sighting.tool for sighting in seen if sighting.refused}
        answered = {sighting.tool for sighting in seen} - refused
        matter = refused | self._cooling.cooling(answered).keys()
        wanted = [sighting for sighting in seen if sighting.tool in matter]
        if not wanted:
            return
        try:
            self._health.note(wanted, self._runtime.settings.tool_cooldown)
        except Exception as error:  # noqa: BLE001 - health is advice
            _logger.warning("tool_health.skipped", tools=len(matter), reason=f"{type(error).__name__}: {error}"[:500])

    def _without_doubtful(self, sightings: Iterable[ToolSighting]) -> list[ToolSighting]:
        """Drop the doubtful refusals during which this process saw the tool answer another call."""
        # One session's time-out may be its own network's fault; an answer meanwhile suggests that it was.
        seen = list(sightings)
        for sighting in seen:
            if not sighting.refused:
                self._answered[sighting.tool] = max(sighting.at, self._answered.get(sighting.tool, 0))
        if len(self._answered) > ANSWERED_TOOLS:
            self._answered.clear()
        return [one for one in seen if not (one.doubted_by and self._answered.get(one.tool, 0) >= _since(one))]


def _since(sighting: ToolSighting) -> int:
    return min(sighting.began, sighting.at - AT_ONCE_MS)


def _sightings(change: EvaluationChange) -> Iterator[ToolSighting]:
    observed = [entry for entry in change.entries if getattr(entry.message, "outcome", None) is not None]
    if not observed:
        return
    fresh = set(change.new_ids)
    for entry in observed:
        event = entry.message
        if not isinstance(event, ToolInvoked) or event.outcome is None or event.event_id not in fresh:
            continue
        outcome, at = event.outcome, entry.at_ms
        began = at - (event.duration_ms or 0)
        if outcome.code in REFUSAL_CODES:
            wait = None if outcome.retry_after is None else round(outcome.retry_after * 1000)
            by = event.session if outcome.doubtful and wait is None else ""
            yield ToolSighting(event.tool, at, began, refused=True, wait_ms=wait, doubted_by=by)
        elif outcome.code in ANSWER_CODES:
            yield ToolSighting(event.tool, at, began, refused=False)


def classified(entry: IntakeEntry, event: ToolInvoked) -> IntakeEntry:
    """Return the entry of a call with its outcome added if it comes from a hook."""
    if event.outcome is not None or not event.event_id.startswith(HOOK_ID):
        return entry
    outcome = classify_published_call(event, datetime.fromtimestamp(entry.at_ms / 1000, UTC))
    return msgspec.structs.replace(entry, message=msgspec.structs.replace(event, outcome=outcome))


TRIES: Final = 5  # a timer, or a reader of feedback, may change an evaluation between load and commit

SharedBySession = Mapping[str, Sequence[SharedChange]]
_Loaded = Mapping[EvaluationId, LoadedEvaluation]
_Readings = Mapping[EvaluationId, Sequence[CallReading | None]]


@dataclass(frozen=True, slots=True)
class _Batch:
    """The entries of one stream, by evaluation, with everything needed to apply them."""

    lease: Lease
    store: Evaluations
    invoker: IsolatedInvoker
    pending: Mapping[EvaluationId, Sequence[IntakeEntry]]

    def event_ids(self, without: Container[EvaluationId]) -> dict[EvaluationId, list[str]]:
        return {
            id_: [entry.message.event_id for entry in group]
            for id_, group in self.pending.items()
            if id_ not in without
        }

    def entries(self) -> list[IntakeEntry]:
        return [entry for group in self.pending.values() for entry in group]

    def retrying(self, late: Sequence[EvaluationChange]) -> _Batch:
        return replace(self, pending={change.id: change.entries for change in late})


class GuidanceLoop:
    """Applies the tool calls and prompts of all teams."""

    def __init__(self, runtime: Runtime) -> None:
        """Load the providers.

        Raises:
            ConfigurationError: the setting `providers` names one that cannot be used.
        """
        self._runtime = runtime
        self.registry = runtime.registry
        self._health_of = lru_cache(TEAMS)(partial(HealthReport, runtime))
        self.cache = EvaluationCache()

    def ready(self) -> None:
        """Return at once: providers need only this process."""

    def apply(self, lease: Lease, entries: Sequence[IntakeEntry]) -> None:
        """Apply and acknowledge every entry, in order; an event id that was seen before has no effect.

        Raises:
            Fenced: another consumer has the lease.
        """
        if self._evaluate_and_commit([self._batch(lease, entries)]):
            raise Fenced

    def apply_together(self, batches: Mapping[Lease, Sequence[IntakeEntry]], *, or_release: bool = False) -> Deferred:
        """Apply new entries of several streams in the round trips of one; return the rest.

        A batch that may call a custom provider is returned, because the feedback of other streams should not wait for
        custom code. With `or_release`, a stream is released by the commit that leaves no entry in it.
        """
        deferred = Deferred()
        taken: list[_Batch] = []
        for lease, entries in batches.items():
            try:
                taken.append(self._batch(lease, entries))
            except Fenced:
                deferred.fenced.add(lease)
        separate = deferred.separate if len(batches) > 1 else None
        released = deferred.released if or_release else None
        deferred.fenced.update(self._evaluate_and_commit(taken, separate, released))
        return deferred

    def forget(self, leases: Iterable[Lease]) -> None:
        """Forget the evaluations that were committed under these leases, which end."""
        self.cache.forget(leases)

    def _batch(self, lease: Lease, entries: Sequence[IntakeEntry]) -> _Batch:
        database = self._runtime.database
        return _Batch(
            lease,
            Evaluations(database, lease.shard, idle=self._runtime.settings.guidance_idle),
            self._invoker_for(lease, entries),
            _by_evaluation(database, lease, entries),
        )

    def _evaluate_and_commit(
        self,
        batches: Sequence[_Batch],
        separate: dict[Lease, Sequence[IntakeEntry]] | None = None,
        released: set[Lease] | None = None,
    ) -> set[Lease]:
        """Evaluate and commit the batches; return the fenced leases.

        Batches to apply alone are put into `separate`, and streams that are empty then are released into `released`.
        """
        fenced: set[Lease] = set()
        # A commit compares versions, so a cached evaluation that changed meanwhile is loaded again.
        for _ in range(TRIES):
            loaded = self._load(batches)
            joint: list[tuple[_Batch, _Loaded, _Readings]] = []  # all are read before the first is judged
            for batch, found in zip(batches, loaded, strict=True):
                if separate is not None and self.registry.has_custom and self._needs_custom(batch, found):
                    separate[batch.lease] = batch.entries()
                else:
                    joint.append((batch, found, _read_ahead(batch, found)))
            evaluated = [(batch, self._evaluate_batch(batch, found, readings)) for batch, found, readings in joint]
            self._report_health(evaluated)
            commits = [(batch.store, batch.lease, changes) for batch, changes in evaluated]
            late = commit_each(self._runtime.database, commits, self.cache, released)
            fenced.update(batch.lease for (batch, _), rest in zip(evaluated, late, strict=True) if rest is None)
            batches = [batch.retrying(rest) for (batch, _), rest in zip(evaluated, late, strict=True) if rest]
            if not batches:
                return fenced
        waiting = sum(len(batch.pending) for batch in batches)
        raise TellbackError(f"{waiting} evaluations changed under each of {TRIES} attempts")

    def _report_health(self, evaluated: Iterable[tuple[_Batch, Sequence[EvaluationChange]]]) -> None:
        by_team: dict[str, list[EvaluationChange]] = {}
        for batch, changes in evaluated:
            by_team.setdefault(batch.lease.shard.team, []).extend(changes)
        for team, changes in by_team.items():
            self._health_of(team).report(changes)

    def _load(self, batches: Sequence[_Batch]) -> list[_Loaded]:
        """Load the evaluations of each batch, from the cache or from Redis."""
        found = [
            {id_: one for id_ in batch.pending if (one := self.cache.take(batch.lease, id_)) is not None}
            for batch in batches
        ]
        wanted = [(batch.store, batch.event_ids(without)) for batch, without in zip(batches, found, strict=True)]
        loaded = load_each(self._runtime.database, wanted)
        return [{**known_before, **rest} for known_before, rest in zip(found, loaded, strict=True)]

    def _evaluate_batch(self, batch: _Batch, loaded: _Loaded, readings: _Readings) -> list[EvaluationChange]:
        wanting_changes = {
            id_.session
            for id_, group in batch.pending.items()
            if any(self.registry.reads_changes(spec.name) for spec in _specs(loaded[id_].state, group))
        }
        shared: SharedBySession = {}
        if wanting_changes:
            shared = SharedChanges(self._runtime.database, batch.lease.shard).read(wanting_changes)
        return [
            _evaluate(id_, group, loaded[id_], batch.invoker, shared, readings=readings[id_])
            for id_, group in batch.pending.items()
        ]

    def _needs_custom(self, batch: _Batch, loaded: _Loaded) -> bool:
        return any(
            self.registry.is_custom(spec.name)
            for id_, group in batch.pending.items()
            for spec in _specs(loaded[id_].state, group)
        )

    def _invoker_for(self, lease: Lease, entries: Sequence[IntakeEntry]) -> IsolatedInvoker:
        """Return the batch's invoker; a provider that may have killed a worker is not called about that event again."""
        again = any(entry.deliveries > 1 for entry in entries)
        marker = ProviderCallMarker(self._runtime.database, lease.shard.key("provider-call", lease.family))
        return self.invoker(marker, crashed=entries[0].message.event_id if again else None)

    def invoker(self, marker: ProviderCallMarker, *, crashed: str | None) -> IsolatedInvoker:
        """Return an invoker for this process's providers.

        `crashed` is what an earlier process was applying when it died or failed. Then no custom provider is called, and
        the one that was being called counts as failed.
        """
        settings = self._runtime.settings
        budget = settings.consumer_lease * CUSTOM_SHARE if crashed is None else 0.0
        timeout = settings.provider_timeout
        return IsolatedInvoker(self.registry, timeout=timeout, budget=budget, marker=marker, crashed=crashed)


def apply_shared_changes(state: EvaluationState, shared: Sequence[SharedChange], order: int) -> None:
    """Record the changes published to the whole session before this entry, except this evaluation's own."""
    for change in shared:
        if state.changes_read < change.n <= order:
            state.changes_read = change.n
            if change.by != state.evaluation:
                record_change(
                    state, at=change.at_ms, kind=change.kind, name=change.name, detail=change.detail, by=change.by
                )


def _specs(state: EvaluationState | None, entries: Sequence[IntakeEntry]) -> list[ProviderSpec]:
    """Return every provider that may be called while these entries are applied."""
    specs = [slot.spec for slot in state.slots] if state else []
    for entry in entries:
        if isinstance(entry.message, EvaluationBegun):
            specs += entry.message.providers
    return specs


def _by_evaluation(
    database: Database, lease: Lease, entries: Iterable[IntakeEntry]
) -> dict[EvaluationId, list[IntakeEntry]]:
    """Store the changes that concern whole sessions, and return the other entries, those of hooks with outcomes."""
    shared: dict[str, list[IntakeEntry]] = {}
    groups: dict[tuple[str, str, str], list[IntakeEntry]] = {}
    for each in entries:  # in one pass: three took half as long again
        entry = each
        event: Any = each.message  # an Event: the decoder lets no other into this family
        if isinstance(event, ToolInvoked):
            entry = classified(each, event)
        elif isinstance(event, ContextChanged) and not event.evaluation:
            shared.setdefault(event.session, []).append(entry)
            continue
        names = (event.session, event.prompt, event.evaluation)
        group = groups.get(names)
        if group is None:
            group = groups[names] = []
        group.append(entry)
    for session, group in shared.items():
        changes = [cast("ContextChanged", entry.message) for entry in group]
        SharedChanges(database, lease.shard).share(lease, session, group, changes)
    return {EvaluationId(*names): group for names, group in groups.items()}


def _read_ahead(batch: _Batch, loaded: _Loaded) -> _Readings:
    return {
        id_: read_calls(loaded[id_].state, [entry.message for entry in group]) for id_, group in batch.pending.items()
    }


def _evaluate(
    id_: EvaluationId,
    entries: Sequence[IntakeEntry],
    loaded: LoadedEvaluation,
    invoker: IsolatedInvoker,
    shared: SharedBySession,
    *,
    readings: Sequence[CallReading | None],
) -> EvaluationChange:
    state, seen = loaded.state, loaded.seen
    if state is None:
        state = new_evaluation(*id_, entries[0].at_ms)
        state.changes_read = entries[0].order
    effects = BatchEffects()
    changes = shared.get(id_.session, ())
    new_ids: dict[str, None] = {}  # in order; a batch may hold the same event twice
    for entry, reading in zip(entries, readings, strict=True):
        event: Any = entry.message  # an Event, as above
        event_id: str = event.event_id
        if event_id not in seen and event_id not in new_ids:
            new_ids[event_id] = None
            invoker.about = event_id
            if changes:
                apply_shared_changes(state, changes, entry.order)
            earned = len(effects.feedback)
            apply_event(state, event, entry.at_ms, invoker, effects, reading)
            if entry.trace:
                effects.feedback[earned:] = [
                    msgspec.structs.replace(feedback, traceparent=entry.trace) for feedback in effects.feedback[earned:]
                ]
    return EvaluationChange(id_, loaded, state, entries, list(new_ids), effects)
