"""`tellback replay --kill-hosts N`: what users get while hosts die."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, TypedDict

import typer

from tellback.cli.common import client, print_json
from tellback.cli.replay import INTERRUPTED, Bars, opened

if TYPE_CHECKING:
    from tellback.replay.hosts import HostsOutcome


class Killing(TypedDict):
    """How the hosts are killed, and how long their users wait."""

    kill_every: int
    seed: int
    answer_within: float
    patience: float


def play_hosts(file: str, killing: Killing, *, as_json: bool, redis_url: str | None, team: str | None) -> None:
    """Play the file and tell what became of each user message; exit code 1 unless each has one answer."""
    from tellback.replay.hosts import HostsReplay

    try:
        with opened(file) as source, client(redis_url, team) as tb, Bars(file, source, "answered") as bars:
            outcome = HostsReplay(tb, bars, **killing).run(source)
    except KeyboardInterrupt:
        typer.echo("tellback: interrupted; what was played stays, and the sweep answers what is open", err=True)
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        print_json(_plain(outcome))
    else:
        _print(outcome)
    for turn in outcome.unanswered:
        typer.echo(f"tellback: turn {turn} has no answer: is a worker running? `tellback doctor` looks", err=True)
    for turn in outcome.doubled:
        typer.echo(f"tellback: turn {turn} has more than one first answer", err=True)
    if outcome.bad_lines and not outcome.conversations:
        typer.echo(f"tellback: {file} holds no conversation", err=True)
        raise typer.Exit(2)
    if not outcome.matches:
        raise typer.Exit(1)


def _plain(outcome: HostsOutcome) -> dict[str, Any]:
    from dataclasses import asdict

    return {**asdict(outcome), "matches": outcome.matches}


def _print(outcome: HostsOutcome) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table("", "", title=f"Replay {outcome.run}", title_justify="left", show_header=False)
    for name, number in (
        ("host processes", outcome.hosts),
        ("killed among them", len(outcome.killed)),
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
        console.print(f"fallbacks, {why}: {number:,}", highlight=False)
    for fallback in outcome.fallbacks:
        if fallback.why != "no answer in the transcript":
            where = f"line {fallback.line}, conversation {fallback.conversation}, message {fallback.message}"
            console.print(f"fallback: {where}: {fallback.why} ({fallback.turn})", highlight=False, soft_wrap=True)
    console.print(f"{outcome.conversations:,} conversations in {outcome.seconds:.1f} s, seed {outcome.seed}")
