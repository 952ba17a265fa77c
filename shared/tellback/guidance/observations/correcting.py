"""What is wrong with arguments that a tool refused, by its schema, and the call put right where that is plain."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final

from tellback.guidance.observations.calls import query_argument
from tellback.guidance.observations.emptiness import query_of
from tellback.guidance.observations.envelope import Suggestion
from tellback.guidance.observations.schemas import Problem, problems
from tellback.guidance.observations.situation import Situation
from tellback.guidance.observations.tools import Tool
from tellback.guidance.observations.values import fields_of, items_of, one_line

_LISTED: Final = 8
_INTEGER: Final = re.compile(r"-?[0-9]{1,15}")
_NUMBER: Final = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")
_TRUTHS: Final = {"true": True, "false": False, "yes": True, "no": False}


def corrections(s: Situation, tool: Tool) -> Iterator[Suggestion]:
    """The corrected call if one follows from the schema; what to change, argument by argument."""
    found = problems(tool.parameters, s.params)
    if not found:
        return
    args = corrected(tool, s.params)
    if args is not None and s.exists(s.tool) and not s.tried(s.tool, args):
        step = s.call("correct", "fix_arguments", s.tool, args)
        if step is not None:
            yield step
    for problem in sorted(found, key=lambda problem: problem.kind != "missing")[:2]:
        step = _change(s, tool, problem)
        if step is not None:
            yield step


def _change(s: Situation, tool: Tool, problem: Problem) -> Suggestion | None:
    name, expected = f'"{one_line(problem.name, 60)}"', one_line(problem.expected, 120)
    if problem.kind == "missing":
        return s.words("missing", "fix_arguments", name=name, expected=f" ({expected})" if expected else "")
    if problem.kind == "unknown":
        names = ", ".join(one_line(each, 40) for each in list(tool.properties)[:_LISTED])
        return s.words("unknown", "fix_arguments", name=name, tool=one_line(tool.name, 100), names=names or "{}")
    if problem.kind in ("type", "value") and expected and problem.name:
        return s.words("wrong", "fix_arguments", name=name, expected=expected)
    return None


def corrected(tool: Tool, params: Mapping[str, Any]) -> dict[str, Any] | None:
    """The arguments under the names that were meant, of the right types, without the unknown; None if not enough."""
    args: dict[str, Any] = {}
    for name, value in params.items():
        meant = name if name in tool.properties else _meant(tool, name, params)
        if meant is not None and meant not in args:
            args[meant] = _coerced(value, fields_of(tool.properties[meant]))
    if not args or args == dict(params) or problems(tool.parameters, args):
        return None
    return args


def _meant(tool: Tool, name: str, params: Mapping[str, Any]) -> str | None:
    free = [known for known in tool.properties if known not in params]
    mine = query_of(params)
    if mine is not None and mine[0] == name:
        target = query_argument(tool, {})
        if target in free:
            return target
    folded = {known.replace("_", "").casefold(): known for known in free}
    close = get_close_matches(name.replace("_", "").casefold(), list(folded), n=1, cutoff=0.75)
    return folded[close[0]] if close else None


def _coerced(value: Any, schema: Mapping[str, Any]) -> Any:
    """The value in the type that the schema wants, where that is plain."""
    kind = schema.get("type")
    if isinstance(value, str):
        return _from_text(value, value.strip(), kind, schema)
    if kind == "string" and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value


def _from_text(value: str, text: str, kind: object, schema: Mapping[str, Any]) -> Any:
    if kind == "integer" and _INTEGER.fullmatch(text):
        return int(text)
    if kind == "number" and _NUMBER.fullmatch(text):
        return float(text)
    if kind == "boolean":
        return _TRUTHS.get(text.lower(), value)
    if kind == "array" and fields_of(schema.get("items")).get("type") == "string":
        return [value]
    choices = [choice for choice in items_of(schema.get("enum")) if isinstance(choice, str)]
    return next((choice for choice in choices if choice.casefold() == text.casefold()), value)
