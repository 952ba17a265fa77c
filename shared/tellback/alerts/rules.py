"""The rules: when a team's state is an alert, what it says, and which runbook it links to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from tellback.alerts.settings import AlertSettings
from tellback.client.fleet import TeamStatus
from tellback.wording import be, count_phrase

AlertSeverity = Literal["critical", "warning"]


class AlertRule(NamedTuple):
    """One rule. `name` is also that of its runbook; `summary` says what holds now, or is None while all is well."""

    name: str
    severity: AlertSeverity
    summary: Callable[[TeamStatus, AlertSettings], str | None]
    action: str


def _overdue(status: TeamStatus, settings: AlertSettings) -> str | None:
    if status.sweep_lag <= settings.overdue:
        return None
    count = count_phrase(status.turns_overdue, "turn")
    longest = f"the longest by {status.sweep_lag:.0f} s"
    return f"{count} {be(status.turns_overdue)} overdue, {longest}; their users hear nothing"


def _dead_letters(status: TeamStatus, settings: AlertSettings) -> str | None:
    if status.dead_letters < settings.dead_letters:
        return None
    return f"{count_phrase(status.dead_letters, 'event')} could not be applied"


def _lag(status: TeamStatus, settings: AlertSettings) -> str | None:
    late = {family: waited for family, waited in status.waited.items() if waited > settings.lag}
    if not late:
        return None
    return "events wait: " + ", ".join(
        f"{status.waiting[family]} of {family}, the oldest for {waited:.0f} s" for family, waited in late.items()
    )


def _memory(status: TeamStatus, settings: AlertSettings) -> str | None:
    share = status.memory_share
    if share is None or share <= settings.memory_share:
        return None
    return f"the team takes about {share:.0%} of Redis' memory; its share is {settings.memory_share:.0%}"


RULES: Final = (
    AlertRule(
        "overdue-turns", "critical", _overdue, "Start a worker, any one; `tellback doctor` says what is missing."
    ),
    AlertRule("dead-letters", "warning", _dead_letters, "`tellback dead list` says why; fix the cause, then replay."),
    AlertRule("intake-lag", "warning", _lag, "Start more workers of these queues; see `tellback doctor`."),
    AlertRule("memory-share", "warning", _memory, "See what grows with `tellback team`; end it, or raise `maxmemory`."),
)
