"""Turn guidance's counters into a summary by tool, suggestion, provider and delivery.

`tellback.guidance.measures` names the counters. Requirements G-73 and G-50.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from tellback.contracts.guidance import ToolCall
from tellback.guidance.measures import count_outcome, count_verdict, counter_name
from tellback.guidance.provider import call_failed, invoked_again
from tellback.guidance.repeats import LEVELS
from tellback.guidance.state import BatchEffects, EvaluationState, new_evaluation

_CODE_PREFIX: Final = "code."
_STUCK: Final = "stuck:"


class ToolStats(msgspec.Struct, frozen=True, kw_only=True):
    """The statistics of one tool. `offered` and `taken` count the suggestions of its own observations."""

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
    """One kind of suggestion: how often it was offered, and how often the agent followed it within three calls."""

    kind: str
    offered: int
    taken: int
    taken_rate: float | None


class ProviderStats(msgspec.Struct, frozen=True, kw_only=True):
    """The statistics of one provider. `timed` is the part of `fires` without a tool call; `failures` has the timeouts.

    `disabled` counts the evaluations in which it failed so often in a row that it is not called any more.
    """

    provider: str
    fires: int
    timed: int
    failures: int
    timeouts: int
    disabled: int


class DeliveryStats(msgspec.Struct, frozen=True, kw_only=True):
    """Feedback by delivery: taken before a further call was counted, after one, sent by a timer, or expired."""

    same_call: int
    late: int
    timed: int
    expired: int
    same_call_rate: float | None


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """The totals. `loops` counts calls made for the third, fifth and eighth time, by that number.

    `stuck` counts the findings of the measure of progress, by their kind.
    """

    calls: int
    errors: int
    error_rate: float | None
    offered: int
    taken: int
    taken_rate: float | None
    loops: dict[str, int]
    repeated_failures: int
    fires: int
    stuck: dict[str, int] = {}


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A summary of counters; each list begins with the most used."""

    totals: Totals
    tools: list[ToolStats]
    suggestions: list[SuggestionStats]
    providers: list[ProviderStats]
    delivery: DeliveryStats


def summarize(counters: Mapping[str, int]) -> Summary:
    """Summarize counters; unknown ones are skipped, so older and newer versions read each other's days."""
    named, plain = _group_counters(counters)
    tools = [_tool_stats(name, of) for name, of in named.get("tool", {}).items()]
    kinds = [_suggestion_stats(name, of) for name, of in named.get("suggestion", {}).items()]
    providers = [_provider_stats(name, of) for name, of in named.get("provider", {}).items()]
    return Summary(
        totals=_total_stats(tools, kinds, providers, plain),
        tools=sorted(tools, key=lambda each: (-each.calls, each.tool)),
        suggestions=sorted(kinds, key=lambda each: (-each.offered, each.kind)),
        providers=sorted(providers, key=lambda each: (-each.fires - each.failures, each.provider)),
        delivery=_delivery_stats(plain),
    )


def sum_counters(many: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Add up counters by name."""
    total: dict[str, int] = {}
    for counters in many:
        for name, count in counters.items():
            total[name] = total.get(name, 0) + count
    return total


def count_history(entries: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Recount a session's history, oldest entry first, by the rules that applied when its calls arrived.

    Counters of delivery are missing: the history does not record when feedback was taken.
    """
    effects = BatchEffects()
    states: dict[tuple[str, str], EvaluationState] = {}
    for entry in entries:
        kind, at = entry.get("kind"), int(entry.get("at", 0))
        if kind == "tool_call":
            prompt, evaluation = str(entry.get("prompt", "")), str(entry.get("evaluation", ""))
            state = states.setdefault((prompt, evaluation), new_evaluation("", prompt, evaluation, at))
            _count_call(state, entry, effects)
        elif kind == "feedback" and not entry.get("renewed"):  # a renewal replaces feedback that was counted
            _count_of_provider(entry, effects, "fires", ("timed", "timed"))
        elif kind == "provider_failure":
            _count_of_provider(entry, effects, "failures", ("timeout", "timeouts"), ("disabled", "disabled"))
    return effects.tallies


def _count_call(state: EvaluationState, entry: Mapping[str, Any], effects: BatchEffects) -> None:
    """Count a call with the verdict that it was stored with: the texts that it came from are truncated since."""
    call = msgspec.convert(entry, ToolCall)
    state.calls += 1
    event = invoked_again(call)
    count_verdict(call.tool, call.repeats, call.stuck, effects, failed=call_failed(event))
    count_outcome(state, event, effects)


def _count_of_provider(entry: Mapping[str, Any], effects: BatchEffects, measure: str, *marked: tuple[str, str]) -> None:
    """Count an entry of a provider, and each measure whose mark the entry has."""
    for each in (measure, *(other for mark, other in marked if entry.get(mark))):
        effects.count(counter_name("provider", str(entry.get("provider_name", "")), each))


def _group_counters(counters: Mapping[str, int]) -> tuple[dict[str, dict[str, dict[str, int]]], dict[str, int]]:
    """Group counters as `{what: {name: {measure: count}}}`, and those without a name."""
    named: dict[str, dict[str, dict[str, int]]] = {}
    plain: dict[str, int] = {}
    for key, count in counters.items():
        parts = key.split(":")
        if len(parts) == 3:  # names are percent-encoded, so every `:` is a separator
            what, name, measure = parts
            named.setdefault(what, {}).setdefault(unquote(name), {})[measure] = count
        else:
            plain[key] = count
    return named, plain


def _tool_stats(name: str, of: Mapping[str, int]) -> ToolStats:
    codes = {
        measure.removeprefix(_CODE_PREFIX): count for measure, count in of.items() if measure.startswith(_CODE_PREFIX)
    }
    return ToolStats(
        tool=name,
        error_rate=_rate(of.get("errors", 0), of.get("calls", 0)),
        codes=dict(sorted(codes.items(), key=lambda pair: (-pair[1], pair[0]))),
        taken_rate=_rate(of.get("taken", 0), of.get("offered", 0)),
        **_counts(of, "calls", "errors", "offered", "taken", "loops", "repeated_failures"),
    )


def _suggestion_stats(kind: str, of: Mapping[str, int]) -> SuggestionStats:
    rate = _rate(of.get("taken", 0), of.get("offered", 0))
    return SuggestionStats(kind=kind, taken_rate=rate, **_counts(of, "offered", "taken"))


def _provider_stats(name: str, of: Mapping[str, int]) -> ProviderStats:
    return ProviderStats(provider=name, **_counts(of, "fires", "timed", "failures", "timeouts", "disabled"))


def _counts(of: Mapping[str, int], *measures: str) -> dict[str, Any]:
    return {measure: of.get(measure, 0) for measure in measures}


def _delivery_stats(plain: Mapping[str, int]) -> DeliveryStats:
    fates = {fate: plain.get(f"delivery:{fate}", 0) for fate in ("same_call", "late", "timed", "expired")}
    # Without `timed`, which belongs to no call.
    rate = _rate(fates["same_call"], fates["same_call"] + fates["late"] + fates["expired"])
    return DeliveryStats(**fates, same_call_rate=rate)


def _total_stats(
    tools: list[ToolStats], kinds: list[SuggestionStats], providers: list[ProviderStats], plain: Mapping[str, int]
) -> Totals:
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
        stuck={name.removeprefix(_STUCK): count for name, count in sorted(plain.items()) if name.startswith(_STUCK)},
    )


def _rate(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None
