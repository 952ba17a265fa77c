"""`tellback replay`: play chat transcripts through the same intake as live agents, and check the outcome.

A plain replay compares the counts of the file with those in Redis. With --kill-hosts it plays each conversation from
host processes that it kills, and checks that every user message still gets exactly one answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final

import typer

from tellback.cli import INTERRUPTED
from tellback.cli.common import (
    GUIDANCE,
    OneJsonOption,
    UrlOption,
    echo,
    existing_team,
    plain_text,
    print_json,
    report_errors,
)
from tellback.cli.input_file import input_name, open_input
from tellback.cli.replay_report import ReplayBars
from tellback.cli.steering import ByOption, WhyOption
from tellback.errors import InvalidInput
from tellback.names import REPLAY_TEAM
from tellback.wording import count_phrase

if TYPE_CHECKING:
    from tellback.client.connection import Tellback
    from tellback.replay.hosts import HostsReplay, HostsResult
    from tellback.replay.run import Replay, ReplayResult
    from tellback.state.audit import Author


ROWS: Final = {
    "tool_calls": "tool calls counted",
    "errors": "errors among them",
    "opened": "user messages opened",
    "answered": "answered",
    "closed": "closed without an answer",
    "delivered": "answers delivered",
}

MOST_DIFFERING: Final = 10  # lines named; all of a file differ if somebody undoes the replay meanwhile

KillHostsOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Run each conversation in a host process, kill every Nth at a random message, and check that each user "
        "message still gets exactly one answer. Exits 1 if not.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel=GUIDANCE)(replay)


ReportOption = Annotated[
    list[Path] | None,
    typer.Option(help="Write a guidance report: *.html (with timelines) or *.md. Repeatable. Implies --offline."),
]

OfflineOption = Annotated[
    bool, typer.Option("--offline", help="Only analyse the file. Plays nothing and needs no Redis.")
]

UndoOption = Annotated[bool, typer.Option("--undo", help="Delete what replays left in their team. Takes no file.")]

TimeoutOption = Annotated[
    float, typer.Option(min=0.1, help="Seconds to wait for the workers while they make no progress.")
]

TopOption = Annotated[
    int, typer.Option(min=0, max=100_000, help="Maximum number of conversations in a report, most nudges first.")
]

AnswerWithinOption = Annotated[
    float, typer.Option(min=0.1, max=3_600.0, help="With --kill-hosts: deadline of a turn, in seconds.")
]

PlayTeamOption = Annotated[
    str | None, typer.Option("--team", help=f"Team to play into. Default: {REPLAY_TEAM}, which only replays use.")
]


def replay(
    file: Annotated[
        str | None, typer.Argument(help="JSON lines file, each line an object with `messages`; - for standard input.")
    ] = None,
    *,
    timeout: TimeoutOption = 30.0,
    as_json: OneJsonOption = False,
    report: ReportOption = None,
    offline: OfflineOption = False,
    top: TopOption = 200,
    kill_hosts: KillHostsOption = None,
    seed: Annotated[int, typer.Option(help="With --kill-hosts: seed that selects the messages.")] = 0,
    undo: UndoOption = False,
    answer_within: AnswerWithinOption = 10.0,
    why: WhyOption = "",
    by: ByOption = "",
    redis_url: UrlOption = None,
    team: PlayTeamOption = None,
) -> None:
    """Play chat transcripts at full speed. Exits 1 if the counts in Redis then differ from those in the file.

    With --report or --offline, show instead which guidance each conversation would have received, and when.
    """
    from tellback.state.audit import Author

    with report_errors():
        if undo == (file is not None):
            raise InvalidInput("name a file to play, or --undo to delete what replays left in their team")
        if kill_hosts is not None and (report or offline):
            raise InvalidInput("--kill-hosts can't be combined with --report or --offline")
        author = Author.of(by, why)
    if undo or file is None:
        _undo(redis_url, team, author, as_json=as_json)
        return
    if kill_hosts is not None:
        from tellback.replay.hosts import HostsReplay

        playing = partial(
            HostsReplay, kill_every=kill_hosts, seed=seed, answer_within=answer_within, timeout=timeout, author=author
        )
        _play_file_with_hosts(file, playing, as_json=as_json, redis_url=redis_url, team=team)
        return
    if report or offline:
        from tellback.cli.replay_report import write_reports

        write_reports(file, report or [], top, as_json=as_json)
        return
    from tellback.replay.run import Replay

    _play_file(file, partial(Replay, timeout=timeout, author=author), as_json=as_json, redis_url=redis_url, team=team)


def _undo(redis_url: str | None, team: str | None, author: Author, *, as_json: bool) -> None:
    from tellback.replay.own_team import undo

    with existing_team(redis_url, REPLAY_TEAM if team is None else team) as tb:
        deleted = undo(tb.context.database, tb.context.layout, author)
        if as_json:
            print_json({"team": tb.context.layout.team, "deleted": deleted})
            return
        did = f"deleted {count_phrase(deleted, 'key')} of" if deleted else "nothing to delete in"
        echo(f"{did} team {tb.context.layout.team}")


@contextmanager
def _player(
    file: str, redis_url: str | None, team: str | None, counting: str = "counted by the workers"
) -> Generator[tuple[Tellback, BinaryIO, ReplayBars]]:
    """Open the file, and a client of the team to play into: a named one, or that of replays."""
    from tellback.client.connection import connect
    from tellback.replay.own_team import claim_team

    name = REPLAY_TEAM if team is None else team
    with report_errors(), open_input(file) as source, connect(redis_url, team=name) as tb:
        if team is None:
            claim_team(tb.context.database, tb.context.layout)
        with ReplayBars(file, source, counting) as bars:
            yield tb, source, bars


def _play_file(
    file: str, replay: Callable[..., Replay], *, as_json: bool, redis_url: str | None, team: str | None
) -> None:
    """Play the file and print both counts; exit 1 unless they are the same."""
    try:
        with _player(file, redis_url, team) as (tb, source, bars):
            outcome = replay(tb, bars).run(source)
    except KeyboardInterrupt:
        echo("tellback: interrupted; played events stay in Redis, and nothing was compared", err=True)
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        print_json(_result_dict(outcome))
    else:
        _print_result(outcome)
    _explain_differences(file, outcome, team or REPLAY_TEAM)
    _exit_by_outcome(file, outcome)


def _exit_by_outcome(file: str, outcome: ReplayResult | HostsResult) -> None:
    if not outcome.conversations:
        echo(f"tellback: {input_name(file)} contains no conversation", err=True)
        raise typer.Exit(2)
    if not outcome.is_match:
        raise typer.Exit(1)


def _result_dict(outcome: ReplayResult | HostsResult) -> dict[str, Any]:
    from dataclasses import asdict

    return {**asdict(outcome), "matches": outcome.is_match}


def _print_result(outcome: ReplayResult) -> None:
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
    rate = events / max(outcome.seconds, 0.001)
    timing = f"{outcome.seconds:.1f} s (tool calls and user messages a second: {rate:,.0f})"
    console.print(plain_text(f"{count_phrase(outcome.conversations, 'conversation')} in {timing}"))
    for name, number in asdict(outcome.oddities).items():
        if number:
            console.print(plain_text(f"{name.replace('_', ' ')}: {number:,}"))
    if outcome.bad_lines:
        console.print(plain_text(f"lines without a conversation: {len(outcome.bad_lines):,}"))


def _explain_differences(file: str, outcome: ReplayResult, team: str) -> None:
    """Print on standard error why the counts differ."""
    if outcome.fallbacks:
        echo(
            f"tellback: the sweep answered {count_phrase(outcome.fallbacks, 'turn')} before an answer arrived", err=True
        )
    if not outcome.applied:
        alone = (
            f"no worker of team {team} is running: start `tellback up`, or workers, with {team} in TELLBACK_TEAMS if "
            "they have that setting"
        )
        why = "the workers made no progress" if outcome.workers else alone
        echo(f"tellback: some events were not applied: {why}", err=True)
    for line, reason in sorted(outcome.differing.items())[:MOST_DIFFERING]:
        echo(f"tellback: {input_name(file)}, line {line}: {reason}", err=True)
    if (others := len(outcome.differing) - MOST_DIFFERING) > 0:
        echo(f"tellback: {count_phrase(others, 'more line')} with a difference; --json names all", err=True)


def _play_file_with_hosts(
    file: str, replay: Callable[..., HostsReplay], *, as_json: bool, redis_url: str | None, team: str | None
) -> None:
    """Play the file and print the outcome of each user message; exit 1 unless each has exactly one answer."""
    try:
        with _player(file, redis_url, team, "answered") as (tb, source, bars):
            outcome = replay(tb, bars).run(source)
    except KeyboardInterrupt:
        echo("tellback: interrupted; played events stay in Redis, and the sweep answers open turns", err=True)
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        print_json(_result_dict(outcome))
    else:
        _print_hosts_result(outcome)
    for turn in outcome.unanswered:
        echo(f"tellback: turn {turn} has no answer: run `tellback doctor` to check the workers", err=True)
    for turn in outcome.doubled:
        echo(f"tellback: turn {turn} has more than one first answer", err=True)
    _exit_by_outcome(file, outcome)


def _print_hosts_result(outcome: HostsResult) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table("", "", title=f"Replay {outcome.run}", title_justify="left", show_header=False)
    for name, number in (
        ("host processes", outcome.hosts),
        ("of them killed", len(outcome.killed)),
        ("user messages", outcome.messages),
        ("answered by their host", outcome.answers),
        ("answered by the sweep", len(outcome.fallbacks)),
        ("late answers after that", outcome.late),
        ("without any answer", len(outcome.unanswered)),
        ("with two first answers", len(outcome.doubled)),
    ):
        table.add_row(name, f"{number:,}")
    console.print(table)
    for why, number in Counter(fallback.why for fallback in outcome.fallbacks).most_common():
        console.print(plain_text(f"fallbacks, {why}: {number:,}"))
    for fallback in outcome.fallbacks:
        if fallback.why != "no answer in the transcript":
            where = f"line {fallback.line}, conversation {fallback.conversation}, message {fallback.message}"
            console.print(plain_text(f"fallback: {where}: {fallback.why} ({fallback.turn})"), soft_wrap=True)
    console.print(
        plain_text(
            f"{count_phrase(outcome.conversations, 'conversation')} in {outcome.seconds:.1f} s, seed {outcome.seed}"
        )
    )
