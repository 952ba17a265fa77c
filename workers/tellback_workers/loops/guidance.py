"""The guidance loop: steps each evaluation's events in memory and commits it in one script.

entries ── by evaluation ── one load ── step, event by event ── one commit each ──▶ counts, mailbox, history
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from tellback.contracts.guidance import ContextChanged, EvaluationBegun, ProviderSpec
from tellback.errors import TellbackError
from tellback.guidance.evaluation import Effects, EvaluationState, begin, note_change, step
from tellback.guidance.registry import load_registry
from tellback.state.changes import Changes, SharedChange
from tellback.state.evaluations import Change, EvaluationId, Evaluations, Loaded, commit_each, load_each
from tellback.state.intake import Entry, Fenced, Lease
from tellback.state.known import KnownEvaluations
from tellback_workers.isolation import Asking, IsolatedPanel
from tellback_workers.loop import Left
from tellback_workers.outcomes import with_outcomes
from tellback_workers.runtime import Runtime
from tellback_workers.tool_health import HealthReport

TRIES: Final = 5
CUSTOM_SHARE: Final = 0.25  # of a lease, for the custom providers of one batch

Shared = Mapping[str, Sequence[SharedChange]]


@dataclass(frozen=True, slots=True)
class _Batch:
    """What came in one stream, by evaluation, with what it takes to apply it."""

    lease: Lease
    store: Evaluations
    changes: Changes
    panel: IsolatedPanel
    waiting: Mapping[EvaluationId, Sequence[Entry]]

    def event_ids(self, without: Container[EvaluationId] = ()) -> dict[EvaluationId, list[str]]:
        return {
            id_: [entry.message.event_id for entry in group]
            for id_, group in self.waiting.items()
            if id_ not in without
        }

    def entries(self) -> list[Entry]:
        return [entry for group in self.waiting.values() for entry in group]

    def of(self, late: Sequence[Change]) -> _Batch:
        """What of it is to be done again."""
        return replace(self, waiting={change.id: change.entries for change in late})


class GuidanceLoop:
    """Applies tool calls and prompts of one team."""

    def __init__(self, runtime: Runtime, team: str) -> None:
        """Take the process's connections and providers.

        Raises:
            ConfigurationError: the setting `providers` names what cannot be used.
        """
        self._runtime = runtime
        self._team = team
        self.registry = load_registry(runtime.settings.providers)
        self._health = HealthReport(runtime, team)
        self._known = KnownEvaluations()

    def ready(self) -> None:
        """Always: providers need nothing but this process."""

    def apply(self, lease: Lease, entries: Sequence[Entry]) -> None:
        """Apply and acknowledge every entry, in order; an event id that was seen before has no effect.

        Raises:
            Fenced: the lease has passed on.
        """
        if self._settle([self._batch(lease, entries)]):
            raise Fenced("the drainer's lease has passed on")

    def apply_together(self, batches: Mapping[Lease, Sequence[Entry]]) -> Left:
        """The same for new entries of several streams, in the round trips of one.

        A batch in which a custom provider may be asked is left: the others' feedback does not wait for code of others.
        """
        left = Left()
        taken: list[_Batch] = []
        for lease, entries in batches.items():
            try:
                taken.append(self._batch(lease, entries))
            except Fenced:
                left.fenced.add(lease)
        left.fenced.update(self._settle(taken, left.alone))
        return left

    def _batch(self, lease: Lease, entries: Sequence[Entry]) -> _Batch:
        database = self._runtime.database
        changes = Changes(database, lease.shard)
        return _Batch(
            lease,
            Evaluations(database, lease.shard, idle=self._runtime.settings.guidance_idle),
            changes,
            self._panel(lease, entries),
            _by_evaluation(_share(changes, lease, with_outcomes(entries))),
        )

    def _settle(self, batches: Sequence[_Batch], alone: dict[Lease, Sequence[Entry]] | None = None) -> set[Lease]:
        """Evaluate and commit; the leases that have passed on. With `alone`, what is to be applied so goes there."""
        fenced: set[Lease] = set()
        known = self._known if alone is not None else KnownEvaluations()
        for _ in range(TRIES):
            loaded = self._loaded(batches, known)
            made: list[tuple[_Batch, list[Change]]] = []
            for batch, found in zip(batches, loaded, strict=True):
                if alone is not None and self.registry.has_custom and self._asks_custom(batch, found):
                    alone[batch.lease] = batch.entries()
                else:
                    made.append((batch, self._evaluated(batch, found)))
            self._health.tell([change for _, changes in made for change in changes])
            commits = [(batch.store, batch.lease, changes) for batch, changes in made]
            late = commit_each(self._runtime.database, commits, known)
            fenced.update(batch.lease for (batch, _), rest in zip(made, late, strict=True) if rest is None)
            batches = [batch.of(rest) for (batch, _), rest in zip(made, late, strict=True) if rest]
            if not batches:
                return fenced
        waiting = sum(len(batch.waiting) for batch in batches)
        raise TellbackError(f"{waiting} evaluations changed under each of {TRIES} attempts")

    def _loaded(self, batches: Sequence[_Batch], known: KnownEvaluations) -> list[Mapping[EvaluationId, Loaded]]:
        """The evaluations of each batch, from Redis where they are not known."""
        found = [
            {id_: one for id_ in batch.waiting if (one := known.take(batch.lease, id_)) is not None}
            for batch in batches
        ]
        wanted = [(batch.store, batch.event_ids(without)) for batch, without in zip(batches, found, strict=True)]
        loaded = load_each(self._runtime.database, wanted)
        return [{**known_before, **rest} for known_before, rest in zip(found, loaded, strict=True)]

    def _evaluated(self, batch: _Batch, loaded: Mapping[EvaluationId, Loaded]) -> list[Change]:
        """What the batch makes of its evaluations."""
        asking = {
            id_.session
            for id_, group in batch.waiting.items()
            if any(self.registry.asks_changes(spec.name) for spec in _specs(loaded[id_].state, group))
        }
        shared = batch.changes.read(asking)
        return [_evaluate(id_, group, loaded[id_], batch.panel, shared) for id_, group in batch.waiting.items()]

    def _asks_custom(self, batch: _Batch, loaded: Mapping[EvaluationId, Loaded]) -> bool:
        return any(
            self.registry.is_custom(spec.name)
            for id_, group in batch.waiting.items()
            for spec in _specs(loaded[id_].state, group)
        )

    def _panel(self, lease: Lease, entries: Sequence[Entry]) -> IsolatedPanel:
        """Whoever asks the providers; one that may have killed a worker is not asked about the same call again."""
        again = any(entry.deliveries > 1 for entry in entries)
        asking = Asking(self._runtime.database, lease.shard.key("asking", lease.family))
        return self.panel(asking, fallen=entries[0].message.event_id if again else None)

    def panel(self, asking: Asking, *, fallen: str | None) -> IsolatedPanel:
        """A panel of this process's providers.

        `fallen`: what an earlier process was at when it died, or failed. Then no custom provider is asked, and the one
        that was being asked has failed.
        """
        settings = self._runtime.settings
        budget = settings.drain_lease * CUSTOM_SHARE if fallen is None else 0.0
        timeout = settings.provider_timeout
        return IsolatedPanel(self.registry, timeout=timeout, budget=budget, asking=asking, fallen=fallen)


def absorb(state: EvaluationState, shared: Sequence[SharedChange], order: int) -> None:
    """Take what was told to the whole session up to this entry's order, and not by this evaluation itself."""
    for change in shared:
        if state.changes_read < change.n <= order:
            state.changes_read = change.n
            if change.by != state.evaluation:
                note_change(
                    state, at=change.at_ms, kind=change.kind, name=change.name, detail=change.detail, by=change.by
                )


