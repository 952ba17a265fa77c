"""`StuckFeedback`, which reports what an agent repeats without making progress, in the words of the evidence.

The measure of progress (`tellback.guidance.progress`) decides; this module only says it: what was repeated, since which
call, what did not change, and one next step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, cast

from tellback.contracts.guidance import Feedback, Observation, Severity, ToolCall
from tellback.errors import InvalidInput
from tellback.guidance.observations.texts import timeout_in
from tellback.guidance.progress.detectors import NOTHING_SHOWN
from tellback.guidance.progress.effects import SHELLS, plain_name, works_on_code
from tellback.guidance.progress.faults import MUTE
from tellback.guidance.progress.features import SHOWN
from tellback.guidance.progress.fruitless import MISSING
from tellback.guidance.progress.shell_calls import asks_service
from tellback.guidance.progress.substance import is_absent
from tellback.guidance.progress.trail import StuckFinding
from tellback.guidance.provider import FeedbackContext
from tellback.lazy_pattern import lazy_pattern

# A finding whose call another provider won is reported with one of the next calls, while it is still true.
_REPORTED_WITHIN_CALLS: Final = 2
_SHOWN: Final = 300
_ASKED: Final = 2_000  # characters of a call in which an address is looked for

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
        "{subject} has been changed and taken back since call {since}; times taken back: {count}.",
        "Note what was wrong with the last attempt, then make one small edit and check it before the next.",
    ),
    "same_edit": (
        "The same replacement in {subject} has been made {count} times, last at call {since}.",
        "Look at the lines that it is about: see whether the change is there, and what takes it away.",
    ),
    "two_states": (
        "You have gone back and forth between two calls since call {since}, each with the same result as before.",
        "Choose one of the two, or look for what both leave out.",
    ),
    "empty_searches": (
        "The last {count} searches, since call {since}, found nothing, whatever their words.",
        "List what is there (a folder, the names in a file) before you search for another word.",
    ),
    "worse_tests": (
        "`{subject}` got worse {count} times in a row since call {since}: {detail} now.",
        "Take the last change back, and find out why it broke them.",
    ),
    "same_counts": (
        "The tests have counted the same {count} times since call {since}, with an edit before each: {detail}.",
        "Find out which tests fail and whether they failed before your first edit; then fix these, or leave them.",
    ),
    "blind_probe": (
        "{count} scripts since call {since} ended with the same line and showed nothing new.",
        "Check that the script reaches the code it is about (raise an error there), or print something else.",
    ),
    "failing_tool": (
        "{subject} has failed {count} times in a row since call {since}, with different arguments.",
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
        "{count} of the last 8 calls, since call {since}, showed nothing that you had not seen.",
        "Write down what you know and what is missing, then do the one thing that would tell you.",
    ),
}
KINDS: Final = tuple(TEXTS)

# Errors that another step helps with than to look for their cause in the code.
_REFUSED_EDIT: Final = lazy_pattern(
    r"\bold_?[sS]tr(?:ing)?\b|String to replace|No replacement|replace_all|SEARCH block|Failed to find expected lines"
    r"|could not find the string|proposed edit|File already exists|^New string .*already exists|has not been read"
    r"|patch does not apply|does not match anything|corrupt patch|^String '|hunk failed|NoMatch|patch failed"
    r"|[Mm]ultiple occurrences"
)
_LACKING: Final = lazy_pattern(
    r"No module named|command not found|not recognized as|[Pp]ermission ?[Dd]enied|[Aa]ccess ?[Dd]enied"
    r"|[Uu]nauthori[sz]ed|not authorized|(?:password|terminal) is required|No space left|Read-only file system"
    r"|Operation not permitted|Could not resolve host|[Nn]etwork is unreachable|[Cc]onnection refused"
    r"|(?:[Oo]peration|[Cc]onnection|[Rr]equest) timed out|[Dd]eadline exceeded"
    r"|\bE(?:TIMEDOUT|CONNREFUSED|NOTFOUND|AI_AGAIN|NETUNREACH|HOSTUNREACH|ACCES|NOSPC)\b"
    r"|Cannot connect|API key|: not found$|server misbehaving|no such host|name resolution"
)
# Somebody does not let the agent in: neither other code nor another try changes that.
_REFUSED: Final = lazy_pattern(
    r"[Pp]ermission ?[Dd]enied|[Aa]ccess ?[Dd]enied|[Uu]nauthori[sz]ed|not authorized|[Oo]peration not permitted|EACCES"
    r"|[Ff]orbidden|not allowed to|(?:password|terminal) is required"
    r"|(?:status(?: code)?|error|HTTP\S*)[ :=]{1,2}40[13]\b|\b40[13] (?:[A-Z][a-z]+)"
)
# A tool could not use the arguments of its call. Of a shell's, a program that it ran says this of its own.
_MISCALLED: Final = lazy_pattern(
    r"\bE(?:ISDIR|NOTDIR)\b|InputValidationError|called with invalid arguments|\brequired (?:parameter|property)\b"
    r"|\bparameter `?\w{1,60}`? (?:is missing|type is expected)"
)
_WHAT: Final = lazy_pattern(
    r"\w{2,10}://[\w.:/@?&=%~#+-]{3,120}|(?<![\w.<])~?(?:/[\w.@+-]{1,60}){1,8}|\b[\w.-]+@[\w.-]+"
)
_MUTE: Final = lazy_pattern(MUTE)
REFUSED_STEP: Final = "Check {what}, and which right or key it asks for; ask for that, or do without."
REFUSED_EDIT_STEP: Final = "Read that part of the file as it is now, then send an edit that fits what stands there."
LACKING_STEP: Final = (
    "It will end the same until something is installed, started or permitted: do that, or find a way without."
)
# The same error of a tool that is none of a coding agent's: there is no code to read.
SERVICE_STEP: Final = "Act on what the error says: send what it asks for, look up what it lacks, or ask the user."
RAN_OUT_STEP: Final = (
    "Start what has no end in the background, with its input closed and its output in a file, or give it less to do."
)
MISCALLED_STEP: Final = (
    "Compare the arguments that you send with those that the tool asks for, and change the one that the error is about."
)
_LIMITED: Final = lazy_pattern(r"[Rr]ate ?[Ll]imit|[Tt]oo [Mm]any [Rr]equests|[Qq]uota|[Tt]hrottl")
LIMITED_STEP: Final = "Wait as long as it asks before you call it again, ask for less, or go on with what you have."
MUTE_STEP: Final = (
    "The shell itself seems broken; its folder may be gone. Start a new one, or go to a folder that exists."
)
# Addresses that do not exist are no searches, though they find as little.
MISSING_PAGES: Final = "The last {count} addresses or names that you asked for, since call {since}, do not exist."
MISSING_PAGES_STEP: Final = (
    "Guess no further address or name: open what lists them, such as an index, or search for it."
)
FAILING_CALL_STEP: Final = (
    "It will fail again until something changes: act on the error, or find a way without this call."
)
# Shown nothing, which no edit follows from.
PAST_END: Final = "{subject} has shown nothing {count} times since call {since}, whichever lines were asked for."
PAST_END_STEP: Final = "Count its lines, or read it from the beginning, before you ask for others."
_TAKEN: Final = lazy_pattern(r"[Aa]ddress already in use|EADDRINUSE|port is already allocated")
TAKEN_STEP: Final = "Find out what listens on that port: use it, stop it if it is yours, or take another port."
_GIT: Final = lazy_pattern(
    r"would be overwritten by|[Pp]rotected branch|\[(?:remote )?rejected\]|hook declined|failed to push|hook id"
)
GIT_STEP: Final = (
    "Do first what the message asks for: commit or stash, pull, correct what the hook found, or use a branch."
)
_UNREADABLE: Final = lazy_pattern(r"[Ss]yntax ?[Ee]rror|unexpected EOF|unexpected end of (?:file|input)|parse error")
UNREADABLE_STEP: Final = (
    "It could not read what you wrote: look at the place that it names, and write that part in another way."
)
# Of a compiler or a linter, which names a place and often a rule.
_CHECKED: Final = lazy_pattern(r"\w[:(]\d+(?:[:,]\d+)?\)?: |\berror(?:\[E\d+\]| TS\d+| CS\d+)|too many arguments")
CHECKED_STEP: Final = (
    "Look up the rule or the declaration that it names: what you have changed so far does not touch it."
)
# Names that are guessed, of which the error says that there is none.
_GUESSED: Final = lazy_pattern(
    r"does not exist|[Nn]o such|[Nn]ot found|No matching|[Uu]nrecogni[sz]ed name|[Uu]nable to locate"
    r"|[Cc]ould not (?:be )?f(?:i|ou)nd|not in (?:this|the) |out of range|beyond the end|within the range"
)
GUESSED_STEP: Final = "List what there is (the columns, packages, elements or lines) before you guess another."
_FITTING: Final = (
    (_MUTE, MUTE_STEP),
    (_LIMITED, LIMITED_STEP),
    (_TAKEN, TAKEN_STEP),
    (_GIT, GIT_STEP),
    (_REFUSED_EDIT, REFUSED_EDIT_STEP),
    (_LACKING, LACKING_STEP),
    (_UNREADABLE, UNREADABLE_STEP),
)


_FITTING_KIND: Final = {
    "failing_tool": ((_GUESSED, GUESSED_STEP),),
    "same_failure": ((_CHECKED, CHECKED_STEP),),
}


@dataclass(frozen=True)
class StuckFeedback:
    """Reports that the calls bring nothing new, once for each thing repeated; use the trigger `every_n_calls=1`.

    It is silent while an agent makes progress. `off` names kinds that it does not report, such as `"same_lines"`.
    """

    off: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse kinds that do not exist."""
        given: Any = self.off
        kinds = tuple(cast("Any", given)) if isinstance(given, tuple | list) else (given,)
        unknown = [kind for kind in kinds if kind not in KINDS]
        if unknown:
            raise InvalidInput(f"StuckFeedback.off has {unknown[0]!r}; use a tuple of {', '.join(KINDS)}")

    @property
    def name(self) -> str:
        """The class name, which heads the feedback."""
        return "StuckFeedback"

    def should_run(self, *, context: FeedbackContext) -> bool:
        """Return True if the measure found something that was not reported yet."""
        found = context.finding
        if context.timed or found is None or found.kind in self.off:
            return False
        return context.own.call_index < found.at >= context.tool_call_count - _REPORTED_WITHIN_CALLS

    def provide(self, *, context: FeedbackContext) -> Feedback:
        """Report what is repeated, since when, and one next step."""
        found = context.finding
        assert found is not None, "should_run"
        summary = TEXTS[found.kind][0]
        if found.subject == MISSING:
            summary = MISSING_PAGES
        elif found.detail == NOTHING_SHOWN:
            summary = PAST_END
        words = {"count": found.count, "since": found.since, "subject": _subject(found), "detail": found.detail}
        severity: Severity = "warning" if found.level > 1 else "caution"
        return Feedback(
            provider_name=self.name,
            summary=summary.format_map(words),
            observations=tuple(_evidence(found, context)),
            suggestions=(_step(found, context),),
            severity=severity,
        )


