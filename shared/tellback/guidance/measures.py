"""Count every tool call, whichever providers there are, and bound the copy of it that is stored.

Counters cover tools, suggestions taken, loops, repeated failures and findings of the measure of progress. A counter's
name is `WHAT:NAME:MEASURE` or `WHAT:MEASURE`. `NAME` is percent-encoded because tool names may contain the
separator `:`.

    tool:NAME:calls, errors, code.CODE, offered, taken, loops, repeated_failures
    suggestion:KIND:offered, taken          loop:LEVEL (3, 5, 8)          failure:repeated          stuck:KIND
    provider:NAME:fires, timed, failures, timeouts, disabled

Long arguments and results are truncated twice: to 64 KiB on the host before publishing, and to 2 KiB for the history.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote

import msgspec

from tellback.contracts.guidance import ToolCall, ToolInvoked
from tellback.contracts.limits import MAX_FIELD_BYTES, MAX_OFFERS
from tellback.guidance.progress.judge import CallReading, Judgement, judge_call, read_call
from tellback.guidance.provider import call_verdict
from tellback.guidance.repeats import LEVELS, attempt_fingerprint
from tellback.guidance.state import BatchEffects, CallTrail, EvaluationState, PendingOffer
from tellback.truncation import LEAF_BYTES, truncate_arguments, truncate_text

# A suggestion counts as taken if one of the next three calls follows it (G-73): a later match is likely chance.
OFFER_LIFETIME_CALLS: Final = 3
# Longer names share one counter: hosts choose tool names, and each name becomes a field of a Redis hash.
NAME_CHARS: Final = 64


@lru_cache(maxsize=1024)
def counter_name(what: str, name: str, measure: str) -> str:
    """Return the counter's name, with `name` truncated and percent-encoded."""
    return f"{what}:{quote(name[:NAME_CHARS], safe='-_.', errors='replace')}:{measure}"


def read_calls(state: EvaluationState | None, events: Iterable[object]) -> list[CallReading | None]:
    """Read the calls among events, for `count_call`; None for any other event.

    `state` is that before the first, None for a new evaluation. A worker reads all calls of a batch before it judges
    one. To read and judge each in turn took a third longer, probably because each step drives the other from the
    processor's caches.
    """
    return [
        read_call(event, call_verdict(event), None if state is None else state.declared_effect(event.tool))
        if isinstance(event, ToolInvoked)
        else None
        for event in events
    ]


def count_call(
    state: EvaluationState, event: ToolInvoked, effects: BatchEffects, reading: CallReading | None
) -> Judgement:
    """Judge the call after those in `state.recent`, and count it; its index is `state.calls`."""
    declared = state.declared_effect(event.tool)
    if reading is None or reading.declared != declared:  # its evaluation began after it was read
        reading = read_call(event, call_verdict(event), declared)
    verdict = judge_call(state.trail.progress, event, state.calls, state.recent, reading)
    stuck = verdict.finding.kind if verdict.finding else ""
    count_verdict(event.tool, len(verdict.repeats), stuck, effects, failed=reading.outcome == "failure")
    count_outcome(state, event, effects)
    return verdict


def count_outcome(state: EvaluationState, event: ToolInvoked, effects: BatchEffects) -> None:
    """Count what a call's observation said: its outcome, and suggestions that were offered or taken."""
    if state.trail.offers or event.outcome is not None:
        _count_offers(state.trail, event, state.calls, effects)
    if event.outcome is not None:
        effects.count(counter_name("tool", event.tool, f"code.{event.outcome.code}"))


def count_verdict(tool: str, repeats: int, stuck: str, effects: BatchEffects, *, failed: bool) -> None:
    """Count a call by its verdict: how many calls it makes with those that it repeats, and the kind of a finding."""
    effects.count(counter_name("tool", tool, "calls"))
    if repeats in LEVELS:
        effects.count(f"loop:{repeats}")
        if repeats == LEVELS[0]:
            effects.count(counter_name("tool", tool, "loops"))
    if failed:
        effects.count(counter_name("tool", tool, "errors"))
        if repeats > 1:
            effects.count("failure:repeated")
            effects.count(counter_name("tool", tool, "repeated_failures"))
    if stuck:
        effects.count(f"stuck:{stuck}")


def _count_offers(trail: CallTrail, event: ToolInvoked, calls: int, effects: BatchEffects) -> None:
    """Count each pending suggestion that this call follows, once, then the suggestions that its observation made."""
    if trail.offers:
        attempt = attempt_fingerprint(event.tool, event.params)
        left: list[PendingOffer] = []
        for pending in trail.offers:
            offer = pending.offer
            if offer.tool == event.tool and offer.arguments in (None, attempt):
                _count_offer("taken", offer.kind, pending.tool, effects)
            elif pending.until > calls:
                left.append(pending)
        trail.offers = left
    if event.outcome is not None:
        for offer in event.outcome.offered[:MAX_OFFERS]:
            _count_offer("offered", offer.kind, event.tool, effects)
            if offer.tool is not None:
                trail.offers.append(PendingOffer(offer=offer, tool=event.tool, until=calls + OFFER_LIFETIME_CALLS))


def _count_offer(measure: str, kind: str, tool: str, effects: BatchEffects) -> None:
    effects.count(counter_name("suggestion", kind, measure))
    effects.count(counter_name("tool", tool, measure))


# The history keeps the beginning of each text; an evaluation's state holds 32 such calls, about 8 KiB each at most.
STORED_FIELD_BYTES: Final = 2 << 10

_encode = msgspec.json.Encoder().encode


def truncate_params(params: dict[str, Any], limit: int = MAX_FIELD_BYTES) -> dict[str, Any]:
    """Truncate arguments until their JSON has at most `limit` bytes: first long texts, then the whole as one text."""
    return truncate_arguments(params, _encode, limit)


def stored_tool_call(event: ToolInvoked, at_ms: int, call_index: int, verdict: Judgement | None = None) -> bytes:
    """Return the stored form of a call: a `ToolCall` as JSON, each text of at most `STORED_FIELD_BYTES`."""
    call = ToolCall(
        at=at_ms,
        tool=event.tool,
        call_index=call_index,
        prompt=event.prompt,
        evaluation=event.evaluation,
        params=event.params,
        status=event.status,
        result=event.result,
        error=event.error,
        duration_ms=event.duration_ms,
        call_id=event.call_id,
        outcome=event.outcome,
        repeats=1 if verdict is None else len(verdict.repeats),
        stuck="" if verdict is None or verdict.finding is None else verdict.finding.kind,
    )
    raw = _encode(call)
    if len(raw) <= STORED_FIELD_BYTES:  # no field can be longer than the whole
        return raw
    return _encode(
        msgspec.structs.replace(
            call,
            params=truncate_params(call.params, STORED_FIELD_BYTES),
            result=None if call.result is None else truncate_text(call.result, STORED_FIELD_BYTES),
            error=None if call.error is None else truncate_text(call.error, STORED_FIELD_BYTES),
            call_id=None if call.call_id is None else truncate_text(call.call_id, LEAF_BYTES),
        )
    )
