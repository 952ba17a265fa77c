"""The ways to be stuck, each a small function of the trail and the features of the newest call.

Thresholds were tuned on transcripts of coding agents whose stuck stretches people had labelled (`benchmarks nudges`),
the half of the tasks that is kept for tuning. Each says which other values were compared; "by judgement" means that
the repository has no such figure for it.
"""

from __future__ import annotations

from typing import Final

from tellback.guidance.observations.testruns import TestCounts
from tellback.guidance.progress.effects import notes_an_item, words_in
from tellback.guidance.progress.faults import (
    BLOCKS,
    OWN_SCRIPT,
    error_key,
    fails_for_certain,
    is_own_misuse,
    is_refused,
    is_refused_edit,
    ran_out_of_time,
    shows_fault,
    shows_progress,
)
from tellback.guidance.progress.features import END, PATH_PARTS, CallFeatures, View
from tellback.guidance.progress.substance import asks_to_retry, compare_tests
from tellback.guidance.progress.trail import (
    ACTIONS_MAX,
    FAILURES_MAX,
    TESTS_MAX,
    TOOLS_MAX,
    VIEWED_MAX,
    VIEWED_PATHS_MAX,
    VIEWS_MAX,
    Failures,
    ProgressTrail,
    StuckFinding,
    TestRun,
    file_mark,
    mark,
    remember,
)

# The third time is evidence, by judgement. With 2 of the last eight calls, six agents that were making progress got a
# false report of no news.
REPEATS: Final = 3
# What says less takes one more: a count of failures after edits alone, which may have been there before the first one,
# lines that are read again, a name that does not exist, after which the next may.
WEAK_REPEATS: Final = 4
RETRIES_ASKED_FOR: Final = 5  # of a call whose own result asks to try again; by judgement
# The same key or wheel with nothing else in between; what that shows may stand elsewhere. By the rules of the labels
# the tenth call that brings nothing is evidence; two more by judgement.
SAME_PRESS: Final = 12
# A tool other than a shell that failed answers the same call in the same way.
SAME_FAILING_CALL: Final = 2
# An edit resent at once after a refusal may be a slip: one of four such agents recovered. After four other calls it
# means that the refusal was forgotten.
FORGOTTEN_REFUSAL: Final = 4
NOTHING_SHOWN: Final = "nothing"  # the detail of a finding about lines beyond the end
FAILING_SHELL: Final = 8  # with 5, an agent that was making progress got a false report; with 8, none did
WORSE_RUNS: Final = 2  # by judgement
LINTERS: Final = words_in(
    "ruff eslint flake8 pylint pycodestyle mypy pyright biome rubocop golangci-lint shellcheck tsc vue-tsc"
)
IDLE: Final = frozenset({"none", "plan"})  # effects of calls that neither ask nor do anything
IDLE_CALLS: Final = 10  # by the rules of the labels; none of the tuning transcripts has as many
FAMILIAR_OF_EIGHT: Final = 7  # reads and searches with hardly a new line; with 6, four false reports
# Set with its detectors on one half of the tuning tasks and checked on the other, where they found one stretch more (9
# of 21) and added no false report. No other value is on record.
FAMILIAR_SHARE: Final = 0.85
# A run that shows more new lines than this of a failure looks closer at it, as with a longer traceback; by judgement,
# 0.3 and 0.6 give the same figures.
RETRY_SHARE: Final = 0.6
# Actions after which an error or a restore no longer belongs to the same attempt: calls that run or change something.
# Counted in calls, recall fell from 0.73 to 0.57 when an unrelated read was put before each call; so, to 0.70. 8 and 9
# give the same figures; with 6, one stretch less; with 11, two false reports more. For what blocks, 8 to 24 are alike.
ATTEMPT: Final = 8
BLOCKED_ATTEMPT: Final = ACTIONS_MAX
# Calls after which a read or an edit no longer belongs to the same attempt, by judgement: 16 gives the same figures.
SOON: Final = 12
VIEWS_FORGOTTEN_AFTER: Final = 60


