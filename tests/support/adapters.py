"""Prompts that adapters ask for feedback: a real one, one that has some for each call, and one that has none."""

from __future__ import annotations

from typing import Any, Final

import tellback
from tellback import Feedback, FeedbackProviderConfig, FeedbackTrigger, Prompt, StaticFeedback, Tellback
from tests.support.workers import StartWorkers

WAIT: Final = 20.0  # for tests of what comes, not of when
GOAL: Final = "[Feedback - Goal]\n\nMind the goal."
FEEDBACK: Final = Feedback(provider_name="Goal", summary="Mind the goal.")


class Silent:
    """A prompt that has nothing to say, or fails."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.seen: list[dict[str, Any]] = []

    def observe(self, tool: str, **fields: Any) -> tellback.ToolFeedback:
        if self.failure:
            raise self.failure
        self.seen.append({"tool": tool, **fields})
        return tellback.ToolFeedback(tool, "success")

    def feedback(self, wait: float = 0.0) -> list[Feedback]:
        return []

    def check_answer(self, answer: object) -> Any:
        raise RuntimeError("broken on purpose")


class Speaking(Silent):
    """A prompt that has feedback for each call."""

    def feedback(self, wait: float = 0.0) -> list[Feedback]:
        return [FEEDBACK]


def reminded_prompt(tb: Tellback, start_workers: StartWorkers) -> Prompt:
    """Return a prompt with a worker that has feedback for each second call."""
    start_workers(1, queues="events")
    reminder = FeedbackProviderConfig(StaticFeedback("Mind the goal.", label="Goal"), FeedbackTrigger(every_n_calls=2))
    return tb.prompt("s1", "p", feedback_providers=[reminder])
