"""What a tool call came to: classifiers asked in order, the host's first.

Source: actionable-feedback, "Error Feedback Enhancement".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast, get_args

import msgspec

from tellback.contracts.guidance import Code
from tellback.guidance.observations.bodies import by_body, is_partial
from tellback.guidance.observations.emptiness import found_nothing
from tellback.guidance.observations.evidence import Classifier, Evidence, Finding
from tellback.guidance.observations.exceptions import by_exception, named
from tellback.guidance.observations.http import by_http, status_of
from tellback.guidance.observations.pages import is_challenge
from tellback.guidance.observations.phrases import AWAY, ONE_CALLS
from tellback.guidance.observations.programs import by_exit
from tellback.guidance.observations.statuses import wait_of
from tellback.guidance.observations.texts import (
    code_of_error,
    last_error,
    misses_tool,
    only_names,
    report_in,
    said_wait,
    status_in,
)
from tellback.guidance.observations.values import TEXT_MAX, json_of
from tellback.log import get_logger

CODES: Final[frozenset[str]] = frozenset(get_args(Code))
_DENIED: Final = frozenset({"denied", "rejected", "blocked", "forbidden", "cancelled"})

_SERVER_ERRORS: Final = 500
_GATEWAY_TIMEOUT: Final = 504

_log = get_logger("tellback.guidance")


def by_host(evidence: Evidence) -> Finding | None:
    """The host says that the call was denied, or names a code of ours."""
    status = (evidence.status or "").lower()
    if status in _DENIED:
        return Finding("denied", evidence.message)
    if status in CODES - {"ok", "error", "partial"}:
        return Finding(_as_code(status), evidence.message, said_wait(evidence.message))
    return None


def by_error_text(evidence: Evidence) -> Finding | None:
    """The host says that the call failed, in words."""
    if not evidence.failed:
        return None
    message = evidence.message
    trace = last_error(message)
    code = code_of_error(trace[1] if trace else message, evidence.tool)
    if code == "error":
        name = trace[0] if trace else message.partition(":")[0].strip()
        code = (named(name) if len(name) < 80 else None) or code
    return Finding(code, message, said_wait(message))


def by_result_text(evidence: Evidence) -> Finding | None:
    """A result that is nothing but the report of a failure, a challenge page, or "no results"."""
    data = evidence.data
    text = data if isinstance(data, str) else evidence.text
    if is_challenge(text):
        return Finding("rate_limited", text, said_wait(text))
    if data is not None and not isinstance(data, str):
        return None
    code = report_in(text, evidence.tool)
    if code is None:
        return None
    trace = last_error(text)
    if trace is not None:
        code = code_of_error(trace[1], evidence.tool)
        code = (named(trace[0]) or code) if code == "error" else code
    elif code == "error":
        code = named(text.lstrip().partition(":")[0].strip()[:80]) or code
    return Finding(code, text, said_wait(text) if code in ("rate_limited", "unavailable") else None)


def by_emptiness(evidence: Evidence) -> Finding | None:
    """Nothing came back."""
    empty = found_nothing(evidence.tool, evidence.params, evidence.text, evidence.data, evidence.result)
    return Finding("no_results") if empty else None


def by_parts(evidence: Evidence) -> Finding | None:
    """The host says that the result is partial, or the body has results beside errors."""
    said = (evidence.status or "").lower() == "partial"
    return Finding("partial") if said or is_partial(evidence.data) else None


BUILT_IN: Final[tuple[Classifier, ...]] = (
    by_host,
    by_exit,
    by_http,
    by_exception,
    by_body,
    by_error_text,
    by_result_text,
    by_parts,
    by_emptiness,
)


def classify(evidence: Evidence, tools: Mapping[str, Any], classifiers: Sequence[Classifier] = ()) -> Finding:
    """What the call came to; "ok" where no classifier finds anything. A classifier that raises is passed over."""
    for classifier in (*classifiers, *BUILT_IN):
        try:
            found = _finding(classifier(evidence), evidence)
        except Exception as error:  # noqa: BLE001 - the code of others, and the objects of others in ours
            name = getattr(classifier, "__name__", type(classifier).__name__)
            _log.warning("classifier.failed", classifier=name, reason=f"{type(error).__name__}")
            continue
        if found is not None:
            said = _waiting(_checked(found, evidence, tools), evidence)
            return said if classifier in (*classifiers, by_host) else _weighed(said, evidence)
    return Finding("ok") if not evidence.failed else Finding("error", evidence.message)


def _finding(answer: object, evidence: Evidence) -> Finding | None:
    if isinstance(answer, str) and answer in CODES:
        return Finding(_as_code(answer), evidence.message)
    return answer if isinstance(answer, Finding) and answer.code in CODES else None


def _as_code(text: str) -> Code:
    return cast("Code", text)


def _checked(found: Finding, evidence: Evidence, tools: Mapping[str, Any]) -> Finding:
    """A tool that is not among the declared ones and says that it is not there does not exist.

    Where none are declared, the error must say nothing else than its name, as that of `tools[name]` does.
    """
    if found.code in ("error", "no_results", "invalid_arguments") and evidence.tool not in tools:
        message = found.message or evidence.message
        data = json_of(message)
        said = data if isinstance(data, str) else message
        if misses_tool(said, evidence.tool) if tools else only_names(said, evidence.tool):
            return Finding("unknown_tool", message)
    return found


def _weighed(found: Finding, evidence: Evidence) -> Finding:
    """Time-outs and failed connections are doubted, unless a service itself answered that it is away."""
    if found.code != "unavailable" or found.doubtful or found.retry_after is not None:
        return found
    message = found.message or evidence.message
    status = evidence.http_status or status_of(evidence.error) or status_in(message)
    answered = (status or 0) >= _SERVER_ERRORS and status != _GATEWAY_TIMEOUT
    if answered or not ONE_CALLS.search(message[:TEXT_MAX]) or AWAY.search(message[:TEXT_MAX]):
        return found
    return msgspec.structs.replace(found, doubtful=True)


def _waiting(found: Finding, evidence: Evidence) -> Finding:
    """With the time that the headers ask to wait, where nothing more exact is known."""
    if found.retry_after is not None or found.code not in ("rate_limited", "unavailable") or not evidence.headers:
        return found
    return msgspec.structs.replace(found, retry_after=wait_of(evidence.headers, evidence.now))