def _subject(found: StuckFinding) -> str:
    return found.subject.strip("*") or "The work"


def _call_at(index: int, context: FeedbackContext) -> ToolCall | None:
    """Return the call that was judged or the one before it, None if it is not stored."""
    calls = context.recent_tool_calls(2 + _REPORTED_WITHIN_CALLS)
    return next((call for call in calls if call.call_index == index), None)


def _step(found: StuckFinding, context: FeedbackContext) -> str:
    """Return the one next step, which depends on the error where a finding has one."""
    general = TEXTS[found.kind][1]
    if found.subject == MISSING:
        return MISSING_PAGES_STEP
    if found.detail == NOTHING_SHOWN:
        return PAST_END_STEP
    if found.kind not in ("same_failure", "same_call", "failing_tool") or not found.detail:
        return general
    call = _call_at(found.at, context)
    if found.kind == "same_call":
        general = FAILING_CALL_STEP
    elif found.kind == "same_failure" and call is not None and _is_of_service(call):
        general = SERVICE_STEP
    if found.kind != "same_call" and is_absent(found.detail):
        return MISSING_PAGES_STEP
    if _REFUSED.search(found.detail):
        return REFUSED_STEP.format(what=_refused_what(found, call))
    own = _about_the_call(found, call)
    fitting = (*_FITTING, *_FITTING_KIND.get(found.kind, ()))
    return own or next((step for pattern, step in fitting if pattern.search(found.detail)), general)


