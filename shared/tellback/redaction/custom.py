"""Rules that users add, from a TOML file; each pattern is held to what can be searched for in linear time."""

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast

from tellback.errors import ConfigurationError
from tellback.redaction.rules import Rule

MAX_REPEAT: Final = 1_000  # of one part of a pattern
MAX_TRIES: Final = 20_000  # ways in which the repeats of a pattern can share out a text
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_KEYS: Final = frozenset({"name", "pattern", "ignore_case"})


def load_rules(path: Path) -> list[Rule]:
    """The rules of a file.

    Raises:
        ConfigurationError: it cannot be read, or a rule is wrong; the text names the rule and says what to write.
    """
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{path}: {error}") from error
    entries: object = data.get("rules")
    if set(data) - {"rules"} or not isinstance(entries, list):
        raise ConfigurationError(f"{path}: write rules as [[rules]] with name and pattern, and nothing else")
    found = [_rule(f"{path}: rule {number}", entry) for number, entry in enumerate(cast("list[object]", entries), 1)]
    names = [rule.name for rule in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigurationError(f"{path}: two rules are named {twice!r}")
    return found


def _rule(where: str, entry: object) -> Rule:
    if not isinstance(entry, dict):
        raise ConfigurationError(f"{where}: write it as [[rules]]")
    given = cast("dict[str, object]", entry)
    if unknown := sorted(set(given) - _KEYS):
        raise ConfigurationError(f"{where}: unknown key {unknown[0]!r}; there are {', '.join(sorted(_KEYS))}")
    name, pattern, ignore_case = given.get("name"), given.get("pattern"), given.get("ignore_case", False)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigurationError(f"{where}: name it with small letters, digits and . _ -, at most 64")
    where = f"{where} ({name})"
    if not isinstance(pattern, str) or not isinstance(ignore_case, bool):
        raise ConfigurationError(f"{where}: pattern is a text, ignore_case true or false")
    return Rule(name, _compiled(where, pattern, ignore_case=ignore_case))


def _compiled(where: str, pattern: str, *, ignore_case: bool) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
        problem = _problem(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ConfigurationError(f"{where}: pattern: {error}") from error
    if not problem and compiled.search(""):
        problem = "it matches the empty text, and so each line"
    if not problem and compiled.search("\n"):
        problem = "it matches the end of a line, and so each line"
    if problem:
        raise ConfigurationError(f"{where}: pattern: {problem}")
    return compiled


def _problem(pattern: str) -> str | None:
    """Why the pattern could cost more than linear time, or None."""
    parser: Any = import_module("re._parser")  # the only reader of patterns that agrees with `re`
    try:
        tries = _tries(parser.parse(pattern), inside=False)
    except _TooCostly as costly:
        return str(costly)
    if tries > MAX_TRIES:
        return f"its repeats can share out a text in {tries:,} ways; at most {MAX_TRIES:,}: use fewer or shorter ones"
    return None


class _TooCostly(Exception):
    """What a pattern may not have."""


def _tries(parsed: Any, *, inside: bool) -> int:
    """In how many ways the repeats can share out a text; raises where that grows with the text."""
    tries = 1
    for code, argument in parsed:
        kind = str(code)
        if kind in {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}:
            least, most, body = argument
            if int(most) > MAX_REPEAT:
                raise _TooCostly(
                    f"bound each repeat: {{0,200}} in place of *, {{1,200}} in place of +, up to {MAX_REPEAT}"
                )
            varies = least != most
            if inside and varies:
                raise _TooCostly("a repeat that varies stands within another repeat")
            below = _tries(body, inside=inside or most > 1)
            if kind != "POSSESSIVE_REPEAT":
                tries *= (int(most) - int(least) + 1) * below
        elif kind == "BRANCH":
            tries *= sum(_tries(branch, inside=inside) for branch in argument[1])
        elif kind in {"GROUPREF", "GROUPREF_EXISTS"}:
            raise _TooCostly("a reference to a group cannot be searched for in linear time")
        else:
            parts = cast("tuple[object, ...]", argument) if isinstance(argument, tuple) else ()
            for part in parts:
                if type(part).__name__ == "SubPattern":
                    tries *= _tries(part, inside=inside)
    return tries
