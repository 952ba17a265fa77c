"""Whether a result holds nothing.

Source: actionable-feedback, "ERROR - No Results".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, Literal

from tellback.guidance.observations.lexicon import lexicon
from tellback.guidance.observations.values import fields_of, is_dict, is_list, is_row, items_of

_DEPTH: Final = 4
_NOTHING_TEXTS: Final = frozenset(
    {"", "[]", "{}", "null", "none", "n/a", '""', "()", "undefined", "nil", "[[]]", "nan"}
)
_SEARCHES: Final = ("query", "q", "search_query", "search", "keywords", "keyword", "search_term")
_TAGS_MAX: Final = 1_000
_BARE_TAGS: Final = re.compile(r"\s*(?:<\?[^<>]{0,200}\?>\s*)?(?:</?[A-Za-z][\w:.-]{0,60}\s*/?>\s*)+")
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
    finds = looks_up(tool, params)
    only_acts = not finds and any(word in lexicon().acts for word in words_of_name(tool))
    silent = (result is None or result == {} or text.strip().lower() in _NOTHING_TEXTS - {"[]", "[[]]"}) and not data
    if silent:
        return not only_acts
    if data is not None:
        return is_empty(data) and not (only_acts and is_dict(data))
    return text.strip().lower() in _NOTHING_TEXTS or (finds and _BARE_TAGS.fullmatch(text[:_TAGS_MAX]) is not None)


def is_empty(data: object) -> bool:
    """Whether JSON-like data is an empty list, or a record that says by its list of results or its count: none.

    A record of its own, such as an order without items, is none of these.
    """
    return _says(data, 0) == "nothing"


_Says = Literal["nothing", "something", "unclear"]


def _says(value: object, depth: int) -> _Says:
    if depth > _DEPTH:
        return "something"
    if is_row(value):
        items = items_of(value)
        empty = all((is_dict(item) or is_list(item)) and _says(item, depth + 1) == "nothing" for item in items)
        return "nothing" if empty else "something"
    fields = {name.lower(): item for name, item in fields_of(value).items()}
    if not fields:
        return "nothing" if is_dict(value) else "something"
    if fields.get("missing") in ("", True):  # MediaWiki: there is no such page
        return "nothing"
    said = {_field(name, item, depth) for name, item in fields.items()}
    if "something" in said:
        return "something"
    return "nothing" if "nothing" in said or ("perhaps" in said and "other" not in said) else "unclear"


def _field(name: str, value: object, depth: int) -> Literal["nothing", "something", "perhaps", "other", ""]:
    """What one field says: "perhaps" of a list that a record may have, "other" of what may belong to such a record."""
    words = lexicon()
    if name in words.counts and is_dict(value):
        value = value.get("value")  # Elasticsearch
    if name in words.counts and isinstance(value, int) and not isinstance(value, bool):
        return "something" if value else "perhaps"
    blank = value is None or value == ""
    if name in words.lists:
        empty = blank or ((is_dict(value) or is_list(value)) and _says(value, depth + 1) == "nothing")
        return ("nothing" if name in words.found else "perhaps") if empty else "something"
    if name in words.answers and not blank and value not in ([], {}):
        return "something"
    beside = name in words.beside_results
    if is_list(value) or (is_dict(value) and value):
        inner = _says(value, depth + 1)
        if inner == "nothing":
            return "perhaps" if is_dict(value) else ""
        return "something" if inner == "something" and (is_list(value) or not beside) else ("" if beside else "other")
    return "" if blank or beside or isinstance(value, bool) or value == {} else "other"


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
