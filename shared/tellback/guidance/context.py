"""What a provider sees of an evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec

from tellback.contracts.guidance import Feedback, ToolCall

RECENT_CALLS: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackContext:
    """An evaluation at the moment of one tool call; that call is counted.

    `now`, `began_at` and `deadline` are server times, in UTC. `last_feedback` is the prompt's last, by any provider.
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

    @property
    def elapsed(self) -> timedelta:
        """Time since the evaluation began."""
        return self.now - self.began_at

    def tool_calls_since_last_feedback(self) -> int:
        """Tool calls since `last_feedback`, or all of them while there is none."""
        return self.tool_call_count - (self.last_feedback.call_index if self.last_feedback else 0)

    def recent_tool_calls(self, n: int) -> tuple[ToolCall, ...]:
        """The last `n` tool calls, oldest first; the newest `RECENT_CALLS` are kept, so there are never more."""
        return tuple(_decoded(call) for call in self.recent[-n:]) if n > 0 else ()


def _decoded(call: msgspec.Raw | ToolCall) -> ToolCall:
    return msgspec.json.decode(call, type=ToolCall) if isinstance(call, msgspec.Raw) else call