def attempts(trail: ProgressTrail, key: str, since: int = 0, window: int = ATTEMPT) -> list[int]:
    """Return the calls under a key after call `since` that belong to one attempt with the newest."""
    known = trail.failures.get(key)
    if not known:
        return []
    begin = attempt_begin(trail, window)
    return [each for each in known if each > since and each >= begin]


def note_attempt(trail: ProgressTrail, key: str, earlier: list[int], at: int) -> list[int]:
    """Record a call under a key behind earlier ones, and return them all; the last one is left out to replace it."""
    calls = [*earlier[-11:], at]
    remember(trail.failures, key, calls, FAILURES_MAX)
    return calls


def attempt_begin(trail: ProgressTrail, window: int = ATTEMPT) -> int:
    """Return the first call after which at most `window` calls, up to the newest, ran or changed something."""
    return trail.actions[-window - 1] if len(trail.actions) > window else 0


def same_call(features: CallFeatures, at: int, repeats: list[int]) -> StuckFinding | None:
    """Find a call that was made before, with nothing in between that could change its answer, and the same answer."""
    absent = features.absent and not features.programs  # a shell may look whether a server is up by now
    certain = absent or _fails_again(features, at, repeats)
    needed = SAME_FAILING_CALL if certain else SAME_PRESS if features.presses else REPEATS
    if len(repeats) < needed or features.waits or features.effect == "wait":
        return None
    if features.retry_asked and len(repeats) < RETRIES_ASKED_FOR:
        return None
    error = features.error or ("404" if absent else "")
    return StuckFinding("same_call", features.shown, len(repeats), repeats[0], at, detail=error)


def hunts_flaky_test(features: CallFeatures, repeats: list[int]) -> bool:
    """Check whether tests that pass are run again and again, with nothing else in between, to see one of them fail.

    After as many runs as a key may be pressed nobody learns more. Runs with other options are no hunt.
    """
    passes = features.tests is not None and not features.failed
    return passes and 1 < len(repeats) < SAME_PRESS and repeats[-1] - repeats[0] == len(repeats) - 1


def _fails_again(features: CallFeatures, at: int, repeats: list[int]) -> bool:
    return fails_for_certain(features) or (is_refused_edit(features) and at - repeats[0] >= FORGOTTEN_REFUSAL)


def same_failure(trail: ProgressTrail, features: CallFeatures, at: int) -> StuckFinding | None:
    """Find the same final error again, whatever was changed in between."""
    if not features.error or features.aside or shows_progress(features):
        return None
    key = error_key(features)
    retry_key = mark(f"{key} {features.purpose or features.form}")
    if _got_better(trail, features, key):
        trail.failures.pop(key, None)
        trail.failures.pop(retry_key, None)
    edits, tested = features.effect == "write", features.tests is not None
    refused = is_refused(features)
    blocks = (edits and not tested) or refused or BLOCKS.search(features.error) is not None
    window = BLOCKED_ATTEMPT if blocks else ATTEMPT
    form = features.form or (features.purpose if refused else "")
    worked = trail.worked.get(mark(form), 0) if form else 0  # for other items of a list
    own = is_own_misuse(trail, features)
    if own and retry_key not in trail.failures:  # a script that worked in between is where it was learnt
        worked = max(worked, trail.worked.get(OWN_SCRIPT, 0))
    retries = _retries(trail, features, retry_key, at, worked if refused else 0)
    again = attempts(trail, key, worked, window)
    row = [each for each in trail.failures.get(key, ()) if each > worked] if again else []
    needed = RETRIES_ASKED_FOR if features.retry_asked else REPEATS
    if len(retries) >= needed:
        calls = max(retries, note_attempt(trail, key, row, at), key=len)
        return StuckFinding("same_failure", key, len(calls), calls[0], at, detail=features.error)
    closer = features.effect == "run" and bool(features.lines) and features.known < RETRY_SHARE and not own
    unfixed = bool(again) and trail.fixed <= again[-1] and not (features.fixes or own)
    if again and not blocks and not ran_out_of_time(features) and (closer or unfixed):
        # Nothing was fixed since, or a run shows something else: a bug examined from several sides fails each time.
        note_attempt(trail, key, row[:-1], at)
        return None
    row = note_attempt(trail, key, row, at)
    if len(again) + 1 < needed:
        return None
    # Each is close to the next, so the row is one attempt, of which a window of actions shows only the end.
    return StuckFinding("same_failure", key, len(row), row[0], at, detail=features.error)


