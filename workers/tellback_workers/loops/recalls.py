"""The recalls loop: what a bank remembers, or a host's candidates, ranked by what signals say for such a query."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from tellback.contracts.signals import RecallRequested
from tellback.embedding.answering import Answering
from tellback.embedding.contexts import Contexts
from tellback.state.intake import Entry, Lease
from tellback.state.recalls import Recalls
from tellback_workers.contexts import contexts_of
from tellback_workers.runtime import Runtime

ANSWERED_AT_ONCE: Final = 32


class RecallsLoop:
    """Answers requests that still want an answer; the model is called once for all of them."""

    def __init__(self, runtime: Runtime, team: str, contexts: Contexts | None = None) -> None:
        """Take the connections and the team; `contexts` other than the process's own brings another model."""
        self._contexts = contexts or contexts_of(runtime, team)
        self._answering = Answering(self._contexts)
        self._intake = runtime.intake(team)
        self._recalls = Recalls(runtime.database, runtime.layout(team))

    def ready(self) -> None:
        """Return if the model is loaded.

        Raises:
            Unavailable: it does not load; hosts fall back to global scores.
        """
        self._contexts.ready()

    def apply(self, lease: Lease, entries: Sequence[Entry]) -> None:
        """Answer every request, the oldest first; those past their deadline are dropped."""
        for start in range(0, len(entries), ANSWERED_AT_ONCE):
            part = entries[start : start + ANSWERED_AT_ONCE]
            now = self._contexts.database.now_ms()
            wanted = [request for entry in part if (request := _wanted(entry, now))]
            vectors, failures = self._contexts.embedder.embed_each(
                (request.query for request in wanted), lease.shard, urgent=True, keep=partial(self._keep, lease)
            )
            replies = {
                request.event_id: self._answering.without(lease.shard, request, failure)
                if (failure := failures.get(request.query))
                else self._answering.reply(lease.shard, request, vectors[request.query])
                for request in wanted
            }
            self._recalls.answer(lease, part, replies)

    def _keep(self, lease: Lease) -> None:
        self._intake.renew(lease, self._contexts.settings.embed_lease)


def _wanted(entry: Entry, now: int) -> RecallRequested | None:
    assert isinstance(entry.message, RecallRequested), entry.message
    return entry.message if now < entry.at_ms + entry.message.deadline_in * 1000 else None
