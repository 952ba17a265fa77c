"""Tool calls published without a prompt; which of them wait in a stream, and how many are counted."""

from __future__ import annotations

from typing import Any

import msgspec

from tellback import Prompt, Tellback
from tellback.contracts.guidance import ToolInvoked
from tellback.contracts.message import new_event_id
from tellback.names import Family
from tellback.state.database import Database
from tellback.state.evaluation_codec import EvaluationId
from tellback.state.evaluations import EvaluationCounts, Evaluations
from tellback.state.keys import Layout, stream_of


def publish(tb: Tellback, count: int) -> None:
    """Publish `count` calls together."""
    for _ in range(count):
        tb.context.publisher.publish(
            ToolInvoked(event_id=new_event_id(), session="s", prompt="p", evaluation="e", tool="t")
        )
    tb.flush()


def calls(tb: Tellback) -> int:
    """Return the number of calls that are counted."""
    return Evaluations(tb.context.database, tb.context.layout.of("s")).counts(EvaluationId("s", "p", "e")).calls


def counts(tb: Tellback, prompt: Prompt) -> EvaluationCounts:
    """Return the counts of a prompt's evaluation."""
    store = Evaluations(tb.context.database, tb.context.layout.of(prompt.session))
    return store.counts(EvaluationId(prompt.session, prompt.name, prompt.evaluation))


def call(tool: str = "search", session: str = "s1", **fields: Any) -> ToolInvoked:
    """Return an event of a tool call."""
    return ToolInvoked(event_id=new_event_id(), session=session, evaluation="e1", tool=tool, **fields)


def tools(database: Database, layout: Layout, session: str = "s1") -> list[str]:
    """Return the tools of the calls that wait in a session's stream, in its order."""
    entries = database.command("XRANGE", stream_of(layout.of(session), Family.EVENTS), "-", "+")
    events = [msgspec.json.decode(fields[1]) for _, fields in entries]
    return [event["tool"] for event in events if event["type"] == "ToolInvoked"]
