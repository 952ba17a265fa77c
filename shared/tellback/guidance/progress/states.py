"""States of services, clusters and pages that stay faulty, whatever is changed."""

from __future__ import annotations

from tellback.guidance.progress.detectors import ATTEMPT, SAME_OUTPUT, actions_since
from tellback.guidance.progress.features import CallFeatures
from tellback.guidance.progress.substance import has_fault
from tellback.guidance.progress.trail import FAILURES_MAX, Asked, ProgressTrail, StuckFinding, mark, remember


def same_state(trail: ProgressTrail, features: CallFeatures, at: int, known: Asked | None) -> StuckFinding | None:
    """Find a look at something that shows the same fault each time, though something was changed before each look.

    `known` is the same call when it was made last.
    """
    if known is None or known.news != features.news or features.failed or trail.anything <= known.indexes[-1]:
        return None
    if not features.state or not has_fault(features.state):  # asked last, as it takes longest
        return None
    key = mark(f"> {features.news} {features.shown}")
    calls = [index for index in trail.failures.get(key, known.indexes[-1:]) if actions_since(trail, index) <= ATTEMPT]
    calls.append(at)
    remember(trail.failures, key, calls[-12:], FAILURES_MAX)
    if len(calls) < SAME_OUTPUT:
        return None
    return StuckFinding("same_output", features.shown, len(calls), calls[0], at, detail=features.last)
