"""The `tellback` application: every command group, registered in the order in which `tellback --help` lists it.

Modules of commands import models, Textual, matplotlib and Prometheus inside functions, so that `--help` stays fast.
"""

from __future__ import annotations

import errno
import inspect
import io
import logging
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import typer.core

from tellback.cli import (
    acl,
    alerts,
    banks,
    calibrate,
    commands,
    dead,
    demo,
    fleet,
    gate,
    history,
    hook,
    metrics,
    offline,
    records,
    replay,
    signals,
    stats,
    steering,
    system,
    teams,
    turns,
    watch,
)
from tellback.cli.common import PANELS, echo, report_unwritten
from tellback.sanitize import UNENCODABLE
from tellback.truncation import truncate_chars

HELP_OPTIONS: Final = ["-h", "--help"]
_UNUSABLE: Final = frozenset({errno.ENAMETOOLONG, errno.EACCES, errno.ENOTDIR, errno.EROFS})
_SHOWN: Final = 200  # characters of a file's name that is too long
_EXTRA: Final = re.compile(r"Got unexpected extra argument\(?s?\)? \((\S+)")
_UNKNOWN: Final = re.compile(r"No such command '[^']*'\.$")
_MOST: Final = 3  # options in one hint
# Nobody who leaves out the name of an option means one of these.
_NEVER: Final = frozenset({"--redis-url", "--by", "--why"})


class _Commands(typer.core.TyperGroup):
    """The root group: its help shows the panels in their order, and without what typer leaves in a command's help."""

    def list_commands(self, ctx: Any) -> list[str]:
        # typer orders the panels by their first command. A module whose commands belong to two panels, such as
        # `steering`, would otherwise put one that it ends with before the rest.
        panel_of = {name: getattr(command, "rich_help_panel", "") for name, command in self.commands.items()}
        return sorted(super().list_commands(ctx), key=lambda name: PANELS.index(str(panel_of[name])))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = super().get_command(ctx, cmd_name)
        _tidy_help(command)
        return command

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as error:
            _add_hint(error)
            raise

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _tidy_help(self)
        super().format_help(ctx, formatter)


def _add_hint(error: Exception) -> None:
    """Complete the message of a usage error, whose class is typer's or click's, depending on the release of typer."""
    context, message = getattr(error, "ctx", None), getattr(error, "message", None)
    if context is None or not isinstance(message, str):
        return
    extra = _EXTRA.match(message)
    if extra is not None:
        hint = _options_hint(context, extra[1].rstrip(")"))
    else:
        hint = _commands_hint(context) if _UNKNOWN.search(message) else ""
    vars(error)["message"] = f"{message}{hint}"


def _options_hint(context: Any, word: str) -> str:
    """Return the command's options that could take the word, in the order of its help."""
    found = [option.opts[0] for option in context.command.params if _could_take(option, context, word)]
    return f". Did you mean {_alternatives([f'{name} {word}' for name in found[:_MOST]])}?" if found else ""


def _could_take(option: Any, context: Any, word: str) -> bool:
    if option.param_type_name != "option" or option.is_flag or option.multiple or option.opts[0] in _NEVER:
        return False
    with suppress(Exception):  # by which its type rejects the word
        return not isinstance(option.process_value(context, word), Path)  # any word could be a path
    return False


def _commands_hint(context: Any) -> str:
    if context.parent is None:  # typer suggests a similar one; the list would fill the screen
        return ""
    return f" Its commands: {', '.join(context.command.list_commands(context))}."


def _alternatives(names: list[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


def _tidy_help(command: Any) -> None:
    """Show flags without the `<bool>` of a value, and paragraphs without the line breaks of their docstring."""
    if command is None:
        return
    command.help = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(command.help or ""))
    options = [*command.params, command.get_help_option(typer.Context(command, help_option_names=HELP_OPTIONS))]
    for option in options:
        if getattr(option, "is_flag", False):
            option.metavar = ""
    for each in getattr(command, "commands", {}).values():
        _tidy_help(each)


app = typer.Typer(
    name="tellback",
    help="The feedback plane for fleets of AI agents: commands, guidance, turns and signals.",
    cls=_Commands,
    context_settings={"help_option_names": HELP_OPTIONS},
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,  # locals hold URLs with passwords and users' texts
    rich_markup_mode="rich",
)
_COMMANDS: Final = (
    demo.register,
    system.register,
    commands.register,
    records.register,
    gate.register,
    steering.register,
    fleet.register,
    alerts.register,
    watch.register,
    offline.register,
    hook.register,
    replay.register,
    history.register,
    turns.register,
    signals.register,
    banks.register,
    calibrate.register,
    stats.register,
    metrics.register,
    dead.register,
    acl.register,
    teams.register,
)
for register in _COMMANDS:
    register(app)


def _show_version(asked: bool) -> None:
    if asked:
        from tellback import __version__

        echo(f"tellback {__version__}")
        raise typer.Exit


@app.callback()
def tellback(
    context: typer.Context,
    *,
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """List the options that come before a command."""
    from tellback.unknown_variables import mistyped_variables

    if context.invoked_subcommand != "doctor":  # which lists them among its findings
        for variable in mistyped_variables():
            echo(f"tellback: {variable}", err=True)


def _buffer_output() -> None:
    """Buffer standard output also with `PYTHONUNBUFFERED`, which our image sets.

    Without a buffer, Python drops the rest of a write that a full disk or a signal cut short, and raises nothing.
    """
    raw = getattr(sys.stdout, "buffer", None)
    if isinstance(raw, io.FileIO):
        encoding = sys.stdout.encoding
        sys.stdout = open(raw.fileno(), "w", buffering=1, encoding=encoding, closefd=False)  # noqa: SIM115 - a stream


def main() -> None:
    """Run the command line."""
    # A command reports its own errors in one line; the library's warnings would repeat them above it.
    logging.getLogger("tellback").setLevel(logging.ERROR)
    _buffer_output()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=UNENCODABLE)  # for locales without UTF-8
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # here, since Python prints a traceback if it fails at the interpreter's end
    except OSError as error:
        if error.errno in _UNUSABLE and error.filename:
            echo(f"tellback: {truncate_chars(str(error.filename), _SHOWN)}: {error.strerror}", err=True)
            raise SystemExit(2) from None
        if error.errno == errno.ENOENT and not error.filename:  # of `os.getcwd`
            echo(f"tellback: can't use the current directory: {error.strerror}", err=True)
            raise SystemExit(2) from None
        if error.errno == errno.EPIPE or not report_unwritten(error):
            raise
        raise SystemExit(1) from None
