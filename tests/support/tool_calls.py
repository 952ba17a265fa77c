"""Tool calls of one evaluation, published without a prompt, and how many of them are counted."""

from __future__ import annotations

from tellback import Tellback
from tellback.contracts.guidance import ToolInvoked
from tellback.contracts.message import new_event_id
from tellback.state.evaluation_codec import EvaluationId
from tellback.state.evaluations import Evaluations


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
