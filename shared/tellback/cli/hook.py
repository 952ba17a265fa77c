"""`tellback hook`: install hooks into an agent's settings, show their status, and document the event commands.

`cli.entry` handles event commands before this module is imported; the ones registered here serve `--help`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tellback.cli.common import (
    GUIDANCE,
    JsonOption,
    TeamOption,
    UrlOption,
    check_folder,
    echo,
    print_json,
    report_errors,
)
from tellback.errors import ConfigurationError

if TYPE_CHECKING:
    from tellback.contracts.guidance import ProviderSpec
    from tellback.hook.installation import SettingsChange
    from tellback.hook.programs import AgentProgram

SettingsOption = Annotated[Path | None, typer.Option("--settings", help="Any other settings file.")]
AgentOption = Annotated[str, typer.Option("--program", help="The agent's program: `claude` (Claude Code) or `codex`.")]
SharedOption = Annotated[
    bool,
    typer.Option(
        "--shared",
        "--project",
        help="Use the file that a team commits: .claude/settings.json, or .codex/hooks.json. Default: your own file, "
        ".claude/settings.local.json of this directory, or ~/.codex/hooks.json.",
    ),
]
UserOption = Annotated[
    bool, typer.Option("--user", help="Use the file in your home: ~/.claude/settings.json, or ~/.codex/hooks.json.")
]
AbsoluteOption = Annotated[
    bool, typer.Option("--absolute", help="Name this `tellback` by its path, for a file of your own.")
]
PolicyOption = Annotated[
    Path | None,
    typer.Option(help="TOML file by which `pre-tool-use` may deny calls. Default: TELLBACK_HOOK_POLICY."),
]
PrintOption = Annotated[
    bool, typer.Option("--print", help="Print the hooks as JSON, to paste for another program; change no file.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print the change as a diff without making it.")]
PromptOption = Annotated[str | None, typer.Option(help="Name of the prompt. Default: the configuration's, or `agent`.")]
ConfigOption = Annotated[
    Path | None, typer.Option(help="TOML file that selects feedback providers. Default: TELLBACK_HOOK_CONFIG.")
]
WaitOption = Annotated[
    float | None, typer.Option(help="Maximum seconds to spend on Redis. Default: TELLBACK_HOOK_WAIT (0.05).")
]

HELP: Final = {
    "session-start": "Begin the evaluation of an agent's session with the configured providers.",
    "user-prompt-submit": "Deliver pending feedback with the user's prompt.",
    "pre-tool-use": "Deny a call that is certain to repeat a failure, if a policy file says so; otherwise do nothing.",
    "post-tool-use": "Publish a completed tool call, and deliver its feedback as additionalContext.",
    "post-tool-use-failure": "Publish a failed tool call, and deliver its feedback as additionalContext.",
    "subagent-start": "Begin a separate evaluation for a subagent.",
    "subagent-stop": "Report a subagent that ended stuck or failed, with the main agent's next call.",
    "stop": "Remind the agent once of missing steps before it stops, if configured; send spooled events.",
}
EPILOG: Final = (
    "Reads one event as JSON from standard input: session_id, hook_event_name and, for a tool call, tool_name, "
    "tool_input, tool_response or error, and tool_use_id; agent_id if a subagent acts. Prints JSON or nothing. On any "
    "error it prints nothing and exits 0, so that the agent is never blocked; `tellback hook status` shows recent "
    "errors."
)

PASTE: Final = (
    "Paste these into the file of a program whose hooks have the form of Claude Code's. Let any other program run "
    "`tellback hook post-tool-use` after each tool call, with this on standard input, and give its model the "
    "`additionalContext` that it prints:\n"
    '{"session_id": "s1", "hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}, '
    '"tool_response": {"stdout": "a.py"}, "tool_use_id": "1"}'
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    hook = typer.Typer(no_args_is_help=True, help="Guide agents that run hook commands, such as Claude Code.")
    hook.command("install")(install)
    hook.command("uninstall")(uninstall)
    hook.command("status")(status)
    for name, text in HELP.items():
        hook.command(name, help=text, epilog=EPILOG, rich_help_panel="Events")(_event_command(name))
    app.add_typer(hook, name="hook", rich_help_panel=GUIDANCE)


def _event_command(name: str) -> Callable[..., None]:
    def event(
        *,
        prompt: PromptOption = None,
        config: ConfigOption = None,
        policy: PolicyOption = None,
        wait: WaitOption = None,
        team: TeamOption = None,
        redis_url: UrlOption = None,
    ) -> None:
        from tellback.hook.process import main

        given = {"prompt": prompt, "config": config, "policy": policy, "wait": wait, "team": team}
        main([name, *_hook_arguments(**given, **{"redis-url": redis_url})])

    return event


def install(
    *,
    program: AgentOption = "claude",
    shared: SharedOption = False,
    user: UserOption = False,
    settings: SettingsOption = None,
    absolute: AbsoluteOption = False,
    print_only: PrintOption = False,
    dry_run: DryRunOption = False,
    prompt: PromptOption = None,
    config: ConfigOption = None,
    policy: PolicyOption = None,
    wait: WaitOption = None,
    team: TeamOption = None,
    redis_url: UrlOption = None,
) -> None:
    """Add the hooks to an agent's settings file. Nothing else in the file changes; `uninstall` restores it.

    The commands name `tellback` without a path, so the file can be committed. It is replaced atomically; the data
    directory keeps a backup. Run the command again to change the hooks' options; the same ones change nothing.
    """
    from tellback.hook.installation import compile_modules, keep_backup, plan_install, write_settings
    from tellback.hook.programs import PROGRAM, program_named

    with report_errors():
        agent = program_named(program)
        path = _settings_file(agent, settings, shared=shared, user=user)
        _check_place(settings, absolute=absolute, shared=shared)
        name = _checked_prompt(config, prompt)
        _check_policy(policy)
        inside = not user and settings is None
        files = {"config": config, "policy": policy}
        named = {key: _named_path(file, inside=inside, shared=shared) for key, file in files.items()}
        arguments = _hook_arguments(prompt=name, **named, wait=wait, team=team, **{"redis-url": redis_url})
        _check_options(arguments)
        called = _program_path() if absolute else PROGRAM
        # With --print an empty file: nothing but the hooks is in what is printed.
        path = Path(os.devnull) if print_only else path
        change = plan_install(path, called, arguments, agent, policy=policy is not None)
        if print_only or dry_run:
            (_show_hooks if print_only else _show_change)(change)
            return
        if change.after == change.before:
            echo(f"{change.path}: the hooks are already installed")
            return
        backup = keep_backup(change)
        write_settings(change, shared=shared)
        compile_modules()
    echo(f"{change.path}: hooks installed" + (f"; backup in {backup}" if backup and change.before else ""))
    _advise(change, agent, called, in_project=settings is None and not path.is_absolute())


def uninstall(
    *,
    program: AgentOption = "claude",
    shared: SharedOption = False,
    user: UserOption = False,
    settings: SettingsOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Remove the hooks from an agent's settings file. If nothing else changed, it is restored byte for byte."""
    from tellback.hook.installation import drop_backup, plan_uninstall, write_settings
    from tellback.hook.programs import program_named

    with report_errors():
        change = plan_uninstall(_settings_file(program_named(program), settings, shared=shared, user=user))
        if dry_run:
            _show_change(change)
            return
        if change.after == change.before:
            echo(f"{change.path}: no Tellback hooks are installed")
            return
        write_settings(change)
        drop_backup(change)
    echo(f"{change.path}: hooks removed")


