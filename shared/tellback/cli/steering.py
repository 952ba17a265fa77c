"""`tellback ps`, `cancel`, `waive` and `audit`: see what is under way, steer it, and read who did so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tellback.cli.common import (
    COMMANDS,
    LISTED,
    OPERATE,
    JsonOption,
    TeamOption,
    UrlOption,
    echo,
    existing_team,
    given_id,
    listed_team,
    print_json,
    show_rows,
    text_option,
)
from tellback.errors import InvalidInput, NotFound
from tellback.sanitize import terminal_line
from tellback.wording import duration_phrase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tellback.client.connection import Tellback
    from tellback.state.job_listing import JobListing, ListedJob

ByOption = Annotated[str, typer.Option("--by", help="Your name, for the audit log. Default: user@host.")]
WhyOption = Annotated[str, typer.Option("--why", help="Your reason, for the audit log.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (ps, cancel, waive):
        app.command(command.__name__, rich_help_panel=COMMANDS)(command)
    app.command("audit", rich_help_panel=OPERATE)(audit)


def ps(
    *,
    session: Annotated[str | None, text_option("Show only this session's commands.")] = None,
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """List commands that have no record yet: running, queued, or submitted and not yet seen by a worker."""
    with listed_team(redis_url, team) as tb:
        rows = _job_rows(tb, job_listing(tb).unfinished(session), as_json=as_json)
        columns = ("command_id", "state", "for", "session", "host", "command", "note")
        show_rows(rows, as_json=as_json, columns=columns, spare=("note", "host"), title="Unfinished commands")


def _job_rows(tb: Tellback, jobs: Sequence[ListedJob], *, as_json: bool) -> list[dict[str, Any]]:
    """Return commands for a table, or whole, with their argv, for JSON."""
    import msgspec

    if not as_json:
        now = tb.context.database.now_ms()
        return [job_row(job, now) for job in jobs]
    whole: list[dict[str, Any]] = msgspec.to_builtins(jobs)
    return [{name: value for name, value in job.items() if name != "submitted"} for job in whole]


def job_row(job: ListedJob, now: int) -> dict[str, Any]:
    """Return one command as a row of a table; `for` is how long it has been in its state."""
    import shlex

    return {
        "command_id": job.command_id,
        "state": job.state,
        "for": "" if job.since is None else duration_phrase(max(0, now - job.since) / 1000),
        "since": job.since,
        "session": job.session,
        "host": job.host,
        "command": terminal_line(shlex.join(job.command)),
        "note": terminal_line(job.note or ""),
    }


def cancel(
    command_id: Annotated[
        str | None, typer.Argument(parser=given_id, metavar="command_id", help="Id of the command, from `tellback ps`.")
    ] = None,
    *,
    session: Annotated[
        str | None,
        text_option("Cancel all unfinished commands of this session."),
    ] = None,
    why: WhyOption = "",
    by: ByOption = "",
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """Cancel a command, or a session's. Each ends in a record that, like the audit log, says who did it and why."""
    from tellback.client.commands import Job

    with existing_team(redis_url, team) as tb:
        if (command_id is None) == (session is None):
            raise InvalidInput("name one command, or --session for all of a session's")
        listing = job_listing(tb)
        found = listing.unfinished(session) if command_id is None else [listing.find(command_id)]
        cancelled = [job for job in found if Job(job.submitted, tb.context).cancel(reason=why, by=by)]
        if not cancelled:  # it ended between our look and the cancellation
            raise NotFound(f"nothing to cancel: no unfinished command{f' of session {session}' if session else ''}")
        rows = _job_rows(tb, cancelled, as_json=as_json)
    show_rows(rows, as_json=as_json, columns=("command_id", "state", "session", "command"), title="Cancelled")


def waive(
    command_id: Annotated[
        str,
        typer.Argument(
            parser=given_id, metavar="command_id", help="Id of the failed command, from `tellback records`."
        ),
    ],
    *,
    why: Annotated[str, typer.Option("--why", help="Why this failure does not count.")],
    session: Annotated[
        str | None,
        text_option("Session of the record. Default: that of the command."),
    ] = None,
    by: ByOption = "",
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """Declare that a failure does not count. The gate then passes over it and, like the record, says who waived it."""
    from tellback.state.records import Records

    with existing_team(redis_url, team) as tb:
        if session is None:
            session = Records(tb.context.database, tb.context.layout).session_of(command_id)
        record = tb.waive(session, command_id, reason=why, by=by)
    if as_json:
        print_json(record)
    elif record.waiver is not None:
        echo(f"waived {command_id} by {record.waiver.by}: {record.waiver.reason}")


def audit(
    *,
    session: Annotated[str | None, text_option("Show only actions on this session.")] = None,
    limit: Annotated[int, typer.Option(help="Maximum number of actions.", min=1, max=10_000)] = LISTED,
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """List the newest manual actions, oldest first, with who did it and why.

    These are cancel, waive, replay, undo and drop, and create, limit, suspend and resume of the team.
    `tellback teams removed` lists who removed which team.
    """
    from tellback.state.audit import newest_actions

    with listed_team(redis_url, team) as tb:
        entries = newest_actions(tb.context.database, tb.context.layout, limit, session)
        columns = ("at", "act", "target", "session", "by", "reason")
        show_rows(entries, as_json=as_json, columns=columns, spare=("session",), title="Audit log", limit=limit)


def job_listing(tb: Tellback) -> JobListing:
    """Return the listing of the team's unfinished commands."""
    from tellback.state.job_listing import JobListing

    return JobListing(tb.context.database, tb.context.layout)
