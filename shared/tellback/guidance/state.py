"""The stored state of an evaluation, and the effects of a batch of events on it.

Every list here is bounded: a worker loads and stores the state with each batch, so its size is a cost
of each event.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

import msgspec

from tellback.contracts.guidance import ContextChange, DeliveryMode, Feedback, Offer, ProviderSpec
from tellback.guidance.observations.tools import EFFECT_OF_LETTER
from tellback.guidance.progress.effects import DeclaredEffect
from tellback.guidance.progress.trail import ProgressTrail

# Failures in a row after which a provider is ended for the evaluation (G-39); one that kills its worker costs three.
FAILURES_MAX: Final = 3
# The newest calls, which providers can read.
RECENT_CALLS: Final = 32
# At most 1,512 characters each; `changes_total` counts those that were dropped, so providers can say how many.
MAX_STORED_CHANGES: Final = 20
MAX_STORED_FILES: Final = 32


class ProviderSlot(msgspec.Struct, omit_defaults=True):
    """A provider of an evaluation, with a cadence of its own: two slots of one provider are independent.

    `calls`, `at`, `tokens`, `cost` and `changes` are the evaluation's counters when the slot last fired or failed;
    `streak` counts failures in a row. The last four belong to timers: `declined_at` is when the provider last had
    nothing to say, `waits` the mailbox generation in which its feedback waits, `gap` the milliseconds until that
    feedback is renewed, and `skipped` is true after the provider was due and no time was left to call it.
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
    file_reported: bool = False
    declined_at: int | None = None
    waits: int | None = None
    gap: int = 0
    skipped: bool = False

    @property
    def disabled(self) -> bool:
        """True after `FAILURES_MAX` failures in a row: the provider is not called again in this evaluation."""
        return self.streak >= FAILURES_MAX


class PendingOffer(msgspec.Struct, omit_defaults=True):
    """A suggestion that may still be taken: `tool` is the one whose observation made it, `until` the last call."""

    offer: Offer
    tool: str
    until: int


class CallTrail(msgspec.Struct, omit_defaults=True):
    """The memory of an evaluation's calls: their progress, and `offers`, suggestions that may still be taken."""

    offers: list[PendingOffer] = []
    progress: ProgressTrail = msgspec.field(default_factory=ProgressTrail)


class EvaluationState(msgspec.Struct, omit_defaults=True):
    """The stored state of an evaluation; times are the server's, in milliseconds since the epoch.

    `errors` counts calls of status "error"; `active_at` is the time of the last event. `effects` has a letter for each
    of `tools`, as its message `EvaluationBegun` has.
    """

    session: str
    prompt: str
    evaluation: str
    began_at: int
    deadline_at: int | None = None
    delivery: DeliveryMode = "first"
    tools: list[str] = []
    effects: str = ""
    question: str | None = None
    slots: list[ProviderSlot] = []
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
    trail: CallTrail = msgspec.field(default_factory=CallTrail)

    def declared_effect(self, tool: str) -> DeclaredEffect | None:
        """Return what the host declared of a tool: that it reads, that it writes, or nothing."""
        if not self.effects or tool not in self.tools:
            return None
        place = self.tools.index(tool)
        return EFFECT_OF_LETTER.get(self.effects[place : place + 1])


class BatchEffects(msgspec.Struct, gc=False):  # no dataclass: a worker makes one for each commit
    """The effects of a batch beside the new state, which one commit stores together.

    `feedback` is delivered to the mailbox. `timed` is feedback from timers, by slot: it replaces what waits from the
    same slot. `outdated` names slots whose waiting feedback is removed. `history` has entries for the session's history
    (JSON); `tallies` are added to the shard's counters.
    """

    feedback: list[Feedback] = []
    timed: dict[int, Feedback] = {}
    outdated: set[int] = set()
    history: list[bytes] = []
    tallies: dict[str, int] = {}

    def count(self, name: str, by: int = 1) -> None:
        """Add `by` to a counter of the shard's day."""
        self.tallies[name] = self.tallies.get(name, 0) + by


def new_evaluation(session: str, prompt: str, evaluation: str, now_ms: int) -> EvaluationState:
    """Return an evaluation without configuration: a tool call may arrive before its beginning."""
    return EvaluationState(
        session=session,
        prompt=prompt,
        evaluation=evaluation,
        began_at=now_ms,
        active_at=now_ms,
        changes_read=now_ms * 1000 - 1,  # skips changes from before this evaluation
    )
