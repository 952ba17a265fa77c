"""What a batch of tool calls says of the tools, told to the whole team before the batch is committed.

Telling comes first because it may be repeated: a worker that dies in between tells the same again, and nothing is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Final

import structlog

from tellback.contracts.guidance import ToolInvoked
from tellback.state.evaluations import Change
from tellback.state.tool_health import Cooling, Sighting, ToolHealth
from tellback_workers.runtime import Runtime

REFUSALS: Final = frozenset({"rate_limited", "unavailable"})
ANSWERS: Final = frozenset({"ok", "partial", "no_results"})  # the tool did its work, whatever came of it

ANSWERED_TOOLS: Final = 4_096
AT_ONCE_MS: Final = 5_000  # a call of which nobody told how long it took

_log = structlog.get_logger("tellback.guidance")


class HealthReport:
    """Tells the tools of one team."""

    def __init__(self, runtime: Runtime, team: str) -> None:
        """Take the process's connections; they are made when first used."""
        self._runtime = runtime
        self._team = team
        self._answered: dict[str, int] = {}  # when each tool answered last, in milliseconds, server time

    @cached_property
    def _health(self) -> ToolHealth:
        return ToolHealth(self._runtime.database, self._runtime.layout(self._team))

    @cached_property
    def _cooling(self) -> Cooling:
        return Cooling(self._health)

    def tell(self, changes: Iterable[Change]) -> None:
        """Note refusals, and answers of tools that are cooling down; costs nothing where calls have no outcome.

        Health is advice: with its shard out of reach or out of order this is skipped, and the batch goes on.
        """
        seen = self._counted(sighting for change in changes for sighting in _sightings(change))
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
        except Exception as error:  # noqa: BLE001 - as the docstring says
            _log.warning("tool_health.skipped", tools=len(matter), reason=f"{type(error).__name__}: {error}"[:500])

    def _counted(self, sightings: Iterable[Sighting]) -> list[Sighting]:
        """Without the doubtful refusals of calls during which, as this process saw, the tool answered another's."""
        seen = list(sightings)
        for sighting in seen:
            if not sighting.refused:
                self._answered[sighting.tool] = max(sighting.at, self._answered.get(sighting.tool, 0))
        if len(self._answered) > ANSWERED_TOOLS:
            self._answered.clear()
        return [one for one in seen if not (one.doubted_by and self._answered.get(one.tool, 0) >= _since(one))]


def _since(sighting: Sighting) -> int:
    return min(sighting.began, sighting.at - AT_ONCE_MS)


def _sightings(change: Change) -> Iterator[Sighting]:
    observed = [entry for entry in change.entries if getattr(entry.message, "outcome", None) is not None]
    if not observed:
        return
    fresh = set(change.fresh)
    for entry in observed:
        event = entry.message
        if not isinstance(event, ToolInvoked) or event.outcome is None or event.event_id not in fresh:
            continue
        outcome, at = event.outcome, entry.at_ms
        began = at - (event.duration_ms or 0)
        if outcome.code in REFUSALS:
            wait = None if outcome.retry_after is None else round(outcome.retry_after * 1000)
            by = event.session if outcome.doubtful and wait is None else ""
            yield Sighting(event.tool, at, began, refused=True, wait_ms=wait, doubted_by=by)
        elif outcome.code in ANSWERS:
            yield Sighting(event.tool, at, began, refused=False)