_RETRIED: Final = frozenset({"run", "test", "install", "read", "search"})


def _retries(trail: ProgressTrail, features: CallFeatures, key: str, at: int, worked: int) -> list[int]:
    """Return the calls for one purpose that failed alike after call `worked`, and record this one.

    A call that shows more of the failure than those before it, such as a longer traceback, replaces the newest one. So
    does one that shows anything new after an edit that fixes nothing, such as one that prints.
    """
    if not features.cites and (not features.purpose or features.effect not in _RETRIED):
        return []
    calls = attempts(trail, key, worked)
    share = 1.0 if calls and trail.anything > calls[-1] >= trail.fixed else RETRY_SHARE
    return note_attempt(trail, key, calls[:-1] if features.lines and features.known < share else calls, at)


def same_output(trail: ProgressTrail, features: CallFeatures, at: int, repeats: list[int]) -> StuckFinding | None:
    """Find a script, a page or a service that shows the same fault each time, though something was changed before.

    One address that is asked in another way, such as with another header, counts as a change too. When any program's
    output counted, four agents whose linter found nothing got a false report.
    """
    shown = features.faulty if features.answers else shows_fault(features)
    if features.failed or not shown:
        return None
    key = mark(f"> {features.news} {features.address or features.purpose or features.shown}")
    # It comes back from a page that was new.
    calls = attempts(trail, key, trail.arrived - 1 if features.effect == "write" else 0)
    if calls and features.fetches and not features.fault and _edited_since(trail, calls[-1]):
        calls = []  # a page whose looks were edited has the same text
    changed = trail.anything if features.answers else trail.fixed
    if features.answers and features.effect == "read":  # what runs, such as a script in the page, may change it too
        changed = max(changed, trail.ran)
    if calls and changed <= calls[-1] and not (features.address and len(repeats) == 1):
        calls.pop()  # nothing was changed since
    calls = note_attempt(trail, key, calls, at)
    if len(calls) < REPEATS:
        return None
    return StuckFinding("same_output", features.shown, len(calls), calls[0], at, detail=features.fault or features.last)


def _edited_since(trail: ProgressTrail, since: int) -> bool:
    return any(at > since for at, _ in trail.edits.values())


def _got_better(trail: ProgressTrail, features: CallFeatures, error: str) -> bool:
    """Check whether a run counts less than its last, which may have passed, or than any that failed by this error."""
    now = features.counted
    if now is None:
        return False
    last, best = trail.tests.get(mark(features.target)), trail.tests.get(error)
    # Another command that runs more than twice as many tests runs others, of which more pass.
    if best is not None and now.bad == best.failed and now.passed > 2 * best.passed:
        best = TestRun(now.bad, now.passed)
    better = [each for each in (last, best) if each and compare_tests((each.failed, each.passed), now) == "better"]
    if best is None or best in better:
        remember(trail.tests, error, TestRun(now.bad, now.passed), TESTS_MAX)
    return bool(better) or (last is not None and not last.failed)


