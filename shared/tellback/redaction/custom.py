"""The user's own rules, read from a TOML file.

A pattern is refused unless Python's backtracking `re` can search it in linear time: a rule applies to every text that
a process captures, so one slow pattern would let hostile output stall a worker.
"""

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast

from tellback.errors import ConfigurationError
from tellback.redaction.rules import Rule

MAX_REPEAT: Final = 1_000  # upper bound of one repeat
MAX_TRIES: Final = 20_000  # backtracking paths of a pattern at one position of the text
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_KEYS: Final = frozenset({"name", "pattern", "ignore_case"})


def load_rules(path: Path) -> list[Rule]:
    """Return the rules of a file.

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
    found = [
        _parse_rule(f"{path}: rule {number}", entry) for number, entry in enumerate(cast("list[object]", entries), 1)
    ]
    names = [rule.name for rule in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigurationError(f"{path}: two rules are named {twice!r}")
    return found


def _parse_rule(where: str, entry: object) -> Rule:
    if not isinstance(entry, dict):
        raise ConfigurationError(f"{where}: write it as [[rules]]")
    given = cast("dict[str, object]", entry)
    if unknown := sorted(set(given) - _KEYS):
        raise ConfigurationError(f"{where}: unknown key {unknown[0]!r}; use {', '.join(sorted(_KEYS))}")
    name, pattern, ignore_case = given.get("name"), given.get("pattern"), given.get("ignore_case", False)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigurationError(f"{where}: name it with small letters, digits and . _ -, at most 64")
    where = f"{where} ({name})"
    if not isinstance(pattern, str) or not isinstance(ignore_case, bool):
        raise ConfigurationError(f"{where}: pattern is a text, ignore_case true or false")
    return Rule(name, _compile_pattern(where, pattern, ignore_case=ignore_case))


def _compile_pattern(where: str, pattern: str, *, ignore_case: bool) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
        problem = _pattern_problem(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ConfigurationError(f"{where}: pattern: {error}") from error
    if not problem and compiled.search(""):
        problem = "it matches the empty text, and so each line"
    if not problem and compiled.search("\n"):
        problem = "it matches the end of a line, and so each line"
    if problem:
        raise ConfigurationError(f"{where}: pattern: {problem}")
    return compiled


def _pattern_problem(pattern: str) -> str | None:
    """Return why the pattern could cost more than linear time, or None."""
    # A private module, but the only parser of patterns that agrees with `re`; tests would notice a change of its tree.
    parser: Any = import_module("re._parser")
    try:
        tries = _repeat_ways(parser.parse(pattern), inside=False)
    except _NonLinearPattern as costly:
        return str(costly)
    if tries > MAX_TRIES:
        return f"its repeats can share out a text in {tries:,} ways; at most {MAX_TRIES:,}: use fewer or shorter ones"
    return None


class _NonLinearPattern(Exception):
    """A pattern has a construct that can cost more than linear time."""


def _repeat_ways(parsed: Any, *, inside: bool) -> int:
    """Count the ways in which the repeats can divide a text among them, which bounds the backtracking.

    Raises:
        _NonLinearPattern: the number grows with the text.
    """
    tries = 1
    for code, argument in parsed:
        kind = str(code)
        if kind in {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}:
            least, most, body = argument
            if int(most) > MAX_REPEAT:
                raise _NonLinearPattern(
                    f"bound each repeat: {{0,200}} in place of *, {{1,200}} in place of +, up to {MAX_REPEAT}"
                )
            varies = least != most
            if inside and varies:
                raise _NonLinearPattern("a repeat that varies stands within another repeat")
            below = _repeat_ways(body, inside=inside or most > 1)
            if kind != "POSSESSIVE_REPEAT":  # one that never backtracks adds no paths
                tries *= (int(most) - int(least) + 1) * below
        elif kind == "BRANCH":
            tries *= sum(_repeat_ways(branch, inside=inside) for branch in argument[1])
        elif kind in {"GROUPREF", "GROUPREF_EXISTS"}:
            raise _NonLinearPattern("a reference to a group cannot be searched for in linear time")
        else:
            parts = cast("tuple[object, ...]", argument) if isinstance(argument, tuple) else ()
            for part in parts:
                if type(part).__name__ == "SubPattern":
                    tries *= _repeat_ways(part, inside=inside)
    return tries
