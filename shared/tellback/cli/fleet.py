"""`tellback sessions` and `tellback team`: who is active and with what, and one team at a glance. Requirement C-90."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tellback.cli.common import (
    LISTED,
    OPERATE,
    JsonOption,
    TeamOption,
    UrlOption,
    echo,
    listed_team,
    print_json,
    show_rows,
)
from tellback.cli.timeline import SHORT
from tellback.sanitize import terminal_line
from tellback.truncation import truncate_chars
from tellback.wording import count_phrase, duration_phrase

if TYPE_CHECKING:
    from tellback.client.fleet import ActiveSession, TeamStatus

WithinOption = Annotated[
    float,
    typer.Option("--within", min=1, max=604_800, help="Seconds after its last entry for which a session is active."),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (sessions, team):
        app.command(command.__name__, rich_help_panel=OPERATE)(command)


def sessions(
    *,
    within: WithinOption = 900.0,
    limit: Annotated[int, typer.Option(help="Maximum number of sessions.", min=1, max=10_000)] = LISTED,
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """List active sessions: host, last tool call, open turn, running command, and how often each was nudged."""
    from tellback.client.fleet import active_sessions

    with listed_team(redis_url, team) as tb:
        found = active_sessions(tb.context, within=within, limit=limit)
        now = tb.context.database.now_ms()
        columns = ("session", "host", "active", "last_call", "calls", "nudges", "open_turn", "running_command")
        rows = found if as_json else [session_row(each, now) for each in found]
        show_rows(rows, as_json=as_json, columns=columns, spare=("calls", "host"), title="Active sessions", limit=limit)


def session_row(session: ActiveSession, now: int) -> dict[str, Any]:
    """Return one session as a row of a table."""
    import shlex

    def since(at: int | None) -> str:
        return "" if at is None else duration_phrase(max(0, now - at) / 1000)

    command = truncate_chars(terminal_line(shlex.join(session.command)), SHORT)  # `tellback ps` has it whole
    more = f" (+{session.running - 1})" if session.running > 1 else ""
    return {
        "session": session.session,
        "host": session.host or session.command_host or "",
        "active": f"{since(session.at)} ago" if session.at else "",
        "last_call": terminal_line(f"{session.tool}: {session.status}") if session.tool else "",
        "calls": session.calls,
        "nudges": session.nudges,
        "open_turn": f"{since(session.turn_since)} {session.turn}" if session.turn else "",
        "running_command": f"{since(session.command_since)} {command}{more}" if session.command_id else "",
    }


def team(
    *,
    within: WithinOption = 900.0,
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """Show one team at a glance: workers, sessions, waiting events and their age, turns, commands, share of memory."""
    import msgspec

    from tellback.client.fleet import team_status

    with listed_team(redis_url, team) as tb:
        status = team_status(tb.context.database, tb.context.layout, within=within)
        if as_json:
            print_json({**msgspec.to_builtins(status), "memory_share": status.memory_share})
            return
        lines = _team_lines(status, within)
        width = max(map(len, lines))
        echo("\n".join(f"{name:<{width}}  {text}" for name, text in lines.items()))


def _team_lines(status: TeamStatus, within: float) -> dict[str, str]:
    waiting = [
        f"{family} {count} (oldest {status.waited[family]:.1f} s)" for family, count in status.waiting.items() if count
    ]
    overdue = f", {status.turns_overdue} overdue by up to {status.sweep_lag:.1f} s" if status.turns_overdue else ""
    return {
        "team": f"{status.team}, {count_phrase(status.shards, 'shard')}",
        "workers": str(status.workers),
        "sessions": f"{status.sessions} active in the last {within / 60:.0f} min",
        "waiting events": ", ".join(waiting) or "none",
        "turns": f"{status.turns_open} open{overdue}",
        "commands": f"{status.commands_running} running, {status.commands_queued} queued",
        "dead letters": str(status.dead_letters),
        "memory": _memory_text(status),
    }


def _memory_text(status: TeamStatus) -> str:
    if status.memory is None:
        return "not measured: this user may not"
    used = f"about {status.memory / (1 << 20):.1f} MiB" if status.memory >= 1 << 20 else "less than 1 MiB"
    if status.memory_share is None or status.memory_limit is None:
        return f"{used}; Redis has no limit"
    return f"{used}, {status.memory_share:.1%} of Redis' limit of {status.memory_limit / (1 << 20):.0f} MiB"