def _about_the_call(found: StuckFinding, call: ToolCall | None) -> str:
    """Return the step for a call that took too long or had arguments that its tool cannot use, "" for any other."""
    if timeout_in(found.detail):
        return RAN_OUT_STEP
    miscalled = call is not None and plain_name(call.tool) not in SHELLS and _MISCALLED.search(found.detail)
    return MISCALLED_STEP if miscalled else ""


def _is_of_service(call: ToolCall) -> bool:
    """Check whether there is no code to read for the error of a call."""
    line = call.params.get("command", call.params.get("cmd"))
    return not works_on_code(call.tool) or (isinstance(line, str) and asks_service(line[:_ASKED]))


def _refused_what(found: StuckFinding, call: ToolCall | None) -> str:
    """Return what was refused as the error or the call names it: an address, a path or an account."""
    asked = "" if call is None else " ".join(value for value in call.params.values() if isinstance(value, str))
    named = _WHAT.search(found.detail) or _WHAT.search(asked[:_ASKED])
    return f"`{named.group().rstrip('.:')}`" if named else "the address and the account"


def _evidence(found: StuckFinding, context: FeedbackContext) -> list[Observation]:
    seen: list[Observation] = []
    if found.kind == "same_failure" or (found.kind in ("same_call", "failing_tool") and found.detail):
        seen.append(Observation("error", _LABEL.sub("", found.detail)[:_SHOWN]))
    if found.kind in ("same_call", "two_states", "dead_wait") and found.subject:
        seen.append(Observation("call", found.subject[:_SHOWN]))
    if found.kind == "two_states" and (other := _call_at(found.at - 1, context)) is not None:
        asked = " ".join(" ".join(map(str, other.params.values())).split())
        seen.append(Observation("the other", f"{other.tool} {asked}"[:SHOWN].strip()))
    if found.kind == "no_news" and found.detail:
        seen.append(Observation("last call", found.detail[:_SHOWN]))
    if found.kind in ("blind_probe", "same_output") and found.detail:
        seen.append(Observation("it shows" if found.kind == "same_output" else "last line", found.detail[:_SHOWN]))
    if found.kind == "same_lines" and found.detail not in ("", NOTHING_SHOWN):
        seen.append(Observation("read", found.detail))
    return seen


_LABEL: Final = lazy_pattern(r"^(?:error|fatal|Error|ERROR): {1,4}")
