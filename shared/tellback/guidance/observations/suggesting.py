"""Suggest next steps for each outcome, and correct arguments that a tool refused.

Each outcome has a function that yields steps in the order of the text; `select_steps` drops ignored ones and applies
the caps. Arguments are corrected only if the schema leaves no doubt. Requirements G-52, G-53, G-61 and G-68.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final

from tellback.contracts.guidance import OutcomeCode
from tellback.guidance.observations.calls import broader_queries, narrower_queries, query_argument, value_text
from tellback.guidance.observations.emptiness import is_action_tool, is_lookup_tool, name_words, query_argument_of
from tellback.guidance.observations.evidence import Suggestion
from tellback.guidance.observations.memory import HeldResult
from tellback.guidance.observations.schemas import SchemaProblem, schema_problems
from tellback.guidance.observations.situation import ALTERNATIVES_MAX, CallSituation
from tellback.guidance.observations.texts import call_ran_out, timeout_in
from tellback.guidance.observations.tools import Tool, is_final_tool_name
from tellback.guidance.observations.values import as_list, as_mapping, text_leaves
from tellback.guidance.observations.words import content_words
from tellback.truncation import single_line

_LISTED: Final = 8  # parameters of a tool that are named after an unknown one; by judgement
# At most 15 digits, which a double holds exactly, as JSON numbers often end up as one.
_INTEGER: Final = re.compile(r"-?[0-9]{1,15}")
_NUMBER: Final = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")
_BOOLEAN_WORDS: Final = {"true": True, "false": False, "yes": True, "no": False}


def corrections(s: CallSituation, tool: Tool) -> Iterator[Suggestion]:
    """Yield the corrected call if the schema implies one, then what to change in at most two arguments."""
    found = schema_problems(tool.parameters, s.params)
    if not found:
        return
    args = corrected_arguments(tool, s.params)
    if args is not None and s.tool_exists(s.tool) and not s.was_tried(s.tool, args):
        step = s.call_step("correct", "fix_arguments", s.tool, args)
        if step is not None:
            yield step
    # Missing arguments first: without them no other change helps.
    for problem in sorted(found, key=lambda problem: problem.kind != "missing")[:2]:
        step = _change_suggestion(s, tool, problem)
        if step is not None:
            yield step


def _change_suggestion(s: CallSituation, tool: Tool, problem: SchemaProblem) -> Suggestion | None:
    name, expected = f'"{single_line(problem.name, 60)}"', single_line(problem.expected, 120)
    if problem.kind == "missing":
        return s.plain_step("missing", "fix_arguments", name=name, expected=f" ({expected})" if expected else "")
    if problem.kind == "unknown":
        names = ", ".join(single_line(each, 40) for each in list(tool.properties)[:_LISTED])
        return s.plain_step(
            "unknown", "fix_arguments", name=name, tool=single_line(tool.name, 100), names=names or "{}"
        )
    if problem.kind in ("type", "value") and expected and problem.name:
        return s.plain_step("wrong", "fix_arguments", name=name, expected=expected)
    return None


def corrected_arguments(tool: Tool, params: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the arguments with likely names and types, without unknown ones, or None if they still do not parse."""
    args: dict[str, Any] = {}
    for name, value in params.items():
        meant = name if name in tool.properties else _intended_name(tool, name, params)
        if meant is not None and meant not in args:
            args[meant] = _coerce(value, as_mapping(tool.properties[meant]))
    if not args or args == dict(params) or schema_problems(tool.parameters, args):
        return None
    return args


def _intended_name(tool: Tool, name: str, params: Mapping[str, Any]) -> str | None:
    free = [known for known in tool.properties if known not in params]
    mine = query_argument_of(params)
    if mine is not None and mine[0] == name:
        target = query_argument(tool, {})
        if target in free:
            return target
    folded = {known.replace("_", "").casefold(): known for known in free}
    # 0.75: stricter than for tools below, because a wrong guess changes the meaning of a call and is not just a hint.
    close = get_close_matches(name.replace("_", "").casefold(), list(folded), n=1, cutoff=0.75)
    return folded[close[0]] if close else None


