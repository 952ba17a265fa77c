"""`tellback replay`: chat transcripts through the same way in as live agents."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final, Self

import typer

from tellback.cli.common import GUIDANCE, TeamOption, UrlOption, client, print_json, reported
from tellback.errors import InvalidInput

if TYPE_CHECKING:
    from rich.progress import Progress

    from tellback.replay.run import Outcome
    from tellback.replay.transcript import BadLine

INTERRUPTED: Final = 130
ROWS: Final = {
    "tool_calls": "tool calls counted",
    "errors": "errors among them",
    "opened": "user messages opened",
    "answered": "answered",
    "closed": "closed without an answer",
    "delivered": "answers delivered",
}

KillHostsOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Give each conversation a host process, kill every Nth at a random message, and check that each user "
        "message has exactly one answer all the same; exit code 1 if not.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel=GUIDANCE)(replay)


def replay(
    file: Annotated[str, typer.Argument(help="JSON lines, each an object with `messages`; - reads standard input.")],
    *,
    patience: Annotated[
        float, typer.Option(min=0.1, help="Seconds that the workers may take without any progress.")
    ] = 30.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    report: Annotated[
        list[Path] | None,
        typer.Option(
            help="Write a guidance report: *.html is a page with timelines, *.md Markdown. Repeatable; offline."
        ),
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Only analyse: nothing is played, and no Redis is needed.")
    ] = False,
    top: Annotated[
        int, typer.Option(min=0, max=100_000, help="Conversations that a report shows, those with most nudges first.")
    ] = 200,
    kill_hosts: KillHostsOption = None,
    seed: Annotated[int, typer.Option(help="With --kill-hosts: decides at which messages.")] = 0,
    answer_within: Annotated[
        float,
        typer.Option(min=0.1, max=3_600.0, help="With --kill-hosts: seconds until a user is owed a fallback."),
    ] = 10.0,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """Play chat transcripts at full speed; exit code 1 if what Redis then holds differs from the file.

    With --report or --offline it tells instead which guidance each conversation would have been given, and when.
    """
    if kill_hosts is not None:
        from tellback.cli.replay_hosts import Killing, play_hosts

        with reported():
            if report or offline:
                raise InvalidInput("--kill-hosts plays the file: leave out --report and --offline")
        killing = Killing(kill_every=kill_hosts, seed=seed, answer_within=answer_within, patience=patience)
        play_hosts(file, killing, as_json=as_json, redis_url=redis_url, team=team)
        return
    if report or offline:
        from tellback.cli.replay_report import analyse_file

        analyse_file(file, report or [], top, as_json=as_json)
        return
    _play(file, patience, as_json=as_json, redis_url=redis_url, team=team)


def _play(file: str, patience: float, *, as_json: bool, redis_url: str | None, team: str | None) -> None:
    from tellback.replay.run import Replay

    try:
        with opened(file) as source, client(redis_url, team) as tb, Bars(file, source) as bars:
            outcome = Replay(tb, bars, patience=patience).run(source)
    except KeyboardInterrupt:
        typer.echo("tellback: interrupted; what was played stays, and nothing was compared", err=True)
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        print_json(_plain(outcome))
    else:
        _print(outcome)
    _explain(file, outcome)
    if outcome.bad_lines and not outcome.conversations:
        typer.echo(f"tellback: {file} holds no conversation", err=True)
        raise typer.Exit(2)
    if not outcome.matches:
        raise typer.Exit(1)


class Bars:
    """Two progress bars on a terminal, silence in a pipe; bad lines are told in either."""

    def __init__(self, name: str, source: BinaryIO, counting: str = "counted by the workers") -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

        self._name = name
        self._source = source
        console = Console(stderr=True)
        columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
        self._progress: Progress = Progress(*columns, console=console, disable=not console.is_terminal)
        self._playing = self._progress.add_task("playing", total=size_of(source))
        self._counting = self._progress.add_task(counting, total=None, start=False)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def played(self, conversations: int) -> None:
        """Move the first bar to where the file is read."""
        with suppress(OSError):  # a pipe has no position
            self._progress.update(self._playing, completed=self._source.tell())
        self._progress.update(self._playing, description=f"playing {conversations} conversations")

    def bad(self, line: BadLine) -> None:
        """One line on standard error."""
        self._progress.console.print(
            f"tellback: {self._name}, line {line.line}: {line.reason}", markup=False, highlight=False, soft_wrap=True
        )

    def counted(self, done: int, wanted: int) -> None:
        """Move the second bar."""
        self._progress.start_task(self._counting)
        self._progress.update(self._counting, completed=done, total=wanted)


@contextmanager
def opened(name: str) -> Generator[BinaryIO, None, None]:
    """The file, or standard input for `-`; what cannot be read is one line and exit code 2."""
    if name == "-":
        yield sys.stdin.buffer
        return
    with reported():
        try:
            source = Path(name).open("rb")  # noqa: SIM115 - closed below
        except OSError as error:
            raise InvalidInput(f"cannot read {name}: {error.strerror}") from error
    with source:
        yield source


def size_of(source: BinaryIO) -> int | None:
    """How many bytes a file has; None for a pipe."""
    import os

    try:
        return os.fstat(source.fileno()).st_size or None
    except OSError:  # no file behind it
        return None


def _plain(outcome: Outcome) -> dict[str, Any]:
    from dataclasses import asdict

    return {**asdict(outcome), "matches": outcome.matches}


def _print(outcome: Outcome) -> None:
    from dataclasses import asdict

    from rich.console import Console
    from rich.table import Table

    table = Table("", "in the file", "in Redis", title=f"Replay {outcome.run}", title_justify="left")
    file, redis = asdict(outcome.file), asdict(outcome.redis)
    for name, text in ROWS.items():
        table.add_row(
            text, f"{file[name]:,}", f"{redis[name]:,}", style="" if file[name] == redis[name] else "bold red"
        )
    console = Console()
    console.print(table)
    events = outcome.file.tool_calls + outcome.file.opened
    console.print(
        f"{outcome.conversations:,} conversations in {outcome.seconds:.1f} s "
        f"({events / max(outcome.seconds, 0.001):,.0f} tool calls and user messages a second)",
        highlight=False,
    )
    for name, number in asdict(outcome.oddities).items():
        if number:
            console.print(f"{name.replace('_', ' ')}: {number:,}", highlight=False)
    if outcome.bad_lines:
        console.print(f"lines that hold no conversation: {len(outcome.bad_lines):,}", highlight=False)


def _explain(file: str, outcome: Outcome) -> None:
    """Why the counts differ, on standard error."""
    if outcome.fallbacks:
        typer.echo(f"tellback: the sweep answered {outcome.fallbacks} turns before their answers came", err=True)
    if not outcome.applied:
        why = "the workers made no progress" if outcome.workers else "no worker takes events: start `tellback up`"
        typer.echo(f"tellback: not everything was applied: {why}", err=True)
    for line, reason in outcome.differing.items():
        typer.echo(f"tellback: {file}, line {line}: {reason}", err=True)
