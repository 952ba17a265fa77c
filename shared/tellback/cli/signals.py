"""`tellback signal`, `recall`: teach a bank from a file, rank with it."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from tellback.cli.common import SIGNALS, JsonOption, TeamOption, UrlOption, client, print_json, show
from tellback.errors import InvalidInput

if TYPE_CHECKING:
    from tellback.contracts.signals import RecallHit, SignalItem

BankOption = Annotated[str, typer.Option("--bank", "-b", help="The bank.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (signal, recall):
        app.command(command.__name__, rich_help_panel=SIGNALS)(command)


def signal(
    file: Annotated[Path, typer.Argument(help="JSON lines: fact_id, signal_type, query, and what else a signal has.")],
    *,
    bank: BankOption,
    session: Annotated[str | None, typer.Option(help="Show the signals in this session's history.")] = None,
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """Publish the signals of a file. A line that is wrong is named and left out; then the exit code is 1."""
    published = rejected = 0
    with client(redis_url, team) as tb, _opened(file) as lines:
        chunk: list[SignalItem] = []
        for number, line in lines:
            try:
                item = _item(line)
            except InvalidInput as error:
                rejected += 1
                typer.echo(f"{file}:{number}: {error}", err=True)
                continue
            chunk.append(item)
            if len(chunk) == 500:
                published += tb.bank(bank).signal(chunk, session=session)
                chunk = []
        if chunk:
            published += tb.bank(bank).signal(chunk, session=session)
        tb.flush()
    if as_json:
        print_json({"bank": bank, "published": published, "rejected": rejected})
    else:
        typer.echo(f"{published} signals published to bank {bank}" + (f", {rejected} rejected" if rejected else ""))
    if rejected:
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


def _item(line: bytes) -> SignalItem:
    import msgspec

    from tellback.contracts.signals import SignalItem

    try:
        return msgspec.json.decode(line, type=SignalItem)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidInput(str(error)) from error


def _candidate(text: str) -> tuple[str, float]:
    fact_id, equals, score = text.rpartition("=")
    try:
        return fact_id, float(score if equals else "")
    except ValueError:
        raise InvalidInput(f"--candidate {text!r}: use FACT=SCORE, such as f1=0.8") from None


class _Bar(Protocol):
    def __call__(self, done: int) -> None: ...


@contextmanager
def _opened(file: Path) -> Generator[Iterator[tuple[int, bytes]], None, None]:
    """The file's lines that are not blank, numbered from 1, with a progress bar where standard error is a terminal."""
    try:
        source = file.open("rb")
    except OSError as error:
        raise InvalidInput(f"{file}: {error.strerror}") from error
    with source, _progress(file.stat().st_size) as advance:
        yield _numbered(source, advance)


def _numbered(source: Any, advance: _Bar) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(source, 1):
        advance(len(line))
        if line.strip():
            yield number, line


@contextmanager
def _progress(total: int) -> Generator[_Bar, None, None]:
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task("signals", total=total)
        yield lambda done: progress.update(task, advance=done)