def _coerce(value: Any, schema: Mapping[str, Any]) -> Any:
    """Convert the value to the type of the schema if there is only one way to do it."""
    kind = schema.get("type")
    if isinstance(value, str):
        return _coerce_text(value, value.strip(), kind, schema)
    if kind == "string" and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value


def _coerce_text(value: str, text: str, kind: object, schema: Mapping[str, Any]) -> Any:
    if kind == "integer" and _INTEGER.fullmatch(text):
        return int(text)
    if kind == "number" and _NUMBER.fullmatch(text):
        return float(text)
    if kind == "boolean":
        return _BOOLEAN_WORDS.get(text.lower(), value)
    if kind == "array" and as_mapping(schema.get("items")).get("type") == "string":
        return [value]
    choices = [choice for choice in as_list(schema.get("enum")) if isinstance(choice, str)]
    return next((choice for choice in choices if choice.casefold() == text.casefold()), value)


# G-57 and G-68: every line costs an agent attention, and after a success it needs the result most.
SUGGESTIONS_MAX: Final = 4
SUCCESS_MAX: Final = 2
LISTED_TOOLS: Final = 10  # then "…": an agent has the whole list from its host; by judgement
# Failures of one call after which a retry is no longer suggested: waiting did not help three times.
_MAX_RETRIES: Final = 3
_FAILED_TESTS: Final = re.compile(r"\d+ failed, \d+ errors, \d+ passed\b")  # as `TestCounts` are written

# Words of tool names that choose a template's wording; nothing else depends on them.
_WEB: Final = frozenset(
    ["duckduckgo", "ddg", "google", "bing", "brave", "tavily", "web", "serp", "serper", "searx", "exa", "internet"]
)

_ENCYCLOPEDIAS: Final = frozenset({"wikipedia", "wiki"})

# Which steps survive the cap (G-69): those for rate limits, then no results, partial results, and the answer.
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


def next_steps(situation: CallSituation) -> list[Suggestion]:
    """Return the next steps: at most four, two after a success, none that was ignored twice (G-67)."""
    return select_steps(situation, [step for step in _STEPS_BY_CODE[situation.code](situation) if step is not None])


def select_steps(situation: CallSituation, steps: list[Suggestion]) -> list[Suggestion]:
    """Return the most important of `steps` in their order, without those that were ignored twice."""
    left = [step for step in steps if not situation.memory.is_ignored(step.key)]
    # An error without any next step would leave the agent alone.
    if not left and situation.code not in ("ok", "partial"):
        untried = situation.untried_tools[:1]
        left = [situation.plain_step("untried", "tools", tool=single_line(name, 100)) for name in untried]
        left.append(situation.answer_step("report", "report", "what_failed"))
    limit = SUCCESS_MAX if situation.code == "ok" else SUGGESTIONS_MAX
    kept = sorted(range(len(left)), key=lambda number: (_PRIORITY.get(left[number].kind, 9), number))[:limit]
    return [left[number] for number in sorted(kept)]


def is_web_search(tool: str) -> bool:
    """Check by its name whether a tool searches the web."""
    return bool(_WEB & set(name_words(tool)))


def is_encyclopedia(tool: str) -> bool:
    """Check by its name whether a tool searches Wikipedia."""
    return bool(_ENCYCLOPEDIAS & set(name_words(tool)))


def _steps_for_ok(s: CallSituation) -> _Steps:
    if is_final_tool_name(s.tool):
        return
    acts = is_action_tool(s.tool)
    if s.may_be_done:
        yield s.answer_step("done" if acts else "answer", "answer")
    if acts:
        return
    if s.query is not None and s.title and s.tool_exists(s.tool):
        asked = {word.stem for word in content_words(f"{s.query[1]} {s.title}")}
        more = next((word.text for word in content_words(s.question) if word.stem not in asked), "")
        aspect = single_line(f"{s.title} {more}".strip(), 80).replace('"', "'")
        yield s.plain_step("detail", "detail", aspect=aspect)


def _steps_for_partial(s: CallSituation) -> _Steps:
    if s.query is not None and s.tool_exists(s.tool):
        queries = narrower_queries(s.query[1], s.question, s.missing)
        yield _first_untried(s, "refine", "refine", queries)
        yield from _other_searches(s, queries[:1], 1)
    if s.may_be_done:
        yield s.answer_step("enough", "answer", "summary")


