"""The recalls loop: it ranks a bank's stored facts, or a host's candidates, by the scores for similar queries."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from tellback.contracts.signals import RecallRequested
from tellback.embedding.clusters import ClusterCache
from tellback.embedding.recall import RecallAnswerer
from tellback.state.intake_lease import IntakeEntry, Lease
from tellback.state.recalls import Recalls
from tellback_workers.loops.clusters import ModelLoop
from tellback_workers.runtime import Runtime

BATCH: Final = 32  # requests in one call of the model


class RecallsLoop(ModelLoop):
    """Answers the requests whose deadline has not passed, with one call of the model for a batch."""

    def __init__(self, runtime: Runtime, team: str, clusters: ClusterCache | None = None) -> None:
        super().__init__(runtime, team, clusters)
        self._answering = RecallAnswerer(self._clusters)
        self._recalls = Recalls(runtime.database, runtime.layout(team))

    def apply(self, lease: Lease, entries: Sequence[IntakeEntry]) -> None:
        """Answer every request, oldest first; drop those past their deadline, since nobody waits for them."""
        for start in range(0, len(entries), BATCH):
            part = entries[start : start + BATCH]
            now = self._clusters.database.now_ms()
            wanted = [request for entry in part if (request := _is_wanted(entry, now))]
            # Urgent: an agent waits for the answer, and must not wait behind batches of signals.
            vectors, failures = self._clusters.embedder.embed_each(
                (request.query for request in wanted), lease.shard, urgent=True, keep=partial(self._renew_lease, lease)
            )
            replies = {
                request.event_id: self._answering.answer_without_vector(lease.shard, request, failure)
                if (failure := failures.get(request.query))
                else self._answering.answer(lease.shard, request, vectors[request.query])
                for request in wanted
            }
            self._recalls.answer(lease, part, replies)


def _is_wanted(entry: IntakeEntry, now: int) -> RecallRequested | None:
    assert isinstance(entry.message, RecallRequested), entry.message
    return entry.message if now < entry.at_ms + entry.message.deadline_in * 1000 else None
