"""`StuckFeedback`, which reports what an agent repeats without making progress, in the words of the evidence.

The measure of progress (`tellback.guidance.progress`) decides; this module only says it: what was repeated, since which
call, what did not change, and one next step.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, cast

from tellback.contracts.guidance import Feedback, Observation, ProviderSpec, Severity, ToolCall
from tellback.errors import InvalidInput
from tellback.guidance.next_steps import next_step
from tellback.guidance.observations.testruns import count_tests
from tellback.guidance.observations.values import is_sequence
from tellback.guidance.progress.detectors import NOTHING_SHOWN
from tellback.guidance.progress.failed_tests import failed_names
from tellback.guidance.progress.features import SHOWN
from tellback.guidance.progress.fruitless import MISSING
from tellback.guidance.progress.output import printed_by
from tellback.guidance.progress.reading import command_line
from tellback.guidance.progress.trail import StuckFinding
from tellback.guidance.provider import FeedbackContext, NamedByClass
from tellback.lazy_pattern import lazy_pattern

# A finding whose call another provider won is reported with one of the next calls, while it is still true.
_REPORTED_WITHIN_CALLS: Final = 2
_SHOWN: Final = 300

# By kind: the summary and the one next step.
TEXTS: Final[dict[str, tuple[str, str]]] = {
    "same_failure": (
        "The same error has come back {count} times since call {since}.",
        "Before the next change, find out what raises this error: read that code, or print the value it is about.",
    ),
    "same_output": (
        "`{subject}` has shown the same {count} times since call {since}, with something changed before each.",
        "Find out why it still shows this (a log, the whole message) and whether your change reached it, then go on.",
    ),
    "same_call": (
        "You have made the same call {count} times since call {since}, with no change in between and the same result.",
        "Decide with what it shows, or change something before you make it again.",
    ),
    "same_lines": (
        "You have read the same lines of {subject} {count} times since call {since}, and nothing has changed them.",
        "Make the edit or the test that these lines suggest, or say what you still need to know and look for that.",
    ),
    "undone_edit": (
        "A change to {subject} has been taken back or made again {count} times since call {since}.",
        "See what the file holds now and what was wrong with the last attempt; then make one small edit and check it.",
    ),
    "two_states": (
        "You have gone back and forth between two calls since call {since}, each with the same result as before.",
        "Choose one of the two, or look for what both leave out.",
    ),
    "empty_searches": (
        "The last {count} searches, since call {since}, found nothing, whatever their words.",
        "List what is there (folders, names, links of a page, values of a column) before you search for another word.",
    ),
    "worse_tests": (
        "`{subject}` got worse {count} times in a row since call {since}: {detail} before.",
        "Take the last change back, and find out why it broke them.",
    ),
    "failing_tool": (
        "{subject} has failed {count} times in a row since call {since}.",
        "Read the last error and what the tool expects; if it can't work here, use another way.",
    ),
    "dead_wait": (
        "You have waited {count} times since call {since}, and nothing has changed.",
        "Check whether what you wait for still runs: its process, its log, its exit code.",
    ),
    "after_done": (
        "You said at call {since} that the task is done; {count} more calls followed.",
        "Stop here, unless something is still missing.",
    ),
    "no_news": (
        "{count} calls since call {since} showed nothing that you had not seen.",
        "Write down what you know and what is missing, then do the one thing that would tell you.",
    ),
}
KINDS: Final = tuple(TEXTS)
_MERGED: Final = {"same_edit": "undone_edit", "same_counts": "same_failure", "blind_probe": "no_news"}
UNDONE_ONCE: Final = "A change to {subject}, made at call {since}, has been taken back and made again."
# Addresses that do not exist are no searches, though they find as little.
MISSING_PAGES: Final = "The last {count} addresses or names that you asked for, since call {since}, do not exist."
# Shown nothing, which no edit follows from.
PAST_END: Final = "{subject} has shown nothing {count} times since call {since}, whichever lines were asked for."


@dataclass(frozen=True)
class StuckFeedback(NamedByClass):
    """Reports that the calls bring nothing new, once for each thing repeated; use the trigger `every_n_calls=1`.

    It is silent while an agent makes progress. `off` names kinds that it does not report, such as `"same_lines"`.
    """

    off: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse kinds that do not exist."""
        given: Any = self.off
        kinds = tuple(cast("Any", given)) if isinstance(given, tuple | list) else (given,)
        unknown = [kind for kind in kinds if kind not in KINDS]
        if unknown and (now := _MERGED.get(unknown[0])):
            raise InvalidInput(f"StuckFeedback.off has {unknown[0]!r}, which is a part of {now!r} now; use that")
        if unknown:
            raise InvalidInput(f"StuckFeedback.off has {unknown[0]!r}; use a tuple of {', '.join(KINDS)}")

    def should_run(self, *, context: FeedbackContext) -> bool:
        """Return True if the measure found something that was not reported yet."""
        found = context.finding
        if context.timed or found is None or found.kind in self.off:
            return False
        return is_new(found, context.own.call_index, context.tool_call_count)

    def provide(self, *, context: FeedbackContext) -> Feedback:
        """Report what is repeated, since when, and one next step."""
        found = context.finding
        assert found is not None, "should_run"
        summary, general = TEXTS[found.kind]
        if found.subject == MISSING:
            summary = MISSING_PAGES
        elif found.detail == NOTHING_SHOWN:
            summary = PAST_END
        elif found.kind == "undone_edit" and found.count == 1:
            summary = UNDONE_ONCE
        words = {"count": found.count, "since": found.since, "subject": _subject(found), "detail": found.detail}
        severity: Severity = "warning" if found.level > 1 else "caution"
        step = next_step(found, _call_at(found.at, context), general)
        return Feedback(self.name, summary.format_map(words), tuple(_evidence(found, context)), (step,), severity)


