"""What guidance has counted, in the words of those who ask: by tool, suggestion, provider and day.

Source: actionable-feedback, "Measuring Success". Counters are named in `tellback.guidance.measures`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast
from urllib.parse import unquote

import msgspec

from tellback.contracts.guidance import ToolCall, ToolInvoked
from tellback.guidance.measures import counter, note_call
from tellback.guidance.repeats import LEVELS
from tellback.guidance.state import RECENT_CALLS, Effects, EvaluationState, begin

_CODE: Final = "code."


class ToolStats(msgspec.Struct, frozen=True, kw_only=True):
    """One tool. `offered` and `taken` are the suggestions that its observations made; `error_rate` is of its calls."""

    tool: str
    calls: int
    errors: int
    error_rate: float | None
    codes: dict[str, int]
    offered: int
    taken: int
    taken_rate: float | None
    loops: int
    repeated_failures: int


class SuggestionStats(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of suggestion, how often it was offered, and how often the agent did so within three calls."""

    kind: str
    offered: int
    taken: int
    taken_rate: float | None


class ProviderStats(msgspec.Struct, frozen=True, kw_only=True):
    """One provider. `fires` count its feedback, `timed` what of it came with no tool call; timeouts are failures.

    `disabled` counts evaluations in which it is not asked any more, since it failed so often in a row.
    """

    provider: str
    fires: int
    timed: int
    failures: int
    timeouts: int
    disabled: int


class DeliveryStats(msgspec.Struct, frozen=True, kw_only=True):
    """What became of feedback: taken before a further call was counted, after one, by time alone, or dropped as old."""

    same_call: int
    late: int
    timed: int
    expired: int
    same_call_rate: float | None


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Everything together; `loops` counts calls that were made for the third, fifth and eighth time, by that number."""

    calls: int
    errors: int
    error_rate: float | None
    offered: int
    taken: int
    taken_rate: float | None
    loops: dict[str, int]
    repeated_failures: int
    fires: int


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What counters add up to; each list begins with the most used."""

    totals: Totals
    tools: list[ToolStats]
    suggestions: list[SuggestionStats]
    providers: list[ProviderStats]
    delivery: DeliveryStats


def summarize(counters: Mapping[str, int]) -> Summary:
    """The summary of these counters; a counter that is not known here is passed over."""
    named, plain = _sorted_out(counters)
    tools = [_tool(name, of) for name, of in named.get("tool", {}).items()]
    kinds = [_suggestion(name, of) for name, of in named.get("suggestion", {}).items()]
    providers = [_provider(name, of) for name, of in named.get("provider", {}).items()]
    return Summary(
        totals=_totals(tools, kinds, providers, plain),
        tools=sorted(tools, key=lambda each: (-each.calls, each.tool)),
        suggestions=sorted(kinds, key=lambda each: (-each.offered, each.kind)),
        providers=sorted(providers, key=lambda each: (-each.fires - each.failures, each.provider)),
        delivery=_delivery(plain),
    )


