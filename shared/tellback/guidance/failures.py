"""FailureStreakFeedback: nothing works any more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tellback.contracts.guidance import Feedback, Observation, Severity
from tellback.guidance.context import FeedbackContext, has_failed
from tellback.guidance.repeats import LEVELS, check_levels, level_of

_SHOWN: Final = 200


@dataclass(frozen=True)
class FailureStreakFeedback:
    """Tells when the newest tool calls failed one after the other; give it the trigger `every_n_calls=1`.

    It speaks when a level is reached, and is silent between levels; a success ends the streak.
    """

    levels: tuple[int, ...] = LEVELS

    def __post_init__(self) -> None:
        """Refuse levels that say nothing."""
        check_levels(self.levels, 1)

    @property
    def name(self) -> str:
        """Its name."""
        return "FailureStreakFeedback"

    def should_run(self, *, context: FeedbackContext) -> bool:
        """Whether the streak has reached a level that was not told of yet."""
        streak = context.failures_in_a_row()
        told = max(0, context.own.call_index - (context.tool_call_count - streak))
        return not context.timed and level_of(streak, self.levels) > level_of(told, self.levels)

    def provide(self, *, context: FeedbackContext) -> Feedback:
        """The length of the streak, the tools, and the last error; at the last level a warning."""
        streak = context.failures_in_a_row()
        failed = [call for call in context.recent_tool_calls(streak) if has_failed(call)]
        tools = ", ".join(dict.fromkeys(call.tool for call in failed))
        last = failed[-1] if failed else None
        severity: Severity = "warning" if level_of(streak, self.levels) == max(self.levels) else "caution"
        calls = "tool call" if streak == 1 else f"{streak} tool calls"
        return Feedback(
            provider_name=self.name,
            summary=f"The last {calls} failed.",
            observations=(
                Observation("tools", tools[:_SHOWN]),
                *([Observation("last error", last.error[:_SHOWN])] if last is not None and last.error else []),
            ),
            suggestions=(
                "Read the last error before the next call.",
                "Change the arguments, use another tool, or go on without it.",
            ),
            severity=severity,
        )
