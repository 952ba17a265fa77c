"""`tellback records`: read what commands did.

Records come from Redis or, with --file, from a host's record file and its rotated predecessors; both sources pass
through the same functions, so that what they show is the same.
"""

from __future__ import annotations

import errno
import itertools
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from tellback import clock
from tellback.cli.common import (
    COMMANDS,
    UNWRITABLE,
    JsonOption,
    TeamOption,
    UrlOption,
    echo,
    listed_team,
    print_json,
    report_errors,
    show_rows,
)
from tellback.errors import InvalidInput
from tellback.quoting import quote_terminal
from tellback.sanitize import terminal_line
from tellback.wording import be, count_phrase

if TYPE_CHECKING:
    from tellback.client.connection import Tellback
    from tellback.commands.gate import RetryChain
    from tellback.contracts.commands import CommandRecord
    from tellback.state.records import Records

T = TypeVar("T")

OR_FILE: Final = ", or use --file with a host's feedback_record.jsonl"
_SESSION: Final = ("session",)
TEAM_SESSIONS: Final = 200  # whose records are read if no session is named; each keeps 200 at most
POLL: Final = 0.3  # seconds between two reads of --follow

OfSession = Annotated[str | None, typer.Argument(help="Session name. Default: every session.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("records", rich_help_panel=COMMANDS)(records)


def records(
    session: OfSession = None,
    *,
    file: Annotated[Path | None, typer.Option(help="Read a host's feedback_record.jsonl instead of Redis.")] = None,
    last: Annotated[int, typer.Option(min=1, max=200, help="Number of newest records to show.")] = 20,
    all_: Annotated[
        bool, typer.Option("--all", help="Show every kept record; with --file, rotated files too.")
    ] = False,
    failed: Annotated[
        bool, typer.Option("--failed", help="Show retry chains with an unresolved failure or missing exit code.")
    ] = False,
    follow: Annotated[bool, typer.Option("--follow", help="Keep printing new records as they arrive.")] = False,
    superseded: Annotated[
        bool, typer.Option("--superseded", help="Show records that arrived after their command was declared lost.")
    ] = False,
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """Show a session's newest records, oldest first. With --failed, show all unresolved ones, however old.

    Without a session, show those of the 200 sessions that were active last.
    """
    with report_errors():
        if superseded and (file or failed or follow):
            raise InvalidInput("--superseded can't be combined with --file, --failed or --follow")
    if file is not None:
        _show_file(file, session, last=None if all_ else last, failed=failed, follow=follow, as_json=as_json)
        return
    from tellback.state.records import Records

    with listed_team(redis_url, team) as tb:
        store = Records(tb.context.database, tb.context.layout)
        if session is None and not (superseded or follow):
            _show_team(tb, store, None if all_ else last, failed=failed, as_json=as_json)
            return
        session = require_session(session, OR_FILE)
        if superseded:
            late = store.superseded(session)
            _show_records(late if all_ else late[-last:], as_json=as_json, title=f"Commands of {session}")
            return
        kept, gone = store.all(session)
        following = stop_on_interrupt(store.follow(session, len(kept) + gone, poll_ticks())) if follow else iter(())
        unfinished = [] if failed or as_json else _unfinished_rows(tb, session)
        shown = _RecordView(session, None if all_ else last, failed=failed, as_json=as_json, unfinished=unfinished)
        _show_and_follow(kept, following, shown)
        _warn_incomplete(gone, [])


def _show_file(file: Path, session: str | None, *, last: int | None, failed: bool, follow: bool, as_json: bool) -> None:
    from tellback.commands.record import RecordFile

    with readable_file(file):
        if not (follow or file.exists()):
            raise InvalidInput(f"--file {file}: there is no such file; with --follow the command waits for it")
        # Follow from before the file is read, so that no record is lost in between; `new` drops those read twice.
        coming = RecordFile(file).follow(poll_ticks()) if follow else iter(())
        loaded = RecordFile(file).load(rotated=last is None or failed, session=session)
        known = {record.command_id: record for record in loaded.records}
        new = (
            record
            for record in stop_on_interrupt(coming)
            if session in (None, record.session) and known.get(record.command_id) != record
        )
        _warn_incomplete(loaded.dropped if last is None or failed else 0, loaded.unreadable)
        _show_and_follow(loaded.records, new, _RecordView(str(session or file), last, failed=failed, as_json=as_json))


@dataclass(frozen=True, slots=True)
class _RecordView:
    """The scope of a listing of records: the newest `last` ones or, with `failed`, those unresolved."""

    title: str
    last: int | None
    failed: bool
    as_json: bool
    unfinished: Sequence[Mapping[str, Any]] = ()  # rows of commands without a record


def _show_team(tb: Tellback, store: Records, last: int | None, *, failed: bool, as_json: bool) -> None:
    """Show records of the sessions that were active last: the newest ones or, with `failed`, those unresolved."""
    from tellback.state.records import CAP
    from tellback.state.sessions import Sessions

    active = Sessions(tb.context.database, tb.context.layout).newest(TEAM_SESSIONS)
    most = CAP if failed or last is None else last  # the newest of all are among the newest of each
    found = store.of_sessions([each.session for each in active], most)
    title = f"of team {tb.context.layout.team}"
    if failed:
        _show_chains(
            [chain for each in found for chain in _unresolved_chains(each)],
            as_json=as_json,
            title=f"Unresolved {title}",
            sessions=True,
        )
        return
    dated = (pair for each, its in zip(active, found, strict=True) for pair in _dated(its, each.at))
    newest = sorted(dated, key=lambda pair: pair[0])
    shown = [record for _, record in newest]
    _show_records(
        shown if last is None else shown[-last:],
        as_json=as_json,
        title=f"Commands {title}",
        unfinished=[] if as_json else _unfinished_rows(tb, None),
        sessions=True,
    )


def _dated(found: Iterable[CommandRecord], active_ms: int) -> Iterator[tuple[int, CommandRecord]]:
    """Yield a session's records with the newest start so far: what was never started has none of its own.

    Before the first start that is when the session was active last.
    """
    at = 0
    for record in found:
        at = max(at, _started_ms(record) or 0)
        yield at or active_ms, record


def _unfinished_rows(tb: Tellback, session: str | None) -> list[dict[str, Any]]:
    """Return a session's running and queued commands; of a team, which may have thousands queued, running ones."""
    from tellback.cli.steering import job_listing, job_row

    now, listing = tb.context.database.now_ms(), job_listing(tb)
    rows = [job_row(job, now) for job in (listing.running() if session is None else listing.unfinished(session))]
    return [{**row, "exit": row["state"], "took": row["for"], "started_at": row["since"]} for row in rows]


def _show_and_follow(found: Sequence[CommandRecord], following: Iterator[CommandRecord], view: _RecordView) -> None:
    """Show the records found, then each new one; with `failed`, only new ones that add or clear a failure."""
    failed, as_json = view.failed, view.as_json
    if failed:
        _show_chains(_unresolved_chains(found), as_json=as_json, title=f"Unresolved of {view.title}")
    else:
        newest = found if view.last is None else found[-view.last :]
        _show_records(newest, as_json=as_json, title=f"Commands of {view.title}", unfinished=view.unfinished)
    known = list(found)
    open_before = _unresolved_count(known) if failed else 0
    for record in following:
        if failed:
            known.append(record)
            before, open_before = open_before, _unresolved_count(known)
            if open_before == before:
                continue
        _print_record(record, as_json=as_json)


def _unresolved_chains(found: Sequence[CommandRecord]) -> list[RetryChain]:
    from tellback.commands.gate import build_chains

    return [chain for chain in build_chains(found) if chain.unresolved]


def _unresolved_count(found: Sequence[CommandRecord]) -> int:
    return sum(len(chain.unresolved) for chain in _unresolved_chains(found))


def _show_records(
    found: Iterable[CommandRecord],
    *,
    as_json: bool,
    title: str,
    unfinished: Sequence[Mapping[str, Any]] = (),
    sessions: bool = False,
) -> None:
    columns = (
        *(_SESSION if sessions else ()),
        "command_id",
        "exit",
        "started_at",
        "took",
        "host",
        "command",
        "error",
        "note",
    )
    rows: list[Any] = list(found) if as_json else [*(_record_row(record) for record in found), *unfinished]
    show_rows(rows, as_json=as_json, columns=columns, spare=("host", "started_at"), title=title)


def _show_chains(found: Iterable[RetryChain], *, as_json: bool, title: str, sessions: bool = False) -> None:
    columns = (*(_SESSION if sessions else ()), "command_id", "exit", "command", "attempts", "error", "note")
    rows: list[Any] = []
    for chain in found:
        if as_json:
            rows.append(
                {
                    "records": chain.records,
                    "unresolved": [record.command_id for record in chain.unresolved],
                    "orphans": chain.orphans,
                    "cycle": chain.cycle,
                }
            )
            continue
        # A single attempt has no story: its exit stands beside it.
        story = " → ".join(_exit_text(record) for record in chain.records) if len(chain.records) > 1 else ""
        rows += [_record_row(record) | {"attempts": story} for record in chain.unresolved]
        rows += [{"error": terminal_line(problem)} for problem in chain.link_problems]
    show_rows(rows, as_json=as_json, columns=columns, title=title)


def _print_record(record: CommandRecord, *, as_json: bool) -> None:

    if as_json:
        print_json(record)
        return
    row = _record_row(record)
    parts = [f"exit {row['exit']}", row["took"], row["command"], *filter(None, (row["error"], row["note"]))]
    print_line(" · ".join([*parts, record.command_id]))


def print_line(text: str) -> None:
    """Print one line on standard output and flush it."""
    sys.stdout.write(f"{quote_terminal(text)}\n")
    sys.stdout.flush()


def _record_row(record: CommandRecord) -> dict[str, Any]:
    import shlex

    return {
        "session": terminal_line(record.session),
        "command_id": record.command_id,
        "exit": _exit_text(record),
        "started_at": _started_ms(record),
        "took": f"{record.duration_ms / 1000:.2f} s",
        "host": terminal_line(record.host or ""),
        "command": terminal_line(shlex.join(record.command)),
        "error": terminal_line(_error_text(record)),
        "note": terminal_line(record.agent_note or ""),
    }


def _started_ms(record: CommandRecord) -> int | None:
    from contextlib import suppress
    from datetime import datetime

    with suppress(ValueError):  # null, or a file's line that another program wrote
        return round(datetime.fromisoformat(record.started_at or "").timestamp() * 1000)
    return None


def _error_text(record: CommandRecord) -> str:
    said = [record.error or record.signal or ""]
    said += [f"waived by {record.waiver.by}: {record.waiver.reason}"] if record.waiver is not None else []
    return "; ".join(filter(None, said))


def _exit_text(record: CommandRecord) -> str:
    return "null" if record.exit_code is None else str(record.exit_code)


@contextmanager
def readable_file(file: Path) -> Generator[None]:
    """Report an error of a file that the user named."""
    with report_errors():
        try:
            yield
        except OSError as error:
            # Of the output that was written meanwhile; EIO may be of either.
            if error.errno in UNWRITABLE - {errno.EIO} or error.errno == errno.EBADF:
                raise
            raise InvalidInput(f"can't read {file}: {error.strerror or error}") from error


def _warn_incomplete(gone: int, unreadable: Sequence[str]) -> None:
    if gone:
        echo(f"tellback: {count_phrase(gone, 'older record')} {be(gone)} no longer kept", err=True)
    if unreadable:
        echo(f"tellback: skipped what is not a record: {', '.join(unreadable[:5])}", err=True)


def require_session(session: str | None, instead: str = "") -> str:
    """Return the session's name.

    Raises:
        InvalidInput: it is missing or empty; the message says what to do instead.
    """
    if not session:
        raise InvalidInput(f"name a session{instead}; `tellback sessions` lists them")
    return session


def poll_ticks() -> Iterator[None]:
    """Yield at once, then every `POLL` seconds."""
    for number in itertools.count():
        if number:
            clock.sleep(POLL)
        yield


def stop_on_interrupt(found: Iterator[T]) -> Iterator[T]:
    """Yield the items until Ctrl-C."""
    try:
        yield from found
    except KeyboardInterrupt:
        return
