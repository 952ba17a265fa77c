"""Guidance's measures for a team, or for one session, as `tellback stats` shows them."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from tellback.client.context import Context
from tellback.guidance.summary import Summary, Totals, add_up, count_history, summarize
from tellback.state.guidance_stats import Day, read_stats
from tellback.state.history import read_history
from tellback.state.tool_health import CoolDown, ToolHealth


class DayStats(msgspec.Struct, frozen=True, kw_only=True):
    """One day (UTC)."""

    day: str
    totals: Totals


class GuidanceStats(msgspec.Struct, frozen=True, kw_only=True):
    """What was counted from `since` to `until` (milliseconds, server time; `since` is None where there is nothing).

    Of a team: every call whose day is within the window, exactly, `by_day` too. Of a session: what its history still
    holds, which are its newest 1,000 entries; that does not tell how feedback was delivered.
    """

    team: str
    session: str | None
    since: int | None
    until: int
    summary: Summary
    by_day: list[DayStats] = []
    cooling: list[CoolDown] = []


def team_stats(context: Context, days: int) -> GuidanceStats:
    """The newest `days` days of the team.

    Raises:
        Unavailable: Redis is away.
    """
    found = read_stats(context.database, context.layout, days)
    return GuidanceStats(
        team=context.layout.team,
        session=None,
        since=min((day.since for day in found), default=None),
        until=context.database.now_ms(),
        summary=summarize(add_up(day.counters for day in found)),
        by_day=[_day(day) for day in found],
        cooling=ToolHealth(context.database, context.layout).in_force(),
    )


def session_stats(context: Context, session: str) -> GuidanceStats:
    """What the history of a session still tells.

    Raises:
        InvalidInput: the session is not valid text.
        Unavailable: Redis is away.
    """
    entries = read_history(context.database, context.layout, session)
    counted = [entry for entry in entries if entry.get("kind") in {"tool_call", "feedback", "provider_failure"}]
    return GuidanceStats(
        team=context.layout.team,
        session=session,
        since=counted[0]["at"] if counted else None,
        until=context.database.now_ms(),
        summary=summarize(count_history(counted)),
    )


def moment(at_ms: int) -> str:
    """A time as people read it."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")


def _day(day: Day) -> DayStats:
    return DayStats(day=day.day.isoformat(), totals=summarize(day.counters).totals)
