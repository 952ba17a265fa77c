"""Searches that find nothing, and addresses that are guessed one after another and do not exist."""

from __future__ import annotations

import zlib
from typing import Final

from tellback.guidance.progress.features import CallFeatures
from tellback.guidance.progress.trail import ProgressTrail, StuckFinding

EMPTY_SEARCHES: Final = 6  # with 5, an agent that was making progress got a false report
MISSING_PAGES: Final = 4  # by the rules of the labels
MISSING: Final = "404"  # the detail of a finding about addresses


def in_vain(trail: ProgressTrail, features: CallFeatures, at: int) -> StuckFinding | None:
    """Find searches that return nothing whatever their words, and addresses that do not exist."""
    if features.effect == "search":
        return _empty_searches(trail, features, at)
    return _missing_pages(trail, features, at) if features.fetches else None


def _empty_searches(trail: ProgressTrail, features: CallFeatures, at: int) -> StuckFinding | None:
    # After an edit it checks the edit. One word that is looked for in folder after folder checks that it is nowhere.
    count, first = trail.empties if trail.fixed <= trail.empties[1] else (0, 0)
    sought = zlib.crc32(features.sought.encode("utf-8", "replace")) if features.empty else 0
    again = count > 0 and sought != 0 and sought == trail.sought
    trail.empties, trail.sought = (count + (not again), first or at) if features.empty else (0, 0), sought
    count, first = trail.empties
    if again:
        return None
    return StuckFinding("empty_searches", features.tool, count, first, at) if count >= EMPTY_SEARCHES else None


def _missing_pages(trail: ProgressTrail, features: CallFeatures, at: int) -> StuckFinding | None:
    # An edit may be what makes them exist.
    count, first = trail.missing if trail.fixed <= trail.missing[1] else (0, 0)
    trail.missing = (count + 1, first or at) if features.absent else (0, 0)
    count, first = trail.missing
    if count < MISSING_PAGES:
        return None
    return StuckFinding("empty_searches", MISSING, count, first, at, detail=MISSING)
