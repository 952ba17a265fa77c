"""What a classifier sees of a tool call, and what it may say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from tellback.contracts.guidance import LONGEST_WAIT, Code, Outcome, Status

STATUS_OF: Final[Mapping[Code, Status]] = {
    "ok": "success",
    "partial": "partial",
    "no_results": "partial",
    "rate_limited": "error",
    "unavailable": "error",
    "unknown_tool": "error",
    "invalid_arguments": "error",
    "denied": "error",
    "error": "error",
}
_RETRYABLE: Final = frozenset({"rate_limited", "unavailable"})
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """A tool call as its host reports it.

    `result` and `error` are what the host passed, without a protocol's wrapper. `text` and `error_text` are the same as
    text, `data` and `error_data` as JSON-like data where they are such: all bounded, and without known secrets.
    `headers` have names in small letters. `status` is the host's own word for it. An HTTP-date is compared with `now`.
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
        """Whether the host itself says that the call failed."""
        return self.error is not None or (self.status or "").lower() in FAILED

    @property
    def message(self) -> str:
        """What the tool said of its failure: the error, else the result."""
        return self.error_text or self.text


FAILED: Final = frozenset({"error", "failed", "failure", "exception", "timeout"})


class Finding(msgspec.Struct, frozen=True):
    """What a call came to. `message` is what the tool said of it; `retryable` is by the code unless it is given.

    `doubtful`: only this call may have met it, so that a fleet does not turn from the tool for it alone.
    """

    code: Code
    message: str = ""
    retry_after: float | None = None
    retryable: bool | None = None
    doubtful: bool = False

    def outcome(self) -> Outcome:
        """As it travels, with nothing offered yet."""
        return Outcome(
            status=STATUS_OF[self.code],
            code=self.code,
            retryable=self.code in _RETRYABLE if self.retryable is None else self.retryable,
            retry_after=seconds(self.retry_after),
            doubtful=self.doubtful,
        )


Classifier = Callable[[Evidence], Finding | Code | None]
"""Says what a call came to, or None where it cannot tell; the first that can decides."""


def seconds(value: object) -> float | None:
    """A time to wait that can be believed: within a day, not negative; else None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - NaN
        return None
    return min(max(0.0, float(value)), LONGEST_WAIT) if value != float("inf") else None
