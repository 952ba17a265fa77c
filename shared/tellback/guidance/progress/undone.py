"""Edits that are taken back and made again, by an editor, from a copy or by a version control program, or made over."""

from __future__ import annotations

from typing import Final

from tellback.guidance.progress.detectors import (
    REPEATS,
    SOON,
    WEAK_REPEATS,
    attempt_begin,
    attempts,
    note_attempt,
)
from tellback.guidance.progress.faults import shows_fault
from tellback.guidance.progress.features import CallFeatures, Edit
from tellback.guidance.progress.swaps import is_placed
from tellback.guidance.progress.trail import (
    CONTENTS_MAX,
    COPIES_MAX,
    EDITS_MAX,
    ProgressTrail,
    Restore,
    StuckFinding,
    file_mark,
    mark,
    remember,
)

RESTORES: Final = 2  # by judgement
# Actions within which two restores belong to one attempt: more than for an error, as to try an edit in a shell takes
# four or five. 8 to 13 give the same figures; with other edits after a third of all calls, 12 finds one stretch more
# than 8. With 14, one report came ten calls before its label.
RESTORES_WITHIN: Final = 12
# Restores after each of which other tests failed than before: experiments, such as faults put in to see a test fail.
# For scripts that fail in other ways, two agents that got nowhere were not reported.
RESTORES_OTHERWISE: Final = 5


def undone_edit(trail: ProgressTrail, features: CallFeatures, at: int) -> StuckFinding | None:
    """Find an edit that was taken back and made again, or files that are restored again and again."""
    found = None if features.rejected else _found_in(trail, features, at)
    if features.failed and features.effect in ("run", "test"):
        # Only other tests that fail show another attempt: a script that breaks otherwise may be as far from the goal.
        trail.fault = features.error_mark if features.tests is not None and features.tests.passed else 0
        trail.broke = features.purpose
    return found


def edit_made_over(trail: ProgressTrail, features: CallFeatures, edit: Edit, at: int) -> StuckFinding | None:
    """Find a text that is written over and over, after which the editor finds the same wrong each time.

    Edits elsewhere in the file do not count: what is wrong may have been so before, or wait for its turn.
    """
    key = mark(f"? {edit.path} {features.wrong}")
    known = attempts(trail, key)
    over = features.creates or mark(f"? {edit.path} {edit.old}") in trail.edits
    remember(trail.edits, mark(f"? {edit.path} {edit.new}"), (at, 0), EDITS_MAX)
    if known and not over:
        return None
    calls = note_attempt(trail, key, known, at)
    if len(calls) < REPEATS:
        return None
    said = features.wrong.partition("\n")[0]
    return StuckFinding("same_failure", key, len(calls), calls[0], at, detail=said)


def _found_in(trail: ProgressTrail, features: CallFeatures, at: int) -> StuckFinding | None:
    if (trail.edits or trail.restores) and _works(features) and not _begins_attempt(trail, features):
        trail.restores, trail.passed = [], at
    if not features.alters:
        return None
    redone = _made_again(trail, features, at)
    if redone is not None:
        return redone
    edits = [*_rewritten(trail, features), features.edit, *features.swaps]
    back_again = [_there_and_back(trail, edit, at) for edit in edits if edit is not None]
    return next(filter(None, back_again), None) or _restored_again(trail, features, at)


def _there_and_back(trail: ProgressTrail, edit: Edit, at: int) -> StuckFinding | None:
    """Find a replacement that is made again after the opposite one, or for the third time."""
    if edit.old == edit.new:
        return None
    ahead = mark(f"{edit.path} {edit.old} {edit.new}")
    made, count = _count_again(trail, ahead, at)
    if not edit.old:  # nobody knows what it replaced
        return None
    if is_placed(edit):
        made = made or trail.edits.get(mark(f"{edit.path} 0 {edit.new}"))
    before, same = _count_again(trail, mark(f"+ {edit.whole}"), at) if edit.whole else (made, count)
    undone = trail.edits.get(mark(f"{edit.path} {edit.new} {edit.old}")) if edit.new else None
    if made and undone and _failed_between(trail, made[0], undone[0]) and at - made[0] <= SOON:
        return StuckFinding("undone_edit", edit.path, made[1], made[0], at)
    # Whoever makes it a third time did not see that it is there, or what takes it away. A command line that replaces a
    # text is silent, whether or not it found that text.
    if before and same >= (WEAK_REPEATS if edit.whole else REPEATS):
        return StuckFinding("undone_edit", edit.path, same, before[0], at)
    return None


