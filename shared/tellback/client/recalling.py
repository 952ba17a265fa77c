"""Recall, as a host asks for it: a worker ranks; where none answers in time, the facts' global scores do."""

from __future__ import annotations

from collections.abc import Sequence

from tellback.client.context import Context
from tellback.contracts.message import MAX_FIELD_BYTES, new_event_id
from tellback.contracts.signals import Candidate, RecallHit, RecallRequested
from tellback.errors import ConfigurationError
from tellback.redaction import redact_text
from tellback.signals.ranking import rank
from tellback.signals.validation import check_candidates, check_limits, check_query, check_share
from tellback.state.banks import BankStore
from tellback.state.recalls import Recalls


class Recalling:
    """The recalls of one bank."""

    def __init__(self, context: Context, store: BankStore) -> None:
        """Take the client's context and the bank's store."""
        self._context = context
        self._store = store

    def rank(
        self,
        query: str,
        candidates: Sequence[Candidate | tuple[str, float]],
        *,
        limit: int,
        boost_by_usefulness: bool,
        usefulness_weight: float,
        min_usefulness: float,
        wait: float,
    ) -> list[RecallHit]:
        """What `Bank.recall` says."""
        check_limits(limit, wait)
        request = RecallRequested(
            event_id=new_event_id(),
            bank=self._store.bank,
            query=cut_text(check_query(query, "query")),
            candidates=check_candidates(candidates),
            limit=limit,
            boost_by_usefulness=boost_by_usefulness,
            usefulness_weight=check_share(usefulness_weight, "usefulness_weight"),
            min_usefulness=check_share(min_usefulness, "min_usefulness"),
            deadline_in=float(wait),
        )
        if not request.candidates:
            return []
        reply = Recalls(self._context.database, self._context.layout).ask(request)
        if reply is None:
            return rank(request, self._store.global_usefulness([c.fact_id for c in request.candidates]), degraded=True)
        if reply.error:
            raise ConfigurationError(reply.error)
        return reply.hits


def cut_text(text: str) -> str:
    """The text without secrets, then at most 64 KB of UTF-8; the cut never parts a character."""
    return redact_text(text).encode()[:MAX_FIELD_BYTES].decode(errors="ignore")
