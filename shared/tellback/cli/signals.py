"""`tellback signal`: teach a bank from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tellback.cli.common import SIGNALS, TeamOption, UrlOption, client, print_json
from tellback.cli.recall import recall


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (signal, recall):
        app.command(command.__name__, rich_help_panel=SIGNALS)(command)


def signal(
    file: Annotated[Path, typer.Argument(help="JSON lines, as above; - for standard input.", allow_dash=True)],
    *,
    bank: Annotated[str | None, typer.Option("--bank", "-b", help="The bank of lines that name none.")] = None,
    session: Annotated[str | None, typer.Option(help="Show the signals in this session's history.")] = None,
    rejects: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write lines that are wrong there: line, error and text as JSON."),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Publish the file from its beginning, as new signals.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """Publish the signals of a file of JSON lines.

    Each line is an object with fact_id, signal_type, query, and perhaps confidence, context, signal_id and bank. A line
    that is wrong is named on standard error and left out. Run again after it was stopped, the command goes on where it
    was, and each line counts once; run again on a file that has grown, it publishes what is new. A file whose published
    part has changed is refused. Of standard input no place is kept: give its lines a signal_id if they may come twice.

    Exit code 0: every line was published. 1: lines were rejected, or Redis and the spool took no more. 2: the file
    cannot be read or has changed, or an option is wrong.
    """
    from tellback.cli.signal_publish import publish_file

    with client(redis_url, team) as tb:
        try:
            done = publish_file(tb, file, bank=bank, session=session, rejects=rejects, again=again)
        except KeyboardInterrupt:
            typer.echo("tellback: stopped; run the same command again to go on", err=True)
            raise typer.Exit(130) from None
        if tb.context.publisher.spooled:
            typer.echo("tellback: Redis is away; the signals wait on this host's disk, for the next client", err=True)
    if as_json:
        import msgspec

        print_json(msgspec.to_builtins(done))
    else:
        to = f" to bank {bank}" if bank else ""
        skipped = f", {done.skipped} lines were published before" if done.skipped else ""
        typer.echo(
            f"{done.published} signals published{to}{skipped}" + (f", {done.rejected} rejected" * (done.rejected > 0))
        )
    if done.rejected:
        raise typer.Exit(1)
