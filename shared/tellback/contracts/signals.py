"""The signals loop: which recalled facts helped.

Source: feedback-signals.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from tellback.contracts.message import Message
from tellback.names import Family

SignalType = Literal["used", "ignored", "helpful", "not_helpful"]


class SignalItem(msgspec.Struct, frozen=True, kw_only=True):
    """One observation of one fact, recalled for `query`; `confidence` lies in [0, 1]. `signal_id` is set at publishing."""

    fact_id: str
    signal_type: SignalType
    query: str
    confidence: float = 1.0
    context: str | None = None
    signal_id: str = ""


class SignalBatch(Message, frozen=True, kw_only=True):
    """At most 500 signals of one bank, applied entirely or not at all, in order."""

    family: ClassVar[Family] = Family.SIGNALS

    bank: str
    items: list[SignalItem]
    session: str | None = None

    @property
    def routing(self) -> str:
        """The bank."""
        return self.bank


class Candidate(msgspec.Struct, frozen=True, array_like=True):
    """A fact that a host's own search has found, with its semantic score."""

    fact_id: str
    semantic: float


class RecallHit(msgspec.Struct, frozen=True, kw_only=True):
    """One ranked fact: `score` is (1 - w) x semantic + w x usefulness."""

    fact_id: str
    score: float
    semantic: float
    usefulness: float


class RecallRequested(Message, frozen=True, kw_only=True):
    """A host asks for a ranking; the reply waits in a mailbox named by `event_id` until `deadline_in` seconds passed."""

    family: ClassVar[Family] = Family.RECALLS

    bank: str
    query: str
    candidates: list[Candidate] | None = None
    limit: int = 10
    boost_by_usefulness: bool = False
    usefulness_weight: float = 0.3
    min_usefulness: float = 0.0
    deadline_in: float = 2.0

    @property
    def routing(self) -> str:
        """The bank."""
        return self.bank


class FactStats(msgspec.Struct, frozen=True, kw_only=True):
    """What the signals of one fact add up to; times are milliseconds since the epoch, server time."""

    usefulness_score: float
    signal_count: int
    signal_breakdown: dict[str, int]
    last_signal_at: int | None
    created_at: int
