"""`tellback signal` and `tellback recall`: teach banks from a file, and rank facts for a query."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tellback.cli import INTERRUPTED
from tellback.cli.common import (
    SIGNALS,
    JsonOption,
    OneJsonOption,
    TeamOption,
    UrlOption,
    client,
    echo,
    print_json,
    report_errors,
    show_rows,
)
from tellback.errors import InvalidInput
from tellback.sanitize import one_line
from tellback.truncation import truncate_chars
from tellback.wording import count_phrase

if TYPE_CHECKING:
    from tellback.contracts.signals import RecallHit

_COLUMNS: Final = ("fact_id", "score", "semantic", "usefulness", "scope")

_SHOWN: Final = 80  # characters of a fact's text in a table; --json has it whole

CandidateOption = Annotated[
    list[str] | None,
    typer.Option(
        "--candidate",
        "-c",
        help="FACT=SCORE from your own search. Repeatable. Default: search the bank's stored facts.",
    ),
]

ExplorationOption = Annotated[
    float, typer.Option(min=0, max=1, help="Share of results reserved for facts with fewer than five signals.")
]

PenaltyFloorOption = Annotated[float, typer.Option(min=0, max=1, help="Minimum usefulness of any fact when ranking.")]

PenaltyAfterOption = Annotated[
    int, typer.Option(min=0, help="Number of signals before a fact can rank as less useful than 0.5.")
]

WaitOption = Annotated[
    float, typer.Option(min=0, max=60, help="Seconds to wait for a worker before ranking candidates by global scores.")
]


def recall(
    query: Annotated[str, typer.Argument(help="Search query.")],
    *,
    bank: Annotated[str, typer.Option("--bank", "-b", help="Bank to search.")],
    candidate: CandidateOption = None,
    boost: Annotated[bool, typer.Option(help="Rank by usefulness as well as relevance.")] = True,
    weight: Annotated[float, typer.Option(min=0, max=1, help="Weight of usefulness.")] = 0.3,
    min_usefulness: Annotated[
        float, typer.Option(min=0, max=1, help="Minimum usefulness of a result; facts without signals have 0.5.")
    ] = 0.0,
    exploration: ExplorationOption = 0.0,
    penalty_floor: PenaltyFloorOption = 0.0,
    penalty_after: PenaltyAfterOption = 0,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of results.")] = 10,
    wait: WaitOption = 5.0,
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """Rank facts for a query by relevance and by the signals that they have received.

    Ranks the candidates that you pass or, without any, searches the bank's stored facts and prints their texts. A
    worker answers, or this process if TELLBACK_RECALL_IN_PROCESS is set.

    Exits 0 if there is an answer; if it uses only global scores, a warning on standard error says so. Exits 1 if Redis
    or, for stored facts, a worker did not answer. Exits 2 if an option is invalid or the bank has another model.
    """
    with report_errors():
        scored = [_parse_candidate(text) for text in candidate] if candidate else None
    with client(redis_url, team) as tb:
        hits = tb.bank(bank).recall(
            query,
            scored,
            limit=limit,
            boost_by_usefulness=boost,
            usefulness_weight=weight,
            min_usefulness=min_usefulness,
            exploration=exploration,
            penalty_floor=penalty_floor,
            penalty_after=penalty_after,
            wait=wait,
        )
    if any(hit.degraded for hit in hits):
        echo("tellback: no worker answered in time; ranked by global scores only", err=True)
    rows = hits if as_json else [_display_hit(hit) for hit in hits]
    columns, what = (_COLUMNS, "Bank") if candidate else ((*_COLUMNS, "text"), "Stored facts of bank")
    show_rows(rows, as_json=as_json, columns=columns, title=f"{what} {bank}")


def _display_hit(hit: RecallHit) -> dict[str, Any]:
    import msgspec

    row: dict[str, Any] = msgspec.to_builtins(hit)
    rounded = {name: f"{value:.4f}" if isinstance(value, float) else value for name, value in row.items()}
    return rounded | {"text": shorten_text(hit.text or "")}


def shorten_text(text: str) -> str:
    """Return a text in one line, short enough for a cell of a table."""
    return truncate_chars(one_line(text), _SHOWN)


def _parse_candidate(text: str) -> tuple[str, float]:
    fact_id, equals, score = text.rpartition("=")
    try:
        return fact_id, float(score if equals else "")
    except ValueError:
        raise InvalidInput(f"--candidate {text!r}: use FACT=SCORE, such as f1=0.8") from None


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (signal, recall):
        app.command(command.__name__, rich_help_panel=SIGNALS)(command)


def signal(
    file: Annotated[Path, typer.Argument(help="JSON lines file; - for standard input.", allow_dash=True)],
    *,
    bank: Annotated[str | None, typer.Option("--bank", "-b", help="Bank for lines without a `bank` field.")] = None,
    session: Annotated[str | None, typer.Option(help="Session whose history lists the signals.")] = None,
    rejects: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write invalid lines to FILE: line number, error and text, as JSON."),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Publish the whole file again, as new signals.")] = False,
    as_json: OneJsonOption = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """Publish signals from a JSON lines file.

    Each line is an object with fact_id, signal_type and query, and optionally confidence, context, signal_id and bank.
    Invalid lines are reported on standard error and skipped. If the command is interrupted or the file grows, run it
    again: it resumes after the last published line, and each line counts once. Rejected lines are read again, so fix
    them in the file and run the command again. A file is refused if a published line has changed. Standard input can't
    be resumed: give its lines a signal_id if you may send them twice.

    Exits 0 if every line was published. Exits 1 if lines were rejected, or Redis is unavailable and the spool is full.
    Exits 2 if the file can't be read or has changed, or an option is invalid.
    """
    from tellback.cli.signal_publishing import check_files, publish_file

    with report_errors():
        check_files(file, rejects)
    with client(redis_url, team) as tb:
        try:
            done = publish_file(tb, file, bank=bank, session=session, rejects=rejects, again=again)
        except KeyboardInterrupt:
            advice = "the first lines may be published" if str(file) == "-" else "run the same command again to resume"
            echo(f"tellback: stopped; {advice}", err=True)
            raise typer.Exit(INTERRUPTED) from None
        if why := tb.context.publisher.refusal:
            echo(f"tellback: {why}. The signals are saved on this host's disk; the next client sends them", err=True)
    if as_json:
        print_json(done)
    else:
        to = f" to bank {bank}" if bank else ""
        skipped = f", {count_phrase(done.skipped, 'line')} already published" if done.skipped else ""
        rejected = f", {done.rejected} rejected" * (done.rejected > 0)
        echo(f"{count_phrase(done.published, 'signal')} published{to}{skipped}{rejected}")
    if done.rejected:
        raise typer.Exit(1)
