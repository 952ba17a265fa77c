"""`tellback init-runner`: a project's own runner, which needs nothing of Tellback."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tellback.cli.common import COMMANDS, reported


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("init-runner", rich_help_panel=COMMANDS)(init_runner)


def init_runner(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="The project's folder.")] = Path(),
    *,
    head: Annotated[int, typer.Option(help="Lines kept of the beginning of each stream.")] = 5,
    tail: Annotated[int, typer.Option(help="Lines kept of its end.")] = 30,
    timeout: Annotated[float, typer.Option(help="Seconds that a command may take by default.")] = 30.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be written, and write nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")] = False,
) -> None:
    """Write a run_with_feedback.py of the project's own (standard library only) and a skill page for agents."""
    from tellback.commands.project.writing import Choices, project_files, write

    with reported():
        texts = project_files(Choices(head=head, tail=tail, timeout=timeout))
        if dry_run:
            for name, text in texts.items():
                exists = ", which exists" if (folder / name).exists() else ""
                typer.echo(f"==> {folder / name}: {len(text.splitlines())} lines{exists} <==\n{text}")
            return
        write(folder, texts, force=force)
    for name in texts:
        typer.echo(f"wrote {folder / name}")
    typer.echo("Look at the table REDACTION in the runner: its rules are yours to choose.")
