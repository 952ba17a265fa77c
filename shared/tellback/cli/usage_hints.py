"""Hints for a misplaced word on the command line: the option it belongs to, or the commands of a group."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

_EXTRA: Final = re.compile(r"Got unexpected extra argument\(?s?\)? \((\S+)")
_UNKNOWN: Final = re.compile(r"No such command '[^']*'\.$")
_MOST: Final = 3  # options in one hint
# Nobody who leaves out the name of an option means one of these.
_NEVER: Final = frozenset({"--redis-url", "--by", "--why"})


def add_hint(error: Exception) -> None:
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
