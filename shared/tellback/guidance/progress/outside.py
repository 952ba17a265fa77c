"""Changes by someone else, and words of the user, beside the calls of an agent."""

from __future__ import annotations

from tellback.guidance.progress.trail import ProgressTrail


def note_change(trail: ProgressTrail, at: int) -> None:
    """Record a change by someone else after call `at`: any answer may be another one now."""
    trail.changed = trail.anything = trail.fixed = at


def note_prompt(trail: ProgressTrail, at: int) -> None:
    """Record that the user spoke after call `at`: what follows was asked for, and is no part of what came before.

    By the rules of the labels a user's word ends a stretch. What is known stays known, and so does the silence.
    """
    note_change(trail, at)
    trail.failures, trail.tools, trail.tests, trail.edits, trail.restores = {}, {}, {}, {}, []
    trail.empties = trail.missing = (0, 0)
    trail.counts = (0, 0, 0, 0)
    trail.states, trail.viewed = [], []
    trail.stale = trail.reread = trail.familiar = trail.idle = trail.done = trail.swapped = 0
