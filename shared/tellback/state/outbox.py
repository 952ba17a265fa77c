"""The store of the outbox: what transports are to send, in order within a conversation.

A delivery is taken under a lease and settled by its outcome; what nobody settles comes again when the lease ends.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

import msgspec

from tellback.contracts.turns import DeliveryKind, OutgoingResponse, RoutingOutcome, Settlement
from tellback.state.database import Arg, Database
from tellback.state.decision import Decision
from tellback.state.keys import Layout, Shard
from tellback.state.script import Script

RETRY_MAX_MS: Final = 300_000
WAIT_MAX_MS: Final = 60_000

_ready = Script("ready_deliveries")
_claim = Script("claim_delivery")
_settle = Decision("settle_delivery")


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One response on its way. `attempt` counts attempts, `waits` the times that the transport was down.

    `key` is the idempotency key: it stays the same however often the delivery is taken. `reply_to` is the message that
    a late answer refers to, where the host named none.
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
    unsure: bool = False
    final: bool = False
    reply_to: str | None = None

    @property
    def outgoing(self) -> OutgoingResponse:
        """What to send."""
        response = msgspec.json.decode(self.response, type=OutgoingResponse)
        if response.reply_to is None and self.reply_to is not None:
            return msgspec.structs.replace(response, reply_to=self.reply_to)
        return response

    @property
    def status(self) -> Literal["waiting", "taken", "ambiguous"]:
        """Where it stands in its queue."""
        if self.final:
            return "ambiguous"
        return "waiting" if self.token is None else "taken"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a delivery stands: the first of a conversation."""

    shard: Shard
    channel: str
    conversation: str

    @property
    def out(self) -> str:
        """The channel's conversations in this shard."""
        return self.shard.key("out", self.channel)

    @property
    def queue(self) -> str:
        """The conversation's deliveries."""
        return self.shard.key("outq", self.channel, self.conversation)


@dataclass(frozen=True, slots=True)
class Limits:
    """How a delivery is tried. Times are milliseconds."""

    lease_ms: int
    attempts: int
    retry_ms: int
    hold_ms: int

    def pause(self, delivery: Delivery, settlement: str) -> int:
        """How long a delivery rests after this settlement."""
        if settlement == "ambiguous":
            return self.hold_ms
        if settlement == "wait":
            return min(WAIT_MAX_MS, self.retry_ms << min(delivery.waits, 20))
        return min(RETRY_MAX_MS, self.retry_ms << min(max(delivery.attempt - 1, 0), 20))


class Outbox:
    """The outboxes of one team. Every method raises `Unavailable` while Redis is away."""

    def __init__(self, database: Database, layout: Layout, limits: Limits) -> None:
        """Take the Redis, the team's shards and how deliveries are tried."""
        self._db = database
        self._layout = layout
        self._limits = limits

    def ready(self, channel: str, limit: int) -> list[tuple[Place, Delivery]]:
        """First deliveries that may be taken now, longest waiting first; taking one may still find it gone."""
        shards = self._layout.all
        replies = self._db.run_all([_ready.call([shard.key("out", channel)], [limit]) for shard in shards])
        waiting = sorted(
            (float(at), shard.index, name.decode())
            for shard, flat in zip(shards, replies, strict=True)
            for name, at in zip(flat[::2], flat[1::2], strict=True)
        )
        places = [Place(self._layout.shard(index), channel, name) for _, index, name in waiting[:limit]]
        return self._firsts(places)

    def has_ready(self, channel: str) -> bool:
        """Whether any conversation of the channel has something to take now."""
        return any(self._db.run_all([_ready.call([shard.key("out", channel)], [1]) for shard in self._layout.all]))

    def _firsts(self, places: list[Place]) -> list[tuple[Place, Delivery]]:
        heads = self._db.pipeline([("LINDEX", place.queue, 0) for place in places])
        gone = [place for place, head in zip(places, heads, strict=True) if head is None]
        self._db.pipeline([("ZREM", place.out, place.conversation) for place in gone])
        return [(place, _decode(head)) for place, head in zip(places, heads, strict=True) if head is not None]

    def claim(self, place: Place, expected: Delivery) -> Delivery | None:
        """Take the first delivery of a conversation; None if it is not `expected`, not ready, or at its end."""
        keys = [
            place.out,
            place.queue,
            place.shard.key("turn", expected.turn),
            place.shard.key("hist", expected.session),
        ]
        token = secrets.token_hex(12)
        args: list[Arg] = [
            place.channel, place.conversation, expected.key, token, self._limits.lease_ms, self._limits.attempts,
        ]  # fmt: skip
        reply = msgspec.json.decode(self._db.run(_claim.call(keys, args)))
        return msgspec.convert(reply["delivery"], Delivery) if reply["status"] == "taken" else None

    def settle(self, place: Place, delivery: Delivery, outcome: RoutingOutcome) -> Settlement | Literal["lost"]:
        """Tell what became of a taken delivery; `lost` if its lease ended and another transport has it."""
        settlement: str = outcome.settlement
        if settlement == "retry" and not outcome.attempted:
            settlement = "wait"
        keys = [
            place.out,
            place.queue,
            place.shard.key("turn", delivery.turn),
            place.shard.key("hist", delivery.session),
        ]
        args: list[Arg] = [
            place.channel, place.conversation, delivery.key, delivery.token or "", settlement,
            self._limits.pause(delivery, settlement), self._limits.attempts, msgspec.json.encode(outcome),
        ]  # fmt: skip
        reply = _settle.run(self._db, place.shard, keys, args)
        return cast("Settlement | Literal['lost']", reply["result"])

    def channels(self) -> list[str]:
        """Channels that had a delivery in the last seven days, at most 1,000 a shard."""
        replies = self._db.pipeline([("ZRANGE", shard.key("channels"), 0, -1) for shard in self._layout.all])
        return sorted({name.decode() for reply in replies for name in reply})

    def pending(self, channel: str, limit: int) -> list[tuple[Place, int, Delivery]]:
        """Deliveries of a channel, at most `limit`, with the time (ms) from which the first of each may be taken."""
        replies = self._db.pipeline(
            [("ZRANGE", shard.key("out", channel), 0, limit - 1, "WITHSCORES") for shard in self._layout.all]
        )
        places = sorted(
            (int(float(at)), shard.index, name.decode())
            for shard, flat in zip(self._layout.all, replies, strict=True)
            for name, at in zip(flat[::2], flat[1::2], strict=True)
        )
        found: list[tuple[Place, int, Delivery]] = []
        for at, index, conversation in places:
            if len(found) >= limit:
                break
            place = Place(self._layout.shard(index), channel, conversation)
            queue = self._db.command("LRANGE", place.queue, 0, limit - len(found) - 1)
            found += [(place, at, _decode(raw)) for raw in queue]
        return found


def _decode(raw: Any) -> Delivery:
    return msgspec.json.decode(raw, type=Delivery)
