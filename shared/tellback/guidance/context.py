"""What a provider sees of an evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

import msgspec

from tellback.contracts.guidance import ContextChange, Feedback, ToolCall, ToolInvoked
from tellback.guidance.repeats import read_call, similar_calls

FAILED: Final = frozenset({"error", "failed", "failure", "denied"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LastSpoke:
    """Where the evaluation's counters stood when a provider spoke last; zeros while it has not."""

    call_index: int = 0
    tokens: int = 0
    cost: Decimal = Decimal(0)
    changes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackContext:
    """An evaluation at the moment of one tool call, which is counted; with `timed`, of a time trigger without a call.

    `now`, `began_at` and `deadline` are server times, in UTC. `last_feedback` is the prompt's last, by any provider;
    `own` tells where the counters stood when this provider spoke last. `tokens_spent` and `cost_spent` are what hosts
    have reported. Of `changes_total` changes that were published the newest are in `changes`. `similar` and `failing`
    are worked out by the evaluation: ask `similar_calls()` and `failures_in_a_row()`.
    Source: feedback-providers, "FeedbackContext".
    """

    session: str
    prompt: str
    now: datetime
    began_at: datetime
    deadline: datetime | None = None
    last_feedback: Feedback | None = None
    tool_call_count: int = 0
    evaluation: str = ""
    tools: Sequence[str] = ()
    question: str | None = None
    recent: Sequence[msgspec.Raw | ToolCall] = ()
    own: LastSpoke = LastSpoke()
    tokens_spent: int = 0
    cost_spent: Decimal = Decimal(0)
    changes: Sequence[ContextChange] = ()
    changes_total: int = 0
    timed: bool = False
    similar: tuple[int, ...] | None = None
    failing: int | None = None

    @property
    def elapsed(self) -> timedelta:
        """Time since the evaluation began."""
        return self.now - self.began_at

    def tool_calls_since_last_feedback(self) -> int:
        """Tool calls since `last_feedback`, or all of them while there is none."""
        return self.tool_call_count - (self.last_feedback.call_index if self.last_feedback else 0)

    def recent_tool_calls(self, n: int) -> tuple[ToolCall, ...]:
        """The last `n` tool calls, oldest first; the newest 32 are kept, so there are never more."""
        return tuple(read_call(call) for call in self.recent[-n:]) if n > 0 else ()

    def similar_calls(self) -> tuple[int, ...]:
        """The call indexes of recent calls that are identical or nearly identical to the newest, which is the last."""
        return similar_calls(self.recent) if self.similar is None else self.similar

    def failures_in_a_row(self) -> int:
        """How many of the newest tool calls failed, one after the other."""
        if self.failing is not None:
            return self.failing
        count = 0
        for call in reversed(self.recent):
            if not has_failed(read_call(call)):
                break
            count += 1
        return count

    def new_changes(self) -> tuple[ContextChange, ...]:
        """The changes that this provider has not told of yet, oldest first, as far as they are kept."""
        return tuple(change for change in self.changes if change.index > self.own.changes)


def has_failed(call: ToolCall | ToolInvoked) -> bool:
    """Whether a call failed: its host said so, by its status or its outcome."""
    return call.status in FAILED or (call.outcome is not None and call.outcome.status == "error")
