"""The measure of progress: one function that finds, from the trail and the features of a call, what it repeats.

A call repeats another if nothing happened in between that could change its answer, and its result says nothing new.
Providers, statistics and reports all use its answer, so that no two of them judge differently.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from tellback.contracts.guidance import ToolCall, ToolInvoked
from tellback.guidance.observations.evidence import Verdict
from tellback.guidance.progress import detectors, endings, fruitless
from tellback.guidance.progress.effects import DeclaredEffect
from tellback.guidance.progress.faults import OWN_SCRIPT, asks_of_contents
from tellback.guidance.progress.features import CallFeatures
from tellback.guidance.progress.reading import call_features
from tellback.guidance.progress.reports import first_reportable
from tellback.guidance.progress.states import is_dead
from tellback.guidance.progress.substance import add_lines
from tellback.guidance.progress.trail import (
    ACTIONS_MAX,
    INDEXES_MAX,
    PATHS_MAX,
    SCRIPTS_MAX,
    WORKED_MAX,
    Asked,
    ProgressTrail,
    StuckFinding,
    file_mark,
    form_mark,
    hash_of,
    remember,
)
from tellback.guidance.progress.undone import edit_made_over, undone_edit
from tellback.guidance.repeats import (
    AttemptMarks,
    asked_by,
    asked_plainly,
    attempt_marks,
    decode_call,
    is_near_duplicate,
)

# Calls after which a read or a search no longer repeats: agents lose what it showed, or want to be sure. With 12 one
# report less was right, 60 gives the same figures.
FORGOTTEN: Final = 25
# New lines of a page that was not seen before; a page with a field filled in has one or two. By judgement.
NEW_PAGE: Final = 3


class Judgement(msgspec.Struct, frozen=True):
    """The verdict on a call: the calls that it repeats, its own last, and what was found and not reported before."""

    repeats: tuple[int, ...]
    finding: StuckFinding | None = None


class CallReading(msgspec.Struct, frozen=True, gc=False):  # a worker makes one for each call
    """The reading of a call by itself, whatever came before it; `text` is what it asks for, in normal form.

    It serves one judgement, which completes the features.
    """

    outcome: Verdict
    declared: DeclaredEffect | None
    features: CallFeatures
    text: bytes
    marks: AttemptMarks


def read_call(event: ToolInvoked, outcome: Verdict, declared: DeclaredEffect | None = None) -> CallReading:
    """Read a call; `outcome` is what observation says it counts as, `declared` what its host says of the tool."""
    features = call_features(event, outcome, declared)
    text = _asked_in(event, features)
    # Command lines are compared by what they name.
    return CallReading(outcome, declared, features, text, attempt_marks(event.tool, text, features.asks))


def _asked_in(event: ToolInvoked, features: CallFeatures) -> bytes:
    if features.effect == "test" and features.target and not (features.failed or features.moves or features.alters):
        # Whatever its options; another edit in the same line makes it another run.
        return f"{event.tool} {features.target}".encode("utf-8", "replace")
    return asked_plainly(event.params) if features.bare else asked_by(event.tool, event.params)


def judge_call(
    trail: ProgressTrail,
    event: ToolInvoked,
    at: int,
    recent: Sequence[msgspec.Raw | ToolCall],
    reading: CallReading,
) -> Judgement:
    """Return the verdict of the measure of progress on call `at`, and record it; `recent` has the calls before it."""
    features, text, marks = reading.features, reading.text, reading.marks
    if features.folder and _note_folder(trail, features):
        text = _asked_in(event, features)
        marks = attempt_marks(event.tool, text, features.asks)

    def is_near(index: int) -> bool:
        place = index - at + len(recent)
        if place < 0:
            return False
        call = decode_call(recent[place])
        return call.tool == event.tool and is_near_duplicate(
            asked_by(event.tool, event.params), asked_by(call.tool, call.params)
        )

    return judge(trail, features, marks, at, is_near)


def _note_folder(trail: ProgressTrail, features: CallFeatures) -> bool:
    """Tell runs in several packages of one repository apart; return True if the call has another target now.

    The first folder is the one that agents leave out.
    """
    where = file_mark(features.folder)
    trail.home = trail.home or where
    if where == trail.home:
        return False
    features.target = f"{features.target} in {features.folder}"
    features.purpose = features.purpose and f"{features.purpose} {where}"
    return True


def judge(
    trail: ProgressTrail,
    features: CallFeatures,
    marks: AttemptMarks,
    at: int,
    is_near: Callable[[int], bool] = lambda _: False,
) -> Judgement:
    """Return the verdict on the call of index `at`, and record it in the trail.

    `is_near` checks whether the arguments of an earlier call are nearly identical.
    """
    if features.neutral:
        return Judgement((at,))
    _note_wait(trail, features, at)
    _note_outcome(trail, features, at)
    # Most calls change nothing and show few lines: to ask costs less than to call what finds nothing to do.
    changed = _expected_changes(trail, features) if features.writes or features.scripts or features.runs else []
    keeps = features.keeps and bool(changed)
    if (changed or features.effect in _ACTIONS) and not (keeps and features.effect == "write"):
        _note_action(trail, features, at)
    known = _asked_before(trail, features, marks)
    repeats = _repeats(trail, features, marks, at, known, is_near)
    seen = trail.seen
    if features.lines:
        features.known, seen = add_lines(seen, features.lines)
        if features.known < 1 and not features.idles:
            trail.heard = at
            if features.waits or features.lists or features.logs:
                trail.moved = at
        if features.effect == "write" and (1 - features.known) * len(features.lines) >= NEW_PAGE:
            trail.arrived = at
    state = hash_of(marks.attempt, at if features.hides else features.news)
    hunts = detectors.hunts_flaky_test(features, repeats) and is_near(at - 1)
    found = findings(trail, features, at, [at] if hunts else repeats, known, state)
    if keeps:
        trail.kept = at
    elif changed or features.sends:
        _note_changes(trail, features, changed, at)
    trail.seen = seen
    finding = first_reportable(trail, found) if any(found) else None
    if finding is not None and finding.kind not in trail.off:  # what nobody is told begins no silence
        trail.finding, trail.spoken = finding, at
    return Judgement(tuple(repeats), finding)


def _asked_before(trail: ProgressTrail, features: CallFeatures, marks: AttemptMarks) -> Asked | None:
    """Return the same call when it was made last; None if it is a test that came out otherwise since."""
    known, tests = trail.asked.get(marks.attempt), features.tests
    if features.unchanged and known is not None:
        features.news = known.news
    if features.effect == "test" and tests is not None and _came_out_otherwise(trail, features, tests.bad):
        return None
    return known


def _came_out_otherwise(trail: ProgressTrail, features: CallFeatures, bad: int) -> bool:
    """Check whether the run before came out otherwise, or ever did with nothing changed, as of a flaky test."""
    before = trail.tests.get(key := form_mark(features.target))
    otherwise = before is not None and (before.failed > 0) != (bad > 0)
    if before is not None and otherwise and before.at > trail.anything:
        trail.flaky = key
    return otherwise or (trail.flaky == key and not features.failed)


def findings(  # noqa: PLR0917 - all that a detector may look at
    trail: ProgressTrail, features: CallFeatures, at: int, repeats: list[int], known: Asked | None, state: int
) -> tuple[StuckFinding | None, ...]:
    """Ask the detectors; of two findings, the first one is reported.

    Each is asked only if the call or the trail has something that it looks at, as most calls have for three or four:
    asking all twenty took half of the time of a judgement. What is checked here, detectors do not check again.
    """
    failed, effect, again = features.failed, features.effect, len(repeats) > 1
    counted, nothing = features.counted, features.empty or features.absent
    is_long = len(features.lines) >= fruitless.LONG_ANSWER
    familiar = features.known >= detectors.FAMILIAR_SHARE or trail.familiar
    return (
        detectors.same_failure(trail, features, at) if failed else None,
        undone_edit(trail, features, at) if failed or trail.edits or trail.restores or features.alters else None,
        edit_made_over(trail, features, features.edit, at) if features.wrong and features.edit else None,
        detectors.same_output(trail, features, at, repeats) if features.answers or features.scripted else None,
        fruitless.same_state(trail, features, at, known)
        if known is not None and (features.state or trail.swapped)
        else None,
        detectors.same_call(features, at, repeats) if again else None,
        detectors.same_lines(trail, features, at) if features.views or trail.reread else None,
        detectors.two_states(trail, features, at, state),
        detectors.worse_tests(trail, features, counted, at) if counted is not None else None,
        detectors.failing_tool(trail, features, at) if failed or trail.tools else None,
        fruitless.same_complaint(trail, features, at) if failed else None,
        fruitless.in_vain(trail, features, at) if nothing or trail.empties[0] or trail.missing[0] else None,
        detectors.same_counts(trail, features.tests, at) if features.tests is not None and effect == "write" else None,
        detectors.no_new_output(trail, features, at) if features.probes else None,
        endings.dead_wait(trail, features, at, repeats) if features.waits or effect == "wait" else None,
        endings.after_done(trail, features, at) if trail.done or effect in _ASKS_NOTHING else None,
        detectors.no_news(trail, features, at, is_stale=is_stale(trail, features, repeats))
        if again or trail.stale or trail.reread
        else None,
        detectors.no_new_lines(trail, features, at) if familiar else None,
        detectors.idle_calls(trail, features, at) if trail.idle or effect in detectors.IDLE else None,
        fruitless.same_answer(trail, features, at, repeats) if features.known >= 1 and is_long else None,
    )


def _note_action(trail: ProgressTrail, features: CallFeatures, at: int) -> None:
    trail.actions = [*trail.actions[-ACTIONS_MAX:], at]
    if features.effect in ("run", "test") and not features.swaps:  # a script that edits a file tries nothing
        trail.ran = at


def _note_wait(trail: ProgressTrail, features: CallFeatures, at: int) -> None:
    """Count a look behind a wait as one call with it, like `sleep 60; tail app.log`."""
    if features.idles:
        trail.rested = at
    elif trail.rested == at - 1 > 0 and features.effect in ("read", "search", "run"):
        features.waits = True
        features.dead = is_dead(features.state or features.last)


def _note_outcome(trail: ProgressTrail, features: CallFeatures, at: int) -> None:
    if features.failed or features.empty or features.absent:
        trail.in_vain = at
    if features.failed:
        trail.failing += 1
        trail.failing_since = trail.failing_since or at
        return
    trail.failing = trail.failing_since = 0
    form = features.form or features.purpose
    if form and features.effect != "wait":  # a look that shows no failure yet works through no list
        remember(trail.worked, form_mark(form), at, WORKED_MAX)
    if features.scripted:
        remember(trail.worked, OWN_SCRIPT, at, WORKED_MAX)
    if features.moves:  # what failed at another revision says nothing of what is here
        trail.failures, trail.tests, trail.restores = {}, {}, []


# Effects of calls that run or change something; reads and searches between them make an attempt no older.
_ACTIONS: Final = frozenset({"write", "install", "run", "test"})


def is_stale(trail: ProgressTrail, features: CallFeatures, repeats: list[int]) -> bool:
    """Check whether a call says nothing new: it repeats another, or reads again what was read twice."""
    if trail.reread & 1:
        return True
    # Two runs after each edit measure something, whose times are no news here.
    runs = features.effect in ("run", "test")
    least = detectors.RETRIES_ASKED_FOR if features.retry_asked else detectors.REPEATS if runs else 2
    return len(repeats) >= least and features.effect in ("read", "search", "run", "test") and not features.waits


def _repeats(  # noqa: PLR0917 - all that a repeat depends on
    trail: ProgressTrail,
    features: CallFeatures,
    marks: AttemptMarks,
    at: int,
    known: Asked | None,
    is_near: Callable[[int], bool],
) -> list[int]:
    if (features.unseen or features.effect in _ASKS_NOTHING) and not features.presses:
        return [at]
    if features.presses and known is not None and known.indexes[-1] < at - 1:
        known = None  # it was looked at in between
    indexes: list[int] = []
    if known is not None and known.news == features.news:
        since = _changed_at(trail, features, known)
        indexes = [index for index in known.indexes if index > since]
    # `/order` is not `/orders`, and a search that found nothing for a word, not a sentence, may find another spelling.
    is_word = features.empty and " " not in features.sought
    if not indexes and features.effect in _NEARLY and not (features.absent or is_word):
        indexes = _near_repeats(trail, features, marks, known, is_near)
    if indexes and features.effect in ("read", "search") and at - indexes[-1] > FORGOTTEN:
        indexes = []
    indexes.append(at)
    if len(indexes) > INDEXES_MAX:  # the first ones show since when, and which levels were reached
        del indexes[INDEXES_MAX // 2]
    trail.remember_asked(marks.attempt, Asked(marks.low, marks.high, features.news, indexes))
    return indexes


# Effects of calls that note something down or hand something in, which may be noted again.
_ASKS_NOTHING: Final = frozenset({"plan", "none", "finish"})
# Effects whose calls also repeat nearly identical ones; a white space or a letter may be all that an edit is about.
_NEARLY = frozenset({"read", "search", "run"})


def _near_repeats(
    trail: ProgressTrail,
    features: CallFeatures,
    marks: AttemptMarks,
    known: Asked | None,
    is_near: Callable[[int], bool],
) -> list[int]:
    news, low, high = features.news, marks.low, marks.high
    if features.programs:
        otherwise = _asked_otherwise(trail, features)
        since = _changed_at(trail, features, known) if otherwise else 0
        return [index for index in otherwise if index > since]
    near = trail.near
    if low not in near and high not in near:
        return []
    since = _changed_at(trail, features, known)
    alike = [each for each in trail.asked.values() if each.news == news and (each.low == low or each.high == high)]
    for asked in reversed(alike):
        newest = asked.indexes[-1]
        if newest > since and is_near(newest):
            return [index for index in asked.indexes if index > since]
    return []


def _asked_otherwise(trail: ProgressTrail, features: CallFeatures) -> list[int]:
    """Return the calls of the newest command line that asked for the same in other words, and got the same answer.

    A short answer says too little: "0" may answer anything.
    """
    if not features.lines:
        return []
    same = (each.indexes for each in trail.asked.values() if each.news == features.news and each.low == features.asks)
    return max(same, key=_last, default=list[int]())


def _last(indexes: list[int]) -> int:
    return indexes[-1]


def _changed_at(trail: ProgressTrail, features: CallFeatures, known: Asked | None) -> int:
    """Return the last call that could have changed the answer."""
    if features.idles:  # what it waited for is seen in other calls
        return max(trail.anything, trail.heard)
    if features.effect in ("write", "install") or features.sends:
        # It changes what it asks itself: only made again at once does it repeat. What runs may undo a write.
        changed = max(trail.anything, trail.kept, trail.ran if features.effect == "write" else 0)
        if features.operates:  # what came of it is seen in other calls
            changed = max(changed, trail.heard)
        return 0 if known is not None and changed <= known.indexes[-1] else changed
    if features.logs:
        return max(trail.anything, trail.ran)
    if features.views and features.effect == "read":
        return max(trail.changed_file(view.path) for view in features.views)
    if trail.kept > trail.anything and not asks_of_contents(features):
        return trail.kept
    return trail.anything


def _expected_changes(trail: ProgressTrail, features: CallFeatures) -> list[str]:
    """Return the marks of the files that a call may change, with those of scripts that it runs; "" means any file."""
    for script, files in features.scripts:
        remember(trail.scripts, file_mark(script), [file_mark(file) for file in files], SCRIPTS_MAX)
    marks = [file_mark(path) if path else "" for path in features.writes]
    run = [file for path in features.runs for file in trail.scripts.get(file_mark(path), ())]
    features.creates = features.creates and not run
    marks += run
    features.keeps = features.keeps and not (run or features.sends or features.failed)  # a hook may change files
    known = any(each in trail.paths or each in trail.viewed for each in marks)
    features.fixes = (known or not features.creates) and not (features.prints or features.keeps)
    return [] if features.rejected and features.effect == "write" else marks


def _note_changes(trail: ProgressTrail, features: CallFeatures, changed: list[str], at: int) -> None:
    if features.sends and not features.failed:
        trail.anything = trail.fixed = at
    if not changed:
        return
    trail.anything = at
    if features.fixes:
        trail.fixed = at
        trail.familiar = 0
        trail.swapped = at if features.swaps else trail.swapped
    for each in changed:
        if each:
            remember(trail.paths, each, at, PATHS_MAX)
        else:
            trail.changed = at
