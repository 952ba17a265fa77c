"""A scripted evaluation whose measures are known, and what is counted of it."""

from __future__ import annotations

from typing import Any

from tellback import FeedbackProviderConfig, FeedbackTrigger, Prompt, StaticFeedback, Tellback
from tellback.contracts.guidance import CallStatus, Offer, Outcome, OutcomeCode, ToolInvoked
from tellback.contracts.message import new_event_id
from tellback.guidance.repeats import attempt_fingerprint
from tellback.guidance.summary import sum_counters
from tellback.state.database import Database
from tellback.state.guidance_stats import read_stats
from tellback.state.keys import Layout

REMINDER = FeedbackProviderConfig(StaticFeedback("Mind the goal."), FeedbackTrigger(every_n_calls=2))
# What one `script` counts.
COUNTS = {
    "tool:search:calls": 2,
    "tool:search:errors": 2,
    "tool:search:code.rate_limited": 1,
    "tool:search:code.unavailable": 1,
    "tool:search:offered": 3,
    "tool:search:taken": 1,
    "tool:search:repeated_failures": 1,
    "tool:wiki:calls": 1,
    "tool:wiki:code.ok": 1,
    "tool:wiki:offered": 1,
    "tool:wiki:taken": 1,
    "tool:fetch:calls": 3,
    "tool:fetch:code.ok": 3,
    "tool:fetch:loops": 1,
    "tool:bare:calls": 1,
    "suggestion:alternative:offered": 2,
    "suggestion:alternative:taken": 1,
    "suggestion:retry:offered": 1,
    "suggestion:detail:offered": 1,
    "suggestion:detail:taken": 1,
    "loop:3": 1,
    "failure:repeated": 1,
    "stuck:same_call": 1,
    "provider:StaticFeedback:fires": 3,
}
CALLS = 7


def script(prompt: Prompt) -> list[ToolInvoked]:
    """Seven calls: an alternative taken, a retry that comes too late to be one, a loop, a failure that repeats."""
    first = {"q": "Ruby  creator"}
    offers = (
        Offer("alternative", "wiki", attempt_fingerprint("wiki", first)),
        Offer("retry", "search", attempt_fingerprint("search", first)),
    )
    return [
        call(prompt, "search", first, "rate_limited", "error", offers),
        call(prompt, "wiki", {"q": "ruby creator"}, "ok", offers=(Offer("detail", "fetch"),)),
        *(call(prompt, "fetch", {"url": "x"}, "ok") for _ in range(3)),
        call(prompt, "search", first, "unavailable", "error", (Offer("alternative", "nobody"),)),
        call(prompt, "bare", {}, None),
    ]


def call(
    prompt: Prompt,
    tool: str,
    params: dict[str, Any],
    code: OutcomeCode | None,
    status: CallStatus = "success",
    offers: tuple[Offer, ...] = (),
) -> ToolInvoked:
    """A call of this evaluation, observed where it has a code."""
    return ToolInvoked(
        event_id=new_event_id(),
        session=prompt.session,
        prompt=prompt.name,
        evaluation=prompt.evaluation,
        tool=tool,
        params=params,
        status=status,
        outcome=None if code is None else Outcome(status=status, code=code, offered=offers),
    )


def play(tb: Tellback, session: str) -> Prompt:
    """Publish a script of an evaluation of its own."""
    prompt = tb.prompt(session, "p", feedback_providers=[REMINDER])
    for event in script(prompt):
        tb.context.publisher.publish(event)
    return prompt


def counted(database: Database, layout: Layout) -> dict[str, int]:
    """Every counter of the team, over all shards and days."""
    return sum_counters(day.counters for day in read_stats(database, layout))


def times(n: int) -> dict[str, int]:
    """Return the counts of `n` scripts."""
    return {name: count * n for name, count in COUNTS.items()}
