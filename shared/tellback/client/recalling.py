"""Recall, as a host asks for it: a worker ranks, or this process where it has the model.

Where a host brings candidates and nobody answers in time, the facts' global scores rank them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from tellback import clock
from tellback.client.context import Context
from tellback.contracts.message import MAX_FIELD_BYTES, new_event_id
from tellback.contracts.signals import MAX_CANDIDATES, Candidate, RecallHit, RecallReply, RecallRequested
from tellback.errors import ConfigurationError, InvalidInput, Timeout, Unavailable
from tellback.redaction import redact_text
from tellback.signals.ranking import rank
from tellback.signals.validation import check_candidates, check_count, check_limits, check_query, check_share
from tellback.state.banks import BankStore
from tellback.state.memories import Backlog, MemoryStore
from tellback.state.recalls import Recalls

FIRST_NAP: Final = 0.002
LONGEST_NAP: Final = 0.05
NAPS_BEFORE_ANOTHER: Final = (0.0, 0.0, 0.01, 0.01, 0.05, 0.05, 0.1, 0.1)
"""Seconds before a worker is asked again, where one has another model than the bank: half of a fleet may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """How a recall is to rank; what each means stands at `Bank.recall`."""

    limit: int = 10
    boost_by_usefulness: bool = False
    usefulness_weight: float = 0.3
    min_usefulness: float = 0.0
    exploration: float = 0.0
    penalty_floor: float = 0.0
    penalty_after: int = 0
    wait: float = 2.0

    def __post_init__(self) -> None:
        """Check all.

        Raises:
            InvalidInput: one of them is wrong; the message names it.
        """
        check_limits(self.limit, self.wait)
        for name in ("usefulness_weight", "min_usefulness", "exploration", "penalty_floor"):
            check_share(getattr(self, name), name)
        check_count(self.penalty_after, "penalty_after")

    def request(self, bank: str, query: str, candidates: list[Candidate] | None) -> RecallRequested:
        """The request of a recall."""
        return RecallRequested(
            event_id=new_event_id(),
            bank=bank,
            query=query,
            candidates=candidates,
            limit=self.limit,
            boost_by_usefulness=bool(self.boost_by_usefulness),
            usefulness_weight=float(self.usefulness_weight),
            min_usefulness=float(self.min_usefulness),
            exploration=float(self.exploration),
            penalty_floor=float(self.penalty_floor),
            penalty_after=self.penalty_after,
            deadline_in=float(self.wait),
        )


class Recalling:
    """The recalls of one bank."""

    def __init__(self, context: Context, store: BankStore) -> None:
        """Take the client's context and the bank's store."""
        self._context = context
        self._store = store
        self._shard = context.layout.of(store.bank)
        self._memories = MemoryStore(context.database, self._shard, store.bank)

    def recall(
        self, query: str, candidates: Iterable[Candidate | tuple[str, float]] | None, ranking: Ranking
    ) -> list[RecallHit]:
        """What `Bank.recall` says."""
        text = cut_text(check_query(query, "query"))
        if candidates is None:
            return self._from_memory(text, ranking)
        request = ranking.request(self._store.bank, text, check_candidates(candidates))
        if not request.candidates:
            return []
        reply = self._reply(request)
        if reply is None:
            usefulness = self._store.global_usefulness([each.fact_id for each in request.candidates])
            return rank(request, usefulness, degraded=True)
        return _hits(reply)

    def _from_memory(self, text: str, ranking: Ranking) -> list[RecallHit]:
        if ranking.limit > MAX_CANDIDATES:
            raise InvalidInput(f"limit is {ranking.limit}: a recall of remembered facts gives at most {MAX_CANDIDATES}")
        end = clock.monotonic() + ranking.wait
        self._catch_up(end)
        if self._memories.info() is None:
            return []
        left = max(0.0, end - clock.monotonic())
        request = msgspec.structs.replace(ranking.request(self._store.bank, text, None), deadline_in=left)
        reply = self._reply(request)
        if reply is None:
            raise Timeout(
                f"no worker has answered within {ranking.wait:g} s: start one for the queue recalls, or give candidates"
            )
        hits = _hits(reply)
        texts = self._memories.texts([hit.fact_id for hit in hits])
        # One that was forgotten meanwhile has none.
        return [msgspec.structs.replace(hit, text=texts[hit.fact_id]) for hit in hits if hit.fact_id in texts]

    def _catch_up(self, end: float) -> None:
        """Wait until what this client told of the bank is applied, or the time is over."""
        told, bank = self._context.told, self._store.bank
        event_id = told.pop(bank, None)  # first: what is told from now on is for the next recall to wait for
        if event_id is None:
            return
        applied = False
        try:
            applied = self._applied(event_id, end)
        finally:
            if not applied:
                told.setdefault(bank, event_id)

    def _applied(self, event_id: str, end: float) -> bool:
        publisher, backlog = self._context.publisher, Backlog(self._context.database, self._shard, self._store.bank)
        publisher.flush()
        last, nap = None, FIRST_NAP
        while True:
            if not publisher.spooled:
                last = last or backlog.last()
                if last is None or backlog.done(event_id, last):
                    return True
            left = end - clock.monotonic()
            if left <= 0:
                return False
            clock.sleep(min(nap, left))
            nap = min(2 * nap, LONGEST_NAP)

    def _reply(self, request: RecallRequested) -> RecallReply | None:
        if not self._context.settings.recall_in_process:
            return self._asked(request)
        try:
            return self._context.in_process.answer(request)
        except Unavailable:
            if request.candidates is None:
                raise
            return None  # the model does not load; where it is Redis, the scores will not come either

    def _asked(self, request: RecallRequested) -> RecallReply | None:
        """A worker's reply; where one has another model than the bank, the next may have it."""
        recalls, end = Recalls(self._context.database, self._context.layout), clock.monotonic() + request.deadline_in
        reply = recalls.ask(request)
        for nap in NAPS_BEFORE_ANOTHER:
            left = end - clock.monotonic() - nap
            if reply is None or not reply.other_model or left <= 0:
                break
            clock.sleep(nap)
            again = msgspec.structs.replace(request, event_id=new_event_id(), deadline_in=left)
            reply = recalls.ask(again) or reply
        return reply


def _hits(reply: RecallReply) -> list[RecallHit]:
    if reply.error:
        raise InvalidInput(reply.error) if reply.unfit else ConfigurationError(reply.error)
    return reply.hits


def cut_text(text: str) -> str:
    """The text without secrets, then at most 64 KB of UTF-8; the cut never parts a character."""
    return redact_text(text).encode()[:MAX_FIELD_BYTES].decode(errors="ignore")
