"""The store of the outbox: the deliveries that transports send, in order within a conversation.

A delivery is taken under a lease and settled by its outcome; an unsettled one is due again when the lease ends. A queue
above its cap loses a delivery, whose turn shows that. A script can only use the keys that its caller passes, and only
the queue shows which delivery goes. A script that posts therefore names it, and its caller evicts it by a second one.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, TypedDict, cast

import msgspec
from redis import exceptions

from tellback.backoff import Backoff, retry
from tellback.contracts.turns import DeliveryKind, OutgoingResponse, RoutingOutcome, Settlement
from tellback.errors import Unavailable
from tellback.log import get_logger
from tellback.state.answering import among_answering
from tellback.state.database import Database, small_write
from tellback.state.decisions import decide
from tellback.state.keys import FAMILIES, Layout, Shard, lifetime_ms
from tellback.state.readable import (
    UNREADABLE,
    names_of,
    read_each,
    readable,
    reply_of,
    scored_names,
    without_errors,
    without_strays,
)
from tellback.state.script_calls import ScriptCall
from tellback.state.scripts import common
from tellback.state.scripts import turns as scripts
from tellback.state.steady import GAP_MS, observe, skews

RETRY_MAX_MS: Final = 300_000  # the cap of the doubling delay after a failed attempt

WAIT_MAX_MS: Final = 60_000  # the same while the transport is down, which spends no attempt

RECONCILE_MAX_MS: Final = 30_000  # the same between questions to the platform about an ambiguous one

REFUSED_MAX_MS: Final = 3_600_000  # the longest delay granted to a platform that asks for one

MAX_POLLED: Final = FAMILIES["polled"].cap or 0

MAX_CLAIMS: Final = 2  # tries to claim one delivery

BACKOFF: Final = Backoff(0.2)

POSTPONE_MS: Final = 10_000  # for an unreadable delivery: a transport of a newer release gets it after this at most

_logger = get_logger("tellback.outbox")


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One response on its way. `attempt` counts attempts, `waits` the times that the transport was down.

    `key` is the idempotency key, the same however often the delivery is taken. `reply_to` is the message that a late
    answer refers to if the host named none. `ambiguous`: an earlier taker never settled it. `given_up`: it is ambiguous
    and is sent again only if the platform, asked `reconciles` times so far, says that it was not sent.
    """

    key: str
    turn: str
    session: str
    kind: DeliveryKind
    response: str
    at: int
    attempt: int
    waits: int
    token: str | None = None
    ambiguous: bool = False
    given_up: bool = False
    reconciles: int = 0
    reply_to: str | None = None

    @property
    def outgoing(self) -> OutgoingResponse:
        """The response to send."""
        response = msgspec.json.decode(self.response, type=OutgoingResponse)
        if response.reply_to is None and self.reply_to is not None:
            return msgspec.structs.replace(response, reply_to=self.reply_to)
        return response

    @property
    def status(self) -> Literal["waiting", "taken", "ambiguous"]:
        """The state of the delivery in its queue."""
        if self.given_up:
            return "ambiguous"
        return "waiting" if self.token is None else "taken"


class DeliveryParts(TypedDict):
    """The keys and arguments of the scripts that claim and settle a delivery."""

    out: str
    queue: str
    turn: str
    hist: str
    channel: str
    conversation: str
    expected: str


@dataclass(frozen=True, slots=True)
class OutboxQueue:
    """The queue of one conversation, of which only the first delivery can be taken."""

    shard: Shard
    channel: str
    conversation: str

    @property
    def out(self) -> str:
        """The key of the channel's conversations in this shard."""
        return self.shard.key("out", self.channel)

    @property
    def key(self) -> str:
        """The key of the conversation's deliveries."""
        return self.shard.key("outq", self.channel, self.conversation)

    @property
    def ambiguous(self) -> str:
        """The key of the channel's conversations in this shard whose first delivery is ambiguous."""
        return self.shard.key("ambiguous", self.channel)

    def parts(self, delivery: Delivery) -> DeliveryParts:
        """Return the arguments that the scripts to claim and to settle a delivery have in common."""
        return {
            "out": self.out,
            "queue": self.key,
            "turn": self.shard.key("turn", delivery.turn),
            "hist": self.shard.key("hist", delivery.session),
            "channel": self.channel,
            "conversation": self.conversation,
            "expected": delivery.key,
        }


