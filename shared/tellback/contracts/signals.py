"""Messages and values of the signals loop: signals, facts, recalls and the statistics of banks.

Constraints are part of the types, so the JSON Schema shows them to every language. Requirements S-2 and S-5.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal

import msgspec
from msgspec import Meta

from tellback.contracts.limits import MAX_BATCH_SIGNALS, MAX_CANDIDATES, MAX_FIELD_BYTES, MAX_ID_CHARS
from tellback.contracts.message import Message
from tellback.contracts.signal_types import SignalType
from tellback.names import Family

MAX_WAIT: Final = 60.0  # seconds that a recall may wait; its reply expires after that

Scope = Literal["cluster", "global", "neutral"]
Id = Annotated[str, Meta(min_length=1, max_length=MAX_ID_CHARS)]
Query = Annotated[str, Meta(max_length=MAX_FIELD_BYTES, pattern=r"\S")]
Share = Annotated[float, Meta(ge=0, le=1)]


class SignalItem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One signal about a fact that was recalled for `query`; `confidence` is in [0, 1], `context` is a free remark.

    An empty `signal_id` is filled in at publishing; set your own to make a repeated call harmless.
    """

    fact_id: Id
    signal_type: SignalType
    query: Query
    confidence: Share = 1.0
    context: Annotated[str, Meta(max_length=MAX_FIELD_BYTES)] | None = None
    signal_id: Annotated[str, Meta(max_length=MAX_ID_CHARS)] = ""


class SignalBatch(Message, frozen=True, kw_only=True):
    """Up to 500 signals of one bank, applied in order, all or none."""

    family: ClassVar[Family] = Family.SIGNALS

    bank: Id
    items: Annotated[list[SignalItem], Meta(min_length=1, max_length=MAX_BATCH_SIGNALS)]
    session: Annotated[str, Meta(min_length=1, max_length=MAX_ID_CHARS)] | None = None

    @property
    def routing(self) -> str:
        """The bank."""
        return self.bank

    @property
    def signal_ids(self) -> list[str]:
        """The id by which each item counts once: its own, or one made of the batch's id and its position."""
        return [item.signal_id or f"{self.event_id}.{i}" for i, item in enumerate(self.items)]


class FactRemembered(Message, frozen=True, kw_only=True):
    """A fact is to be stored in a bank, replacing the text that it had."""

    family: ClassVar[Family] = Family.SIGNALS

    bank: Id
    fact_id: Id
    text: Query

    @property
    def routing(self) -> str:
        """The bank."""
        return self.bank


class FactForgotten(Message, frozen=True, kw_only=True):
    """A fact's text is to be removed from a bank; its scores stay."""

    family: ClassVar[Family] = Family.SIGNALS

    bank: Id
    fact_id: Id

    @property
    def routing(self) -> str:
        """The bank."""
        return self.bank


# An array in JSON, [fact_id, semantic]: a recall may carry a thousand of them.
class Candidate(msgspec.Struct, frozen=True, array_like=True):
    """A fact found by a host's own search, with its semantic score."""

    fact_id: Id
    semantic: float


class RecallRequested(Message, frozen=True, kw_only=True):
    """A host asked for a ranking; after `deadline_in` seconds it no longer waits for one.

    The reply goes to a mailbox named by `event_id`. Without candidates the bank's stored facts are searched.
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
    """One ranked fact: with a boost, `score` is (1 - w) x semantic + w x usefulness, otherwise the semantic score.

    `scope` says where the usefulness comes from: the query's `cluster`, the fact's `global` score, or `neutral` (0.5,
    no signal yet). `degraded` means that no worker answered in time, so the query's cluster did not count. `explored`
    means that the fact has its place through `exploration`. `text` is set for the bank's stored facts.
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
    """A worker's reply in the mailbox of a recall: hits, or the reason why there are none.

    `unfit` means that the model fails at the query, `model_mismatch` that the bank belongs to another model than the
    worker's.
    """

    hits: list[RecallHit] = []
    error: str = ""
    unfit: bool = False
    model_mismatch: bool = False


class FactStats(msgspec.Struct, frozen=True, kw_only=True):
    """The statistics of one fact: its global score decayed to now, and its signals by type.

    Times are milliseconds since the epoch, server time.
    """

    usefulness_score: float
    signal_count: int
    signal_breakdown: dict[str, int]
    last_signal_at: int | None
    created_at: int


class FactScore(msgspec.Struct, frozen=True, kw_only=True):
    """A fact in a listing of its bank: its global score decayed to now, and its signals by type."""

    fact_id: str
    usefulness_score: float
    signal_count: int
    signal_breakdown: dict[str, int]
    last_signal_at: int


class BankDay(msgspec.Struct, frozen=True, kw_only=True):
    """A day (UTC) with signals: the bank's mean score after the last of them, and their number by type."""

    day: str
    average_score: float
    facts: int
    signal_breakdown: dict[str, int]


class BankStats(msgspec.Struct, frozen=True, kw_only=True):
    """The statistics of a bank, from counters that each signal updates.

    `facts` counts the facts with signals, `stored_facts` those stored for recalls without candidates. A bank without
    signals has the model that embedded its stored facts, the threshold that it would begin with, and no `created_at`.
    Scores are the facts' global ones, decayed to now: their mean (0.5 if there are none), the number of facts from 0 to
    0.1, 0.1 to 0.2, ... 0.9 to 1, and the ten most and ten least useful facts, which overlap if there are few.
    """

    bank: str
    model: str
    dimension: int
    threshold: float
    facts: int
    clusters: int
    stored_facts: int = 0
    signal_count: int
    signal_breakdown: dict[str, int]
    last_signal_at: int | None
    created_at: int | None
    average_score: float
    distribution: list[int]
    most_useful: list[FactScore]
    least_useful: list[FactScore]
