"""The guidance loop: steps each evaluation's events in memory and commits it in one script.

entries ── by evaluation ── one load ── step, event by event ── one commit each ──▶ counts, mailbox, history
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, cast

from tellback.contracts.guidance import EvaluationBegun, ToolInvoked
from tellback.errors import TellbackError
from tellback.guidance.evaluation import Effects, Panel, begin, step
from tellback.guidance.registry import load_registry
from tellback.state.evaluations import Change, EvaluationId, Evaluations, Loaded
from tellback.state.intake import Entry, Lease
from tellback_workers.isolation import IsolatedPanel
from tellback_workers.runtime import Runtime

TRIES: Final = 5
CUSTOM_SHARE: Final = 0.25  # of a lease, for the custom providers of one batch


class GuidanceLoop:
    """Applies tool calls and prompts of one team."""

    def __init__(self, runtime: Runtime, team: str) -> None:
        """Take the process's connections and providers.

        Raises:
            ConfigurationError: the setting `providers` names what cannot be used.
        """
        self._runtime = runtime
        self._team = team
        self._registry = load_registry(runtime.settings.providers)

    def ready(self) -> None:
        """Always: providers need nothing but this process."""

    def apply(self, lease: Lease, entries: Sequence[Entry]) -> None:
        """Apply and acknowledge every entry, in order; an event id that was seen before has no effect.

        Raises:
            Fenced: the lease has passed on.
        """
        store = Evaluations(self._runtime.database, lease.shard)
        panel = self._panel(entries)
        waiting: Mapping[EvaluationId, Sequence[Entry]] = _by_evaluation(entries)
        for _ in range(TRIES):
            loaded = store.load({id_: [entry.message.event_id for entry in group] for id_, group in waiting.items()})
            changes = [_evaluate(id_, group, loaded[id_], panel) for id_, group in waiting.items()]
            waiting = {change.id: change.entries for change in store.commit(lease, changes)}
            if not waiting:
                return
        raise TellbackError(f"{len(waiting)} evaluations changed under each of {TRIES} attempts")

    def _panel(self, entries: Sequence[Entry]) -> Panel:
        """Whoever asks the providers; one that may have killed a worker is not asked about the same call again."""
        settings = self._runtime.settings
        again = any(entry.deliveries > 1 for entry in entries)
        budget = 0.0 if again else settings.drain_lease * CUSTOM_SHARE
        return IsolatedPanel(self._registry, timeout=settings.provider_timeout, budget=budget)


def _by_evaluation(entries: Iterable[Entry]) -> dict[EvaluationId, list[Entry]]:
    groups: dict[tuple[str, str, str], list[Entry]] = {}
    for entry in entries:
        event = cast("EvaluationBegun | ToolInvoked", entry.message)  # the decoder lets no other into this family
        groups.setdefault((event.session, event.prompt, event.evaluation), []).append(entry)
    return {EvaluationId(*names): group for names, group in groups.items()}


def _evaluate(id_: EvaluationId, entries: Sequence[Entry], loaded: Loaded, panel: Panel) -> Change:
    state = loaded.state or begin(*id_, entries[0].at_ms)
    effects = Effects()
    fresh: dict[str, None] = {}  # in order; a batch may hold the same event twice
    for entry in entries:
        event_id = entry.message.event_id
        if event_id not in loaded.seen and event_id not in fresh:
            fresh[event_id] = None
            step(state, cast("EvaluationBegun | ToolInvoked", entry.message), entry.at_ms, panel, effects)
    return Change(id_, loaded.version, state, entries, list(fresh), effects)