def _failed_between(trail: ProgressTrail, made: int, undone: int) -> bool:
    """Check whether an edit was taken back later, and not to see a test fail without it that went through with it."""
    return made < undone and not made < trail.passed < undone


def _count_again(trail: ProgressTrail, key: str, at: int) -> tuple[tuple[int, int] | None, int]:
    """Record a replacement, and return the last time that it was made with its count, and the count now.

    Made again at once it is for the next place: some editors replace the first one that they find.
    """
    made = trail.edits.get(key)
    count = made[1] + (at - made[0] > 1) if made and at - made[0] <= SOON else 1
    remember(trail.edits, key, (at, count), EDITS_MAX)
    return made, count


def _rewritten(trail: ProgressTrail, features: CallFeatures) -> list[Edit]:
    """Return the files written as a whole whose content was written before, as replacements of that by this."""
    whole = dict(features.contents)
    for path in features.writes:
        if path not in whole:
            trail.contents.pop(file_mark(path), None)  # what stands there now was never seen as a whole
    edits = [Edit(path, trail.contents.get(file_mark(path), 0), text) for path, text in whole.items()]
    for path, text in whole.items():
        remember(trail.contents, file_mark(path), text, CONTENTS_MAX)
    return edits


def _restored_again(trail: ProgressTrail, features: CallFeatures, at: int) -> StuckFinding | None:
    if features.unstashes:
        while trail.restores and trail.restores[-1].path == _ALL_FILES:
            trail.restores = trail.restores[:-1]
    restored = features.restores or _copied_back(trail, features)
    if restored:
        path = int(file_mark(restored), 16)
        begin = attempt_begin(trail, RESTORES_WITHIN)
        trail.restores = [each for each in trail.restores if each.at >= begin][-5:]
        trail.restores.append(Restore(path, at, trail.fault))
        trail.fault = 0
        again = [each for each in trail.restores if each.path == path]
        faults = {each.fault for each in again}
        needed = RESTORES_OTHERWISE if 0 not in faults and len(faults) == len(again) else RESTORES
        if len(again) >= needed:
            return StuckFinding("undone_edit", restored, len(again), again[0].at, at)
    return None


def _works(features: CallFeatures) -> bool:
    """Check whether a script or a test run went through after an attempt, so that the next restore begins another one.

    Without it, an agent that replaced a fix that worked by a better one got a false report.
    """
    runs = features.effect == "test" or (features.effect == "run" and bool(features.programs) and not features.probes)
    return runs and bool(features.lines) and not features.fixes and not shows_fault(features)


def _begins_attempt(trail: ProgressTrail, features: CallFeatures) -> bool:
    """Check whether a run behind a failure and a restore may be the next change, as a codemod is: it did not fail."""
    behind = bool(trail.restores) and trail.actions[-3:-1] == [trail.in_vain, trail.restores[-1].at]
    return behind and features.effect == "run" and features.purpose != trail.broke


def _made_again(trail: ProgressTrail, features: CallFeatures, at: int) -> StuckFinding | None:
    """Find a change that is made again after the file was restored, alone: of several, the good ones are made again."""
    if not features.change or not features.writes or features.restores:
        return None
    path = int(file_mark(features.writes[-1]), 16)
    undone = [each.at for each in trail.restores if each.path in (path, _ALL_FILES)]
    key = mark(f"= {features.change}")
    made = trail.edits.get(key)
    remember(trail.edits, key, (at, path), EDITS_MAX)
    if made is None or not undone or at - made[0] > SOON:
        return None
    if not _failed_between(trail, made[0], undone[-1]):
        return None
    # A run in between may check that the failure was there before the edit.
    if trail.ran > undone[-1]:
        return None
    if any(other == path and made[0] < index < undone[-1] for index, other in trail.edits.values()):
        return None
    return StuckFinding("undone_edit", features.writes[-1], 1, made[0], at)


_ALL_FILES: Final = int(file_mark("*"), 16)


def _copied_back(trail: ProgressTrail, features: CallFeatures) -> str:
    """Return the file over which a copy of it is put that nothing has changed since, "" for none."""
    restored = ""
    for path, copy in features.copies:
        if trail.copies.get(mark(path)) == mark(copy):
            restored = copy
        else:
            remember(trail.copies, mark(copy), mark(path), COPIES_MAX)
    for path in features.writes:
        if all(path not in (copy, f"./{copy}") for _, copy in features.copies):
            trail.copies.pop(mark(path.removeprefix("./")), None)
    return restored