@dataclass(frozen=True, slots=True)
class OutboxLimits:
    """The limits of attempts to send a delivery. Times are milliseconds."""

    lease_ms: int
    attempts: int
    retry_ms: int
    hold_ms: int

    def retry_delay(self, delivery: Delivery, settlement: str, retry_after: float | None) -> int:
        """Return the delay after this settlement; not shorter than the platform asks for, up to an hour."""
        if settlement == "ambiguous":
            return self.hold_ms
        if settlement == "wait":
            own = min(WAIT_MAX_MS, self.retry_ms << min(delivery.waits, 20))
        else:
            own = min(RETRY_MAX_MS, self.retry_ms << min(max(delivery.attempt - 1, 0), 20))
        return max(own, min(REFUSED_MAX_MS, round((retry_after or 0) * 1000)))

    def reconcile_delay(self, delivery: Delivery) -> int:
        """Return the delay before the platform is asked (again) about an ambiguous delivery."""
        return min(RECONCILE_MAX_MS, self.retry_ms << min(delivery.reconciles, 20))


class Outbox:
    """The outboxes of one team. Every method raises `Unavailable` while Redis is away."""

    def __init__(self, database: Database, layout: Layout, limits: OutboxLimits, gap_ms: int = GAP_MS) -> None:
        self._db = database
        self._layout = layout
        self._limits = limits
        self._gap_ms = gap_ms

    def ready(self, channel: str, limit: int) -> list[tuple[OutboxQueue, Delivery]]:
        """Return first deliveries that may be taken now, longest waiting first; `claim` may still find one gone."""
        return self._read_firsts("out", self._due_firsts("out", channel, limit))

    def _due_firsts(self, family: str, channel: str, limit: int) -> list[OutboxQueue]:
        waiting = sorted(
            (at, shard.index, name)
            for shard, flat in self._ready(family, channel, limit).items()
            for name, at in without_strays(self._db, shard.key(family, channel), flat)
        )
        return [OutboxQueue(self._layout.shard(index), channel, name) for _, index, name in waiting[:limit]]

    def _ready(self, family: str, channel: str, limit: int) -> dict[Shard, Any]:
        """Return what may be taken in each shard; nothing may while it is not known how far its clock has stepped.

        A shard whose node does not answer, or whose index somebody changed by hand, is left out.
        """

        def ask(shards: Sequence[Shard]) -> dict[Shard, Any]:
            calls = [self._ready_call(shard.key(family, channel), limit) for shard in shards]
            replies = self._db.run_each(calls)
            unobserved = [shard for shard, reply in zip(shards, replies, strict=True) if reply is None]
            if unobserved:
                self._observe(unobserved)
                replies = self._db.run_each(calls)
            return dict(zip(shards, without_errors(replies), strict=True))

        return {shard: flat for shard, flat in among_answering(self._db, self._layout.all, ask).items() if flat}

    def _observe(self, shards: Sequence[Shard]) -> None:
        observe(self._db, shards, self._gap_ms, stands_in=True)

    def _ready_call(self, key: str, limit: int) -> ScriptCall:
        return scripts.ready_deliveries(
            out=key,
            limit=limit,
            longest_ms=max(REFUSED_MAX_MS, self._limits.lease_ms, self._limits.hold_ms),
        )

    def has_ready(self, channel: str) -> bool:
        """Check whether any conversation of the channel has a delivery that may be taken now."""
        return bool(self._ready("out", channel, 1))

    def _read_firsts(self, family: str, queues: list[OutboxQueue]) -> list[tuple[OutboxQueue, Delivery]]:
        """Read the first delivery of each queue; drop empty queues from their indexes and postpone unreadable ones."""
        heads = read_each(self._db, [("LINDEX", queue.key, 0) for queue in queues])
        found: list[tuple[OutboxQueue, Delivery]] = []
        calls: list[ScriptCall] = []
        for queue, head in zip(queues, heads, strict=True):
            if head is None:  # the queue has expired, or its last delivery was settled a moment ago
                indexes = (queue.out, queue.ambiguous)
                key, name = queue.key, queue.conversation
                calls += [common.drop_missing(index=index, key=key, member=name) for index in indexes]
                continue
            try:
                found.append((queue, decode_delivery(head)))
            except UNREADABLE as error:  # perhaps from a newer release: only its own conversation waits
                _report("delivery.unreadable", queue, error)
                index = queue.shard.key(family, queue.channel)
                calls.append(common.postpone(index=index, member=queue.conversation, ms=POSTPONE_MS))
        without_errors(self._db.run_each(calls))
        return found

    def claim(self, queue: OutboxQueue, expected: Delivery) -> Delivery | None:
        """Claim the first delivery of a conversation; None if it is not `expected`, not due, or out of attempts."""
        call = scripts.claim_delivery(
            **queue.parts(expected),
            token=secrets.token_hex(12),
            lease_ms=self._limits.lease_ms,
            attempts=self._limits.attempts,
        )
        return self._taken(call, queue, queue.out)

    def ambiguous(self, channel: str, limit: int) -> list[tuple[OutboxQueue, Delivery]]:
        """Return ambiguous deliveries that the platform may be asked about now, longest waiting first."""
        return self._read_firsts("ambiguous", self._due_firsts("ambiguous", channel, limit))

    def claim_ambiguous(self, queue: OutboxQueue, expected: Delivery) -> Delivery | None:
        """Claim an ambiguous delivery to ask the platform about it; return None if it is settled or taken already."""
        call = scripts.claim_ambiguous(
            queue=queue.key,
            ambiguous=queue.ambiguous,
            conversation=queue.conversation,
            expected=expected.key,
            token=secrets.token_hex(12),
            delay_ms=self._limits.reconcile_delay(expected),
        )
        return self._taken(call, queue, queue.ambiguous)

    def _taken(self, call: ScriptCall, queue: OutboxQueue, index: str) -> Delivery | None:
        """Return the delivery that a script took; if the script fails, postpone this queue for the others' sake."""
        try:
            # Also after a timeout: a delivery that nobody heard of would wait for its lease, and be ambiguous.
            reply = msgspec.json.decode(retry(lambda: self._db.run(call), BACKOFF, tries=MAX_CLAIMS))
            if reply["status"] == "unobserved":  # the deliveries before it in the list took long to send, or a step
                self._observe([queue.shard])
                reply = msgspec.json.decode(self._db.run(call))
        except exceptions.ResponseError as error:
            _report("delivery.not_taken", queue, error)
            self._db.run(common.postpone(index=index, member=queue.conversation, ms=POSTPONE_MS))
            return None
        return msgspec.convert(reply["delivery"], Delivery) if reply["status"] == "taken" else None

    def settle(self, queue: OutboxQueue, delivery: Delivery, outcome: RoutingOutcome) -> Settlement | Literal["lost"]:
        """Settle a taken delivery; return `lost` if another transport has it, or its queue cannot be read any more."""
        settlement: str = outcome.settlement
        if settlement == "retry" and not outcome.attempted:
            settlement = "wait"
        decision = scripts.settle_delivery(
            **queue.parts(delivery),
            token=delivery.token or "",
            settlement=settlement,
            delay_ms=self._limits.retry_delay(delivery, settlement, outcome.retry_after),
            attempts=self._limits.attempts,
            outcome=msgspec.json.encode(outcome),
            reconcile_ms=self._limits.reconcile_delay(delivery),
        )
        try:
            reply = decide(self._db, queue.shard, decision)
        except exceptions.ResponseError as error:  # somebody changed the queue by hand: the other deliveries go on
            _report("delivery.not_settled", queue, error)
            return "lost"
        return cast("Settlement | Literal['lost']", reply["result"])

    def note_polled(self, channel: str) -> None:
        """Note that a transport polls this channel, in its shard, or in another if the node of that one is away."""
        own, now = self._layout.of(channel), self._db.now_ms()

        def note(shards: Sequence[Shard]) -> None:
            key = shards[0].key("polled")
            # unconditional: the newest time counts, and the set is bounded. PEXPIRE is a script too: if the server has
            # forgotten the scripts, a plain PEXPIRE would run before the ZADD
            without_errors(
                self._db.run_each(
                    [small_write("ZADD", key, now, channel), small_write("PEXPIRE", key, lifetime_ms("polled"))],
                    [("ZREMRANGEBYRANK", key, 0, -MAX_POLLED - 1)],
                )
            )

        among_answering(self._db, sorted(self._layout.all, key=lambda shard: shard != own), note)

    def channels(self) -> list[str]:
        """Return channels that had a delivery in the last seven days, at most 1,000 a shard."""
        replies = self._db.pipeline([("ZRANGE", shard.key("channels"), 0, -1) for shard in self._layout.all])
        return sorted({name for reply in replies for name in names_of("channel", reply)})

    def pending(self, channel: str, limit: int) -> list[tuple[OutboxQueue, int, Delivery]]:
        """Return at most `limit` deliveries of a channel, each with the time (ms) when its queue's first is due."""
        replies = self._db.pipeline(
            [("ZRANGE", shard.key("out", channel), 0, limit - 1, "WITHSCORES") for shard in self._layout.all]
        )
        ahead = skews(self._db, self._layout.all)
        conversations = sorted(
            (int(at) + ahead[shard.index], shard.index, name)
            for shard, flat in zip(self._layout.all, replies, strict=True)
            for name, at in scored_names("conversation", flat)
        )
        found: list[tuple[OutboxQueue, int, Delivery]] = []
        for at, index, conversation in conversations:
            if len(found) >= limit:
                break
            queue = OutboxQueue(self._layout.shard(index), channel, conversation)
            [raws] = read_each(self._db, [("LRANGE", queue.key, 0, limit - len(found) - 1)])
            each = [raws] if isinstance(raws, Exception) else raws
            found += [(queue, at, delivery) for delivery in readable("delivery", each, decode_delivery)]
        return found


