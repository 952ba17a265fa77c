"""Calls after an end: waits for what has ended, and calls after the task was done."""

from __future__ import annotations

import re
from typing import Final

from tellback.guidance.progress.detectors import REPEATS, attempts, note_attempt
from tellback.guidance.progress.faults import shows_progress
from tellback.guidance.progress.features import CallFeatures
from tellback.guidance.progress.trail import ProgressTrail, StuckFinding, mark

WAITS: Final = 6  # by judgement
# An id, a port, the name of a pod or a log tells what a call waits for, whatever words ask for it.
_THING: Final = re.compile(
    r"(?<![\w-])(?:(?=[a-z_-]*\d[\w-]*\d[\w-]*\d)[\w-]{4,80}|[\w-]{1,80}\.(?:log|out)\b)", re.IGNORECASE
)
_LENGTHS: Final = re.compile(r"\b(?:sleep|timeout)\s+\S+", re.IGNORECASE)
_SAYS_DONE: Final = re.compile(
    r"\b(?:complete(?:d|ly)?|done|finished|summary|success(?:fully|ful)?|verified|all tests pass\w*)\b", re.IGNORECASE
)


def dead_wait(trail: ProgressTrail, features: CallFeatures, at: int, repeats: list[int]) -> StuckFinding | None:
    """Find waiting for something that has ended, or that shows no change however long the wait."""
    calls, needed = repeats, WAITS
    if features.lines and features.programs:  # neither the length of a wait nor the program that looks matters
        same = {index for each in trail.asked.values() if each.news == features.news for index in each.indexes}
        calls = max(repeats, sorted(index for index in same if index > trail.anything), key=len)
    if features.dead or features.failed:
        needed = REPEATS
        if not _moves(trail, features) and (features.dead or not shows_progress(features)):
            calls = max([calls, *(_counted(trail, thing, at) for thing in _things(features))], key=len)
    else:  # a log, a service or another wait that shows a new line says that it moves
        calls = [index for index in calls if index >= trail.moved]
    if len(calls) < needed:
        return None
    return StuckFinding("dead_wait", features.shown, len(calls), calls[0], at, detail=features.error or features.last)


def _things(features: CallFeatures) -> list[str]:
    if not features.programs:
        return [features.shown]
    asked = _asked(features)
    return [asked, *_THING.findall(asked)[:3]]


def _asked(features: CallFeatures) -> str:
    return _LENGTHS.sub("", features.shown)


def _moves(trail: ProgressTrail, features: CallFeatures) -> bool:
    """Check whether a command line that was made before shows a new line: a log that goes on may have such words."""
    return (
        bool(features.programs and features.lines)
        and features.known < 1
        and mark(f"~ {_asked(features)}") in trail.failures
    )


def _counted(trail: ProgressTrail, what: str, at: int) -> list[int]:
    """Record the call under a name, and return the calls under it since the last change."""
    key = mark(f"~ {what}")
    return note_attempt(trail, key, attempts(trail, key, trail.anything), at)


def after_done(trail: ProgressTrail, features: CallFeatures, at: int) -> StuckFinding | None:
    """Find calls after the task was handed in, or after the agent printed again and again that it is done."""
    if features.effect == "finish" and not features.failed and trail.done <= trail.anything:
        trail.done = at
        return None
    if features.effect in ("write", "plan"):
        trail.done = 0  # a new task
    if trail.done and at - trail.done >= REPEATS:
        return StuckFinding("after_done", features.shown, at - trail.done, trail.done, at)
    if features.effect == "none" and _SAYS_DONE.search(features.shown):
        calls = _counted(trail, "done", at)
        if len(calls) >= REPEATS:
            return StuckFinding("after_done", features.shown, at - calls[0], calls[0], at)
    return None
