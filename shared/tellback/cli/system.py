"""`tellback up` and `tellback doctor`: run the whole system on one host, and diagnose it."""

from __future__ import annotations

import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tellback.cli.common import (
    BEGIN,
    TeamOption,
    UrlOption,
    echo,
    is_named,
    named_directory,
    plain_text,
    print_json,
    report_errors,
)

if TYPE_CHECKING:
    from tellback.doctor.infrastructure import DoctorFinding
    from tellback.up.system import SystemPlan


DataDirOption = Annotated[
    Path | None,
    typer.Option(
        parser=named_directory,
        metavar="<path>",
        help="Directory for data and logs. Default: TELLBACK_DATA_DIR, or your user data directory.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(rich_help_panel=BEGIN)(up)
    app.command(rich_help_panel=BEGIN)(doctor)


def up(
    *,
    data_dir: DataDirOption = None,
    redis_url: Annotated[
        str | None, typer.Option(help="Redis URL to use. Default: TELLBACK_REDIS_URL, or an embedded Redis.")
    ] = None,
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="Number of workers of each kind: for events and turns, and for commands.")
    ] = 1,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the embedded Redis. 0 picks a free port.")
    ] = 6379,
    flower_port: Annotated[int, typer.Option(min=0, max=65535, help="Port of Flower. 0 picks a free port.")] = 5555,
    no_flower: Annotated[bool, typer.Option("--no-flower", help="Don't start Flower.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one line of JSON once all services are ready, then nothing.")
    ] = False,
) -> None:
    """Run the whole system (Redis, workers, beat and Flower) until you press Ctrl-C."""
    import os

    from tellback.settings import PREFIX, load
    from tellback.up.guard import run_guarded
    from tellback.up.system import UpOptions

    with report_errors():
        options = UpOptions(
            settings=load(data_dir=None if data_dir is None else str(data_dir.absolute())),
            redis_url=redis_url or os.environ.get(f"{PREFIX}REDIS_URL") or None,
            workers=workers,
            redis_port=port,
            flower_port=None if no_flower else flower_port,
        )

    def supervise(guard: socket.socket) -> int:
        from tellback.up.supervisor import SystemSupervisor
        from tellback.up.system import plan_system

        try:
            with report_errors():
                system = plan_system(options)
                SystemSupervisor(system, guard, JsonUpReporter(system) if as_json else TerminalUpReporter(system)).run()
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
    """Diagnose the system: show what is running, what is wrong, and how to fix it. Exits 1 if anything is wrong."""
    import msgspec

    from tellback.doctor.examination import run_checks
    from tellback.settings import load

    with report_errors():
        settings = load(redis_url=redis_url, team=team)
        if settings.served_teams and not is_named(team):
            settings = msgspec.structs.replace(settings, team=settings.served_teams[0])
        findings = run_checks(settings, url_given=redis_url is not None)
    well = all(finding.state != "wrong" for finding in findings)
    if as_json:
        print_json({"ok": well, "findings": findings})
    else:
        _show_findings(findings)
    raise typer.Exit(0 if well else 1)


def _show_findings(findings: list[DoctorFinding]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    colour = {"ok": "green", "note": "yellow", "wrong": "bold red"}
    table = Table(show_header=False, box=None, pad_edge=False)
    for _ in range(3):
        table.add_column(overflow="fold")  # an ellipsis would cut addresses
    for finding in findings:
        advice = plain_text(f"\n→ {finding.advice}" if finding.advice else "", "italic")
        found = Text.assemble(plain_text(finding.found), advice)
        table.add_row(Text(finding.state, colour[finding.state]), plain_text(finding.check), found)
    Console().print(table)


class JsonUpReporter:
    """Prints one JSON line for a script, and problems to standard error."""

    def __init__(self, system: SystemPlan) -> None:
        self._system = system

    def waiting(self, names: list[str]) -> None:
        """Print nothing."""

    def ready(self, pids: dict[str, int]) -> None:
        """Print the line. Its URLs include their passwords, since a script has to connect with them."""
        system = self._system
        with _going_on():
            print_json({"redis_url": system.settings.redis_url, "flower_url": system.flower_url, "pids": pids})

    def trouble(self, text: str) -> None:
        """Print a problem to standard error."""
        _warn(text)

    def stopping(self) -> None:
        """Print nothing."""


class TerminalUpReporter:
    """Prints progress and a summary for a person."""

    def __init__(self, system: SystemPlan) -> None:
        from rich.console import Console

        self._system = system
        self._console = Console()
        self._status = self._console.status("starting")

    def waiting(self, names: list[str]) -> None:
        """Show the services that are not ready yet, on a terminal only."""
        if self._console.is_terminal:
            self._status.start()
            self._status.update(plain_text(f"starting: {', '.join(names)}"))

    def ready(self, pids: dict[str, int]) -> None:
        """Print addresses, process ids and the data directory, whole in any width: they are there to be copied."""
        from tellback.urls import without_secrets

        self._status.stop()
        system = self._system
        lines = {
            "Redis": f"{without_secrets(system.settings.redis_url)}  ({system.redis_release})",
            "Flower": system.flower_url or "not started",
            "Processes": ", ".join(f"{name} {pid}" for name, pid in pids.items()),
            "Data, logs": str(system.data_dir.path),
        }
        with _going_on():
            self._console.print("All services are ready.", style="bold")
            for name, text in lines.items():
                self._console.print(plain_text(f"{name:<10}  {text}"), soft_wrap=True)
            self._console.print(
                "The command line and tellback.connect() connect to it automatically. Press Ctrl-C to stop.",
                highlight=False,
            )

    def trouble(self, text: str) -> None:
        """Print a problem to standard error."""
        self._status.stop()
        _warn(text)

    def stopping(self) -> None:
        """Tell the user that stopping may take a few seconds."""
        self._status.stop()
        with _going_on():
            self._console.print("Stopping: running tasks have a few seconds to finish. Press Ctrl-C again to stop now.")


@contextmanager
def _going_on() -> Generator[None, None, None]:
    """Go on if a line can't be written: a full disk under a log, or a reader that left, must not stop the system."""
    try:
        yield
    except OSError as error:
        _warn(f"can't write to standard output: {error.strerror}")


def _warn(text: str) -> None:
    with suppress(OSError):
        echo(f"tellback up: {text}", err=True)