def kinds_off(providers: Iterable[ProviderSpec]) -> list[str]:
    """Return the kinds that are off in each `StuckFeedback` among the providers of an evaluation."""
    off = [each.fields.get("off") for each in providers if each.name == StuckFeedback.__name__]
    return [kind for kind in KINDS if off and all(is_sequence(each) and kind in each for each in off)]


def is_new(found: StuckFinding | None, reported_at: int, calls: int) -> bool:
    """Check whether a finding was made after the call of the last report, and is still true at call `calls`."""
    return found is not None and reported_at < found.at >= calls - _REPORTED_WITHIN_CALLS


def _subject(found: StuckFinding) -> str:
    return found.subject.strip("*") or "the work"


def _call_at(index: int, context: FeedbackContext) -> ToolCall | None:
    """Return the call that was judged or the one before it, None if it is not stored."""
    calls = context.recent_tool_calls(2 + _REPORTED_WITHIN_CALLS)
    return next((call for call in calls if call.call_index == index), None)


def _evidence(found: StuckFinding, context: FeedbackContext) -> list[Observation]:
    seen = [
        Observation(label, text[:_SHOWN])
        for label, kinds, text in (
            ("error", ("same_failure", "same_call", "failing_tool"), _LABEL.sub("", found.detail)),
            ("call", ("same_call", "dead_wait"), found.subject),
            ("call", ("two_states",), _asked_at(found.at, context) or found.subject),
            ("the other", ("two_states",), _asked_at(found.at - 1, context)),
            ("last call", ("no_news",), found.detail),
            ("last search", ("empty_searches",), "" if found.subject == MISSING else found.detail),
            ("it shows", ("same_output", "dead_wait"), found.detail),
            ("read", ("same_lines",), "" if found.detail == NOTHING_SHOWN else found.detail),
        )
        if found.kind in kinds and (text or found.kind == "same_failure")
    ]
    if found.kind in ("same_failure", "same_call") and (test := _failed_test(found, context)):
        seen.append(Observation("test", test[:_SHOWN]))
    return seen


def _asked_at(index: int, context: FeedbackContext) -> str:
    """Return what a call asked, with every argument: two calls in turn may differ in one alone."""
    call = _call_at(index, context)
    if call is None:
        return ""
    asked = command_line(call.params) or " ".join((call.tool, *map(str, call.params.values())))
    return " ".join(asked.split())[:SHOWN]


def _failed_test(found: StuckFinding, context: FeedbackContext) -> str:
    """Return the first test that failed, "" if the error names it, or if none did."""
    call = _call_at(found.at, context)
    text = "" if call is None else printed_by(call.error or call.result or "")
    names = failed_names(text) if count_tests(text) is not None else ()
    if not names or names[0] in found.detail:
        return ""
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


_LABEL: Final = lazy_pattern(r"^(?:error|fatal|Error|ERROR): {1,4}")
