"""What happens beside an agent's calls: a change by someone else, and a word of the user."""

from __future__ import annotations

from tellback.guidance.progress.trail import ProgressTrail


def note_change(trail: ProgressTrail, at: int) -> None:
    """Record a change by someone else after call `at`: any answer may be another one now."""
    trail.changed = trail.anything = trail.fixed = at
