"""ToolUsageMonitor: many tool calls and no end."""

from __future__ import annotations

from dataclasses import dataclass

from tellback.contracts.guidance import Feedback
from tellback.guidance.context import FeedbackContext


@dataclass(frozen=True)
class ToolUsageMonitor:
    """Tells the number of tool calls, with suggestions above a threshold.

    Source: feedback-providers, "Writing Custom Providers".
    """

    max_calls_without_progress: int = 20

    @property
    def name(self) -> str:
        """Its name."""
        return "ToolUsageMonitor"

    def should_run(self, *, context: FeedbackContext) -> bool:  # noqa: ARG002 - the protocol's form
        """Always."""
        return True

    def provide(self, *, context: FeedbackContext) -> Feedback:
        """The count; above the threshold a caution."""
        count = context.tool_call_count
        if count <= self.max_calls_without_progress:
            return Feedback(provider_name=self.name, summary=f"Tool calls: {count}")
        return Feedback(
            provider_name=self.name,
            summary=f"You have made {count} tool calls without completing.",
            suggestions=("Review your approach.", "Consider whether you're making progress."),
            severity="caution",
        )
