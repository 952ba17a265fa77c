"""Classify a tool call: the first classifier with a finding decides, and the host's own come first.

Calls that `tellback hook` publishes are classified on a worker (`classify_published_call`), because the hook's time is
too short for it. Requirements G-54 and G-55.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, cast, get_args

import msgspec

from tellback.contracts.guidance import Outcome, OutcomeCode, ToolInvoked
from tellback.guidance.observations.bodies import classify_body, is_partial
from tellback.guidance.observations.emptiness import is_empty_result, name_words
from tellback.guidance.observations.evidence import Classifier, Evidence, Finding
from tellback.guidance.observations.evidence_builder import build_evidence
from tellback.guidance.observations.exceptions import classify_exception, code_for_exception_name
from tellback.guidance.observations.files import classify_file_tool
from tellback.guidance.observations.http import classify_http_status, http_status_of
from tellback.guidance.observations.phrases import SERVICE_DOWN, SINGLE_CALL_FAILED, is_challenge_page
from tellback.guidance.observations.programs import classify_program
from tellback.guidance.observations.statuses import retry_after_from_headers
from tellback.guidance.observations.texts import (
    code_for_error_text,
    code_for_report,
    http_status_in,
    is_tool_name_only,
    last_error,
    reports_tool_missing,
    retry_after_in,
)
from tellback.guidance.observations.values import TEXT_MAX, parse_json
from tellback.log import get_logger

CODES: Final[frozenset[str]] = frozenset(get_args(OutcomeCode))
_DENIED: Final = frozenset({"denied", "rejected", "blocked", "forbidden"})
_CANCELLED: Final = frozenset({"cancelled", "canceled", "interrupted", "aborted"})
_SERVER_ERRORS: Final = 500
# Unlike other 5xx, a gateway's time-out may be due to the work that this one call asked for.
_GATEWAY_TIMEOUT: Final = 504

_logger = get_logger("tellback.guidance")


def classify_host_report(evidence: Evidence) -> Finding | None:
    """Classify by the host's `status`: a denial, or one of our codes."""
    status = (evidence.status or "").lower()
    if status in _DENIED:
        return classify_cancelled(evidence) or Finding("denied", evidence.message)
    if status in _CANCELLED:
        return Finding("cancelled", evidence.message)
    if status in CODES - {"ok", "error", "partial"}:
        return Finding(cast("OutcomeCode", status), evidence.message, retry_after_in(evidence.message))
    return None


def classify_error_text(evidence: Evidence) -> Finding | None:
    """Classify the words of a call that the host reports as failed."""
    if not evidence.failed:
        return None
    return Finding(
        _code_of_failure(evidence.message, evidence.tool), evidence.message, retry_after_in(evidence.message)
    )


def _code_of_failure(text: str, tool: str) -> OutcomeCode:
    """Return the code of a failure by its words, otherwise by the class name in front of them."""
    name, said = last_error(text) or (text.partition(":")[0].strip(), text)
    code = code_for_error_text(said, tool)
    # What stands before the colon is a class name only if it is short; a sentence must not be searched for one.
    return (code_for_exception_name(name) if code == "error" and len(name) < 80 else None) or code


def classify_result_text(evidence: Evidence) -> Finding | None:
    """Classify a result that is nothing but a report of failure, a challenge page, or "no results"."""
    data = evidence.data
    text = data if isinstance(data, str) else evidence.text
    if is_challenge_page(text):
        return Finding("rate_limited", text, retry_after_in(text))
    if data is not None and not isinstance(data, str):
        return None
    code = code_for_report(text, evidence.tool)
    if code is None or (text.startswith("[") and "console" in name_words(evidence.tool)):  # "[ERROR] ..." is a page's
        return None
    if code == "error" or last_error(text) is not None:
        code = _code_of_failure(text, evidence.tool)
    return Finding(code, text, retry_after_in(text) if code in ("rate_limited", "unavailable") else None)


def classify_empty_result(evidence: Evidence) -> Finding | None:
    """Classify a call that returned nothing."""
    empty = is_empty_result(evidence.tool, evidence.params, evidence.text, evidence.data, evidence.result)
    return Finding("no_results") if empty else None


def classify_partial_result(evidence: Evidence) -> Finding | None:
    """Classify a result that the host calls partial, or a body with results beside errors."""
    said = (evidence.status or "").lower() == "partial"
    return Finding("partial") if said or is_partial(evidence.data) else None


# Claude Code adds what the user wrote; a page or a file that begins so is longer still.
_LONGEST_REFUSAL: Final = 8_000

# At the beginning of the text only: a log may quote them. Claude Code, Codex, Gemini CLI, pi, OpenHands.
_STOPPED: Final = re.compile(
    r"\s{0,40}(?:<tool_use_error>|\[|Error: )?(?:"
    r"the user (?:doesn't|does not|did not|didn't) want to (?:proceed|take|continue|run|use)\b"
    r"|sibling tool call errored|cancelled: parallel tool call|(?:tool )?(?:call|use"
    r"|execution) (?:was )?(?:cancelled|canceled|aborted)\b"
    r"|(?:request )?interrupted by (?:the )?user|(?:command|operation|execution"
    r"|tool call) (?:was )?(?:aborted|interrupted)\b\W*$"
    r"|(?:command |operation |execution )?(?:was )?(?:aborted|cancelled|canceled|interrupted) by (?:the )?user"
    r"|(?:exec )?command rejected by user|operation cancelled\] reason: user"
    r"|the user (?:has )?(?:interrupted|cancelled|canceled|rejected|declined|denied)\b"
    r"|user (?:has )?(?:interrupted|cancelled|canceled|rejected|declined|denied)\b(?! (?:access|permission))"
    r"|(?:tool use|edit|change|action) (?:was )?rejected by (?:the )?user)",
    re.IGNORECASE,
)