def same_lines(trail: ProgressTrail, features: CallFeatures, at: int) -> StuckFinding | None:
    """Find lines of a file that were read again and again while nothing changed it."""
    found: StuckFinding | None = None
    single, reread = len(features.views) == 1, False
    for view in features.views:
        key = mark("/".join(view.path.removeprefix("./").split("/")[-PATH_PARTS:]))
        since = max(trail.changed_file(view.path), at - VIEWS_FORGOTTEN_AFTER)
        known = [each for each in trail.views.get(key, ()) if each[2] > since]
        if any(each[:2] == (view.start, view.end) and each[3] != features.news for each in known if single):
            known = []  # the file was changed by something that did not look like it
        if view.start > END // 2 and features.lines and features.known < 1:
            known = []  # the end of a log that grows
        again = [each[2] for each in known if _is_same_view(view, each)]
        trail.viewed = [*trail.viewed[-(VIEWED_MAX - 1) :], file_mark(view.path)]
        remember(trail.views, key, [*known, (view.start, view.end, at, features.news)][-VIEWS_MAX:], VIEWED_PATHS_MAX)
        seen = len(again) + 1
        reread |= seen >= REPEATS
        soon = seen >= WEAK_REPEATS and at - again[1 - WEAK_REPEATS] <= SOON
        if soon or (seen >= REPEATS and trail.reread.bit_count() >= 2):
            found = StuckFinding("same_lines", view.path, seen, again[0], at, detail=_range(view))
    trail.reread = ((trail.reread << 1) | reread) & 0xFF
    return found


def _is_same_view(view: View, other: tuple[int, int, int, int]) -> bool:
    """Check whether two views show mostly the same lines: half of the new ones, and a third of the others."""
    shared = min(view.end, other[1]) - max(view.start, other[0]) + 1
    return 2 * shared >= view.end - view.start + 1 and 3 * shared >= other[1] - other[0] + 1


def _range(view: View) -> str:
    if view.start >= END:
        return NOTHING_SHOWN
    return "" if view.end >= END else f"lines {view.start}-{view.end}"


def two_states(trail: ProgressTrail, features: CallFeatures, at: int, state: int) -> StuckFinding | None:
    """Find two calls in turn, each with the answer that it had before."""
    trail.states = [*trail.states[-3:], state]
    if features.waits or features.effect in ("plan", "wait", "none", "finish") or len(trail.states) < 4:
        return None
    a, b, c, d = trail.states
    if a == c and b == d and a != b:
        return StuckFinding("two_states", features.shown, 2, at - 3, at)
    return None


def worse_tests(trail: ProgressTrail, features: CallFeatures, now: TestCounts, at: int) -> StuckFinding | None:
    """Find a test run whose failures grow with each change."""
    key = mark(features.target)
    before = trail.tests.get(key)
    entry = TestRun(now.bad, now.passed, at=at)
    if before is not None:
        change = compare_tests((before.failed, before.passed), now)
        fewer = now.bad + now.passed < before.failed + before.passed - 1
        # Tests that were just written fail until the code is: nothing that passed is broken.
        broke = not before.passed or now.passed < before.passed
        if change == "worse" and broke and not fewer and (features.tests is not None or _lints(features, before)):
            entry = TestRun(now.bad, now.passed, before.worse + 1, before.since or at, at)
        elif change == "same":
            entry = TestRun(now.bad, now.passed, before.worse, before.since, at)
    remember(trail.tests, key, entry, TESTS_MAX)
    if before is None or entry.worse < WORSE_RUNS or entry.worse == before.worse:
        return None
    said = f"{now.bad} {'failed' if features.tests is not None else 'findings'} now, {before.failed}"
    return StuckFinding("worse_tests", features.shown, entry.worse, entry.since, at, detail=said)


def _lints(features: CallFeatures, before: TestRun) -> bool:
    """Check whether a linter counted, which reads every file whole.

    A compiler that gets further finds more: what it finds says that an edit helped, not that one harmed. So does a
    linter after a single finding, which may have been a syntax error.
    """
    return before.failed > 1 and not LINTERS.isdisjoint(features.programs)


def same_counts(trail: ProgressTrail, tests: TestCounts, at: int) -> StuckFinding | None:
    """Find edits in several files after each of which the editor's own test run counts the same.

    The first result may be of failures from before the first edit, which such editors never show.
    """
    failed, passed, count, first = trail.counts
    now = (tests.bad, tests.passed)
    count, first = (count + 1, first) if (failed, passed) == now else (1, at)
    trail.counts = (*now, count, first)
    if not tests.bad or count < WEAK_REPEATS:
        return None
    counts = f"{now[0]} failed, {now[1]} passed"
    return StuckFinding("same_failure", counts, count, first, at, detail=counts)


