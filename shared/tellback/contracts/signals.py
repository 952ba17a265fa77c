"""The signals loop: which recalled facts helped.

Source: feedback-signals. The constraints stand in the types, so that the JSON Schema tells hosts in other languages.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal

import msgspec
from msgspec import Meta

from tellback.contracts.message import MAX_FIELD_BYTES, Message
from tellback.names import Family

MAX_BATCH: Final = 500
MAX_CANDIDATES: Final = 1_000
MAX_ID: Final = 512  # characters of a fact id, signal id or bank name
MAX_WAIT: Final = 60.0  # seconds; a reply is kept no longer

SignalType = Literal["used", "ignored", "helpful", "not_helpful"]
Scope = Literal["context", "global", "neutral"]
Id = Annotated[str, Meta(min_length=1, max_length=MAX_ID)]
Query = Annotated[str, Meta(max_length=MAX_FIELD_BYTES, pattern=r"\S")]
Share = Annotated[float, Meta(ge=0, le=1)]


class SignalItem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One observation of one fact, recalled for `query`; `confidence` lies in [0, 1], `context` is a free remark.

    An empty `signal_id` is set at publishing; one of your own makes a repeated call harmless.
    """

    fact_id: Id
    signal_type: SignalType
    query: Query
    confidence: Share = 1.0
    context: Annotated[str, Meta(max_length=MAX_FIELD_BYTES)] | None = None
    signal_id: Annotated[str, Meta(max_length=MAX_ID)] = ""


class SignalBatch(Message, frozen=True, kw_only=True):
    """At most 500 signals of one bank, applied entirely or not at all, in order."""

    family: ClassVar[Family] = Family.SIGNALS

    bank: Id
    items: Annotated[list[SignalItem], Meta(min_length=1, max_length=MAX_BATCH)]
    session: Annotated[str, Meta(min_length=1, max_length=MAX_ID)] | None = None

    @property
    def routing(self) -> str:
        """The bank."""
        return self.bank

    @property
    def signal_ids(self) -> list[str]:
        """The id under which each item counts once: its own, or one made of the batch's id and the position."""
        return [item.signal_id or f"{self.event_id}.{i}" for i, item in enumerate(self.items)]


class FactRemembered(Message, frozen=True, kw_only=True):
    """A bank is to hold a fact: its text, in place of the one it had."""

    family: ClassVar[Family] = Family.SIGNALS

    bank: Id
    fact_id: Id
    text: Query

    @property
    def routing(self) -> str:
        """The bank."""
        return self.bank


class FactForgotten(Message, frozen=True, kw_only=True):
    """A bank is to hold a fact's text no longer; what signals made of the fact stays."""

    family: ClassVar[Family] = Family.SIGNALS

    bank: Id
    fact_id: Id

    @property
    def routing(self) -> str:
        """The bank."""
        return self.bank


class Candidate(msgspec.Struct, frozen=True, array_like=True):
    """A fact that a host's own search has found, with its semantic score."""

    fact_id: Id
    semantic: float


class RecallRequested(Message, frozen=True, kw_only=True):
    """A host asks for a ranking; after `deadline_in` seconds it no longer wants one.

    The reply waits in a mailbox named by `event_id`. Without candidates it is the facts that the bank remembers.
    """

    family: ClassVar[Family] = Family.RECALLS

    bank: Id
    query: Query
    candidates: Annotated[list[Candidate], Meta(max_length=MAX_CANDIDATES)] | None = None
    limit: Annotated[int, Meta(ge=1)] = 10
    boost_by_usefulness: bool = False
    usefulness_weight: Share = 0.3
    min_usefulness: Share = 0.0
    exploration: Share = 0.0
    penalty_floor: Share = 0.0
    penalty_after: Annotated[int, Meta(ge=0)] = 0
    deadline_in: Annotated[float, Meta(ge=0, le=MAX_WAIT)] = 2.0

    @property
    def routing(self) -> str:
        """The bank."""
        return self.bank


class RecallHit(msgspec.Struct, frozen=True, kw_only=True):
    """One ranked fact: with a boost, `score` is (1 - w) x semantic + w x usefulness, else the semantic score.

    `scope` says whose usefulness it is: that of the query's `context`, the fact's `global` one, or `neutral`
    (0.5, never signalled). `degraded` is True where no worker answered in time: the query's context was not looked at.
    `explored` says that the fact has its place through `exploration`. `text` is that of a fact that the bank remembers.
    """

    fact_id: str
    score: float
    semantic: float
    usefulness: float
    scope: Scope = "neutral"
    degraded: bool = False
    explored: bool = False
    text: str | None = None


class RecallReply(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker puts into the mailbox of a recall: hits, or the reason why there are none.

    With `unfit` it is the query that the model fails at, with `other_model` the bank has another than that worker.
    """

    hits: list[RecallHit] = []
    error: str = ""
    unfit: bool = False
    other_model: bool = False


class FactStats(msgspec.Struct, frozen=True, kw_only=True):
    """What the signals of one fact add up to: its global score decayed to now, and counts by signal type.

    Times are milliseconds since the epoch, server time.
    """

    usefulness_score: float
    signal_count: int
    signal_breakdown: dict[str, int]
    last_signal_at: int | None
    created_at: int


class FactScore(msgspec.Struct, frozen=True, kw_only=True):
    """A fact among others of its bank: its global score decayed to now, and its signals by type."""

    fact_id: str
    usefulness_score: float
    signal_count: int
    signal_breakdown: dict[str, int]
    last_signal_at: int


class BankDay(msgspec.Struct, frozen=True, kw_only=True):
    """A day (UTC) with signals: the mean of the bank's facts after the last of them, and their number by type."""

    day: str
    average_score: float
    facts: int
    signal_breakdown: dict[str, int]


class BankStats(msgspec.Struct, frozen=True, kw_only=True):
    """What a bank has, from figures kept with each signal. `facts`, those signalled, and `contexts` are under its caps.

    `held_facts` are those that it was told to hold, for recalls without candidates. A bank that only holds facts has
    the model that embedded them, the threshold that it would begin with, and no `created_at`.
    Scores are the facts' global ones, decayed to now: their mean (0.5 where there is none), how many facts have 0 to
    0.1, 0.1 to 0.2, ... 0.9 to 1, and the ten most and the ten least useful, which overlap where there are few.
    """

    bank: str
    model: str
    dimension: int
    threshold: float
    facts: int
    contexts: int
    held_facts: int = 0
    signal_count: int
    signal_breakdown: dict[str, int]
    last_signal_at: int | None
    created_at: int | None
    average_score: float
    distribution: list[int]
    most_useful: list[FactScore]
    least_useful: list[FactScore]
