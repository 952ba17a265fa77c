"""The structured form of an observation, from which its text is rendered."""

from __future__ import annotations

from typing import Any

import msgspec

from tellback.contracts.guidance import Code, Offer, Outcome, Status
from tellback.guidance.attempts import attempt_of


class Suggestion(msgspec.Struct, frozen=True, omit_defaults=True):
    """A next step. `text` is its line; `reason` the words before the call; `tool` and `args` the call, if it is one.

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
        """As it is measured: whether a later call took it up."""
        arguments = attempt_of(self.tool, self.args) if self.tool is not None and self.args is not None else None
        return Offer(kind=self.kind[:64], tool=self.tool, arguments=arguments)

    @property
    def key(self) -> str:
        """What makes two of them the same: the kind and the call; the words where a tool's own line has none."""
        offer = self.offer
        words = attempt_of(self.text, {}) if self.kind == "custom" and self.tool is None else ""
        return f"{self.kind} {offer.arguments or self.tool or words}"


class ToolEnvelope(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a tool call came to, for programs.

    `retry_after` is in seconds. `message` is what the tool said of a failure; `missing` what the question asks and no
    result mentions; `count` how many results there are, where that is known. `doubtful` is that of `Outcome`.
    """

    tool: str
    status: Status
    code: Code
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
        """As it travels with the call."""
        offered = tuple(suggestion.offer for suggestion in self.suggestions)
        return Outcome(self.status, self.code, self.retryable, self.retry_after, offered[:8], self.doubtful)
