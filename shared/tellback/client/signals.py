"""A bank, as a host uses it: tell it facts, recall them with what was learnt, signal what helped, read ratings back."""

from __future__ import annotations

from collections.abc import Iterable

from tellback.client.context import Context
from tellback.client.recalling import Ranking, Recalling
from tellback.client.remembering import Remembering
from tellback.client.signal_session import SignalSession
from tellback.client.signalling import Progress, Signalling
from tellback.contracts.signals import BankStats, Candidate, FactScore, FactStats, RecallHit, SignalItem
from tellback.signals.validation import check_count, check_factor, check_id, check_limit, check_name, check_share
from tellback.state.bank_stats import BankStatistics, PruneRule
from tellback.state.banks import BankStore


class Bank:
    """The facts of one agent, or of a fleet that learns together. Banks know nothing of each other."""

    def __init__(self, context: Context, name: str) -> None:
        """Take the client's context and the bank's name; a bank begins with its first signal.

        Raises:
            InvalidInput: the name is not text of 1 to 512 characters, or carries a secret.
        """
        self.name = check_name(name, "bank")
        self._context = context
        shard = context.layout.of(name)
        self._store = BankStore(context.database, shard, name)
        self._statistics = BankStatistics(context.database, shard, name)
        self._signalling = Signalling(context.publisher, self.name)
        self._remembering = Remembering(context, self.name)
        self._recalling = Recalling(context, self._store)

    def signal(
        self, items: Iterable[SignalItem], *, session: str | None = None, progress: Progress | None = None
    ) -> int:
        """Publish what recalled facts were worth; workers apply each signal once, in order.

        All items are checked first. More than 500, or 512 KB, travel as several batches, each applied entirely or
        not at all. Queries and remarks are redacted, then cut at 64 KB. What waits to be sent takes at most 8 MB,
        however many items there are. Ids are kept as they are, so one that the rules take for a secret is refused.

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
            InvalidInput: the session is not text of 1 to 512 characters, or carries a secret.
        """
        return SignalSession(self._signalling, session)

    def remember(self, fact_id: str, text: str) -> None:
        """Have the bank hold a fact, to be found by its text; a text that it had under this id is replaced.

        Workers embed the text and store it shortly after; a recall of this client waits for that. It is redacted, then
        cut at 64 KB. Over its bounds (`TELLBACK_BANK_MEMORIES` facts) the bank loses what it was told longest ago.

        Raises:
            InvalidInput: the id is not text of 1 to 512 characters, or carries a secret, or the text is blank.
            SpoolFull: Redis is away and so is the room to keep facts.
        """
        self._remembering.remember(fact_id, text)

    def forget(self, fact_id: str) -> None:
        """Have the bank hold a fact no longer; one that it does not hold is no error.

        What signals made of it stays: remembered again, the fact has its scores.

        Raises:
            InvalidInput: the id is not text of 1 to 512 characters.
            SpoolFull: Redis is away and so is the room to keep facts.
        """
        self._remembering.forget(fact_id)

    def recall(
        self,
        query: str,
        candidates: Iterable[Candidate | tuple[str, float]] | None = None,
        *,
        limit: int = 10,
        boost_by_usefulness: bool = False,
        usefulness_weight: float = 0.3,
        min_usefulness: float = 0.0,
        exploration: float = 0.0,
        penalty_floor: float = 0.0,
        penalty_after: int = 0,
        wait: float = 2.0,
    ) -> list[RecallHit]:
        """Rank facts by relevance and by what signals say of them for queries like this one.

        They are what a search of yours has found; without `candidates`, what the bank remembers: then the semantic
        score is the cosine of query and text, and hits have their `text`. A worker embeds the query, or this process
        where `TELLBACK_RECALL_IN_PROCESS` is set. Where none answers within `wait` seconds (0: do not ask), candidates
        are ranked by the facts' global scores, and each hit says so by `degraded`. Recall never changes a score.

        Args:
            query: what is looked for.
            candidates: at most 1,000 pairs of fact id and semantic score, from the host's own search.
            limit: most hits to return.
            boost_by_usefulness: rank by (1 - weight) x semantic + weight x usefulness; otherwise by semantic alone.
            usefulness_weight: from 0 to 1. High weights keep new facts from ever surfacing: begin low.
            min_usefulness: leave out facts below this usefulness, from 0 to 1; an unknown fact has 0.5.
            exploration: share of the places, rounded up, for facts with fewer than five signals (`explored`, last).
            penalty_floor: count no fact as less useful than this.
            penalty_after: count no fact as less useful than 0.5 before it has so many signals.
            wait: seconds to wait for a worker, at most 60.

        Raises:
            InvalidInput: an argument is wrong, and named; or the model fails at a query without candidates.
            ConfigurationError: the bank was begun with another model than the workers have, or than this process.
            Timeout: without candidates, and no worker has answered in time.
            Unavailable: Redis does not answer; or, without candidates, the model of this process does not load.
        """
        ranking = Ranking(
            limit=limit,
            boost_by_usefulness=boost_by_usefulness,
            usefulness_weight=usefulness_weight,
            min_usefulness=min_usefulness,
            exploration=exploration,
            penalty_floor=penalty_floor,
            penalty_after=penalty_after,
            wait=wait,
        )
        return self._recalling.recall(query, candidates, ranking)

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
            NotFound: no signal ever came to a bank of this name, and it holds no fact.
            Unavailable: Redis does not answer.
        """
        return self._statistics.stats()

    def prune_candidates(
        self, *, max_score: float = 0.3, min_signals: int = 5, against: float = 2.0, limit: int = 100
    ) -> list[FactScore]:
        """Facts that a person may want to take out of the store that recalls find them in; nothing is deleted.

        Args:
            max_score: only facts whose global score is at most this, from 0 to 1.
            min_signals: only facts with so many signals or more.
            against: only facts that were so many times as often `ignored` or `not_helpful` as `used` or `helpful`.
            limit: most facts to name, the least useful first.

        Raises:
            InvalidInput: an argument is wrong; the message names it.
            NotFound: no signal ever came to a bank of this name, and it holds no fact.
            Unavailable: Redis does not answer.
        """
        rule = PruneRule(
            max_score=check_share(max_score, "max_score"),
            min_signals=check_count(min_signals, "min_signals"),
            against=check_factor(against, "against"),
        )
        check_limit(limit)
        self._statistics.stats()  # a bank that is not there is an error, and no empty list
        return self._statistics.prune_candidates(rule, limit)