def failing_tool(trail: ProgressTrail, features: CallFeatures, at: int) -> StuckFinding | None:
    """Find a tool that fails whatever its arguments; an editor's views and edits count as two tools."""
    # A wait that fails says that what it waits for did, which `dead_wait` counts. What is absent has a count too.
    elsewhere = features.tests is not None or features.effect == "wait" or features.absent or shows_progress(features)
    counts = features.failed and not elsewhere
    key = mark(f"{features.tool} {'' if features.programs else features.effect}")
    if not counts:
        trail.tools.pop(key, None)
        return None
    entry = trail.tools.get(key)
    if entry is None or (features.programs and trail.anything > entry.last):
        entry = Failures(0, at, at)  # a shell that fails before and after an edit runs something, and that fails
    entry = Failures(entry.count + 1, entry.first, at)
    remember(trail.tools, key, entry, TOOLS_MAX)
    needed = FAILING_SHELL if features.programs else REPEATS
    if asks_to_retry(features.error):
        needed = max(needed, RETRIES_ASKED_FOR)
    if entry.count < needed:
        return None
    subject = "edit" if features.form == "edit" else features.tool
    return StuckFinding("failing_tool", subject, entry.count, entry.first, at, detail=features.error)


def no_news(trail: ProgressTrail, features: CallFeatures, at: int, *, is_stale: bool) -> StuckFinding | None:
    """Find a run of calls most of which said nothing new."""
    trail.stale = ((trail.stale << 1) | is_stale) & 0xFF
    if not is_stale or trail.stale.bit_count() < REPEATS:
        return None
    first = at - trail.stale.bit_length() + 1
    return StuckFinding("no_news", "", trail.stale.bit_count(), first, at, detail=features.shown)


def idle_calls(trail: ProgressTrail, features: CallFeatures, at: int) -> StuckFinding | None:
    """Find many calls in a row that neither ask nor do anything: thoughts, plans, and texts that are printed."""
    if notes_an_item(features.tool):
        return None
    trail.idle = trail.idle + 1 if features.effect in IDLE else 0
    if trail.idle < IDLE_CALLS:
        return None
    return StuckFinding("no_news", "", trail.idle, at - trail.idle + 1, at, detail=features.shown)


def no_new_lines(trail: ProgressTrail, features: CallFeatures, at: int) -> StuckFinding | None:
    """Find reads and searches in other words and ranges that show the same lines, since the last edit."""
    if features.effect not in ("read", "search"):
        return None
    is_known = features.known >= FAMILIAR_SHARE
    trail.familiar = ((trail.familiar << 1) | is_known) & 0xFF
    if trail.familiar:
        trail.reads = [*trail.reads[-7:], at]
    count = trail.familiar.bit_count()
    # One line may be the answer of a row of questions, such as "no" for each name of a list.
    if not is_known or count < FAMILIAR_OF_EIGHT or len(features.lines) == 1:
        return None
    first = trail.reads[-trail.familiar.bit_length() :][0]  # a trail of an earlier release has no such places yet
    return StuckFinding("no_news", "", count, first, at, detail=features.shown)


def no_new_output(trail: ProgressTrail, features: CallFeatures, at: int) -> StuckFinding | None:
    """Find scripts written to learn something that end with the same line and print nothing new."""
    if features.known < FAMILIAR_SHARE:
        return None
    if len(features.lines) == 1 and not shows_fault(features):  # the answer to one of a row of questions
        return None
    key = mark(f"| {features.last}")
    calls = note_attempt(trail, key, attempts(trail, key, max(trail.fixed, at - 8)), at)
    if len(calls) < REPEATS:
        return None
    return StuckFinding("no_news", "", len(calls), calls[0], at, detail=features.shown)