def _share(changes: Changes, lease: Lease, entries: Sequence[Entry]) -> list[Entry]:
    """Keep what is told to whole sessions; the other entries."""
    told: dict[str, list[Entry]] = {}
    rest: list[Entry] = []
    for entry in entries:
        if isinstance(entry.message, ContextChanged) and not entry.message.evaluation:
            told.setdefault(entry.message.session, []).append(entry)
        else:
            rest.append(entry)
    for session, group in told.items():
        changes.share(lease, session, group, [cast("ContextChanged", entry.message) for entry in group])
    return rest


def _specs(state: EvaluationState | None, entries: Sequence[Entry]) -> list[ProviderSpec]:
    """Every provider that may be asked while these are applied."""
    specs = [slot.spec for slot in state.slots] if state else []
    for entry in entries:
        if isinstance(entry.message, EvaluationBegun):
            specs += entry.message.providers
    return specs


def _by_evaluation(entries: Iterable[Entry]) -> dict[EvaluationId, list[Entry]]:
    groups: dict[tuple[str, str, str], list[Entry]] = {}
    for entry in entries:
        event: Any = entry.message  # an Event: the decoder lets no other into this family
        names = (event.session, event.prompt, event.evaluation)
        group = groups.get(names)
        if group is None:
            group = groups[names] = []
        group.append(entry)
    return {EvaluationId(*names): group for names, group in groups.items()}


def _evaluate(
    id_: EvaluationId, entries: Sequence[Entry], loaded: Loaded, panel: IsolatedPanel, shared: Shared
) -> Change:
    state, seen = loaded.state, loaded.seen
    if state is None:
        state = begin(*id_, entries[0].at_ms)
        state.changes_read = entries[0].order
    effects = Effects()
    told = shared.get(id_.session, ())
    fresh: dict[str, None] = {}  # in order; a batch may hold the same event twice
    for entry in entries:
        event: Any = entry.message  # an Event, as above
        event_id: str = event.event_id
        if event_id not in seen and event_id not in fresh:
            fresh[event_id] = None
            panel.about = event_id
            if told:
                absorb(state, told, entry.order)
            step(state, event, entry.at_ms, panel, effects)
    return Change(id_, loaded, state, entries, list(fresh), effects)
