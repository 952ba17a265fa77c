"""Recalls, answered: what the bank remembers, or a host's candidates, ranked by what signals say for such a query."""

from __future__ import annotations

from typing import Final

import msgspec

from tellback.contracts.signals import MAX_CANDIDATES, Candidate, RecallReply, RecallRequested
from tellback.embedding.contexts import Contexts
from tellback.embedding.memories import MemorySearch
from tellback.errors import ConfigurationError
from tellback.redaction import redact_text
from tellback.signals.matching import Vectors
from tellback.signals.models import OtherModel
from tellback.signals.ranking import Usefulness, rank
from tellback.state.keys import Shard

TRIES: Final = 5
CONSIDERED: Final = 100
"""Remembered facts that are ranked, at least: usefulness can lift a fact over nearer ones."""


class Answering:
    """Answers the recalls of one team in this process."""

    def __init__(self, contexts: Contexts) -> None:
        """Take the model and the banks' contexts."""
        self.contexts = contexts
        self._memories = MemorySearch(contexts.database, contexts.embedder.encoder)

    def reply(self, shard: Shard, request: RecallRequested, vector: Vectors) -> RecallReply:
        """The hits for a request whose query has this vector, or why there are none."""
        try:
            if request.candidates is None:
                request = self._found(shard, request, vector)
            usefulness = self._usefulness(shard, request, vector)
        except ConfigurationError as error:
            return RecallReply(error=str(error), other_model=isinstance(error, OtherModel))
        if usefulness is not None:
            return RecallReply(hits=rank(request, usefulness))
        return self._by_global_scores(shard, request)

    def without(self, shard: Shard, request: RecallRequested, failure: Exception) -> RecallReply:
        """The reply where the model fails at the query: candidates by global scores, else why there are no hits."""
        if request.candidates is None:
            model = self.contexts.embedder.encoder.model
            reason = f"query: the model {model} fails at this text: {type(failure).__name__}: {failure}"
            return RecallReply(error=redact_text(reason)[:2000], unfit=True)
        return self._by_global_scores(shard, request)

    def _by_global_scores(self, shard: Shard, request: RecallRequested) -> RecallReply:
        store = self.contexts.of(shard, request.bank).store
        return RecallReply(hits=rank(request, store.global_usefulness(_ids(request)), degraded=True))

    def _found(self, shard: Shard, request: RecallRequested, vector: Vectors) -> RecallRequested:
        """The request with the bank's facts that are nearest to its query as candidates."""
        count = min(MAX_CANDIDATES, max(CONSIDERED, 4 * request.limit))
        found = self._memories.nearest(shard, request.bank, vector, count)
        # Rounding takes a cosine a little past its bounds.
        candidates = [Candidate(fact_id, min(1.0, max(-1.0, cosine))) for fact_id, cosine in found]
        return msgspec.structs.replace(request, candidates=candidates)

    def _usefulness(self, shard: Shard, request: RecallRequested, vector: Vectors) -> list[Usefulness] | None:
        """Of each candidate; None where the bank's contexts change faster than they can be matched."""
        contexts = self.contexts.of(shard, request.bank)
        for _ in range(TRIES):
            with contexts.lock:
                contexts.sync()
                matrix = contexts.matrix
                slots = [match.slot for match in matrix.all_matches(vector, contexts.threshold)]
                known, version = matrix.bank_id, matrix.version
            usefulness = contexts.store.usefulness(known, version, slots, _ids(request))
            if usefulness is not None:
                return usefulness
        return None


def _ids(request: RecallRequested) -> list[str]:
    return [candidate.fact_id for candidate in request.candidates or ()]
