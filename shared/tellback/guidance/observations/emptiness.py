"""Whether a result holds nothing.

Source: actionable-feedback, "ERROR - No Results".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from tellback.guidance.observations.lexicon import lexicon
from tellback.guidance.observations.values import fields_of, is_dict, is_list, is_row, items_of

_DEPTH: Final = 4
_NOTHING_TEXTS: Final = frozenset(
    {"", "[]", "{}", "null", "none", "n/a", '""', "()", "undefined", "nil", "[[]]", "nan"}
)
_SEARCHES: Final = ("query", "q", "search_query", "search", "keywords", "keyword", "search_term")
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
QUERIES: Final = (
    "query",
    "q",
    "search_query",
    "search",
    "keywords",
    "keyword",
    "question",
    "term",
    "terms",
    "topic",
    "search_term",
    "text",
)


@lru_cache(maxsize=1024)  # a host's tools are few, and several ask for each of its calls
def words_of_name(tool: str) -> tuple[str, ...]:
    """The words of a tool's name, in small letters: `getUserDetails` and `get_user_details` have the same."""
    return tuple([word.lower() for word in _WORD.findall(tool[:256])])


def looks_up(tool: str, params: Mapping[str, Any]) -> bool:
    """Whether the tool is one that finds things: by the first telling word of its name, else by its parameters."""
    for word in words_of_name(tool):
        if word in lexicon().looks_up:
            return True
        if word in lexicon().acts:
            return False
    return any(isinstance(params.get(name), str) and params[name].strip() for name in _SEARCHES)


def acts(tool: str) -> bool:
    """Whether the tool's name says that it changes something, so that it is never proposed as another way to look."""
    return any(word in lexicon().acts for word in words_of_name(tool)) and not looks_up(tool, {})


def query_of(params: Mapping[str, Any]) -> tuple[str, str] | None:
    """The parameter that holds what is searched for, and its text."""
    for name in QUERIES:
        value = params.get(name)
        if isinstance(value, str) and value.strip():
            return name, value
    return None


def found_nothing(tool: str, params: Mapping[str, Any], text: str, data: object, result: object) -> bool:
    """Whether the call came back with nothing. No output at all is what a tool that acts gives when all is well."""
    silent = (result is None or result == {} or text.strip().lower() in _NOTHING_TEXTS - {"[]", "[[]]"}) and not data
    if silent:
        return looks_up(tool, params) or not any(word in lexicon().acts for word in words_of_name(tool))
    return is_empty(data) if data is not None else text.strip().lower() in _NOTHING_TEXTS


def is_empty(data: object, depth: int = 0) -> bool:
    """Whether JSON-like data is an empty list, or a record whose list of results is empty or whose count is 0."""
    if is_row(data):
        items = items_of(data)
        return not items or (depth < _DEPTH and all(is_list(item) and is_empty(item, depth + 1) for item in items))
    fields = {name.lower(): value for name, value in fields_of(data).items()}
    if not fields:
        return is_dict(data)
    empty = counted = False
    for name, value in fields.items():
        if name in lexicon().counts and isinstance(value, int) and not isinstance(value, bool):
            counted = counted or value == 0
            if value:
                return False
        elif name in lexicon().lists:
            if not _holds_nothing(value, depth):
                return False
            empty = True
        elif is_list(value) and value:
            return False
    return empty or counted


def _holds_nothing(value: object, depth: int) -> bool:
    if value is None or value == "":
        return True
    if depth >= _DEPTH:
        return False
    return (is_dict(value) or is_list(value)) and is_empty(value, depth + 1)


def count_of(data: object) -> int | None:
    """How many results there are, where the data tells."""
    if is_row(data):
        return len(data)
    known = lexicon().lists
    return next(
        (len(value) for name, value in fields_of(data).items() if is_list(value) and name.lower() in known), None
    )


def results_of(data: object) -> list[Any] | None:
    """The list of results that the data is or holds."""
    if is_row(data):
        return items_of(data)
    for name, value in fields_of(data).items():
        if name.lower() in lexicon().lists and is_list(value):
            return items_of(value)
    return None
