"""The bounded memory of an evaluation's calls."""

from __future__ import annotations

import msgspec

from tellback.guidance.progress.trail import ASKED_MAX, Asked, ProgressTrail


def test_marks_of_words_cover_every_call_in_memory_and_stay_few() -> None:
    """A call that is nearly the same as one in memory is looked for; the marks of forgotten calls do not pile up."""
    trail = ProgressTrail()
    for n in range(20 * ASKED_MAX):
        trail.remember_asked(f"{n % 7 or n}", Asked(low=n, high=n + 10_000, news=0, indexes=[n]))
        assert trail.near >= {mark for each in trail.asked.values() for mark in (each.low, each.high)}
        assert len(trail.near) <= 7 * ASKED_MAX
    assert len(trail.asked) == ASKED_MAX


def test_marks_of_words_are_collected_again_from_what_is_stored() -> None:
    """The marks themselves are not stored."""
    trail = ProgressTrail()
    trail.remember_asked("a", Asked(low=1, high=2, news=0, indexes=[1]))
    stored = msgspec.json.encode(trail)
    assert b"near" not in stored
    assert msgspec.json.decode(stored, type=ProgressTrail).near == {1, 2}
