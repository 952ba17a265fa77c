"""`tellback records` and `tellback gate`: what commands did, from Redis or from a file."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tellback import clock
from tellback.cli.common import COMMANDS, JsonOption, TeamOption, UrlOption, client, print_json, reported, show
from tellback.errors import InvalidInput

if TYPE_CHECKING:
    from tellback.commands.chains import Chain
    from tellback.contracts.commands import CommandRecord, Verdict

POLL: Final = 0.3  # seconds between looks of --follow

SessionArgument = Annotated[str | None, typer.Argument(help="The session; with --file, all of the file by default.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("records", rich_help_panel=COMMANDS)(records)
    app.command("gate", rich_help_panel=COMMANDS)(gate)


def records(
    session: SessionArgument = None,
    *,
    file: Annotated[
        Path | None, typer.Option(help="Read this feedback_record.jsonl of a host; no Redis is needed.")
    ] = None,
    last: Annotated[int, typer.Option(min=1, max=200, help="How many of the newest.")] = 20,
    all_: Annotated[
        bool, typer.Option("--all", help="Everything that is kept; of a file its rotated set, oldest first.")
    ] = False,
    failed: Annotated[
        bool, typer.Option("--failed", help="Chains of attempts in which a failure or null exit is unresolved.")
    ] = False,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with new records as they come.")] = False,
    superseded: Annotated[
        bool, typer.Option("--superseded", help="Those that came after their command had been declared lost.")
    ] = False,
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """The newest records, oldest first. With --failed: what is still unresolved, whatever its age."""
    with reported():
        if superseded and (file or failed or follow):
            raise InvalidInput("--superseded takes neither --file nor --failed nor --follow")
    if file is not None:
        _records_of_file(file, session, last=None if all_ else last, failed=failed, follow=follow, as_json=as_json)
        return
    from tellback.state.records import Records

    with client(redis_url, team) as tb:
        session = _needed(session)
        store = Records(tb.context.database, tb.context.layout)
        if superseded:
            _show(store.superseded(session)[-last:], as_json=as_json, title=f"Commands of {session}")
            return
        kept, gone = store.all(session)
        following = _until_interrupted(store.follow(session, len(kept) + gone, _polls())) if follow else iter(())
        _tell(kept, following, session, last=None if all_ else last, failed=failed, as_json=as_json)
        _warn_of(gone, [])


def gate(
    session: SessionArgument = None,
    *,
    require: Annotated[
        list[str] | None, typer.Option(help='A command that must have run, quoted as for a shell: "pytest -q".')
    ] = None,
    file: Annotated[
        Path | None, typer.Option(help="Judge this feedback_record.jsonl with its rotated set; no Redis is needed.")
    ] = None,
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """Whether the records allow to claim success. Exits with 0 if they do, else with 1 and the reasons."""
    with reported():
        required = [_argv(command) for command in require or ()]
    if file is not None:
        from tellback.commands.gate import judge
        from tellback.commands.recordfile import RecordFile

        with _readable(file):
            loaded = RecordFile(file).load(rotated=True, session=session)
        if not loaded.records and not file.exists():
            typer.echo(f"tellback: there is no file {file}", err=True)
        verdict = judge(loaded.records, require=required, evicted=loaded.dropped, unreadable=loaded.unreadable)
    else:
        with client(redis_url, team) as tb:
            verdict = tb.gate(_needed(session), required)
    _print_verdict(verdict, as_json=as_json)
    raise typer.Exit(0 if verdict.passed else 1)


def _records_of_file(
    file: Path, session: str | None, *, last: int | None, failed: bool, follow: bool, as_json: bool
) -> None:
    from tellback.commands.recordfile import RecordFile

    with _readable(file):
        coming = RecordFile(file).follow(_polls()) if follow else iter(())  # from before it is read: nothing is missed
        loaded = RecordFile(file).load(rotated=last is None or failed, session=session)
        known = {record.command_id: record for record in loaded.records}
        new = (
            record
            for record in _until_interrupted(coming)
            if session in (None, record.session) and known.get(record.command_id) != record
        )
        _warn_of(loaded.dropped if last is None or failed else 0, loaded.unreadable)
        _tell(loaded.records, new, str(session or file), last=last, failed=failed, as_json=as_json)


def _tell(
    found: Sequence[CommandRecord],
    following: Iterator[CommandRecord],
    title: str,
    *,
    last: int | None,
    failed: bool,
    as_json: bool,
) -> None:
    """Show what is there; then each record that comes, of them with `failed` those that leave or clear a failure."""
    if failed:
        _show_chains(_open_chains(found), as_json=as_json, title=f"Unresolved of {title}")
    else:
        _show(found if last is None else found[-last:], as_json=as_json, title=f"Commands of {title}")
    known = list(found)
    open_before = _unresolved(known) if failed else 0
    for record in following:
        if failed:
            known.append(record)
            before, open_before = open_before, _unresolved(known)
            if open_before == before:
                continue
        _print_one(record, as_json=as_json)


def _open_chains(found: Sequence[CommandRecord]) -> list[Chain]:
    from tellback.commands.chains import chains

    return [chain for chain in chains(found) if chain.unresolved]


def _unresolved(found: Sequence[CommandRecord]) -> int:
    return sum(len(chain.unresolved) for chain in _open_chains(found))


def _show(found: Iterable[CommandRecord], *, as_json: bool, title: str) -> None:
    columns = ("command_id", "exit", "took", "command", "error", "note")
    rows: list[Any] = list(found) if as_json else [_row(record) for record in found]
    show(rows, as_json=as_json, columns=columns, title=title)


def _show_chains(found: Iterable[Chain], *, as_json: bool, title: str) -> None:
    columns = ("command_id", "exit", "command", "attempts", "error", "note")
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
        story = " → ".join(_exit(record) for record in chain.records)
        rows += [_row(record) | {"attempts": story} for record in chain.unresolved]
        rows += [{"error": visible(problem)} for problem in chain.problems]
    show(rows, as_json=as_json, columns=columns, title=title)


def _print_one(record: CommandRecord, *, as_json: bool) -> None:
    import msgspec

    if as_json:
        print_json(msgspec.to_builtins(record))
        return
    row = _row(record)
    told = [f"exit {row['exit']}", row["took"], row["command"], *filter(None, (row["error"], row["note"]))]
    print_line(" · ".join([*told, record.command_id]))


def print_line(text: str) -> None:
    """One line on standard output, at once."""
    sys.stdout.write(f"{visible(text)}\n")
    sys.stdout.flush()


def visible(text: str) -> str:
    """`text` with escapes in place of what a terminal would obey: commands and notes come from anybody."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def _print_verdict(verdict: Verdict, *, as_json: bool) -> None:
    if as_json:
        print_json({"passed": verdict.passed, "reasons": verdict.reasons})
        return
    for line in ("passed" if verdict.passed else "refused", *(f"- {reason}" for reason in verdict.reasons)):
        print_line(line)
    if any("no linked retry" in reason for reason in verdict.reasons):
        typer.echo("To clear a failure, repair what failed and run the same command again with --parent ID.", err=True)


