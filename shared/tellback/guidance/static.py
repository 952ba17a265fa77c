"""StaticFeedback: the same words each time."""

from __future__ import annotations

from dataclasses import dataclass

from tellback.contracts.guidance import Feedback, Severity
from tellback.guidance.context import FeedbackContext


@dataclass(frozen=True)
class StaticFeedback:
    """A fixed reminder."""

    summary: str
    suggestions: tuple[str, ...] = ()
    severity: Severity = "info"
    label: str = "StaticFeedback"

    @property
    def name(self) -> str:
        """Its label, so that two reminders can be told apart."""
        return self.label

    def should_run(self, *, context: FeedbackContext) -> bool:  # noqa: ARG002 - the protocol's form
        """Always."""
        return True

    def provide(self, *, context: FeedbackContext) -> Feedback:  # noqa: ARG002 - the protocol's form
        """The words that it was given."""
        return Feedback(
            provider_name=self.name, summary=self.summary, suggestions=self.suggestions, severity=self.severity
        )
