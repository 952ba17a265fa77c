"""A bank as a host uses it: remember facts, recall them, signal which ones helped, and read the scores.

`remember`, `forget` and `signal` publish events in order; recalls and statistics read Redis at once. A recall waits
until the facts that this client published before it are applied, so each publication notes its event id in the context.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from tellback.client.client_context import ClientContext
from tellback.client.recall import RecallClient, redact_and_truncate
from tellback.client.signal_session import Progress, SignalPublisher, SignalSession
from tellback.contracts.message import new_event_id
from tellback.contracts.signals import (
    BankStats,
    Candidate,
    FactForgotten,
    FactRemembered,
    FactScore,
    FactStats,
    RecallHit,
    RecallRequested,
    SignalItem,
)
from tellback.signals.validation import (
    check_candidates,
    check_count,
    check_fact_text,
    check_factor,
    check_id,
    check_limit,
    check_limits,
    check_name,
    check_query,
    check_share,
)
from tellback.state.bank_stats import BankStatistics, PruneRule
from tellback.state.banks import BankStore


class Bank:
    """A bank: the facts of one agent, or of a fleet that learns together, with their scores.

    Banks are isolated from each other (requirement S-32). Get one from `tb.bank("my-agent")`.
    """

    name: str

    def __init__(self, context: ClientContext, name: str) -> None:
        """Check the name. Nothing is sent to Redis.

        Raises:
            InvalidInput: the name is not text of 1 to 512 characters, or contains a known kind of secret.
        """
        self.name = check_name(name, "bank")
        self._context = context
        shard = context.layout.of(name)
        self._store = BankStore(context.database, shard, name)
        self._statistics = BankStatistics(context.database, shard, name)
        self._signalling = SignalPublisher(context.publisher, context.admission, self.name)
        self._recalling = RecallClient(context, self._store)

    def signal(
        self, items: Iterable[SignalItem], *, session: str | None = None, progress: Progress | None = None
    ) -> int:
        """Publish signals about recalled facts. Workers apply each signal once, in order. Requirements S-1 to S-10.

        All items are checked before the first is published. More than 500 items, or 512 KB, become several batches, and
        each batch is applied entirely or not at all. Queries and remarks (`context`) are redacted, then truncated to
        64 KB. Ids can't be redacted, so an id that looks like a secret is refused. At most 8 MB wait in memory, however
        many items you pass.

        Args:
            items: one or more signals.
            session: the session whose history shows the signals.
            progress: called after each batch with the number of signals published so far, and the number of all.

        Returns:
            The number of published signals.

        Raises:
            InvalidInput: there is no item, or one is wrong; the message names the item and field. Nothing was
                published.
            SpoolFull: Redis is unavailable and the spool is full. The first batches may have been accepted.
            Unavailable: the team has as many banks as an operator allows. Nothing was published.
        """
        return self._signalling.publish(items, session=session, progress=progress)

    def session(self, session: str) -> SignalSession:
        """Return a collector that submits its signals once: `with bank.session("s1") as signals: ...`.

        Requirement S-62.

        Raises:
            InvalidInput: the session is not text of 1 to 512 characters, or contains a known kind of secret.
        """
        return SignalSession(self._signalling, session)

    def remember(self, fact_id: str, text: str) -> None:
        """Store a fact in the bank so that recalls find it by its text. Requirements S-45 to S-50.

        If the bank has a fact with this id, its text is replaced. Workers embed and store the text shortly after this
        returns; a recall by the same client waits for that. The text is redacted, then truncated to 64 KB. A bank holds
        `TELLBACK_BANK_STORED_FACTS` facts and `TELLBACK_BANK_STORED_BYTES` bytes; above that, the fact that was
        remembered longest ago is evicted.

        Raises:
            InvalidInput: the id is not text of 1 to 512 characters or contains a known kind of secret, or the text is
                blank.
            SpoolFull: Redis is unavailable and the spool is full.
            Unavailable: the team has as many banks as an operator allows.
        """
        check_name(fact_id, "fact_id")
        # Checked a second time, since a truncated text may consist of nothing but its leading blanks.
        kept = check_fact_text(redact_and_truncate(check_fact_text(text)))
        self._context.admission.ask("banks", self.name)
        self._publish(FactRemembered(event_id=new_event_id(), bank=self.name, fact_id=fact_id, text=kept))

    def forget(self, fact_id: str) -> None:
        """Remove a fact from the bank. Requirement S-45.

        The fact keeps its scores: if you remember it again, they apply. It is not an error to forget a fact that the
        bank does not have.

        Raises:
            InvalidInput: the id is not text of 1 to 512 characters.
            SpoolFull: Redis is unavailable and the spool is full.
        """
        self._publish(FactForgotten(event_id=new_event_id(), bank=self.name, fact_id=check_id(fact_id, "fact_id")))

    def _publish(self, message: FactRemembered | FactForgotten) -> None:
        # Noted once it is accepted, since no recall may wait for an event that the publisher refused; and in the order
        # of the stream: if another thread noted an earlier event last, a recall would not wait for this one.
        noted = partial(self._context.awaited_events.note, self.name, message.event_id)
        self._context.publisher.publish(message, accepted=noted)

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
        """Rank facts by relevance and by their usefulness for queries like this one. Requirements S-33 to S-44.

        With `candidates`, the facts that your own search found are ranked. Without, the facts that the bank stores are
        searched: the semantic score is then the cosine of query and text, and each hit has its `text`. A worker embeds
        the query, or this process does if `TELLBACK_RECALL_IN_PROCESS` is set. If no reply comes within `wait` seconds
        or too many wait, candidates are ranked by their global scores, each hit `degraded`. Recall changes no score.

        Args:
            query: the text to search for; redacted, then truncated to 64 KB.
            candidates: at most 1,000 pairs of fact id and semantic score.
            limit: the maximum number of hits; without candidates, at most 1,000.
            boost_by_usefulness: rank by (1 - weight) x semantic + weight x usefulness; otherwise by semantic alone.
            usefulness_weight: the weight, from 0 to 1. Start low: high weights keep new facts from ever surfacing.
            min_usefulness: leave out facts below this usefulness, from 0 to 1. An unknown fact has 0.5.
            exploration: the share of hits, rounded up, for facts with under five signals: last, marked `explored`.
            penalty_floor: the lowest usefulness that any fact counts with, from 0 to 1.
            penalty_after: until it has this many signals, a fact counts as at least 0.5 useful.
            wait: the seconds to wait for a worker, from 0 (don't ask) to 60.

        Raises:
            InvalidInput: an argument is wrong; or, without candidates, the model can't embed the query.
            ConfigurationError: the bank belongs to another model than the workers or this process have.
            Timeout: without candidates, no worker replied in time.
            Unavailable: Redis does not answer; or, without candidates, too many wait or the local model does not load.
        """
        check_limits(limit, wait)
        return self._recalling.recall(RecallRequested(
            event_id=new_event_id(), bank=self.name, query=redact_and_truncate(check_query(query, "query")),
            candidates=None if candidates is None else check_candidates(candidates),
            limit=limit, boost_by_usefulness=bool(boost_by_usefulness), deadline_in=float(wait),
            usefulness_weight=check_share(usefulness_weight, "usefulness_weight"),
            min_usefulness=check_share(min_usefulness, "min_usefulness"),
            exploration=check_share(exploration, "exploration"),
            penalty_floor=check_share(penalty_floor, "penalty_floor"),
            penalty_after=check_count(penalty_after, "penalty_after"),
        ))  # fmt: skip

    def fact_stats(self, fact_id: str) -> FactStats:
        """Return a fact's current global score and its counts of signals. Requirement S-59.

        Raises:
            NotFound: the bank has no signal for this fact.
            Unavailable: Redis does not answer.
        """
        return self._statistics.fact_stats(check_id(fact_id, "fact_id"))

    def stats(self) -> BankStats:
        """Return the bank's statistics: model, threshold, facts, query clusters, signals by type, and score summary.

        Requirement S-59.

        Raises:
            NotFound: the bank has neither a signal nor a fact.
            Unavailable: Redis does not answer.
        """
        return self._statistics.stats()

    def prune_candidates(
        self, *, max_score: float = 0.3, min_signals: int = 5, against: float = 2.0, limit: int = 100
    ) -> list[FactScore]:
        """Return facts that you may want to delete, the least useful first. Nothing is deleted. Requirement S-61.

        A fact is listed if all three conditions hold.

        Args:
            max_score: the highest global score of a listed fact, from 0 to 1.
            min_signals: the lowest number of signals of a listed fact.
            against: the lowest ratio of signals against the fact (`ignored`, say) to signals for it (`used`, say).
            limit: the maximum number of facts.

        Raises:
            InvalidInput: an argument is wrong; the message names it.
            NotFound: the bank has neither a signal nor a fact.
            Unavailable: Redis does not answer.
        """
        rule = PruneRule(
            max_score=check_share(max_score, "max_score"),
            min_signals=check_count(min_signals, "min_signals"),
            min_against=check_factor(against, "against"),
        )
        check_limit(limit)
        self._statistics.stats()  # raises NotFound: an empty list for a misspelt name would look like a tidy bank
        return self._statistics.prune_candidates(rule, limit)
