"""A bank, as a host uses it: signal what helped, recall with what was learnt, read the ratings back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from tellback.client.context import Context
from tellback.client.recalling import Recalling, cut_text
from tellback.contracts.message import new_event_id
from tellback.contracts.signals import MAX_BATCH, BankStats, Candidate, FactStats, RecallHit, SignalBatch, SignalItem
from tellback.signals.validation import check_id, check_items
from tellback.state.bank_stats import BankStatistics
from tellback.state.banks import BankStore

MAX_CHUNK_BYTES: Final = 512 << 10
_FLUSH_EVERY: Final = 16  # chunks, so that a call of any length holds at most 8 MB in memory


class Bank:
    """The facts of one agent, or of a fleet that learns together. Banks know nothing of each other."""

    def __init__(self, context: Context, name: str) -> None:
        """Take the client's context and the bank's name; a bank begins with its first signal.

        Raises:
            InvalidInput: the name is not text of 1 to 512 characters.
        """
        self.name = check_id(name, "bank")
        self._context = context
        shard = context.layout.of(name)
        self._store = BankStore(context.database, shard, name)
        self._statistics = BankStatistics(context.database, shard, name)
        self._recalling = Recalling(context, self._store)

    def signal(self, items: Iterable[SignalItem], *, session: str | None = None) -> int:
        """Publish what recalled facts were worth; workers apply each signal once, in order.

        All items are checked first. More than 500, or 512 KB, travel as several batches, each applied entirely or
        not at all. Queries and remarks are redacted, then cut at 64 KB.

        Args:
            items: one or more observations.
            session: the session in whose history they are to stand.

        Returns:
            How many signals were published.

        Raises:
            InvalidInput: an item is wrong, the message names it and its field; or there is none. Nothing was published.
            SpoolFull: Redis is away and so is the room to keep signals.
        """
        checked = [_redacted(item) for item in check_items(items)]
        if session is not None:
            check_id(session, "session")
        for number, chunk in enumerate(_chunks(checked), 1):
            self._context.publisher.publish(self._batch(chunk, session))
            if number % _FLUSH_EVERY == 0:
                self._context.publisher.flush()
        return len(checked)

    def recall(
        self,
        query: str,
        candidates: Sequence[Candidate | tuple[str, float]],
        *,
        limit: int = 10,
        boost_by_usefulness: bool = False,
        usefulness_weight: float = 0.3,
        min_usefulness: float = 0.0,
        wait: float = 2.0,
    ) -> list[RecallHit]:
        """Rank facts that a search has found by relevance and by what signals say of them for queries like this one.

        A worker embeds the query. Where none answers within `wait` seconds (0: do not ask), the facts' global scores
        are used, and each hit says so by `degraded`. Recall never changes a score.

        Args:
            query: what is looked for.
            candidates: at most 1,000 pairs of fact id and semantic score, from the host's own search.
            limit: most hits to return.
            boost_by_usefulness: rank by (1 - weight) x semantic + weight x usefulness; otherwise by semantic alone.
            usefulness_weight: from 0 to 1. High weights keep new facts from ever surfacing: begin low.
            min_usefulness: leave out facts below this usefulness, from 0 to 1; an unknown fact has 0.5.
            wait: seconds to wait for a worker, at most 60.

        Raises:
            InvalidInput: an argument is wrong; the message names it.
            ConfigurationError: the bank was begun with another model than the workers have.
            Unavailable: Redis does not answer.
        """
        return self._recalling.rank(
            query,
            candidates,
            limit=limit,
            boost_by_usefulness=boost_by_usefulness,
            usefulness_weight=usefulness_weight,
            min_usefulness=min_usefulness,
            wait=wait,
        )

    def fact_stats(self, fact_id: str) -> FactStats:
        """A fact's global score now, and its counts.

        Raises:
            NotFound: the bank has no signal of this fact.
            Unavailable: Redis does not answer.
        """
        return self._statistics.fact_stats(check_id(fact_id, "fact_id"))

    def stats(self) -> BankStats:
        """What the bank holds: its model and threshold, facts, contexts, and signals by type; how its facts fare.

        Raises:
            NotFound: no signal ever came to a bank of this name.
            Unavailable: Redis does not answer.
        """
        return self._statistics.stats()

    def _batch(self, chunk: Sequence[SignalItem], session: str | None) -> SignalBatch:
        event_id = new_event_id()
        items = [
            item if item.signal_id else msgspec.structs.replace(item, signal_id=f"{event_id}.{i}")
            for i, item in enumerate(chunk)
        ]
        return SignalBatch(event_id=event_id, bank=self.name, items=items, session=session)


def _redacted(item: SignalItem) -> SignalItem:
    context = None if item.context is None else cut_text(item.context)
    return msgspec.structs.replace(item, query=cut_text(item.query), context=context)


def _chunks(items: Sequence[SignalItem]) -> Iterator[list[SignalItem]]:
    """The items in order, in lists of at most 500 and about 512 KB."""
    chunk: list[SignalItem] = []
    room = MAX_CHUNK_BYTES
    for item in items:
        size = len(msgspec.json.encode(item)) + 64  # the signal id comes on top
        if chunk and (len(chunk) == MAX_BATCH or size > room):
            yield chunk
            chunk, room = [], MAX_CHUNK_BYTES
        chunk.append(item)
        room -= size
    if chunk:
        yield chunk
