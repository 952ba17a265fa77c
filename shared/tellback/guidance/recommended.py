"""The providers that we recommend to begin with; what they were tuned on is told in docs/operations/replay.md."""

from __future__ import annotations

from typing import Final

from tellback.contracts.guidance import FeedbackTrigger
from tellback.guidance.failures import FailureStreakFeedback
from tellback.guidance.provider import FeedbackProviderConfig
from tellback.guidance.repeated import RepeatedCallFeedback
from tellback.guidance.usage import ToolUsageMonitor

_LONG: Final = 15  # calls; no solved conversation of those that we looked at took more


def recommended_providers() -> list[FeedbackProviderConfig]:
    """Providers for any agent that calls tools: silent while it gets on, early where it fails or loops.

    In this order, since the first that matches wins: `FailureStreakFeedback` from the second failure in a row,
    `RepeatedCallFeedback` at its own levels, `ToolUsageMonitor` from the 16th call. Where there is a deadline or a
    budget, add `DeadlineFeedback` or `BudgetFeedback`.
    """
    each_call = FeedbackTrigger(every_n_calls=1)
    return [
        FeedbackProviderConfig(FailureStreakFeedback(levels=(2, 4, 8)), each_call),
        FeedbackProviderConfig(RepeatedCallFeedback(), each_call),
        FeedbackProviderConfig(ToolUsageMonitor(_LONG), FeedbackTrigger(every_n_calls=_LONG + 1)),
    ]
