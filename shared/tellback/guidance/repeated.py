"""RepeatedCallFeedback: the same call again and again."""

from __future__ import annotations

from dataclasses import dataclass

from tellback.contracts.guidance import Feedback, Observation, Severity
from tellback.guidance.context import FeedbackContext
from tellback.guidance.repeats import LEVELS, check_levels, level_of
from tellback.guidance.state import RECENT_CALLS


@dataclass(frozen=True)
class RepeatedCallFeedback:
    """Tells of identical or nearly identical calls, more firmly at each level; give it the trigger `every_n_calls=1`.

    Counted among the newest 32 calls: case, white space and the order of arguments do not matter; another number does.
    It speaks when a level is reached, and is silent between levels; in a loop without end once in about 25 calls.
    """

    levels: tuple[int, ...] = LEVELS

    def __post_init__(self) -> None:
        """Refuse levels that say nothing."""
        check_levels(self.levels, 2, RECENT_CALLS)

    @property
    def name(self) -> str:
        """Its name."""
        return "RepeatedCallFeedback"

    def should_run(self, *, context: FeedbackContext) -> bool:
        """Whether the newest call has reached a level that was not told of yet."""
        if context.timed:
            return False
        similar = context.similar_calls()
        told = sum(index <= context.own.call_index for index in similar)
        return level_of(len(similar), self.levels) > level_of(told, self.levels)

    def provide(self, *, context: FeedbackContext) -> Feedback:
        """The tool, and how often; at the last level a warning."""
        count = len(context.similar_calls())
        call = context.recent_tool_calls(1)[0]
        step = sorted(self.levels).index(level_of(count, self.levels))
        severity: Severity = "warning" if step == len(self.levels) - 1 else "caution" if step else "info"
        return Feedback(
            provider_name=self.name,
            summary=f"You have called {call.tool} {count} times with the same or nearly the same arguments.",
            observations=(Observation("last status", call.status),),
            suggestions=_SUGGESTIONS[severity],
            severity=severity,
        )


_SUGGESTIONS: dict[Severity, tuple[str, ...]] = {
    "info": ("Use the result that you have, or change the arguments.",),
    "caution": (
        "Another identical call is unlikely to give something new.",
        "Change the arguments, or use another tool.",
    ),
    "warning": (
        "Stop repeating this call.",
        "Use what you have, take another approach, or say what is missing.",
    ),
}