def _steps_for_no_results(s: CallSituation) -> _Steps:
    queries = [] if s.query is None else [*broader_queries(s.query[1], s.question), s.query[1]]
    yield from _other_searches(s, queries, ALTERNATIVES_MAX)
    other = None
    if s.query is not None and s.tool_exists(s.tool):
        other = _first_untried(s, "terms", "refine", broader_queries(s.query[1], s.question))
    if other is not None:
        yield other
    elif s.query is not None:
        yield s.plain_step("other_terms", "refine", words=f'"{s.query_text}"')
    elif s.params:
        yield s.plain_step("other_arguments", "refine", arguments=_named_arguments(s.params))
    if s.may_be_done:
        key, said = ("not_there", "none_found") if s.query is not None else ("enough", "")
        yield s.answer_step(key, "answer", said)


def _steps_for_rate_limited(s: CallSituation) -> _Steps:
    yield from _instead(s)
    yield _use_results_step(s)
    yield _retry_step(s, "wait")


def _steps_for_unavailable(s: CallSituation) -> _Steps:
    for tool, args in s.alternative_tools(s.retry_queries)[:ALTERNATIVES_MAX]:
        purpose = tool.purpose or ("wikipedia" if is_encyclopedia(tool.name) else "")
        if purpose and s.catalog.has("purpose", purpose):
            purpose = s.catalog.text("purpose", purpose)
        key = "use_for" if purpose else "use"
        yield s.call_step(
            key, "alternative", tool.name, args, **({"purpose": single_line(purpose, 80)} if purpose else {})
        )
    yield _use_results_step(s)
    # What the service says of itself passes; a call that took too long takes as long again.
    if s.retry_after is None and call_ran_out(s.message):
        yield s.plain_step("narrower", "fix_arguments")
    else:
        yield _retry_step(s, "again")


def _steps_for_unknown_tool(s: CallSituation) -> _Steps:
    names = [name for name in s.tools if not is_final_tool_name(name)]
    # 0.6, difflib's default: a wrong guess costs little, since the list of tools follows.
    for name in get_close_matches(s.tool[:100], names, n=1, cutoff=0.6):
        args = s.untried_arguments(s.tools[name], s.retry_queries)
        if args is not None:
            yield s.call_step("meant", "alternative", name, args)
        else:
            yield s.plain_step("meant", "alternative", tool=single_line(name, 100), call=single_line(name, 100))
    if names:
        listed = ", ".join(single_line(name, 60) for name in names[:LISTED_TOOLS])
        yield s.plain_step("tools", "tools", tools=listed + (", …" if len(names) > LISTED_TOOLS else ""))
    yield _use_results_step(s)


def _steps_for_invalid_arguments(s: CallSituation) -> _Steps:
    tool = s.tools.get(s.tool)
    found = list(corrections(s, tool)) if tool is not None and tool.parameters is not None else []
    yield from found
    if not found:
        yield _check_arguments_step(s)
    yield s.plain_step("different", "different")


def _steps_for_denied(s: CallSituation) -> _Steps:
    if s.tool_exists(s.tool) or not s.tools:  # an undeclared tool must not be named
        yield s.plain_step("permission", "permission", tool=single_line(s.tool, 100))
    else:
        yield s.plain_step("permission_missing", "permission")
    if is_lookup_tool(s.tool, s.params):
        yield from _instead(s)
    if s.memory.held:
        yield _use_results_step(s)


def _steps_for_cancelled(s: CallSituation) -> _Steps:
    yield s.plain_step("cancelled", "different")


def _steps_for_error(s: CallSituation) -> _Steps:
    if timeout_in(s.message):  # the same command would run out of time again
        yield s.plain_step("shorter", "fix_arguments")
        return
    if not _FAILED_TESTS.match(s.message):  # they ran as they were asked to
        yield _check_arguments_step(s)
    yield s.plain_step("different", "different")
    if s.memory.held and is_lookup_tool(s.tool, s.params):
        yield _use_results_step(s)


