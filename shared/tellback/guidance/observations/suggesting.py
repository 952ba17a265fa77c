"""The next steps of each state, as the source document gives them.

Source: actionable-feedback, "Feedback Templates", "Smart Suggestions", "Error Feedback Enhancement".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final

from tellback.contracts.guidance import Code
from tellback.guidance.observations.calls import broader, narrower, value_text
from tellback.guidance.observations.correcting import corrections
from tellback.guidance.observations.emptiness import acts, looks_up, words_of_name
from tellback.guidance.observations.envelope import Suggestion
from tellback.guidance.observations.memory import Held
from tellback.guidance.observations.schemas import problems
from tellback.guidance.observations.situation import ALTERNATIVES_MAX, Situation
from tellback.guidance.observations.tools import is_final
from tellback.guidance.observations.values import leaves, one_line
from tellback.guidance.observations.words import content_words

SUGGESTIONS_MAX: Final = 4
SUCCESS_MAX: Final = 2
LISTED_TOOLS: Final = 10
_GIVEN_UP: Final = 3  # failures of one call after which waiting for it is not proposed any more
_WEB: Final = frozenset(
    ["duckduckgo", "ddg", "google", "bing", "brave", "tavily", "web", "serp", "serper", "searx", "exa", "internet"]
)
_ENCYCLOPEDIAS: Final = frozenset({"wikipedia", "wiki"})
# The document's priority order: rate limits, then no results, then partial results, then checks before the answer.
_PRIORITY: Final[Mapping[str, int]] = {
    "alternative": 0,
    "fix_arguments": 0,
    "retry": 1,
    "custom": 1,
    "refine": 2,
    "tools": 2,
    "different": 3,
    "permission": 3,
    "use_results": 4,
    "answer": 4,
    "report": 5,
    "detail": 6,
}

_Steps = Iterator[Suggestion | None]


def next_steps(situation: Situation) -> list[Suggestion]:
    """What to do next, at most four steps, two after a success; none that was ignored twice."""
    return bounded(situation, [step for step in _MAKERS[situation.code](situation) if step is not None])


def bounded(situation: Situation, steps: list[Suggestion]) -> list[Suggestion]:
    """Those of `steps` that are not worn out, the most important of them, in their order."""
    left = [step for step in steps if not situation.memory.tired_of(step.key)]
    if not left and situation.code not in ("ok", "partial"):
        left = [situation.answer("report", "report", "what_failed")]
    limit = SUCCESS_MAX if situation.code == "ok" else SUGGESTIONS_MAX
    kept = sorted(range(len(left)), key=lambda number: (_PRIORITY.get(left[number].kind, 9), number))[:limit]
    return [left[number] for number in sorted(kept)]


def is_web_search(tool: str) -> bool:
    """Whether a tool searches the web at large."""
    return bool(_WEB & set(words_of_name(tool)))


def is_encyclopedia(tool: str) -> bool:
    """Whether a tool looks things up in Wikipedia."""
    return bool(_ENCYCLOPEDIAS & set(words_of_name(tool)))


def _ok(s: Situation) -> _Steps:
    if is_final(s.tool):
        return
    if acts(s.tool):
        yield s.answer("done", "answer")
        return
    yield s.answer("answer", "answer")
    if s.query is not None and s.title and s.exists(s.tool):
        asked = {word.stem for word in content_words(f"{s.query[1]} {s.title}")}
        more = next((word.text for word in content_words(s.question) if word.stem not in asked), "")
        aspect = one_line(f"{s.title} {more}".strip(), 80).replace('"', "'")
        yield s.words("detail", "detail", aspect=aspect)


def _partial(s: Situation) -> _Steps:
    if s.query is not None and s.exists(s.tool):
        yield _first_fresh(s, "refine", "refine", narrower(s.query[1], s.question, s.missing))
        for tool, args in s.others([*narrower(s.query[1], s.question, s.missing)][:1])[:1]:
            yield s.call("web_search" if is_web_search(tool.name) else "another", "alternative", tool.name, args)
    yield s.answer("enough", "answer", "summary")


def _no_results(s: Situation) -> _Steps:
    queries = [] if s.query is None else [*broader(s.query[1], s.question), s.query[1]]
    for tool, args in s.others(queries)[:ALTERNATIVES_MAX]:
        yield s.call("web_search" if is_web_search(tool.name) else "another", "alternative", tool.name, args)
    other = None
    if s.query is not None and s.exists(s.tool):
        other = _first_fresh(s, "terms", "refine", broader(s.query[1], s.question))
    if other is not None:
        yield other
    elif s.query is not None:
        yield s.words("other_terms", "refine", words=f'"{s.subject}"')
    elif s.params:
        yield s.words("other_arguments", "refine", arguments=_named(s.params))
    yield s.answer("not_there", "answer", "none_found") if s.query is not None else s.answer("enough", "answer", "")


def _rate_limited(s: Situation) -> _Steps:
    for tool, args in s.others(s.own_queries)[:ALTERNATIVES_MAX]:
        yield s.call("instead", "alternative", tool.name, args)
    yield _use_results(s)
    yield _retry(s, "wait")


def _unavailable(s: Situation) -> _Steps:
    for tool, args in s.others(s.own_queries)[:ALTERNATIVES_MAX]:
        purpose = tool.purpose or ("wikipedia" if is_encyclopedia(tool.name) else "")
        if purpose and s.catalog.has("purpose", purpose):
            purpose = s.catalog.text("purpose", purpose)
        key = "use_for" if purpose else "use"
        yield s.call(key, "alternative", tool.name, args, **({"purpose": one_line(purpose, 80)} if purpose else {}))
    yield _use_results(s)
    yield _retry(s, "again")


def _unknown_tool(s: Situation) -> _Steps:
    names = [name for name in s.tools if not is_final(name)]
    for name in get_close_matches(s.tool[:100], names, n=1, cutoff=0.6):
        args = s.fresh(s.tools[name], s.own_queries)
        if args is not None:
            yield s.call("meant", "alternative", name, args)
        else:
            yield s.words("meant", "alternative", tool=one_line(name, 100), call=one_line(name, 100))
    if names:
        listed = ", ".join(one_line(name, 60) for name in names[:LISTED_TOOLS])
        yield s.words("tools", "tools", tools=listed + (", …" if len(names) > LISTED_TOOLS else ""))
    yield _use_results(s)


def _invalid_arguments(s: Situation) -> _Steps:
    tool = s.tools.get(s.tool)
    found = list(corrections(s, tool)) if tool is not None and tool.parameters is not None else []
    yield from found
    if not found:
        yield _check(s)
    yield s.words("different", "different")


def _denied(s: Situation) -> _Steps:
    if s.exists(s.tool) or not s.tools:
        yield s.words("permission", "permission", tool=one_line(s.tool, 100))
    else:
        yield s.words("permission_missing", "permission")
    if looks_up(s.tool, s.params):
        for tool, args in s.others(s.own_queries)[:ALTERNATIVES_MAX]:
            yield s.call("instead", "alternative", tool.name, args)
    if s.memory.held:
        yield _use_results(s)


def _error(s: Situation) -> _Steps:
    yield _check(s)
    yield s.words("different", "different")
    if s.memory.held and looks_up(s.tool, s.params):
        yield _use_results(s)


_MAKERS: Final[Mapping[Code, Callable[[Situation], _Steps]]] = {
    "ok": _ok,
    "partial": _partial,
    "no_results": _no_results,
    "rate_limited": _rate_limited,
    "unavailable": _unavailable,
    "unknown_tool": _unknown_tool,
    "invalid_arguments": _invalid_arguments,
    "denied": _denied,
    "error": _error,
}


def _first_fresh(s: Situation, key: str, kind: str, queries: list[str]) -> Suggestion | None:
    """The same tool again, with the first of `queries` that was not tried."""
    assert s.query is not None
    for query in queries:
        args = {**s.params, s.query[0]: query}
        if not s.tried(s.tool, args) and not _refused(s, args):
            step = s.call(key, kind, s.tool, args)
            if step is not None:
                return step
    return None


def _refused(s: Situation, args: Mapping[str, Any]) -> bool:
    tool = s.tools.get(s.tool)
    return tool is not None and bool(problems(tool.parameters, args))


def _use_results(s: Situation) -> Suggestion:
    if not s.memory.held:
        return s.answer("use_results", "use_results", "")
    return s.answer("use_results_held", "use_results", "", held=held_text(s.memory.held))


def held_text(held: list[Held]) -> str:
    """Results in hand, for a text: `wikipedia "Ruby creator", news`."""
    return ", ".join(
        one_line(result.tool, 60) + (f' "{one_line(result.query, 60)}"' if result.query else "") for result in held[-3:]
    )


def _retry(s: Situation, key: str) -> Suggestion | None:
    """Last of all, the failed call itself, after a wait; not for ever."""
    if not s.retryable or not s.exists(s.tool) or _refused(s, s.params):
        return None
    wait = max(s.retry_after or 0.0, s.cooling.get(s.tool, 0.0))
    if s.memory.failed.get(s.attempt, 0) >= _GIVEN_UP:
        return None
    if wait > 0:
        return s.call(f"{key}_seconds", "retry", s.tool, s.params, seconds=math.ceil(wait))
    return s.call(key, "retry", s.tool, s.params)


def _check(s: Situation) -> Suggestion:
    """The document's "Check your arguments", with those of them that the message is about."""
    quoted = _quoted_in(s.params, s.message)
    if quoted:
        return s.words("check_named", "fix_arguments", arguments=_named(quoted))
    return s.words("check", "fix_arguments")


def _quoted_in(params: Mapping[str, Any], message: str) -> dict[str, Any]:
    """Arguments whose values a message repeats."""
    text = message[:2_000].casefold()
    found: dict[str, Any] = {}
    for name, value in list(params.items())[:32]:
        hits = [leaf for leaf in leaves(value) if len(leaf) >= 3 and leaf.casefold() in text]
        if hits:
            found[name] = hits[0]
        elif name.casefold() in text and len(name) > 2 and isinstance(value, str | int | float):
            found[name] = value
    return found


def _named(params: Mapping[str, Any]) -> str:
    parts = [f"{one_line(name, 60)} {one_line(value_text(value), 60)}" for name, value in list(params.items())[:4]]
    return ", ".join(parts) + (", …" if len(params) > 4 else "")
