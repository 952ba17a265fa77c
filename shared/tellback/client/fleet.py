"""A fleet at a glance: the active sessions of a team, and the state of the team. Requirement C-90.

Every figure comes from an index, at a bounded cost, so that an operator may ask each second.
"""

from __future__ import annotations

from typing import Final

import msgspec

from tellback.client.client_context import ClientContext
from tellback.names import Family
from tellback.state.database import Database
from tellback.state.dead_letters import DeadLetters
from tellback.state.gauges import TurnStats, command_gauges, read_backlog
from tellback.state.job_listing import JobListing, ListedJob
from tellback.state.keys import Layout
from tellback.state.presence import Presence
from tellback.state.records import Records
from tellback.state.sessions import SessionActivity, Sessions
from tellback.state.teams import team_memory
from tellback.state.turn_view import TurnView
from tellback.state.turns import Turns
from tellback.state.unavailable import NotPermitted

MAX_OPEN_TURNS: Final = 1_000  # in a listing of sessions: those with the nearest deadlines
ACTIVE_SECONDS: Final = 900.0


class ActiveSession(msgspec.Struct, frozen=True, kw_only=True):
    """One session. Times are milliseconds, server time; `at` is None if nothing of it was applied yet.

    `turn` is the open turn with the nearest deadline and `turn_since` when it was opened; `command` the longest running
    command, `running` how many run. `command_host` is where it runs, or, of a session that has commands alone, where
    the newest of them ran. `calls` and `nudges` count the tool calls and feedback of the last seven days.
    """

    session: str
    at: int | None = None
    host: str = ""
    tool: str = ""
    status: str = ""
    calls: int = 0
    nudges: int = 0
    turn: str | None = None
    turn_since: int | None = None
    turn_deadline: int | None = None
    command_id: str | None = None
    command: list[str] = []
    command_since: int | None = None
    command_host: str | None = None
    running: int = 0


def active_sessions(context: ClientContext, *, within: float = ACTIVE_SECONDS, limit: int = 100) -> list[ActiveSession]:
    """Return the sessions that were active in the last `within` seconds, have an open turn or a running command.

    The newest `limit` of them, newest first. Of open turns, those with the nearest 1,000 deadlines count.

    Raises:
        Unavailable: Redis does not answer.
    """
    database, layout = context.database, context.layout
    seen = Sessions(database, layout)
    found = {each.session: each for each in seen.newest(limit, database.now_ms() - round(within * 1000))}
    turns: dict[str, TurnView] = {}
    for turn in Turns(database, layout).open_now(MAX_OPEN_TURNS):
        turns.setdefault(turn.session, turn)
    jobs: dict[str, list[ListedJob]] = {}
    for job in JobListing(database, layout).running():
        jobs.setdefault(job.session, []).append(job)

    def row_of(name: str) -> ActiveSession:
        return _active(name, found.get(name), turns.get(name), jobs.get(name, []))

    idle = sorted(map(row_of, (turns.keys() | jobs.keys()) - found.keys()), key=_newest_first)[:limit]
    found |= {each.session: each for each in seen.named([row.session for row in idle])}
    rows = sorted(map(row_of, {*found, *turns, *jobs}), key=_newest_first)[:limit]
    ran_on = Records(database, layout).newest_hosts(row.session for row in rows if not (row.host or row.command_host))
    return [msgspec.structs.replace(row, command_host=ran_on.get(row.session, row.command_host)) for row in rows]


def _newest_first(row: ActiveSession) -> tuple[int, str]:
    return -max(row.at or 0, row.turn_since or 0, row.command_since or 0), row.session


def _active(name: str, seen: SessionActivity | None, turn: TurnView | None, jobs: list[ListedJob]) -> ActiveSession:
    known = seen or SessionActivity(session=name, at=0)
    job = jobs[0] if jobs else None
    return ActiveSession(
        session=name,
        at=known.at or None,
        host=known.host or (turn.host if turn else ""),
        tool=known.tool,
        status=known.status,
        calls=known.calls,
        nudges=known.nudges,
        turn=turn.id if turn else None,
        turn_since=turn.opened_at if turn else None,
        turn_deadline=turn.deadline if turn else None,
        command_id=job.command_id if job else None,
        command=job.command if job else [],
        command_since=job.since if job else None,
        command_host=job.host if job else None,
        running=len(jobs),
    )


class TeamStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A team now. Durations are in seconds; `waiting` and `waited` are by family of events.

    `waited` is how long the oldest event has waited, `sweep_lag` how long the most overdue turn is past its deadline.
    `memory` is an estimate of the team's bytes in Redis and `memory_limit` Redis' own limit; None if there is none, on
    a cluster, or if this user may not measure.
    """

    team: str
    shards: int
    at: int
    workers: int
    waiting: dict[str, int]
    waited: dict[str, float]
    turns_open: int
    turns_overdue: int
    sweep_lag: float
    dead_letters: int
    commands_running: int
    commands_queued: int
    sessions: int
    memory: int | None
    memory_limit: int | None

    @property
    def memory_share(self) -> float | None:
        """The team's part of Redis' memory limit, from 0 to 1."""
        return self.memory / self.memory_limit if self.memory is not None and self.memory_limit else None


def team_status(database: Database, layout: Layout, *, within: float = ACTIVE_SECONDS) -> TeamStatus:
    """Return the state of a team; sessions count that were active in the last `within` seconds.

    Raises:
        Unavailable: Redis does not answer.
    """
    now = database.now_ms()
    backlog = {family.value: read_backlog(database, layout, family) for family in Family}
    turns, commands = TurnStats(database, layout).gauges(), command_gauges(database, layout)
    memory, limit = _memory(database, layout)
    return TeamStatus(
        team=layout.team,
        shards=layout.shards,
        at=now,
        workers=len(Presence(database, layout.team).workers()),
        waiting={family: each.events for family, each in backlog.items()},
        waited={family: each.age(now) for family, each in backlog.items()},
        turns_open=turns.open,
        turns_overdue=turns.overdue,
        sweep_lag=turns.lag,
        dead_letters=DeadLetters(database, layout).count(),
        commands_running=commands.running,
        commands_queued=sum(commands.queued.values()),
        sessions=Sessions(database, layout).count(now - round(within * 1000)),
        memory=memory,
        memory_limit=limit,
    )


def _memory(database: Database, layout: Layout) -> tuple[int | None, int | None]:
    try:
        used = team_memory(database, layout)
        if database.is_cluster():  # each node has a limit of its own
            return used, None
        lines = database.command("INFO", "memory").decode().splitlines()
    except NotPermitted:
        return None, None
    limit = next((int(line.partition(":")[2]) for line in lines if line.startswith("maxmemory:")), 0)
    return used, limit or None