def status(
    *,
    program: AgentOption = "claude",
    shared: SharedOption = False,
    user: UserOption = False,
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the installed hooks and their recent errors."""
    from tellback.hook.programs import program_named
    from tellback.hook.status import hook_status
    from tellback.settings import load

    with report_errors():
        path = _settings_file(program_named(program), settings, shared=shared, user=user)
        found = hook_status(path, load().data_path)
    if as_json:
        print_json(found._asdict())
        return
    for event, command in found.commands.items():
        echo(f"{event}: {command}")
    if not found.commands:
        echo(f"{path}: no Tellback hooks; run `tellback hook install` to add them, or ask with --shared or --user")
    if found.spool_files:
        echo(f"spool files waiting for Redis on this host: {found.spool_files}")
    for line in found.troubles:
        echo(f"error: {_dated_line(line)}")


def _dated_line(line: str) -> str:
    from datetime import UTC, datetime

    stamp, _, text = line.partition(" ")
    return f"{datetime.fromtimestamp(int(stamp), UTC):%Y-%m-%d %H:%M:%S} {text}" if stamp.isdigit() else line


def _checked_prompt(config: Path | None, prompt: str | None) -> str | None:
    """Return the prompt's name, once the configuration passed the check that workers make.

    Installing is the last moment at which a person sees an error: the hooks themselves fail silently.
    """
    from tellback.contracts.codec import decode
    from tellback.contracts.guidance import EvaluationBegun
    from tellback.errors import MessageError
    from tellback.hook.event import encode_json
    from tellback.hook.options import PROMPT, read_config
    from tellback.names import Family

    if config is None:
        return prompt
    read = read_config(str(config))
    try:
        begun = decode(
            encode_json(read.evaluation_begun("s", "e", prompt or read.prompt or PROMPT, "h")), Family.EVENTS
        )
    except (MessageError, TypeError, ValueError) as error:
        raise ConfigurationError(f"{config}: {error}") from error
    if isinstance(begun, EvaluationBegun):
        _check_providers(config, begun.providers)
    return prompt or read.prompt


def _check_providers(config: Path, specs: list[ProviderSpec]) -> None:
    """Build each provider as a worker would, as far as this host has them."""
    from tellback.guidance.provider import ProviderFailure
    from tellback.guidance.registry import load_registry
    from tellback.settings import load

    registry = load_registry(load().providers)
    for spec in specs:
        if spec.name not in registry.names:
            echo(f"{config}: {spec.name} is not a built-in provider: set TELLBACK_PROVIDERS for the workers", err=True)
            continue
        try:
            registry.build(spec)
        except ProviderFailure as error:
            raise ConfigurationError(f"{config}: {error}") from error


def _check_policy(policy: Path | None) -> None:
    """Check the policy file, for the same reason."""
    from tellback.hook.denial import read_denial_policy

    if policy is not None:
        read_denial_policy(str(policy))


def _check_options(arguments: list[str]) -> None:
    """Check the options as the hooks do, since hooks fail silently."""
    from tellback.hook.options import read_options
    from tellback.state.database import Database
    from tellback.urls import Address

    options = read_options(arguments, {"TELLBACK_DATA_DIR": os.devnull}, strict=True)
    Database(options.redis_url).close()
    if Address(options.redis_url).password:
        raise ConfigurationError(
            "--redis-url has a password, which the file and `ps` would show: set TELLBACK_REDIS_URL"
        )


def _hook_arguments(**given: object) -> list[str]:
    return [f"--{name}={value}" for name, value in given.items() if value is not None]


def _named_path(path: Path | None, *, inside: bool, shared: bool) -> Path | None:
    """Return the path as the commands name it: relative to the project that the settings file belongs to."""
    if path is None:
        return None
    whole, project = path.resolve(), Path.cwd().resolve()
    if inside and whole.is_relative_to(project):
        return whole.relative_to(project)
    if shared:
        raise ConfigurationError(
            f"{path} is outside this project, and others share the settings: move it into {project}"
        )
    return whole


def _settings_file(agent: AgentProgram, settings: Path | None, *, shared: bool, user: bool) -> Path:
    if sum((settings is not None, shared, user)) > 1:
        raise ConfigurationError("--settings, --shared and --user each name a file; use one of them")
    if settings is not None:
        return settings.expanduser()
    if shared:
        return Path(agent.shared)
    return Path(agent.local) if agent.local and not user else agent.user_file()


def _advise(change: SettingsChange, agent: AgentProgram, called: str, *, in_project: bool) -> None:
    """Print the reasons why this file's hooks cannot work."""
    import json
    from shutil import which

    from tellback.hook.programs import PROGRAM

    if json.loads(change.after or "{}").get("disableAllHooks"):
        echo(f"{change.path} sets disableAllHooks, so these hooks do nothing until you remove that.")
    if called == PROGRAM and which(PROGRAM) is None:
        echo(
            "`tellback` is not on your PATH, so these hooks will do nothing. Install it for your user, for example "
            "with `uv tool install tellback` or `pipx install tellback`; or, in a file of your own, use --absolute."
        )
    if agent.hint:
        echo(agent.hint)
    if in_project:
        _advise_of_repository(Path.cwd())


def _advise_of_repository(folder: Path) -> None:
    """Say which starts of an agent do not read the file of a folder within a repository.

    Claude Code 2.1 reads `.claude/settings.json` of the folder in which it is started, and of no other one.
    """
    root = next((each for each in folder.parents if (each / ".git").exists()), None)
    if root is not None and not (folder / ".git").exists():
        echo(
            f"This folder is inside the repository {root}: an agent that is started there, or in another of its "
            "folders, does not read this file. Install there too, or use --user for all folders."
        )


def _program_path() -> str:
    """Return this program's absolute path, for a PATH that does not include it."""
    from tellback.hook.programs import PROGRAM

    called = Path(sys.argv[0])
    return str(called.absolute()) if called.name == PROGRAM and os.access(called, os.X_OK) else PROGRAM


def _check_place(settings: Path | None, *, absolute: bool, shared: bool) -> None:
    if settings is not None:
        check_folder("--settings", settings.expanduser())
    if absolute and shared:
        raise ConfigurationError("--absolute would write a path of your machine into a file that others share")


def _show_hooks(change: SettingsChange) -> None:
    echo((change.after or b"").decode().rstrip())
    echo(PASTE, err=True)


def _show_change(change: SettingsChange) -> None:
    import difflib

    before, after = ((text or b"").decode("utf-8", "replace").splitlines() for text in (change.before, change.after))
    name = str(change.path)
    for line in difflib.unified_diff(before, after, name, name, lineterm=""):
        echo(line)
