"""Calls that are proposed: written as the document writes them, and built so that they parse.

Source: actionable-feedback, first open question: suggestions carry the actual arguments, where they are known.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from tellback.guidance.observations.emptiness import QUERIES, acts, looks_up, query_of, words_of_name
from tellback.guidance.observations.lexicon import lexicon
from tellback.guidance.observations.schemas import problems
from tellback.guidance.observations.tools import Tool
from tellback.guidance.observations.values import fields_of, safely
from tellback.guidance.observations.words import Word, content_words

CALL_MAX: Final = 320  # characters; a call that is longer is not proposed
QUERY_MAX: Final = 160
_QUERY_WORDS: Final = 8
_CALL: Final = re.compile(r"(?<![\w.])([A-Za-z_][\w.:/-]{0,255})\(")
_ARGUMENT: Final = re.compile(r"\s*([A-Za-z_][\w.-]{0,100})\s*[:=]\s*")
_BREAKS: Final = re.compile("[\u2028\u2029\u0085\u200b-\u200f\u202a-\u202e]")
# A query, an address or a path: with a word less it would be broken, not broader.
_CODE: Final = re.compile(
    r"[{}<>=;|\\$]|//|\w\(|^\s*(?:select|with|match|from|insert)\s.*\s(?:from|where|return)\b", re.IGNORECASE
)
_decode = json.JSONDecoder().raw_decode


def call_text(tool: str, args: Mapping[str, Any]) -> str | None:
    """`wikipedia(query: "Ruby creator")`; None where it would be too long to read."""
    parts = [f"{name}: {value_text(value)}" for name, value in args.items()]
    text = f"{tool}({', '.join(parts)})"
    return text if len(text) <= CALL_MAX and len(text.splitlines()) == 1 else None


def value_text(value: object) -> str:
    """A value as it stands in a call: its JSON."""
    raw = safely(lambda: msgspec.json.encode(value).decode(), '"…"')
    return _BREAKS.sub(lambda match: f"\\u{ord(match.group()):04x}", raw)


def calls_in(text: str) -> list[tuple[str, dict[str, Any] | None]]:
    """The calls that a line names: the tool, and the arguments if they are written out."""
    return [(match.group(1), _arguments(text, match.end())) for match in _CALL.finditer(text[:2_000])]


def _arguments(text: str, place: int) -> dict[str, Any] | None:
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


def fitting(
    tool: Tool, params: Mapping[str, Any], query: str | None, known: Iterable[str] = ()
) -> dict[str, Any] | None:
    """Arguments with which another tool may do what a call with `params` did not; None where it cannot.

    `known` are the names of arguments with which the tool has worked, for tools without a schema.
    """
    if acts(tool.name):
        return None
    if tool.parameters is None:
        return _without_schema(tool, params, query, list(known))
    args = _for_query(tool, params, query) if query is not None else _same_names(tool, params)
    return args if args and not problems(tool.parameters, args) else None


def _without_schema(
    tool: Tool, params: Mapping[str, Any], query: str | None, known: list[str]
) -> dict[str, Any] | None:
    if query is None:
        return dict(params) if params and known and set(known) == set(params) else None
    if known and not any(name in QUERIES for name in known):
        return None
    if not looks_up(tool.name, {}) and lexicon().no_search & set(words_of_name(tool.name)):
        return None
    mine = query_of(params)
    name = next((name for name in QUERIES if name in known), mine[0] if mine else "query")
    return {name: query}


def _for_query(tool: Tool, params: Mapping[str, Any], query: str) -> dict[str, Any] | None:
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


def _same_names(tool: Tool, params: Mapping[str, Any]) -> dict[str, Any] | None:
    args = {name: value for name, value in params.items() if name in tool.properties}
    enough = bool(args) and set(tool.required) <= set(args) and 2 * len(args) > len(params)
    return args if enough else None


def query_argument(tool: Tool, params: Mapping[str, Any]) -> str | None:
    """The argument of a tool that takes what to search for."""
    mine = query_of(params)
    names = [*((mine[0],) if mine else ()), *QUERIES]
    name = next((name for name in names if _takes_text(tool.properties.get(name))), None)
    if name is None and len(tool.required) == 1 and looks_up(tool.name, {}):
        name = tool.required[0] if _takes_text(tool.properties.get(tool.required[0])) else None
    return name


def _takes_text(schema: object) -> bool:
    fields = fields_of(schema)
    kind = fields.get("type", "string")
    return (
        schema is not None and "enum" not in fields and "const" not in fields and kind in ("string", ["string", "null"])
    )


def broader(query: str, question: str) -> list[str]:
    """Other words for a search that found nothing: fewer of its own, then those of the question."""
    if _CODE.search(query):
        return []
    words = re.findall(r"\S+", query[:2_000])
    names = [word.text for word in content_words(question) if word.name]
    meaning = [word.text for word in content_words(question)]
    tried = [words[:-1], words[1:], names, meaning[:_QUERY_WORDS]]
    return distinct((joined(part) for part in tried), query)


def narrower(query: str, question: str, missing: Iterable[Word]) -> list[str]:
    """The search again with what is missing: the question's names, the search's own words, then the missing ones."""
    if _CODE.search(query):
        return []
    lacking = [word.text for word in missing]
    names = [word.text for word in content_words(question) if word.name]
    own = [word.text for word in content_words(query)]
    base = names or own
    tried = [[*base, *lacking], [*own, *lacking], [*base, *(word.text for word in content_words(question))]]
    return distinct((joined(_once(part)) for part in tried), query)


def joined(words: Iterable[str]) -> str:
    """Words as a search."""
    return " ".join(list(words)[:_QUERY_WORDS])[:QUERY_MAX].strip(" ?!.,;:")


def _once(words: Iterable[str]) -> list[str]:
    return list({word.casefold(): word for word in words}.values())


def distinct(queries: Iterable[str], query: str) -> list[str]:
    """Those that are not empty and not the search itself, each once."""
    seen = {" ".join(query.split()).casefold(), ""}
    found: list[str] = []
    for candidate in queries:
        key = " ".join(candidate.split()).casefold()
        if key not in seen:
            seen.add(key)
            found.append(candidate)
    return found
