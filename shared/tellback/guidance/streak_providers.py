"""The built-in providers that count calls in a row: repeats of one call, and failures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tellback.contracts.guidance import Feedback, Observation, Severity
from tellback.guidance.provider import FeedbackContext, NamedByClass, call_failed
from tellback.guidance.repeats import LEVELS, check_levels, level_reached
from tellback.guidance.state import RECENT_CALLS

# Characters of the tools, and of the last error: enough for its first line, where the cause usually stands.
_SHOWN: Final = 200


@dataclass(frozen=True)
class FailureStreakFeedback(NamedByClass):
    """Reports that the newest tool calls failed in a row; use the trigger `every_n_calls=1`.

    It speaks when a level is reached and is silent between levels. A success ends the streak; a call that a user
    refused, or that was cancelled with another one, is neither success nor failure.
    """

    levels: tuple[int, ...] = LEVELS

    def __post_init__(self) -> None:
        """Refuse levels that no count could reach."""
        check_levels(self.levels, 1)

    def should_run(self, *, context: FeedbackContext) -> bool:
        """Return True if the streak has reached a level that was not reported yet."""
        streak = context.failures_in_a_row()
        # The part of the streak before its own last feedback, which is 0 if a success came between.
        since = context.failing_since or context.tool_call_count - streak + 1
        reported = max(0, context.own.call_index - since + 1)
        # Without a new call the streak cannot have grown.
        return not context.timed and level_reached(streak, self.levels) > level_reached(reported, self.levels)

    def provide(self, *, context: FeedbackContext) -> Feedback:
        """Report the length of the streak, the tools and the last error; at the last level as a warning."""
        streak = context.failures_in_a_row()
        failed = [call for call in context.recent_tool_calls(streak) if call_failed(call)]
        tools = ", ".join(dict.fromkeys(call.tool for call in failed))
        last = failed[-1] if failed else None
        severity: Severity = "warning" if level_reached(streak, self.levels) == max(self.levels) else "caution"
        calls = "tool call" if streak == 1 else f"{streak} tool calls"
        seen = [Observation("tools", tools[:_SHOWN])]
        if last is not None and last.error:
            seen.append(Observation("last error", last.error[:_SHOWN]))
        steps = ("Read the last error before the next call.", _AFTER_FAILURES)
        return Feedback(self.name, f"The last {calls} failed.", tuple(seen), steps, severity)


@dataclass(frozen=True)
class RepeatedCallFeedback(NamedByClass):
    """Reports calls that repeat others, more firmly at each level; use the trigger `every_n_calls=1`.

    A call repeats another if nothing happened in between that could change its answer, and its result is the same in
    substance. Case, white space and the order of arguments do not matter; another number does. It speaks when a level
    is reached and is silent between levels.
    """

    levels: tuple[int, ...] = LEVELS

    def __post_init__(self) -> None:
        """Refuse levels that no count could reach."""
        check_levels(self.levels, 2, RECENT_CALLS)

    def should_run(self, *, context: FeedbackContext) -> bool:
        """Return True if the newest call has reached a level that was not reported yet."""
        if context.timed:  # the newest call was judged when it came
            return False
        similar = context.similar_calls()
        reported = sum(index <= context.own.call_index for index in similar)
        return level_reached(len(similar), self.levels) > level_reached(reported, self.levels)

    def provide(self, *, context: FeedbackContext) -> Feedback:
        """Report the tool and the number of calls; at the last level as a warning."""
        similar = context.similar_calls()
        count = len(similar)
        call = context.recent_tool_calls(1)[0]
        step = sorted(self.levels).index(level_reached(count, self.levels))
        severity: Severity = "warning" if step == len(self.levels) - 1 else "caution" if step else "info"
        failed = call_failed(call)
        summary = (
            f"You have called {call.tool} {count} times with the same or nearly the same arguments, "
            f"and each time the {'failure' if failed else 'result'} was the same."
        )
        seen = (Observation("first of them", f"call {similar[0]}"), Observation("last status", call.status))
        return Feedback(self.name, summary, seen, (_AFTER_FAILURE if failed else _AFTER_RESULT,), severity)


_AFTER_FAILURES: Final = "Change the arguments, use another tool, or go on without it."
_AFTER_FAILURE: Final = "Change what makes it fail before you make this call again."
_AFTER_RESULT: Final = "Use this result, or ask something else; nothing that could change it has happened since."
