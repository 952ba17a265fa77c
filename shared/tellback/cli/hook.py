"""`tellback hook`: an agent's hooks as commands, and their installation."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tellback.cli.common import GUIDANCE, JsonOption, TeamOption, UrlOption, print_json, reported

if TYPE_CHECKING:
    from tellback.hook.installation import Change

USER: Final = Path("~/.claude/settings.json")
PROJECT: Final = Path(".claude/settings.json")

SettingsOption = Annotated[
    Path | None, typer.Option("--settings", help="The settings file; default: ~/.claude/settings.json.")
]
ProjectOption = Annotated[
    bool, typer.Option("--project/--user", help="This folder's .claude/settings.json, or the user's own.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print the change as a diff, and make none.")]
PromptOption = Annotated[
    str | None, typer.Option(help="Name of the prompt; default: that of the configuration, else agent.")
]
ConfigOption = Annotated[
    Path | None, typer.Option(help="TOML file with the providers to ask for; default: TELLBACK_HOOK_CONFIG.")
]
WaitOption = Annotated[
    float | None, typer.Option(help="Most seconds spent on Redis; default: TELLBACK_HOOK_WAIT, 0.05.")
]

HELP: Final = {
    "session-start": "Begin the evaluation of an agent's session, with the providers of the configuration.",
    "user-prompt-submit": "Give the feedback that waits along with what the user typed.",
    "post-tool-use": "Publish a completed tool call, and give the feedback that it earned as additionalContext.",
    "post-tool-use-failure": "As post-tool-use, for a call that failed.",
    "stop": "Tell an agent once what is missing before it stops, by the configuration; send what waits on disk.",
}
EPILOG: Final = (
    "Reads one event as JSON on standard input: session_id, hook_event_name, and for a tool call tool_name, "
    "tool_input, tool_response or error, tool_use_id. Prints JSON, or nothing. Whatever goes wrong, the exit code is "
    "0 and nothing is printed: `tellback hook status` tells what went wrong."
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    hook = typer.Typer(no_args_is_help=True, help="Guidance for agents whose program runs hook commands (Claude Code).")
    hook.command("install")(install)
    hook.command("uninstall")(uninstall)
    hook.command("status")(status)
    for name, text in HELP.items():
        hook.command(name, help=text, epilog=EPILOG, rich_help_panel="Events")(_event(name))
    app.add_typer(hook, name="hook", rich_help_panel=GUIDANCE)


def _event(name: str) -> Callable[..., None]:
    def event(
        prompt: PromptOption = None,
        config: ConfigOption = None,
        wait: WaitOption = None,
        team: TeamOption = None,
        redis_url: UrlOption = None,
    ) -> None:
        from tellback.hook.process import main

        main([name, *_arguments(prompt, config, wait, team, redis_url)])

    return event


def install(
    *,
    settings: SettingsOption = None,
    project: ProjectOption = False,
    dry_run: DryRunOption = False,
    prompt: PromptOption = None,
    config: ConfigOption = None,
    wait: WaitOption = None,
    team: TeamOption = None,
    redis_url: UrlOption = None,
) -> None:
    """Add the hooks to a settings file; all else in it stays, and `uninstall` gives the file back as it was.

    The file is replaced at once and whole, and a copy of it is kept beside it. Running this again changes nothing, or
    replaces the hooks where options differ.
    """
    from tellback.hook.installation import compile_modules, installed, keep_backup, write

    with reported():
        name = _checked(config, prompt)
        arguments = _arguments(name, None if config is None else config.resolve(), wait, team, redis_url)
        _check_options(arguments)
        change = installed(_file(settings, project=project), _program(), arguments)
        if dry_run:
            _show(change)
            return
        if change.after == change.before:
            typer.echo(f"{change.path}: the hooks are installed already")
            return
        backup = keep_backup(change)
        write(change)
        compile_modules()
    typer.echo(f"{change.path}: hooks installed" + (f"; it was kept as {backup}" if backup and change.before else ""))


def uninstall(
    *, settings: SettingsOption = None, project: ProjectOption = False, dry_run: DryRunOption = False
) -> None:
    """Take the hooks out of a settings file; where nothing else has changed it is what it was, byte for byte."""
    from tellback.hook.installation import drop_backup, uninstalled, write

    with reported():
        change = uninstalled(_file(settings, project=project))
        if dry_run:
            _show(change)
            return
        if change.after == change.before:
            typer.echo(f"{change.path}: no hooks of Tellback stand there")
            return
        write(change)
        drop_backup(change)
    typer.echo(f"{change.path}: hooks removed")


def status(*, settings: SettingsOption = None, project: ProjectOption = False, as_json: JsonOption = False) -> None:
    """Which hooks are installed, and what went wrong in them lately."""
    from tellback.hook.installation import commands_in
    from tellback.hook.troubles import NAME
    from tellback.settings import load

    with reported():
        path = _file(settings, project=project)
        commands = commands_in(path)
        data = load().data_path
    log = data / NAME
    lines = log.read_text("utf-8", "replace").splitlines()[-5:] if log.exists() else []
    waiting = sum(1 for _ in (data / "spool").rglob("*.spool"))
    if as_json:
        print_json({"settings": str(path), "commands": commands, "troubles": lines, "spool_files": waiting})
        return
    for event, command in commands.items():
        typer.echo(f"{event}: {command}")
    if not commands:
        typer.echo(f"{path}: no hooks of Tellback; `tellback hook install` adds them")
    if waiting:
        typer.echo(f"files of facts that wait for Redis on this host: {waiting}")
    for line in lines:
        typer.echo(f"trouble: {_dated(line)}")


def _dated(line: str) -> str:
    from datetime import UTC, datetime

    stamp, _, text = line.partition(" ")
    return f"{datetime.fromtimestamp(int(stamp), UTC):%Y-%m-%d %H:%M:%S} {text}" if stamp.isdigit() else line


def _checked(config: Path | None, prompt: str | None) -> str | None:
    """The prompt's name, after the workers' own check of the configuration: a hook would fail in silence."""
    from tellback.contracts.codec import decode
    from tellback.errors import ConfigurationError, MessageError
    from tellback.hook.config import read_config
    from tellback.hook.event import encode_json
    from tellback.hook.options import PROMPT
    from tellback.names import Family

    if config is None:
        return prompt
    read = read_config(str(config))
    try:
        decode(encode_json(read.evaluation_begun("s", "e", prompt or read.prompt or PROMPT)), Family.EVENTS)
    except (MessageError, TypeError, ValueError) as error:
        raise ConfigurationError(f"{config}: {error}") from error
    return prompt or read.prompt


def _check_options(arguments: list[str]) -> None:
    """As the hooks themselves check them, which fail in silence."""
    from tellback.hook.options import read_options
    from tellback.state.database import Database

    options = read_options(arguments, {"TELLBACK_DATA_DIR": os.devnull})
    Database(options.redis_url).close()


def _arguments(
    prompt: str | None, config: Path | None, wait: float | None, team: str | None, redis_url: str | None
) -> list[str]:
    given = {"prompt": prompt, "config": config, "wait": wait, "team": team, "redis-url": redis_url}
    return [f"--{name}={value}" for name, value in given.items() if value is not None]


def _file(settings: Path | None, *, project: bool) -> Path:
    return (settings or (PROJECT if project else USER)).expanduser()


def _program() -> str:
    """The path of this program: a hook's shell need not have it on its own."""
    called = Path(sys.argv[0])
    return str(called.absolute()) if called.name == "tellback" and os.access(called, os.X_OK) else "tellback"


def _show(change: Change) -> None:
    import difflib

    before, after = ((text or b"").decode("utf-8", "replace").splitlines() for text in (change.before, change.after))
    name = str(change.path)
    sys.stdout.writelines(f"{line}\n" for line in difflib.unified_diff(before, after, name, name, lineterm=""))
