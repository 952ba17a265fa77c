"""The end of a turn as a host reports it, in the form that the scripts take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypedDict

import msgspec

from tellback.contracts.turns import OutgoingResponse, RoutingOutcome
from tellback.truncation import truncate_bytes

EXCERPT_BYTES: Final = 2048


class AnswerArgs(TypedDict):
    """The arguments of the scripts that apply an answer."""

    response: bytes
    code: str
    excerpt: str
    late_ms: int


@dataclass(frozen=True, slots=True)
class TurnAnswer:
    """A host's answer: the response, the `code` of a failure, and `excerpt`, the redacted text for the history.

    `late_ms` is how long after a fallback it is still sent. Without a response the turn stays owed.
    """

    response: OutgoingResponse | None
    late_ms: int
    code: str = ""
    excerpt: str = ""

    @property
    def args(self) -> AnswerArgs:
        """The arguments of the scripts that apply an answer."""
        response = b"" if self.response is None else msgspec.json.encode(self.response)
        return {"response": response, "code": self.code, "excerpt": excerpt(self.excerpt), "late_ms": self.late_ms}


class RoutingReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a pipeline, for the history: its outcome, what failed, and why the response is no answer."""

    outcome: RoutingOutcome
    code: str = ""
    errors: tuple[str, ...] = ()


def excerpt(text: str, limit: int = EXCERPT_BYTES) -> str:
    """Truncate `text` to `limit` bytes of UTF-8, at a whole character."""
    return truncate_bytes(text, limit, "…")
