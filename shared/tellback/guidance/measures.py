"""What is counted of every call, whichever providers there are: tools, suggestions taken, loops, repeated failures.

A counter is `WHAT:NAME:MEASURE`, or `WHAT:MEASURE`; names are percent-encoded, so that `:` separates.

    tool:NAME:calls, errors, code.CODE, offered, taken, loops, repeated_failures
    suggestion:KIND:offered, taken          loop:LEVEL (3, 5, 8)          failure:repeated
    provider:NAME:fires, timed, failures, timeouts, disabled
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final
from urllib.parse import quote

from tellback.contracts.guidance import MAX_OFFERS, ToolInvoked
from tellback.guidance.attempts import normal_text
from tellback.guidance.context import has_failed
from tellback.guidance.repeats import LEVELS, alike, marks_of
from tellback.guidance.state import Effects, EvaluationState, PendingOffer, Trail

TAKEN_WITHIN: Final = 3  # calls after the one that offered
KEPT_FAILED: Final = 16
NAME_CHARS: Final = 64


@lru_cache(maxsize=1024)
def counter(what: str, name: str, measure: str) -> str:
    """The counter of this measure."""
    return f"{what}:{quote(name[:NAME_CHARS], safe='-_.', errors='replace')}:{measure}"


def note_call(state: EvaluationState, event: ToolInvoked, effects: Effects) -> tuple[int, ...]:
    """Count a call, the last of `state.recent`; returns the call indexes of those that it repeats, itself last."""
    trail, tool = state.trail, event.tool
    text = normal_text(event.params)
    marks = marks_of(tool, text)
    attempt = marks[0]
    trail.add(marks)
    effects.tally(counter("tool", tool, "calls"))
    places = alike(tool, text, marks, trail, state.recent)
    if len(places) in LEVELS:
        effects.tally(f"loop:{len(places)}")
        if len(places) == LEVELS[0]:
            effects.tally(counter("tool", tool, "loops"))
    if trail.offers or event.outcome is not None:
        _offers(trail, event, attempt, state.calls, effects)
    failed = has_failed(event)
    trail.failing = trail.failing + 1 if failed else 0
    if failed:
        effects.tally(counter("tool", tool, "errors"))
        _failed(trail, tool, attempt, effects)
    if event.outcome is not None:
        effects.tally(counter("tool", tool, f"code.{event.outcome.code}"))
    if len(places) == 1:
        return (state.calls,)
    first = state.calls - len(trail.attempts) + 1
    return tuple([first + place for place in places])


def _offers(trail: Trail, event: ToolInvoked, attempt: str, calls: int, effects: Effects) -> None:
    """Count the pending suggestions that this call takes up, each once, and then those that it brings."""
    if trail.offers:
        left: list[PendingOffer] = []
        for pending in trail.offers:
            offer = pending.offer
            if offer.tool == event.tool and offer.arguments in (None, attempt):
                _offer("taken", offer.kind, pending.tool, effects)
            elif pending.until > calls:
                left.append(pending)
        trail.offers = left
    if event.outcome is not None:
        for offer in event.outcome.offered[:MAX_OFFERS]:
            _offer("offered", offer.kind, event.tool, effects)
            if offer.tool is not None:
                trail.offers.append(PendingOffer(offer=offer, tool=event.tool, until=calls + TAKEN_WITHIN))


def _offer(measure: str, kind: str, tool: str, effects: Effects) -> None:
    effects.tally(counter("suggestion", kind, measure))
    effects.tally(counter("tool", tool, measure))


def _failed(trail: Trail, tool: str, attempt: str, effects: Effects) -> None:
    if attempt in trail.failed:
        effects.tally("failure:repeated")
        effects.tally(counter("tool", tool, "repeated_failures"))
        trail.failed.remove(attempt)
    trail.failed.append(attempt)  # the one that failed last goes last
    if len(trail.failed) > KEPT_FAILED:
        del trail.failed[0]
