"""Decide whether a result is empty, and which words of the question no result mentions.

Only a tool that looks things up can find nothing: one that acts succeeds in silence. The name of a tool and its
parameters tell which it is. Requirements G-52, G-55 and G-56.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal

from tellback.guidance.observations.values import as_list, as_mapping, is_dict, is_list, is_sequence, text_leaves
from tellback.guidance.observations.words import ContentWord, content_words, load_lexicon, mentioned_stems

# Enough for `{"query": {"pages": {"-1": {"missing": ""}}}}`, the deepest empty answer of a service in the tests.
_DEPTH: Final = 4

_NOTHING_TEXTS: Final = frozenset(
    {"", "[]", "{}", "null", "none", "n/a", '""', "()", "undefined", "nil", "[[]]", "nan"}
)

# Parameters that make a tool of an unknown name a search. Fewer than `QUERIES`: a `text` or `topic` is also given to
# tools that translate or draw.
_SEARCHES: Final = ("query", "q", "search_query", "search", "keywords", "keyword", "search_term")
# Markup that holds nothing is short, and a page of megabytes must not be matched to its end.
_TAGS_MAX: Final = 1_000
# Markup without any text, such as `<results></results>` after an XML declaration; text of any kind ends the match.
_BARE_TAGS: Final = re.compile(r"\s*(?:<\?[^<>]{0,200}\?>\s*)?(?:</?[A-Za-z][\w:.-]{0,60}\s*/?>\s*)+")
# Splits camelCase, snake_case and runs of capitals, as in `getHTTPStatus`.
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")

# Names of the argument that holds a search, the most specific first: the first that is given is used.
QUERIES: Final = (
    "query", "q", "search_query", "search", "keywords", "keyword", "question", "term", "terms", "topic", "search_term",
    "text",
)  # fmt: skip


@lru_cache(maxsize=1024)  # hosts have few tools, and each call needs the words several times
def name_words(tool: str) -> tuple[str, ...]:
    """Return the lower-case words of a tool's name, the same for `getUserDetails` and `get_user_details`."""
    return tuple([word.lower() for word in _WORD.findall(tool[:256])])


def is_lookup_tool(tool: str, params: Mapping[str, Any]) -> bool:
    """Check whether a tool finds things, by the first known word of its name, otherwise by its parameters."""
    for word in name_words(tool):
        if word in load_lexicon().lookups:
            return True
        if word in load_lexicon().acts:
            return False
    return any(isinstance(params.get(name), str) and params[name].strip() for name in _SEARCHES)


def is_action_tool(tool: str) -> bool:
    """Check whether a tool's name says that it changes something; such a tool is never an alternative (G-63)."""
    return any(word in load_lexicon().acts for word in name_words(tool)) and not is_lookup_tool(tool, {})