def _row(record: CommandRecord) -> dict[str, Any]:
    import shlex

    return {
        "command_id": record.command_id,
        "exit": _exit(record),
        "took": f"{record.duration_ms / 1000:.2f} s",
        "command": visible(shlex.join(record.command)),
        "error": visible(record.error or record.signal or ""),
        "note": visible(record.agent_note or ""),
    }


def _exit(record: CommandRecord) -> str:
    return "null" if record.exit_code is None else str(record.exit_code)


@contextmanager
def _readable(file: Path) -> Generator[None]:
    with reported():
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            raise InvalidInput(f"{file} cannot be read: {error}") from error


def _warn_of(gone: int, unreadable: Sequence[str]) -> None:
    if gone:
        typer.echo(f"tellback: {gone} older records are gone", err=True)
    if unreadable:
        typer.echo(f"tellback: no records, passed over: {', '.join(unreadable[:5])}", err=True)


def _argv(command: str) -> list[str]:
    import shlex

    try:
        argv = shlex.split(command)
    except ValueError as error:
        raise InvalidInput(f"require {command!r}: {error}") from error
    if not argv:
        raise InvalidInput("require holds an empty command")
    return argv


def _needed(session: str | None) -> str:
    if not session:
        raise InvalidInput("name a session, or give --file with the feedback_record.jsonl of a host")
    return session


def _polls() -> Iterator[None]:
    for number in itertools.count():
        if number:
            clock.sleep(POLL)
        yield


def _until_interrupted(found: Iterator[CommandRecord]) -> Iterator[CommandRecord]:
    try:
        yield from found
    except KeyboardInterrupt:
        return
