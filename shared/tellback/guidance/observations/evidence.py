"""The data of an observation: evidence in, finding out, and the envelope from which the text is rendered.

`Evidence` and `Finding` are the interface for classifiers of your own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec

from tellback.contracts.guidance import MAX_RETRY_AFTER, CallStatus, Offer, Outcome, OutcomeCode
from tellback.guidance.repeats import attempt_fingerprint

# "no_results" is partial and not an error: the tool did its work.
STATUS_OF: Final[Mapping[OutcomeCode, CallStatus]] = {
    "ok": "success",
    "partial": "partial",
    "no_results": "partial",
    "rate_limited": "error",
    "unavailable": "error",
    "unknown_tool": "error",
    "invalid_arguments": "error",
    "denied": "error",
    "cancelled": "partial",  # neither a success nor a failure, see `verdict_of`
    "error": "error",
}

Verdict = Literal["success", "neutral", "failure"]


def verdict_of(code: OutcomeCode) -> Verdict:
    """Return what an outcome counts as: a call that was cancelled is no success and must not be held against anyone."""
    if code == "cancelled":
        return "neutral"
    return "failure" if STATUS_OF[code] == "error" else "success"


# Only these pass without any change to the call.
_RETRYABLE: Final = frozenset({"rate_limited", "unavailable"})
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """A tool call as its host reports it.

    `result` and `error` are what the host passed, without a protocol's wrapper; they are neither bounded nor redacted.
    `text` and `error_text` are the same as text, `data` and `error_data` as JSON-like data if they are any; these four
    are bounded and redacted. Names in `headers` are lower case. `status` is the host's own word. HTTP-dates are
    compared with `now`.
    """

    tool: str
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    result: object = None
    error: object = None
    text: str = ""
    error_text: str = ""
    data: object = None
    error_data: object = None
    status: str | None = None
    http_status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    now: datetime = _EPOCH

    @property
    def failed(self) -> bool:
        """True if the host itself reports that the call failed."""
        return self.error is not None or (self.status or "").lower() in FAILURE_STATUSES

    @property
    def message(self) -> str:
        """The tool's words about a failure: the error, otherwise the result."""
        return self.error_text or self.text


FAILURE_STATUSES: Final = frozenset({"error", "failed", "failure", "exception", "timeout"})


class Finding(msgspec.Struct, frozen=True):
    """The classification of a call. `message` is the tool's words; `retryable` follows from the code unless given.

    `doubtful` means that only this call may be affected: the tool cools down for the fleet only once another session
    meets the same.
    """

    code: OutcomeCode
    message: str = ""
    retry_after: float | None = None
    retryable: bool | None = None
    doubtful: bool = False

    def outcome(self) -> Outcome:
        """Return the wire form, without suggestions."""
        return Outcome(
            status=STATUS_OF[self.code],
            code=self.code,
            retryable=self.code in _RETRYABLE if self.retryable is None else self.retryable,
            retry_after=plausible_seconds(self.retry_after),
            doubtful=self.doubtful,
        )


Classifier = Callable[[Evidence], Finding | OutcomeCode | None]

"""Returns a finding or a code, or None to leave the decision to the next classifier."""


def plausible_seconds(value: object) -> float | None:
    """Clamp a wait to between zero and one day; return None for anything that is not a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return min(max(0.0, float(value)), MAX_RETRY_AFTER) if value < float("inf") else None  # NaN is below nothing


class Suggestion(msgspec.Struct, frozen=True, omit_defaults=True):
    """A next step. `text` is the whole line, `reason` the words before the call, `tool` and `args` the call, if any.

    `kind`: "alternative", "retry", "refine", "fix_arguments", "use_results", "answer", "detail", "tools", "different",
    "permission", "report", or "custom" for a line of a tool's own suggester.
    """

    kind: str
    text: str
    tool: str | None = None
    args: dict[str, Any] | None = None
    reason: str = ""

    @property
    def offer(self) -> Offer:
        """The form in which it is counted as offered, and later as taken."""
        arguments = (
            attempt_fingerprint(self.tool, self.args) if self.tool is not None and self.args is not None else None
        )
        return Offer(kind=self.kind[:64], tool=self.tool, arguments=arguments)

    @property
    def key(self) -> str:
        """The identity of a suggestion: its kind and call, or its words without a call.

        The arguments that "Check your arguments: ..." names are not part of it.
        """
        offer = self.offer
        said = {"custom": self.text, "fix_arguments": self.text.partition(":")[0]}.get(self.kind)
        words = attempt_fingerprint(said, {}) if said is not None and self.tool is None else ""
        return f"{self.kind} {offer.arguments or self.tool or words}"


class ToolEnvelope(msgspec.Struct, frozen=True, omit_defaults=True):
    """An observation for programs.

    `retry_after` is in seconds. `message` has the tool's words about a failure. `missing` lists words of the question
    that no result mentions. `count` is the number of results, if known. `doubtful` is that of `Outcome`.
    """

    tool: str
    status: CallStatus
    code: OutcomeCode
    retryable: bool = False
    retry_after: float | None = None
    message: str = ""
    query: str | None = None
    count: int | None = None
    missing: tuple[str, ...] = ()
    suggestions: tuple[Suggestion, ...] = ()
    doubtful: bool = False

    @property
    def outcome(self) -> Outcome:
        """The wire form that travels with the call."""
        offered = tuple(suggestion.offer for suggestion in self.suggestions)
        return Outcome(self.status, self.code, self.retryable, self.retry_after, offered[:8], self.doubtful)
