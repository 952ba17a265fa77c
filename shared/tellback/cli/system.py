"""`tellback up` and `tellback doctor`: the whole system on one host, and what is wrong with it."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tellback.cli.common import BEGIN, TeamOption, UrlOption, print_json, reported

if TYPE_CHECKING:
    from tellback.doctor.finding import Finding
    from tellback.up.system import System


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(rich_help_panel=BEGIN)(up)
    app.command(rich_help_panel=BEGIN)(doctor)


def up(
    *,
    data_dir: Annotated[
        Path | None, typer.Option(help="Redis' data, passwords, logs; default: TELLBACK_DATA_DIR, else the user's.")
    ] = None,
    redis_url: Annotated[
        str | None, typer.Option(help="Use this Redis; default: TELLBACK_REDIS_URL, else an embedded one.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Workers of the loops, and as many of commands.")] = 1,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the embedded Redis; 0: any free one.")] = 6379,
    flower_port: Annotated[int, typer.Option(min=0, max=65535, help="Port of Flower; 0: any free one.")] = 5555,
    no_flower: Annotated[bool, typer.Option("--no-flower", help="Run without Flower.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON line when everything answers, then nothing.")
    ] = False,
) -> None:
    """Run the whole system: Redis, workers, beat and Flower, until Ctrl-C."""
    import os

    from tellback.settings import PREFIX, load
    from tellback.up.guard import run_guarded
    from tellback.up.system import Options

    with reported():
        options = Options(
            settings=load(data_dir=None if data_dir is None else str(data_dir)),
            redis_url=redis_url or os.environ.get(f"{PREFIX}REDIS_URL") or None,
            workers=workers,
            redis_port=port,
            flower_port=None if no_flower else flower_port,
        )

    def supervise(guard: socket.socket) -> int:
        from tellback.up.supervisor import Supervisor
        from tellback.up.system import assemble

        try:
            with reported():
                system = assemble(options)
                Supervisor(system, guard, JsonReporter(system) if as_json else TerminalReporter(system)).run()
        except typer.Exit as end:
            return end.exit_code
        return 0

    raise typer.Exit(run_guarded(supervise))


def doctor(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object with every finding.")] = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """Say what is there, what is wrong, and what to do; exit code 1 if something is wrong."""
    import msgspec

    from tellback.doctor.examination import examine
    from tellback.settings import load

    with reported():
        findings = examine(load(redis_url=redis_url, team=team), url_given=redis_url is not None)
    well = all(finding.state != "wrong" for finding in findings)
    if as_json:
        print_json({"ok": well, "findings": msgspec.to_builtins(findings)})
    else:
        _show_findings(findings)
    raise typer.Exit(0 if well else 1)


def _show_findings(findings: list[Finding]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    colour = {"ok": "green", "note": "yellow", "wrong": "bold red"}
    table = Table(show_header=False, box=None, pad_edge=False)
    for finding in findings:
        advice = f"\n[italic]→ {escape(finding.advice)}[/]" if finding.advice else ""
        state = f"[{colour[finding.state]}]{finding.state}[/]"
        table.add_row(state, escape(finding.check), f"{escape(finding.found)}{advice}")
    Console().print(table)


class JsonReporter:
    """One JSON line for a script; troubles go to standard error."""

    def __init__(self, system: System) -> None:
        """Take what is run."""
        self._system = system

    def waiting(self, names: list[str]) -> None:
        """Silence."""

    def ready(self, pids: dict[str, int]) -> None:
        """The line; its addresses carry their passwords."""
        system = self._system
        print_json({"redis_url": system.settings.redis_url, "flower_url": system.flower_url, "pids": pids})

    def trouble(self, text: str) -> None:
        """A line on standard error."""
        typer.echo(f"tellback up: {text}", err=True)

    def stopping(self) -> None:
        """Silence."""


class TerminalReporter:
    """Progress and a summary for a person."""

    def __init__(self, system: System) -> None:
        """Take what is run."""
        from rich.console import Console

        self._system = system
        self._console = Console()
        self._status = self._console.status("starting")

    def waiting(self, names: list[str]) -> None:
        """Show what is still to come, on a terminal only."""
        if self._console.is_terminal:
            self._status.start()
            self._status.update(f"starting: {', '.join(names)}")

    def ready(self, pids: dict[str, int]) -> None:
        """Where everything is, and how it is used."""
        from rich.table import Table

        from tellback.urls import without_secrets

        self._status.stop()
        system = self._system
        table = Table(show_header=False, box=None, pad_edge=False)
        table.add_row("Redis", f"{without_secrets(system.settings.redis_url)}  ({system.redis_release})")
        table.add_row("Flower", system.flower_url or "not started")
        table.add_row("Processes", ", ".join(f"{name} {pid}" for name, pid in pids.items()))
        table.add_row("Data, logs", str(system.data_dir.path))
        self._console.print("Everything answers.", style="bold")
        self._console.print(table)
        self._console.print(
            "The command line and tellback.connect() find it by themselves. Ctrl-C stops it.", highlight=False
        )

    def trouble(self, text: str) -> None:
        """A line on standard error."""
        self._status.stop()
        typer.echo(f"tellback up: {text}", err=True)

    def stopping(self) -> None:
        """That it may take some seconds."""
        self._status.stop()
        self._console.print("Stopping: what runs has a few seconds to finish. Ctrl-C again ends it at once.")