def add_up(many: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sum of counters."""
    total: dict[str, int] = {}
    for counters in many:
        for name, count in counters.items():
            total[name] = total.get(name, 0) + count
    return total


def count_history(entries: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """The counters of a session's history, oldest entry first: its calls are counted as they were when they came.

    The history does not tell how feedback was delivered.
    """
    effects = Effects()
    states: dict[tuple[str, str], EvaluationState] = {}
    for entry in entries:
        kind, at = entry.get("kind"), int(entry.get("at", 0))
        if kind == "tool_call":
            prompt, evaluation = str(entry.get("prompt", "")), str(entry.get("evaluation", ""))
            state = states.setdefault((prompt, evaluation), begin("", prompt, evaluation, at))
            _count_call(state, entry, effects)
        elif kind == "feedback" and not entry.get("renewed"):
            name = str(entry.get("provider_name", ""))
            effects.tally(counter("provider", name, "fires"))
            if entry.get("timed"):
                effects.tally(counter("provider", name, "timed"))
        elif kind == "provider_failure":
            _count_failure(entry, effects)
    return effects.tallies


def _count_call(state: EvaluationState, entry: Mapping[str, Any], effects: Effects) -> None:
    call = msgspec.convert(entry, ToolCall)
    state.calls += 1
    state.recent.append(msgspec.Raw(msgspec.json.encode(call)))
    del state.recent[:-RECENT_CALLS]
    event = ToolInvoked(
        event_id="",
        session="",
        evaluation=state.evaluation,
        tool=call.tool,
        params=call.params,
        status=call.status,
        outcome=call.outcome,
    )
    note_call(state, event, effects)


def _count_failure(entry: Mapping[str, Any], effects: Effects) -> None:
    name = str(entry.get("provider_name", ""))
    effects.tally(counter("provider", name, "failures"))
    if entry.get("timeout"):
        effects.tally(counter("provider", name, "timeouts"))
    if entry.get("disabled"):
        effects.tally(counter("provider", name, "disabled"))


def _sorted_out(counters: Mapping[str, int]) -> tuple[dict[str, dict[str, dict[str, int]]], dict[str, int]]:
    """`{what: {name: {measure: count}}}`, and the counters that have no name."""
    named: dict[str, dict[str, dict[str, int]]] = {}
    plain: dict[str, int] = {}
    for key, count in counters.items():
        parts = key.split(":")
        if len(parts) == 3:
            what, name, measure = parts
            named.setdefault(what, {}).setdefault(unquote(name), {})[measure] = count
        else:
            plain[key] = count
    return named, plain


def _tool(name: str, of: Mapping[str, int]) -> ToolStats:
    calls, errors = of.get("calls", 0), of.get("errors", 0)
    offered, taken = of.get("offered", 0), of.get("taken", 0)
    codes = {measure.removeprefix(_CODE): count for measure, count in of.items() if measure.startswith(_CODE)}
    return ToolStats(
        tool=name,
        calls=calls,
        errors=errors,
        error_rate=_rate(errors, calls),
        codes=dict(sorted(codes.items(), key=lambda pair: (-pair[1], pair[0]))),
        offered=offered,
        taken=taken,
        taken_rate=_rate(taken, offered),
        loops=of.get("loops", 0),
        repeated_failures=of.get("repeated_failures", 0),
    )


def _suggestion(kind: str, of: Mapping[str, int]) -> SuggestionStats:
    offered, taken = of.get("offered", 0), of.get("taken", 0)
    return SuggestionStats(kind=kind, offered=offered, taken=taken, taken_rate=_rate(taken, offered))


def _provider(name: str, of: Mapping[str, int]) -> ProviderStats:
    measures = ("fires", "timed", "failures", "timeouts", "disabled")
    return ProviderStats(provider=name, **cast("dict[str, Any]", {each: of.get(each, 0) for each in measures}))


def _delivery(plain: Mapping[str, int]) -> DeliveryStats:
    same_call, late, timed, expired = (
        plain.get(f"delivery:{fate}", 0) for fate in ("same_call", "late", "timed", "expired")
    )
    rate = _rate(same_call, same_call + late + expired)
    return DeliveryStats(same_call=same_call, late=late, timed=timed, expired=expired, same_call_rate=rate)


def _totals(
    tools: Iterable[ToolStats],
    kinds: Iterable[SuggestionStats],
    providers: Iterable[ProviderStats],
    plain: Mapping[str, int],
) -> Totals:
    tools, kinds = list(tools), list(kinds)
    calls, errors = sum(each.calls for each in tools), sum(each.errors for each in tools)
    offered, taken = sum(each.offered for each in kinds), sum(each.taken for each in kinds)
    return Totals(
        calls=calls,
        errors=errors,
        error_rate=_rate(errors, calls),
        offered=offered,
        taken=taken,
        taken_rate=_rate(taken, offered),
        loops={str(level): plain.get(f"loop:{level}", 0) for level in LEVELS},
        repeated_failures=plain.get("failure:repeated", 0),
        fires=sum(each.fires for each in providers),
    )


def _rate(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None
