"""The other reading of whole transcripts as a yardstick: what one reader scores by another's labels.

Where two readers differ, no program can agree with both. So the table of `benchmarks nudges` has a row for a reader who
speaks at each call at which that reader saw the evidence complete, and a line on what both readers call stuck.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.labels.agreement import WHOLE, Readings
from benchmarks.labels.stretches import FOLDER, Stretch, meets, read_stretches
from benchmarks.scoring import IN_TIME, LabelScore, Share
from benchmarks.transcripts import Half


def other_reading(half: Half) -> dict[str, list[Stretch]]:
    """Return the stretches into which another reader divided whole transcripts of a half."""
    return read_stretches(FOLDER / WHOLE[half], half)


def reader_score(labels: Readings, again: Readings) -> LabelScore:
    """Return the score, by the labels, of a reader who speaks as soon as that reader calls a stretch stuck."""
    score = LabelScore()
    for name in sorted(labels.keys() & again.keys()):
        score.add(labels[name], [each.since for each in again[name] if each.since is not None])
    return score


def reported_of_both(labels: Readings, again: Readings, spoken: Mapping[str, Sequence[int]]) -> Share:
    """Return the share of the stretches that both readers call stuck that were reported.

    A nudge is in time from the earlier reader's evidence to three calls after the later one's.
    """
    reported = whole = 0
    for name in labels.keys() & again.keys():
        for one in labels[name]:
            seen = [two.since for two in again[name] if two.since is not None and meets(one, two)]
            if one.since is None or not seen:
                continue
            whole += 1
            first, last = min(one.since, *seen), max(one.since, *seen) + IN_TIME
            reported += any(first <= call <= last for call in spoken.get(name, ()))
    return Share(reported, whole)


def right_for_one(labels: Readings, again: Readings, spoken: Mapping[str, Sequence[int]]) -> Share:
    """Return the share of nudges that at least one reader calls right, of those that a reader calls false or right."""
    right = false = 0
    for name in labels.keys() & again.keys():
        for call in spoken.get(name, ()):
            views = [
                next(each for each in reading[name] if each.first <= call <= each.last) for reading in (labels, again)
            ]
            if any(each.since is not None and call >= each.since for each in views):
                right += 1
            elif all(each.label != "unclear" for each in views):
                false += 1
    return Share(right, right + false)
