"""Choose the finding of a call that is reported: each level of a finding once, and not too soon after another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from tellback.guidance.progress import detectors, fruitless
from tellback.guidance.progress.trail import REPORTED_MAX, ProgressTrail, StuckFinding, mark, remember
from tellback.guidance.progress.undone import RESTORES

# Multiples of a kind's threshold at which it is reported again, more firmly; each level once in an evaluation. At
# twice the threshold, one of two reports was right.
FIRMER = (1, 3)
# Calls without a further finding after one: an agent needs some to act on it, and one whose calls succeed is told one
# thing in 25 calls. With 8 in place of 4, two right reports go and no false one does.
QUIET: Final = 25
QUIET_WHILE_IN_VAIN: Final = 4
IN_VAIN: Final = ("same_output", "undone_edit")  # although no call failed or found nothing


def first_reportable(trail: ProgressTrail, found: Iterable[StuckFinding | None]) -> StuckFinding | None:
    """Return the first finding that may be reported now, and record it and those that still last."""
    reportable = None
    for each in filter(None, found):
        new = _at_new_level(trail, each)
        if new is None:
            _note_continued(trail, each)
        elif (reportable is None or reportable.kind in trail.off) and _may_speak(trail, each):
            reportable = new
    if reportable is not None:
        remember(trail.reported, _key(reportable), (reportable.level, reportable.at), REPORTED_MAX)
    return reportable


def _note_continued(trail: ProgressTrail, finding: StuckFinding) -> None:
    """Record that what was reported still lasts: a window that has moved on makes it no other finding."""
    key = _key(finding)
    level, _ = trail.reported[key]
    trail.reported[key] = (level, finding.at)


def _key(finding: StuckFinding) -> str:
    return mark(f"{finding.kind} {finding.subject}")


def _may_speak(trail: ProgressTrail, finding: StuckFinding) -> bool:
    succeeds = trail.in_vain <= trail.spoken and finding.kind not in IN_VAIN
    quiet = QUIET if succeeds or _in_another_way(finding, trail.finding) else QUIET_WHILE_IN_VAIN
    return not trail.spoken or finding.at - trail.spoken >= quiet


def _in_another_way(finding: StuckFinding, last: StuckFinding | None) -> bool:
    """Check whether a finding is of the stretch that was reported last, or of its error, counted in another way."""
    if last is None or _key(finding) == _key(last):
        return False
    return finding.since <= last.at or (finding.detail != "" and finding.detail == last.detail)


def _at_new_level(trail: ProgressTrail, finding: StuckFinding) -> StuckFinding | None:
    """Return the finding with its level if this level was not found before."""
    known, last_at = trail.reported.get(_key(finding), (0, 0))
    threshold = THRESHOLDS.get(finding.kind, detectors.REPEATS)
    level = max(1, sum(finding.count >= threshold * times for times in FIRMER))
    if level <= known and finding.since <= last_at:  # with calls that are all newer it is another one
        return None
    return msgspec.structs.replace(finding, level=level)


# Of the kinds that take another number of times than `REPEATS`.
THRESHOLDS = {
    "undone_edit": RESTORES,
    "same_lines": detectors.WEAK_REPEATS,
    "two_states": 1,
    "worse_tests": detectors.WORSE_RUNS,
    "empty_searches": fruitless.EMPTY_SEARCHES,
    "no_news": detectors.IDLE_CALLS,  # the only one of its detectors that counts more than eight
}