def decode_delivery(raw: Any) -> Delivery:
    """Decode a stored delivery; raise one of the errors `UNREADABLE` if it or its response cannot be read."""
    delivery = msgspec.json.decode(reply_of(raw), type=Delivery)
    _ = delivery.outgoing  # fail here for a response that cannot be sent: each claim would spend an attempt
    return delivery


MAX_EVICTED: Final = 50  # by one caller: others that post to a full conversation evict, too


class Surplus(msgspec.Struct, frozen=True):
    """The delivery that a conversation with too many has to lose."""

    key: str
    turn: str
    session: str


def evict(database: Database, queue: OutboxQueue, found: Any) -> None:
    """Evict deliveries of a conversation until it has no more than its cap; `found` is the first, as a script says it.

    What was posted stays posted if this fails: whoever posts next evicts for this caller, too.
    """
    with suppress(Unavailable, exceptions.ResponseError):
        for _ in range(MAX_EVICTED):
            if found is None:
                return
            surplus = msgspec.convert(found, Surplus)
            call = scripts.evict_delivery(
                queue=queue.key,
                turn=queue.shard.key("turn", surplus.turn),
                hist=queue.shard.key("hist", surplus.session),
                channel=queue.channel,
                conversation=queue.conversation,
                expected=surplus.key,
            )
            reply = database.run(call)
            found = reply and msgspec.json.decode(reply)


def _report(event: str, queue: OutboxQueue, error: Exception) -> None:
    _logger.error(event, conversation=queue.conversation, channel=queue.channel, error=error)
