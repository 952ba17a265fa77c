"""What a call came to of which its host said only that it was made: `tellback hook` has no time to classify it."""

from __future__ import annotations

from datetime import datetime

from tellback.contracts.guidance import Outcome, ToolInvoked
from tellback.guidance.observations.classify import classify
from tellback.guidance.observations.gathering import evidence_of


def outcome_of(event: ToolInvoked, at: datetime) -> Outcome:
    """The outcome of a published call that was made at `at`; whatever its texts hold, nothing raises."""
    evidence = evidence_of(event.tool, event.params, event.result, event.error, status=event.status, now=at)
    return classify(evidence, {}).outcome()
