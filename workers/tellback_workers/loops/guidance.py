"""The guidance loop: steps each evaluation's events in memory and commits it in one script.

entries ── by evaluation ── one load ── step, event by event ── one commit each ──▶ counts, mailbox, history
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from tellback.contracts.guidance import ContextChanged, EvaluationBegun
from tellback.errors import TellbackError
from tellback.guidance.evaluation import Effects, EvaluationState, begin, note_change, step
from tellback.guidance.registry import Registry, load_registry
from tellback.state.changes import Changes, SharedChange
from tellback.state.evaluations import Change, EvaluationId, Evaluations, Loaded
from tellback.state.intake import Entry, Lease
from tellback_workers.isolation import Asking, IsolatedPanel
from tellback_workers.runtime import Runtime
from tellback_workers.tool_health import HealthReport

TRIES: Final = 5
CUSTOM_SHARE: Final = 0.25  # of a lease, for the custom providers of one batch

Shared = Mapping[str, Sequence[SharedChange]]


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

    def ready(self) -> None:
        """Always: providers need nothing but this process."""

    def apply(self, lease: Lease, entries: Sequence[Entry]) -> None:
        """Apply and acknowledge every entry, in order; an event id that was seen before has no effect.

        Raises:
            Fenced: the lease has passed on.
        """
        database = self._runtime.database
        store = Evaluations(database, lease.shard, idle=self._runtime.settings.guidance_idle)
        changes = Changes(database, lease.shard)
        waiting: Mapping[EvaluationId, Sequence[Entry]] = _by_evaluation(_share(changes, lease, entries))
        panel = self._panel(lease, entries)
        for _ in range(TRIES):
            loaded = store.load({id_: [entry.message.event_id for entry in group] for id_, group in waiting.items()})
            shared = changes.read(
                {
                    id_.session
                    for id_, group in waiting.items()
                    if _asks_changes(self.registry, loaded[id_].state, group)
                }
            )
            made = [_evaluate(id_, group, loaded[id_], panel, shared) for id_, group in waiting.items()]
            self._health.tell(made)
            waiting = {change.id: change.entries for change in store.commit(lease, made)}
            if not waiting:
                return
        raise TellbackError(f"{len(waiting)} evaluations changed under each of {TRIES} attempts")

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


def _asks_changes(registry: Registry, state: EvaluationState | None, entries: Sequence[Entry]) -> bool:
    specs = [slot.spec for slot in state.slots] if state else []
    for entry in entries:
        if isinstance(entry.message, EvaluationBegun):
            specs += entry.message.providers
    return any(registry.asks_changes(spec.name) for spec in specs)


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
    return Change(id_, loaded.version, state, entries, list(fresh), effects)
