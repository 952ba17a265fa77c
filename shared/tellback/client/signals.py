"""A bank, as a host uses it: signal what helped, recall with what was learnt, read the ratings back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tellback.client.context import Context
from tellback.client.recalling import Recalling
from tellback.client.signal_session import SignalSession
from tellback.client.signalling import Progress, Signalling
from tellback.contracts.signals import BankStats, Candidate, FactStats, RecallHit, SignalItem
from tellback.signals.validation import check_id
from tellback.state.bank_stats import BankStatistics
from tellback.state.banks import BankStore


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
        self._signalling = Signalling(context.publisher, self.name)
        self._recalling = Recalling(context, self._store)

    def signal(
        self, items: Iterable[SignalItem], *, session: str | None = None, progress: Progress | None = None
    ) -> int:
        """Publish what recalled facts were worth; workers apply each signal once, in order.

        All items are checked first. More than 500, or 512 KB, travel as several batches, each applied entirely or
        not at all. Queries and remarks are redacted, then cut at 64 KB. What waits to be sent takes at most 8 MB,
        however many items there are.

        Args:
            items: one or more observations.
            session: the session in whose history they are to stand.
            progress: called after each batch with the number of signals published so far, and of all.

        Returns:
            How many signals were published.

        Raises:
            InvalidInput: an item is wrong, the message names it and its field; or there is none. Nothing was published.
            SpoolFull: Redis is away and so is the room to keep signals; the first batches may have been taken.
        """
        return self._signalling.publish(items, session=session, progress=progress)

    def session(self, session: str) -> SignalSession:
        """Collect signals while an agent works, and submit them once: `with bank.session("s1") as signals: ...`.

        Raises:
            InvalidInput: the session is not text of 1 to 512 characters.
        """
        return SignalSession(self._signalling, session)

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
