"""`tellback signal`, `recall`: teach a bank from a file, rank with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tellback.cli.common import SIGNALS, JsonOption, TeamOption, UrlOption, client, print_json, show
from tellback.errors import InvalidInput

if TYPE_CHECKING:
    from tellback.contracts.signals import RecallHit

BankOption = Annotated[str, typer.Option("--bank", "-b", help="The bank.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (signal, recall):
        app.command(command.__name__, rich_help_panel=SIGNALS)(command)


def signal(
    file: Annotated[Path, typer.Argument(help="JSON lines, as below; - for standard input.", allow_dash=True)],
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


def recall(
    query: Annotated[str, typer.Argument(help="What is looked for.")],
    *,
    bank: BankOption,
    candidate: Annotated[
        list[str], typer.Option("--candidate", "-c", help="FACT=SCORE from your own search; repeat it.")
    ],
    boost: Annotated[bool, typer.Option(help="Rank by usefulness too.")] = True,
    weight: Annotated[float, typer.Option(help="Weight of usefulness, 0 to 1.")] = 0.3,
    min_usefulness: Annotated[float, typer.Option(help="Leave out what is less useful; unknown facts have 0.5.")] = 0.0,
    limit: Annotated[int, typer.Option(help="Most hits.")] = 10,
    wait: Annotated[float, typer.Option(help="Seconds to wait for a worker; then global scores are used.")] = 5.0,
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """Rank facts for a query by relevance and by what signals say of them."""
    with client(redis_url, team) as tb:
        hits = tb.bank(bank).recall(
            query,
            [_candidate(text) for text in candidate],
            limit=limit,
            boost_by_usefulness=boost,
            usefulness_weight=weight,
            min_usefulness=min_usefulness,
            wait=wait,
        )
    if any(hit.degraded for hit in hits):
        typer.echo("tellback: no worker answered in time; these are global scores", err=True)
    rows = hits if as_json else [_rounded(hit) for hit in hits]
    show(rows, as_json=as_json, columns=("fact_id", "score", "semantic", "usefulness", "scope"), title=f"Bank {bank}")


def _rounded(hit: RecallHit) -> dict[str, Any]:
    import msgspec

    row: dict[str, Any] = msgspec.to_builtins(hit)
    return {name: f"{value:.4f}" if isinstance(value, float) else value for name, value in row.items()}


def _candidate(text: str) -> tuple[str, float]:
    fact_id, equals, score = text.rpartition("=")
    try:
        return fact_id, float(score if equals else "")
    except ValueError:
        raise InvalidInput(f"--candidate {text!r}: use FACT=SCORE, such as f1=0.8") from None