_STEPS_BY_CODE: Final[Mapping[OutcomeCode, Callable[[CallSituation], _Steps]]] = {
    "ok": _steps_for_ok,
    "partial": _steps_for_partial,
    "no_results": _steps_for_no_results,
    "rate_limited": _steps_for_rate_limited,
    "unavailable": _steps_for_unavailable,
    "unknown_tool": _steps_for_unknown_tool,
    "invalid_arguments": _steps_for_invalid_arguments,
    "denied": _steps_for_denied,
    "cancelled": _steps_for_cancelled,
    "error": _steps_for_error,
}


def _other_searches(s: CallSituation, queries: list[str], limit: int) -> _Steps:
    for tool, args in s.alternative_tools(queries)[:limit]:
        yield s.call_step("web_search" if is_web_search(tool.name) else "another", "alternative", tool.name, args)


def _instead(s: CallSituation) -> _Steps:
    for tool, args in s.alternative_tools(s.retry_queries)[:ALTERNATIVES_MAX]:
        yield s.call_step("instead", "alternative", tool.name, args)


def _first_untried(s: CallSituation, key: str, kind: str, queries: list[str]) -> Suggestion | None:
    """Make a call of the same tool with the first of `queries` that was not tried."""
    assert s.query is not None
    for query in queries:
        args = {**s.params, s.query[0]: query}
        if not s.was_tried(s.tool, args) and not _was_rejected(s, args):
            step = s.call_step(key, kind, s.tool, args)
            if step is not None:
                return step
    return None


def _was_rejected(s: CallSituation, args: Mapping[str, Any]) -> bool:
    tool = s.tools.get(s.tool)
    return tool is not None and bool(schema_problems(tool.parameters, args))


def _use_results_step(s: CallSituation) -> Suggestion | None:
    if not s.may_have_answer:
        return None
    if not s.memory.held:
        return s.answer_step("use_results", "use_results", "")
    return s.answer_step("use_results_held", "use_results", "", held=held_results_text(s.memory.held))


def held_results_text(held: list[HeldResult]) -> str:
    """Name the newest results in hand: `wikipedia "Ruby creator", news`."""
    return ", ".join(
        single_line(result.tool, 60) + (f' "{single_line(result.query, 60)}"' if result.query else "")
        for result in held[-3:]
    )


def _retry_step(s: CallSituation, key: str) -> Suggestion | None:
    """Make the retry of the failed call after a wait, up to `_MAX_RETRIES`; it is always the last step."""
    if not s.retryable or not s.tool_exists(s.tool) or _was_rejected(s, s.params):
        return None
    wait = max(s.retry_after or 0.0, s.cooling.get(s.tool, 0.0))
    if s.memory.failed.get(s.fingerprint, 0) >= _MAX_RETRIES:
        return None
    if wait > 0:
        return s.call_step(f"{key}_seconds", "retry", s.tool, s.params, seconds=math.ceil(wait))
    return s.call_step(key, "retry", s.tool, s.params)


def _check_arguments_step(s: CallSituation) -> Suggestion:
    """Make the step "Check your arguments", naming those that the message quotes."""
    quoted = _arguments_quoted_in(s.params, s.message)
    if quoted:
        return s.plain_step("check_named", "fix_arguments", arguments=_named_arguments(quoted))
    return s.plain_step("check", "fix_arguments")


def _arguments_quoted_in(params: Mapping[str, Any], message: str) -> dict[str, Any]:
    """Return the arguments whose values or names occur in a message; texts under three characters occur in any."""
    text = message[:2_000].casefold()
    found: dict[str, Any] = {}
    for name, value in list(params.items())[:32]:
        hits = [leaf for leaf in text_leaves(value) if len(leaf) >= 3 and leaf.casefold() in text]
        if hits:
            found[name] = hits[0]
        elif name.casefold() in text and len(name) > 2 and isinstance(value, str | int | float):
            found[name] = value
    return found


def _named_arguments(params: Mapping[str, Any]) -> str:
    parts = [
        f"{single_line(name, 60)} {single_line(value_text(value), 60)}" for name, value in list(params.items())[:4]
    ]
    return ", ".join(parts) + (", …" if len(params) > 4 else "")
