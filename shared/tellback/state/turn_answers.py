"""What a host says at the end of a turn, as the scripts take it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from tellback.contracts.turns import OutgoingResponse, RoutingOutcome
from tellback.state.database import Arg

EXCERPT_BYTES: Final = 2048


@dataclass(frozen=True, slots=True)
class Answer:
    """What a host says: the response, for a failure its `code`, and `shown`, the redacted text for the history.

    `late_ms` is how long after a fallback it is still sent. Without a response what the user is owed stays as it is.
    """

    response: OutgoingResponse | None
    late_ms: int
    code: str = ""
    shown: str = ""

    @property
    def args(self) -> list[Arg]:
        """As the scripts take them."""
        response = b"" if self.response is None else msgspec.json.encode(self.response)
        return [response, self.code, excerpt(self.shown), self.late_ms]


class Routed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a pipeline did, for the history: the outcome, who failed, and why the response is no answer."""

    outcome: RoutingOutcome
    code: str = ""
    errors: tuple[str, ...] = ()


def excerpt(text: str, limit: int = EXCERPT_BYTES) -> str:
    """`text` cut to `limit` bytes as UTF-8, whole characters only."""
    raw = text.encode()
    return text if len(raw) <= limit else raw[: limit - 3].decode(errors="ignore") + "…"
