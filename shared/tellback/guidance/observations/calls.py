"""Build the calls that suggestions propose, write them as `tool(name: "value")`, and parse them back.

A suggestion has the actual arguments only if they parse against the tool's schema. Requirement G-61.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from tellback.guidance.observations.emptiness import (
    QUERIES,
    is_action_tool,
    is_lookup_tool,
    name_words,
    query_argument_of,
)
from tellback.guidance.observations.schemas import schema_problems
from tellback.guidance.observations.tools import Tool
from tellback.guidance.observations.values import as_mapping, call_safely
from tellback.guidance.observations.words import ContentWord, content_words, load_lexicon
from tellback.sanitize import terminal_json

CALL_MAX: Final = 320  # characters; a longer call cannot be read at a glance and is not proposed
QUERY_MAX: Final = 160  # half of the call that it stands in
_QUERY_WORDS: Final = 8  # of a proposed search; by judgement
# Not after a dot or a letter: `client.search(` in a text is code, not one of the agent's tools.
_CALL: Final = re.compile(r"(?<![\w.])([A-Za-z_][\w.:/-]{0,255})\(")
_ARGUMENT: Final = re.compile(r"\s*([A-Za-z_][\w.-]{0,100})\s*[:=]\s*")
# SQL, Cypher, a URL, a path or a search with operators: with one word less it would be broken, not broader.
_CODE: Final = re.compile(
    r"[{}<>=;|\\$]|//|\w\(|^\s*(?:select|with|match|from|insert)\s.*\s(?:from|where|return)\b", re.IGNORECASE
)
_decode = json.JSONDecoder().raw_decode


def call_text(tool: str, args: Mapping[str, Any]) -> str | None:
    """Write a call as `wikipedia(query: "Ruby creator")`; None if it is too long to read."""
    parts = [f"{name}: {value_text(value)}" for name, value in args.items()]
    text = f"{tool}({', '.join(parts)})"
    return text if len(text) <= CALL_MAX and len(text.splitlines()) == 1 else None


def value_text(value: object) -> str:
    """Write a value as JSON on one line."""
    # JSON itself lets line separators and direction marks through: a value could begin a line of its own.
    return terminal_json(call_safely(lambda: msgspec.json.encode(value).decode(), '"…"'))


def parse_calls(text: str) -> list[tuple[str, dict[str, Any] | None]]:
    """Return the calls in a line: the tool, and its arguments or None if they do not parse."""
    return [(match.group(1), _parse_arguments(text, match.end())) for match in _CALL.finditer(text[:2_000])]


def _parse_arguments(text: str, place: int) -> dict[str, Any] | None:
    args: dict[str, Any] = {}
    while True:
        rest = text[place:].lstrip()
        place = len(text) - len(rest)
        if rest.startswith(")"):
            return args
        name = _ARGUMENT.match(text, place)
        if name is None:
            return None
        try:
            value, place = _decode(text, name.end())
        except (ValueError, RecursionError):
            return None
        args[name.group(1)] = value
        rest = text[place:].lstrip()
        place = len(text) - len(rest) + rest.startswith(",")


def fitting_arguments(
    tool: Tool, params: Mapping[str, Any], query: str | None, known: Iterable[str]
) -> dict[str, Any] | None:
    """Return arguments with which another tool may do what a call with `params` did not, or None.

    `known` are the names of the arguments with which the tool has worked, for tools without a schema.
    """
    if is_action_tool(tool.name):
        return None
    if tool.parameters is None:
        return _without_schema(tool, params, query, list(known))
    args = _arguments_for_query(tool, params, query) if query is not None else _arguments_of_same_names(tool, params)
    return args if args and not schema_problems(tool.parameters, args) else None


def _without_schema(
    tool: Tool, params: Mapping[str, Any], query: str | None, known: list[str]
) -> dict[str, Any] | None:
    if query is None:
        return dict(params) if params and known and set(known) == set(params) else None
    if known and not any(name in QUERIES for name in known):
        return None
    if not is_lookup_tool(tool.name, {}) and load_lexicon().no_search & set(name_words(tool.name)):
        return None
    mine = query_argument_of(params)
    name = next((name for name in QUERIES if name in known), mine[0] if mine else "query")
    return {name: query}


def _arguments_for_query(tool: Tool, params: Mapping[str, Any], query: str) -> dict[str, Any] | None:
    name = query_argument(tool, params)
    if name is None:
        return None
    args = {name: query}
    for other in tool.required:
        if other not in args:
            if other not in params:
                return None
            args[other] = params[other]
    return args


def _arguments_of_same_names(tool: Tool, params: Mapping[str, Any]) -> dict[str, Any] | None:
    args = {name: value for name, value in params.items() if name in tool.properties}
    # More than half of the arguments must fit, or the other tool would do something else.
    enough = bool(args) and set(tool.required) <= set(args) and 2 * len(args) > len(params)
    return args if enough else None


def query_argument(tool: Tool, params: Mapping[str, Any]) -> str | None:
    """Return the name of the argument that takes a search, or None."""
    mine = query_argument_of(params)
    names = [*((mine[0],) if mine else ()), *QUERIES]
    name = next((name for name in names if _takes_text(tool.properties.get(name))), None)
    if name is None and len(tool.required) == 1 and is_lookup_tool(tool.name, {}):
        name = tool.required[0] if _takes_text(tool.properties.get(tool.required[0])) else None
    return name


def _takes_text(schema: object) -> bool:
    fields = as_mapping(schema)
    kind = fields.get("type", "string")
    return (
        schema is not None and "enum" not in fields and "const" not in fields and kind in ("string", ["string", "null"])
    )


def broader_queries(query: str, question: str) -> list[str]:
    """Return other words for a search that found nothing: fewer of its own, then those of the question."""
    if _CODE.search(query):
        return []
    words = re.findall(r"\S+", query[:2_000])
    names = [word.text for word in content_words(question) if word.name]
    meaning = [word.text for word in content_words(question)]
    tried = [words[:-1], words[1:], names, meaning[:_QUERY_WORDS]]
    return distinct_queries((join_words(part) for part in tried), query)


def narrower_queries(query: str, question: str, missing: Iterable[ContentWord]) -> list[str]:
    """Return searches for the missing words, together with the question's names or the search's own words."""
    if _CODE.search(query):
        return []
    lacking = [word.text for word in missing]
    names = [word.text for word in content_words(question) if word.name]
    own = [word.text for word in content_words(query)]
    base = names or own
    tried = [[*base, *lacking], [*own, *lacking], [*base, *(word.text for word in content_words(question))]]
    return distinct_queries((join_words(_unique_words(part)) for part in tried), query)


def join_words(words: Iterable[str]) -> str:
    """Join words into a search of bounded length."""
    return " ".join(list(words)[:_QUERY_WORDS])[:QUERY_MAX].strip(" ?!.,;:")


def _unique_words(words: Iterable[str]) -> list[str]:
    return list({word.casefold(): word for word in words}.values())


def distinct_queries(queries: Iterable[str], query: str) -> list[str]:
    """Return the queries without empty ones, repetitions and the search itself."""
    seen = {" ".join(query.split()).casefold(), ""}
    found: list[str] = []
    for candidate in queries:
        key = " ".join(candidate.split()).casefold()
        if key not in seen:
            seen.add(key)
            found.append(candidate)
    return found
