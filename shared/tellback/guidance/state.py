"""What is kept of an evaluation between two events, and what a batch of events makes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

import msgspec

from tellback.contracts.guidance import ContextChange, Delivery, Feedback, Offer, ProviderSpec

FAILURES_MAX: Final = 3
RECENT_CALLS: Final = 32
KEPT_CHANGES: Final = 20
KEPT_FILES: Final = 32


class Slot(msgspec.Struct, omit_defaults=True):
    """A provider of an evaluation, with a cadence of its own: two slots of one provider do not touch each other.

    `calls`, `at`, `tokens`, `cost` and `changes` are the evaluation's when it was last due; `streak` counts failures in
    a row. The last four are of time triggers without a tool call: when it last had nothing to say, the mailbox's
    generation in which its feedback waits, when it spoke of that, and how long what it said stays as it is.
    """

    spec: ProviderSpec
    calls: int = 0
    at: int | None = None
    fires: int = 0
    failures: int = 0
    streak: int = 0
    tokens: int = 0
    cost: Decimal = Decimal(0)
    changes: int = 0
    file_told: bool = False
    declined_at: int | None = None
    waits: int | None = None
    gap: int = 0

    @property
    def disabled(self) -> bool:
        """Whether it failed so often that it is not asked again in this evaluation."""
        return self.streak >= FAILURES_MAX


class PendingOffer(msgspec.Struct, omit_defaults=True):
    """A suggestion that may still be taken up: by the tool call whose observation made it, until which call."""

    offer: Offer
    tool: str
    until: int


Marks = tuple[str, int, int]
"""The fingerprint of a call, and two hashes of its words; calls that differ in both hashes are not alike."""


class Trail(msgspec.Struct, omit_defaults=True):
    """What of the newest calls is needed to see a loop: the marks of `RECENT_CALLS`, oldest first.

    `failed` are failed attempts, `failing` counts failures in a row, `offers` may still be taken up.
    """

    attempts: list[str] = []
    lows: list[int] = []
    highs: list[int] = []
    failed: list[str] = []
    failing: int = 0
    offers: list[PendingOffer] = []

    def add(self, marks: Marks) -> None:
        """Note a call, and forget the one that is too old."""
        attempt, low, high = marks
        self.attempts.append(attempt)
        self.lows.append(low)
        self.highs.append(high)
        if len(self.attempts) > RECENT_CALLS:
            del self.attempts[0], self.lows[0], self.highs[0]


class EvaluationState(msgspec.Struct, omit_defaults=True):
    """What is kept of an evaluation between tool calls; times are server milliseconds since the epoch.

    `errors` are the calls of status "error"; `active_at` is when its last event came.
    """

    session: str
    prompt: str
    evaluation: str
    began_at: int
    deadline_at: int | None = None
    delivery: Delivery = "first"
    tools: list[str] = []
    question: str | None = None
    slots: list[Slot] = []
    calls: int = 0
    errors: int = 0
    fires: int = 0
    last_feedback: Feedback | None = None
    recent: list[msgspec.Raw] = []
    active_at: int = 0
    tokens: int = 0
    cost: Decimal = Decimal(0)
    changes: list[ContextChange] = []
    changes_total: int = 0
    changes_read: int = 0
    files: list[str] = []
    trail: Trail = msgspec.field(default_factory=Trail)


@dataclass(slots=True)
class Effects:
    """What a batch has earned beside the new state.

    `feedback` is to be delivered; `timed` too, by slot: it came without a tool call, and takes the place of what waits
    of that slot; `outdated` names slots of which nothing that came so is to wait any more. `history` are lines for the
    session's history (JSON), `tallies` are added to the shard's counters.
    """

    feedback: list[Feedback] = field(default_factory=list[Feedback])
    timed: dict[int, Feedback] = field(default_factory=dict[int, Feedback])
    outdated: set[int] = field(default_factory=set[int])
    history: list[bytes] = field(default_factory=list[bytes])
    tallies: dict[str, int] = field(default_factory=dict[str, int])

    def tally(self, name: str, by: int = 1) -> None:
        """Add to a counter."""
        self.tallies[name] = self.tallies.get(name, 0) + by


def begin(session: str, prompt: str, evaluation: str, now_ms: int) -> EvaluationState:
    """An evaluation of which nothing is known yet: its first event may be a tool call."""
    return EvaluationState(
        session=session,
        prompt=prompt,
        evaluation=evaluation,
        began_at=now_ms,
        active_at=now_ms,
        changes_read=now_ms * 1000 - 1,
    )
