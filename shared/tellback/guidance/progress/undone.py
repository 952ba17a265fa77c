"""Edits that are taken back and made again: by an editor, from a copy, or by a version control program."""

from __future__ import annotations

from typing import Final

from tellback.guidance.progress.detectors import ATTEMPT, SOON, actions_since, file_mark, mark, shows_fault
from tellback.guidance.progress.features import CallFeatures
from tellback.guidance.progress.trail import COPIES_MAX, EDITS_MAX, ProgressTrail, StuckFinding, remember

RESTORES: Final = 2  # by judgement
# Calls after which an edit no longer belongs to the same attempt; by judgement.
EDITS_FORGOTTEN_AFTER: Final = 16


def undone_edit(trail: ProgressTrail, features: CallFeatures, at: int) -> StuckFinding | None:
    """Find an edit that was taken back and made again, or files that are restored again and again."""
    if features.failed and features.tests is None:
        return None
    if trail.restores and _works(features):
        trail.restores = []
    if not _changes_or_restores(features):
        return None
    edit = features.edit
    redone = _made_again(trail, features, at)
    if redone is not None:
        return redone
    if edit is not None and edit.old and edit.new and edit.old != edit.new:
        ahead = mark(f"{edit.path} {edit.old} {edit.new}")
        back = mark(f"{edit.path} {edit.new} {edit.old}")
        made = trail.edits.get(ahead)
        undone = trail.edits.get(back)
        remember(trail.edits, ahead, (at, made[1] + 1 if made else 1), EDITS_MAX)
        if made and undone and undone[0] > made[0] and at - made[0] <= EDITS_FORGOTTEN_AFTER:
            return StuckFinding("undone_edit", edit.path, made[1], made[0], at)
    return _restored_again(trail, features, at)


def _restored_again(trail: ProgressTrail, features: CallFeatures, at: int) -> StuckFinding | None:
    if features.unstashes:
        while trail.restores and trail.restores[-1][0] == _ALL_FILES:
            trail.restores = trail.restores[:-1]
    restored = features.restores or _copied_back(trail, features)
    if restored:
        path = int(file_mark(restored), 16)
        trail.restores = [each for each in trail.restores if actions_since(trail, each[1]) <= ATTEMPT][-5:]
        trail.restores.append((path, at))
        again = [index for other, index in trail.restores if other == path]
        if len(again) >= RESTORES:
            return StuckFinding("undone_edit", restored, len(again), again[0], at)
    return None


def _works(features: CallFeatures) -> bool:
    """Check whether a script or a test run went through after an attempt, so that the next restore begins another one.

    Without it, an agent that replaced a fix that worked by a better one got a false report.
    """
    runs = features.scripted or features.effect == "test"
    return runs and bool(features.lines) and not features.fixes and not shows_fault(features)


def _changes_or_restores(features: CallFeatures) -> bool:
    return bool(features.writes or features.edit or features.restores or features.unstashes or features.copies)


def _made_again(trail: ProgressTrail, features: CallFeatures, at: int) -> StuckFinding | None:
    """Find a change that is made again after the file was restored, alone: of several, the good ones are made again."""
    if not features.change or not features.writes or features.restores:
        return None
    path = int(file_mark(features.writes[-1]), 16)
    undone = [index for other, index in trail.restores if other in (path, _ALL_FILES) and at - index <= SOON]
    key = mark(f"= {features.change}")
    made = trail.edits.get(key)
    remember(trail.edits, key, (at, path), EDITS_MAX)
    # A run in between may check that the failure was there before the edit.
    if (
        made is None
        or not undone
        or trail.ran > undone[-1]
        or made[0] > undone[-1]
        or at - made[0] > EDITS_FORGOTTEN_AFTER
    ):
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