def classify_cancelled(evidence: Evidence) -> Finding | None:
    """Classify a call that a user refused or stopped, or that was cancelled together with another.

    It is neither success nor failure: the agent did nothing wrong, and trying again may be right or wrong. A refusal
    by a policy, a hook or a sandbox is a failure with the code "denied". Requirement G-82.
    """
    text = evidence.message
    return Finding("cancelled", text) if len(text) <= _LONGEST_REFUSAL and _STOPPED.match(text[:400]) else None


# Hooks, sandboxes and confined folders of hosts, where the words do not stand in a tool's error.
_DENIED_BY_HOST: Final = re.compile(
    r"\s{0,40}(?:<tool_use_error>|Error: )?(?:failed in sandbox(?: \w{1,40} with execution error)?: sandbox denied\b"
    r"|(?P<moved>cd to '[^'\n]{1,300}' was blocked\. For security\b)"
    r"|File path must be within one of the workspace directories\b|Path not in workspace: )",
    re.IGNORECASE,
)


def classify_denied_by_host(evidence: Evidence) -> Finding | None:
    """Classify a call that the host's sandbox refused, in the host's own words."""
    text = evidence.message or evidence.text
    found = _DENIED_BY_HOST.match(text[:400]) if len(text) <= _LONGEST_REFUSAL else None
    if found is None or (found["moved"] and "cd " not in str(evidence.params)):  # a log of an agent may be shown
        return None
    return Finding("denied", text)


# From explicit to inferred: what the host, an exit code or a status says outweighs what words suggest. Emptiness comes
# last because an error body, too, has no results.
BUILT_IN: Final[tuple[Classifier, ...]] = (
    classify_host_report,
    classify_cancelled,
    classify_denied_by_host,
    classify_program,
    classify_file_tool,
    classify_http_status,
    classify_exception,
    classify_body,
    classify_error_text,
    classify_result_text,
    classify_partial_result,
    classify_empty_result,
)


def classify(evidence: Evidence, tools: Mapping[str, Any], classifiers: Sequence[Classifier] = ()) -> Finding:
    """Return the first finding, or "ok" without any. A classifier that raises or returns another value is skipped."""
    for classifier in (*classifiers, *BUILT_IN):
        try:
            found = _as_finding(classifier(evidence), evidence)
        except Exception as error:  # noqa: BLE001 - the code of others, and the objects of others in ours
            name = getattr(classifier, "__name__", type(classifier).__name__)
            reason = str(error) if isinstance(error, _WrongAnswerError) else type(error).__name__  # not others' text
            _logger.warning("classifier.failed", classifier=name, reason=reason)
            continue
        if found is not None:
            said = _with_retry_after(_check_tool_exists(found, evidence, tools), evidence)
            return said if classifier in (*classifiers, classify_host_report) else _mark_doubtful(said, evidence)
    return Finding("ok") if not evidence.failed else Finding("error", evidence.message)


class _WrongAnswerError(Exception):
    """A classifier returned what is no finding."""


def _as_finding(answer: object, evidence: Evidence) -> Finding | None:
    if isinstance(answer, str) and answer in CODES:
        return Finding(cast("OutcomeCode", answer), evidence.message)
    if answer is None or (isinstance(answer, Finding) and answer.code in get_args(OutcomeCode)):  # it may be unhashable
        return answer
    raise _WrongAnswerError(f"returned {type(answer).__name__}; use one of the codes, a Finding of one, or None")


def _check_tool_exists(found: Finding, evidence: Evidence, tools: Mapping[str, Any]) -> Finding:
    """Change the finding to "unknown_tool" if an undeclared tool is reported as missing.

    Without declared tools any name may exist, so the error must be only the tool's name, as the `KeyError` of
    `tools[name]` is.
    """
    if found.code in ("error", "no_results", "invalid_arguments") and evidence.tool not in tools:
        message = found.message or evidence.message
        data = parse_json(message)
        said = data if isinstance(data, str) else message
        if reports_tool_missing(said, evidence.tool) if tools else is_tool_name_only(said, evidence.tool):
            return Finding("unknown_tool", message)
    return found


def _mark_doubtful(found: Finding, evidence: Evidence) -> Finding:
    """Mark time-outs and failed connections as doubtful, unless the service itself answered that it is unavailable.

    One call's own target may be at fault: without this mark, a single failed fetch turns the whole fleet away from a
    tool.
    """
    if found.code != "unavailable" or found.doubtful or found.retry_after is not None:
        return found
    message = found.message or evidence.message
    status = evidence.http_status or http_status_of(evidence.error) or http_status_in(message)
    answered = (status or 0) >= _SERVER_ERRORS and status != _GATEWAY_TIMEOUT
    if answered or not SINGLE_CALL_FAILED.search(message[:TEXT_MAX]) or SERVICE_DOWN.search(message[:TEXT_MAX]):
        return found
    return msgspec.structs.replace(found, doubtful=True)


def _with_retry_after(found: Finding, evidence: Evidence) -> Finding:
    """Add the wait that the headers ask for, unless the finding has one."""
    if found.retry_after is not None or found.code not in ("rate_limited", "unavailable") or not evidence.headers:
        return found
    return msgspec.structs.replace(found, retry_after=retry_after_from_headers(evidence.headers, evidence.now))


def classify_published_call(event: ToolInvoked, at: datetime) -> Outcome:
    """Classify a published call that was made at `at`; never raises."""
    evidence = build_evidence(event.tool, event.params, event.result, event.error, status=event.status, now=at)
    return classify(evidence, {}).outcome()
