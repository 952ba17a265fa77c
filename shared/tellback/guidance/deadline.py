"""DeadlineFeedback: how much time is left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tellback.contracts.guidance import Feedback
from tellback.guidance.context import FeedbackContext

MINUTE: Final = 60
HOUR: Final = 3_600


def read_duration(seconds: float) -> str:
    """A duration as a person reads it: `45 seconds`, `1 minute`, `12 minutes`, `1.5 hours`; parts are dropped."""
    if seconds < MINUTE:
        return _counted(str(max(0, int(seconds))), "second")
    if seconds < HOUR:
        return _counted(str(int(seconds // MINUTE)), "minute")
    tenths = int(seconds * 10 // HOUR)
    return _counted(f"{tenths / 10:.1f}".removesuffix(".0"), "hour")


def _counted(number: str, unit: str) -> str:
    return f"{number} {unit}" if number == "1" else f"{number} {unit}s"


@dataclass(frozen=True)
class DeadlineFeedback:
    """Reports the remaining time; a warning with suggestions from the threshold on, and once the deadline has passed.

    Source: feedback-providers, "Built-in Provider: DeadlineFeedback". It does not run without a deadline.
    """

    warning_threshold_seconds: float = 120

    @property
    def name(self) -> str:
        """Its name."""
        return "DeadlineFeedback"

    def should_run(self, *, context: FeedbackContext) -> bool:
        """Whether there is a deadline."""
        return context.deadline is not None

    def provide(self, *, context: FeedbackContext) -> Feedback:
        """The time spent and the time left; the threshold itself is a warning."""
        assert context.deadline is not None, "should_run"
        elapsed = read_duration(context.elapsed.total_seconds())
        remaining = (context.deadline - context.now).total_seconds()
        if remaining <= 0:
            return Feedback(
                provider_name=self.name,
                summary=f"The work took {elapsed}. You have reached the time deadline.",
                suggestions=("Wrap up now.",),
                severity="warning",
            )
        summary = f"The work so far took {elapsed}. You have {read_duration(remaining)} remaining to complete the task."
        if remaining > self.warning_threshold_seconds:
            return Feedback(provider_name=self.name, summary=summary)
        return Feedback(
            provider_name=self.name,
            summary=summary,
            suggestions=("Prioritize critical remaining work.", "Summarize progress and what remains."),
            severity="warning",
        )
