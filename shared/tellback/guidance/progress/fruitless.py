"""Fruitless calls: searches that find nothing, guessed addresses and names, states that stay faulty."""

from __future__ import annotations

import re
from typing import Final

from tellback.guidance.progress.detectors import REPEATS, RETRIES_ASKED_FOR, WEAK_REPEATS, attempts, note_attempt
from tellback.guidance.progress.effects import words_in
from tellback.guidance.progress.faults import shows_progress
from tellback.guidance.progress.features import CallFeatures
from tellback.guidance.progress.states import is_under_way
from tellback.guidance.progress.substance import fault_line, mark_of
from tellback.guidance.progress.trail import Asked, ProgressTrail, StuckFinding, file_mark, mark

EMPTY_SEARCHES: Final = 6  # with 5, an agent that was making progress got a false report
# Searches further apart than this, on average, are no row: a review looked for one thing in each of its commits.
SEARCH_SPREAD: Final = 4
STEMS_MAX: Final = 32  # of the words of a row of searches
LONG_ANSWER: Final = 4  # lines, which no two questions share by chance; by judgement
MISSING: Final = "404"  # the detail of a finding about addresses


def in_vain(trail: ProgressTrail, features: CallFeatures, at: int) -> StuckFinding | None:
    """Find searches that return nothing whatever their words, and addresses that do not exist."""
    if features.effect == "search":
        return _empty_searches(trail, features, at)
    return _missing_pages(trail, features, at) if features.fetches else None


def _empty_searches(trail: ProgressTrail, features: CallFeatures, at: int) -> StuckFinding | None:
    # After an edit it checks the edit. One word that is looked for in folder after folder checks that it is nowhere.
    count, first = trail.empties
    if not features.empty or trail.fixed > first or at - first > SEARCH_SPREAD * (count + 1):
        count, first, trail.apart, trail.sought_words = 0, 0, 0, []
    if not features.empty:
        trail.empties, trail.sought = (0, 0), 0
        return None
    sought = mark_of(features.sought)
    again = count > 0 and sought != 0 and sought == trail.sought
    trail.empties, trail.sought = (count + (not again), first or at), sought
    trail.apart += not again and _asks_apart(trail, features.sought)
    count, first = trail.empties
    if count - trail.apart < EMPTY_SEARCHES:
        return None
    return StuckFinding("empty_searches", features.tool, count, first, at, detail=features.shown)


# What code has and words have not, and what stands for any character, in a pattern that is no name of files.
_CODE: Final = re.compile(r"(?!\*|.*/\*).*(?:[=(\[{]|\\[.sdw])")
_ESCAPES: Final = re.compile(r"\\\w")  # `\brefund` looks for `refund`
# The beginnings of the words of a name in any spelling: `loadAll`, `LOADED` and `load_all` look for one thing.
_STEMS: Final = re.compile(r"[A-Z]{3,4}(?![a-z])|[A-Z][a-z]{2,3}|[a-z]{3,4}")


def _asks_apart(trail: ProgressTrail, sought: str) -> bool:
    """Check whether a search is a question of its own: for a piece of code that shares no word with those before it.

    An audit asks for `eval(`, `verify=False` and `md5(` in turn, and is glad to find nothing.
    """
    words = {mark_of(stem.casefold()) for stem in _STEMS.findall(_ESCAPES.sub(" ", sought))} - _NO_STEMS
    apart = bool(trail.sought_words) and _CODE.match(sought) is not None and words.isdisjoint(trail.sought_words)
    trail.sought_words = [*trail.sought_words, *words.difference(trail.sought_words)][-STEMS_MAX:]
    return apart


_NO_STEMS: Final = {mark_of(word) for word in ("true", "fals", "none", "null")}


def _missing_pages(trail: ProgressTrail, features: CallFeatures, at: int) -> StuckFinding | None:
    # An edit may be what makes them exist; to go to a page changes no other.
    known = trail.fixed <= trail.missing[1] or features.effect == "write"
    count, first = trail.missing if known else (0, 0)
    trail.missing = (count + 1, first or at) if features.absent else (0, 0)
    count, first = trail.missing
    if count < WEAK_REPEATS:
        return None
    return StuckFinding("empty_searches", MISSING, count, first, at, detail=MISSING)


def same_state(trail: ProgressTrail, features: CallFeatures, at: int, known: Asked) -> StuckFinding | None:
    """Find a look that shows the same fault each time, though something was changed before each.

    Of a file that a silent command edits before each look, anything that stays the same says that no edit reached it.
    `known` is the same call when it was made last.
    """
    if known.news != features.news or features.failed or trail.anything <= known.indexes[-1]:
        return None
    fault = fault_line(features.state)  # asked last, as it takes longest
    if not _shows_swapped(trail, features, known.indexes[-1]) and not fault:
        return None
    key = mark(f"> {features.news} {features.shown}")
    trail.failures.setdefault(key, known.indexes[-1:])
    calls = note_attempt(trail, key, attempts(trail, key), at)
    if len(calls) < REPEATS:
        return None
    return StuckFinding("same_output", features.shown, len(calls), calls[0], at, detail=fault)


# A name with an ending, in the words of a call.
_FILE: Final = re.compile(r"[\w./-]{1,80}\.\w{1,5}\b")


def _shows_swapped(trail: ProgressTrail, features: CallFeatures, since: int) -> bool:
    """Check whether a call shows a file in which a command line, which does not say if it did, replaced something."""
    if trail.swapped <= since or features.effect not in ("read", "search"):
        return False
    return any(trail.paths.get(file_mark(path)) == trail.swapped for path in _FILE.findall(features.shown))


def same_complaint(trail: ProgressTrail, features: CallFeatures, at: int) -> StuckFinding | None:
    """Find a program that complains of one name after another in the same words, and did not work in between."""
    form = features.form or features.purpose
    if not features.complaint or shows_progress(features):
        return None
    key = mark(f"? {features.complaint} {form}")
    calls = note_attempt(trail, key, attempts(trail, key, trail.worked.get(mark(form), 0)), at)
    needed = RETRIES_ASKED_FOR if features.retry_asked else WEAK_REPEATS
    if len(calls) < needed:
        return None
    subject = next((each for each in features.programs if each not in _LEADING), features.tool)
    return StuckFinding("failing_tool", subject, len(calls), calls[0], at, detail=features.error)


_LEADING: Final = words_in("cd export source set timeout")


def same_answer(trail: ProgressTrail, features: CallFeatures, at: int, repeats: list[int]) -> StuckFinding | None:
    """Find a long answer that three of the last eight calls got, whatever they asked, with no change in between.

    Two are no finding, as a last look at the work may be such a call, nor are searches that find one document, nor test
    runs of several builds that all pass. To wait for what a run prints shows again what the run itself has shown: waits
    are compared with the same wait alone, and left to `dead_wait` while something is under way.
    """
    if features.failed or features.effect in ("search", "test"):
        return None
    since = max(at - 8, trail.anything)
    same = {index for each in trail.asked.values() if each.news == features.news for index in each.indexes}
    if features.waits or features.effect == "wait":
        same = set[int]() if is_under_way(features.state) else set(repeats)
    recent = [index for index in same if index > since]
    if len(recent) < REPEATS:
        return None
    return StuckFinding("no_news", "", len(recent), min(recent), at, detail=features.shown)