def query_argument_of(params: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the parameter that holds the search, and its text."""
    for name in QUERIES:
        value = params.get(name)
        if isinstance(value, str) and value.strip():
            return name, value
    return None


def is_empty_result(tool: str, params: Mapping[str, Any], text: str, data: object, result: object) -> bool:
    """Check whether a call returned nothing; no output at all is success for a tool that acts."""
    finds = is_lookup_tool(tool, params)
    only_acts = not finds and any(word in load_lexicon().acts for word in name_words(tool))
    silent = (result is None or result == {} or text.strip().lower() in _NOTHING_TEXTS - {"[]", "[[]]"}) and not data
    if silent:
        return not only_acts
    if data is not None:
        return is_empty(data) and not (only_acts and is_dict(data))
    return text.strip().lower() in _NOTHING_TEXTS or (finds and _BARE_TAGS.fullmatch(text[:_TAGS_MAX]) is not None)


def is_empty(data: object) -> bool:
    """Check for an empty list, or a record whose list of results or count reports none.

    A record with content of its own, such as an order without items, is not empty.
    """
    return _emptiness(data, 0) == "nothing"


_Emptiness = Literal["nothing", "something", "unclear"]


def _emptiness(value: object, depth: int) -> _Emptiness:
    if depth > _DEPTH:  # in doubt there is something: a false "no results" would hide it
        return "something"
    if is_sequence(value):
        items = as_list(value)
        empty = all((is_dict(item) or is_list(item)) and _emptiness(item, depth + 1) == "nothing" for item in items)
        return "nothing" if empty else "something"
    fields = {name.lower(): item for name, item in as_mapping(value).items()}
    if not fields:
        return "nothing" if is_dict(value) else "something"
    if fields.get("missing") in ("", True):  # MediaWiki: there is no such page
        return "nothing"
    said = {_field_emptiness(name, item, depth) for name, item in fields.items()}
    if "something" in said:
        return "something"
    return "nothing" if "nothing" in said or ("perhaps" in said and "other" not in said) else "unclear"


def _field_emptiness(name: str, value: object, depth: int) -> Literal["nothing", "something", "perhaps", "other", ""]:
    """Judge one field: "perhaps" for an empty list that a record may have too, "other" for content of a record.

    "perhaps" means nothing was found only without any "other": `{"count": 0}` is empty, `{"item": "apple", "count": 0}`
    is a record.
    """
    words = load_lexicon()
    if name in words.counts and is_dict(value):
        value = value.get("value")  # Elasticsearch
    if name in words.counts and isinstance(value, int) and not isinstance(value, bool):
        return "something" if value else "perhaps"
    blank = value is None or value == ""
    if name in words.lists:
        empty = blank or ((is_dict(value) or is_list(value)) and _emptiness(value, depth + 1) == "nothing")
        return ("nothing" if name in words.found else "perhaps") if empty else "something"
    if name in words.answers and not blank and value not in ([], {}):
        return "something"
    beside = name in words.beside_results
    if is_list(value) or (is_dict(value) and value):
        inner = _emptiness(value, depth + 1)
        if inner == "nothing":
            return "perhaps" if is_dict(value) else ""
        return "something" if inner == "something" and (is_list(value) or not beside) else ("" if beside else "other")
    return "" if blank or beside or isinstance(value, bool) or value == {} else "other"


def results_in(data: object) -> Sequence[Any] | None:
    """Return the list of results that the data is or contains."""
    if is_sequence(data):
        return data
    known = load_lexicon().lists
    return next((value for name, value in as_mapping(data).items() if name.lower() in known and is_list(value)), None)


# Fewer words are a value ("12:00", "Transfer successful"), which need not repeat the question's words.
PROSE_WORDS: Final = 4
# The same within records, where one field must be a whole sentence: names, cities and labels are no prose.
_LEAF_WORDS: Final = 8
# Content words and characters of a question; anything longer is a briefing, of which no single result mentions all.
# With these limits under 2 % of the successes in 1,001 real tool calls are called partial (test_conversations).
_QUESTION_WORDS: Final = 24
_QUESTION_CHARS: Final = 600
# Characters of a result that are searched for the words of a question: the agent waits meanwhile.
_TEXT: Final = 64 << 10
# A person's name, with a particle such as "van" between: the answer to a question with "who".
_NAME: Final = re.compile(r"\b[A-Z][\w'\u2019.-]+ (?:[a-z]{1,3} )?[A-Z][\w'\u2019.-]+")
# A question for a person is answered by a name, which need not repeat a word of it.
_WHO: Final = re.compile(r"\b(?:who|whom|whose|wer|qui|quién|chi|кто|quem)\b", re.IGNORECASE)


def running_text(text: str, data: object) -> str:
    """Return the prose of a result: a whole text, or the texts within records; "" without any."""
    if data is None or isinstance(data, str):
        plain = (data if isinstance(data, str) else text)[:_TEXT]
        # Chinese and Japanese have no spaces to count words by; their characters begin above U+2E7F.
        dense = sum(ord(char) > 0x2E7F for char in plain[:200]) >= PROSE_WORDS
        return plain if dense or len(plain.split(maxsplit=PROSE_WORDS)) >= PROSE_WORDS else ""
    found: list[str] = []
    long = False
    for leaf in text_leaves(data):
        found.append(leaf[:_TEXT])
        long = long or len(leaf.split(maxsplit=_LEAF_WORDS)) >= _LEAF_WORDS
    return "\n".join(found)[:_TEXT] if long else ""


def missing_words(
    question: str, prose: str, *, asked: str, known: Collection[str], tool: str, params: Mapping[str, Any]
) -> list[ContentWord]:
    """Return the question's words that neither this result nor an earlier one mentions.

    `asked` is the search, `known` the stems that earlier results mention. If the search led to its subject under
    another name (it asked for "Ruby creator" and found Yukihiro Matsumoto), the search's own words are not missing.
    """
    words = content_words(question) if len(question) <= _QUESTION_CHARS else ()
    if not prose or not words or len(words) > _QUESTION_WORDS or not is_lookup_tool(tool, params):
        return []
    here = mentioned_stems(words, prose)
    missing = [word for word in words if word.stem not in here and word.stem not in known]
    if not missing:
        return []
    sought = {word.stem for word in content_words(asked)}
    beyond = [word.stem for word in words if word.stem not in sought]
    if beyond and here.issuperset(beyond):
        return []  # the search led to its subject, and what it did not ask for is there too
    subject = {word.stem for word in words if word.name and word.stem in sought} or {w.stem for w in words} & sought
    elsewhere = bool(subject) and not subject & here
    if elsewhere and (here or (_WHO.search(question[:400]) and _NAME.search(prose[:4_000]))):
        phrases = {word.phrase for word in words if word.stem in subject}
        return [word for word in missing if word.stem not in sought and word.phrase not in phrases]
    return missing
