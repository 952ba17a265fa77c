"""`tellback history`: one session's timeline, from all loops, with new entries as they come. Requirement C-80."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tellback import clock
from tellback.cli.common import (
    GUIDANCE,
    JsonOption,
    TeamOption,
    UrlOption,
    listed_team,
    print_json,
    show_rows,
)
from tellback.cli.records import poll_ticks, print_line, require_session, stop_on_interrupt
from tellback.cli.steering import job_listing
from tellback.cli.timeline import HistoryEntry, entry_text

if TYPE_CHECKING:
    from tellback.client.connection import Tellback
    from tellback.state.job_listing import ListedJob


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("history", rich_help_panel=GUIDANCE)(history)


def history(
    session: Annotated[str, typer.Argument(help="Session name.")],
    *,
    follow: Annotated[bool, typer.Option("--follow", help="Keep printing new entries as they arrive.")] = False,
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """Show everything kept for a session, in time order; with --follow, also what happens from now on."""
    with listed_team(redis_url, team) as tb:
        require_session(session)
        entries = _timeline(tb, session, as_json=as_json)
        rows = entries if as_json else [history_row(entry) for entry in entries]
        show_rows(rows, as_json=as_json, columns=("at", "kind", "what"), title=f"Session {session}")
        coming = new_entries(entries, _polled(tb, session, as_json=as_json)) if follow else iter(())
        for entry in stop_on_interrupt(coming):
            if as_json:
                print_json(entry)
            else:
                print_line(_entry_line(entry))


def new_entries(known: Sequence[HistoryEntry], polls: Iterable[Sequence[HistoryEntry]]) -> Iterator[HistoryEntry]:
    """Yield the entries of each poll that were not in the one before.

    A history is a list in every shard, cut at its beginning. Entries have no ids, and two may be alike, so each is
    compared by its content and by how often it is there.
    """
    before = Counter(map(_content, known))
    for entries in polls:
        now = Counter(map(_content, entries))
        fresh = now - before
        for entry in entries:
            content = _content(entry)
            if fresh[content] > 0:
                fresh[content] -= 1
                yield entry
        before = now


def _polled(tb: Tellback, session: str, *, as_json: bool) -> Iterator[Sequence[HistoryEntry]]:
    from tellback.errors import Unavailable

    for _ in poll_ticks():
        try:
            found = _timeline(tb, session, as_json=as_json)
        except Unavailable:  # wait until Redis is back; what happened meanwhile is then there
            continue
        yield found


def _timeline(tb: Tellback, session: str, *, as_json: bool) -> Sequence[HistoryEntry]:
    """Return the session's history and, for people, after it what runs now, which has no entry before it ends."""
    if as_json:
        return tb.history(session)
    # Before the history: a command that ends while we read is then shown twice, and not missed.
    running = [job for job in job_listing(tb).unfinished(session) if job.state == "running"]
    return [*tb.history(session), *map(_running_entry, running)]


def _running_entry(job: ListedJob) -> HistoryEntry:
    """Return an entry that stays the same while the command runs, so that it is followed once."""
    return {
        "at": job.since or 0,
        "kind": "running",
        "command": job.command,
        "host": job.host,
        "command_id": job.command_id,
    }


def _content(entry: HistoryEntry) -> str:
    import json

    return json.dumps(entry, sort_keys=True)


def _entry_line(entry: HistoryEntry) -> str:
    row = history_row(entry)
    at = clock.utc_time(row["at"]).strftime("%H:%M:%S")
    return f"{at} {row['kind']} · {row['what']}"


def history_row(entry: HistoryEntry) -> dict[str, Any]:
    """Return an entry as a row of a listing."""
    return {"at": int(entry["at"]), "kind": entry["kind"], "what": entry_text(entry)}
