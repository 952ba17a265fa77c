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
from tellback.state.keys import Layout, Shard, lifetime_ms
from tellback.state.script import Script

RETRY_MAX_MS: Final = 300_000
WAIT_MAX_MS: Final = 60_000
ASK_MAX_MS: Final = 30_000
REFUSED_MAX_MS: Final = 3_600_000  # longest pause that a platform may ask for
SERVED_MAX: Final = 1_000

_ready = Script("ready_deliveries")
_claim = Script("claim_delivery")
_ask = Script("ask_delivery")
_settle = Decision("settle_delivery")


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One response on its way. `attempt` counts attempts, `waits` the times that the transport was down.

    `key` is the idempotency key: it stays the same however often the delivery is taken. `reply_to` is the message that
    a late answer refers to, where the host named none. `unsure`: an earlier taker never settled it. `final`: it is
    ambiguous, and not sent again unless the platform, which was asked `asks` times, says that it was not sent.
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
    asks: int = 0
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

    @property
    def unsure(self) -> str:
        """The channel's conversations in this shard whose first delivery is ambiguous."""
        return self.shard.key("unsure", self.channel)

    def keys(self, delivery: Delivery) -> list[str]:
        """The keys of the scripts that take and settle it, in their order."""
        return [
            self.out,
            self.queue,
            self.shard.key("turn", delivery.turn),
            self.shard.key("hist", delivery.session),
            self.unsure,
            self.shard.key("turnstats"),
        ]


@dataclass(frozen=True, slots=True)
class Limits:
    """How a delivery is tried. Times are milliseconds."""

    lease_ms: int
    attempts: int
    retry_ms: int
    hold_ms: int

    def pause(self, delivery: Delivery, settlement: str, retry_after: float | None = None) -> int:
        """How long a delivery rests after this settlement; no shorter than the platform asks for, up to an hour."""
        if settlement == "ambiguous":
            return self.hold_ms
        if settlement == "wait":
            own = min(WAIT_MAX_MS, self.retry_ms << min(delivery.waits, 20))
        else:
            own = min(RETRY_MAX_MS, self.retry_ms << min(max(delivery.attempt - 1, 0), 20))
        return max(own, min(REFUSED_MAX_MS, round((retry_after or 0) * 1000)))

    def ask_pause(self, delivery: Delivery) -> int:
        """How long to wait before the platform is asked (again) about an ambiguous one."""
        return min(ASK_MAX_MS, self.retry_ms << min(delivery.asks, 20))


class Outbox:
    """The outboxes of one team. Every method raises `Unavailable` while Redis is away."""

    def __init__(self, database: Database, layout: Layout, limits: Limits) -> None:
        """Take the Redis, the team's shards and how deliveries are tried."""
        self._db = database
        self._layout = layout
        self._limits = limits

    def ready(self, channel: str, limit: int) -> list[tuple[Place, Delivery]]:
        """First deliveries that may be taken now, longest waiting first; taking one may still find it gone."""
        return self._firsts(self._due("out", channel, limit))

    def _due(self, family: str, channel: str, limit: int) -> list[Place]:
        shards = self._layout.all
        replies = self._db.run_all([_ready.call([shard.key(family, channel)], [limit]) for shard in shards])
        waiting = sorted(
            (float(at), shard.index, name.decode())
            for shard, flat in zip(shards, replies, strict=True)
            for name, at in zip(flat[::2], flat[1::2], strict=True)
        )
        return [Place(self._layout.shard(index), channel, name) for _, index, name in waiting[:limit]]

    def has_ready(self, channel: str) -> bool:
        """Whether any conversation of the channel has something to take now."""
        return any(self._db.run_all([_ready.call([shard.key("out", channel)], [1]) for shard in self._layout.all]))

    def _firsts(self, places: list[Place]) -> list[tuple[Place, Delivery]]:
        heads = self._db.pipeline([("LINDEX", place.queue, 0) for place in places])
        gone = [place for place, head in zip(places, heads, strict=True) if head is None]
        self._db.pipeline([("ZREM", key, place.conversation) for place in gone for key in (place.out, place.unsure)])
        return [(place, _decode(head)) for place, head in zip(places, heads, strict=True) if head is not None]

    def claim(self, place: Place, expected: Delivery) -> Delivery | None:
        """Take the first delivery of a conversation; None if it is not `expected`, not ready, or at its end."""
        token = secrets.token_hex(12)
        args: list[Arg] = [
            place.channel, place.conversation, expected.key, token, self._limits.lease_ms, self._limits.attempts,
        ]  # fmt: skip
        reply = msgspec.json.decode(self._db.run(_claim.call(place.keys(expected), args)))
        return msgspec.convert(reply["delivery"], Delivery) if reply["status"] == "taken" else None

    def unsure(self, channel: str, limit: int) -> list[tuple[Place, Delivery]]:
        """Ambiguous deliveries that the platform may be asked about now, longest waiting first."""
        return self._firsts(self._due("unsure", channel, limit))

    def ask(self, place: Place, expected: Delivery) -> Delivery | None:
        """Take an ambiguous delivery to ask the platform about it; None if it is settled or another one asks."""
        token = secrets.token_hex(12)
        args: list[Arg] = [place.conversation, expected.key, token, self._limits.ask_pause(expected)]
        reply = msgspec.json.decode(self._db.run(_ask.call([place.queue, place.unsure], args)))
        return msgspec.convert(reply["delivery"], Delivery) if reply["status"] == "taken" else None

    def settle(self, place: Place, delivery: Delivery, outcome: RoutingOutcome) -> Settlement | Literal["lost"]:
        """Tell what became of a taken delivery; `lost` if its lease ended and another transport has it."""
        settlement: str = outcome.settlement
        if settlement == "retry" and not outcome.attempted:
            settlement = "wait"
        args: list[Arg] = [
            place.channel, place.conversation, delivery.key, delivery.token or "", settlement,
            self._limits.pause(delivery, settlement, outcome.retry_after), self._limits.attempts,
            msgspec.json.encode(outcome), self._limits.ask_pause(delivery),
        ]  # fmt: skip
        reply = _settle.run(self._db, place.shard, place.keys(delivery), args)
        return cast("Settlement | Literal['lost']", reply["result"])

    def note_served(self, channel: str) -> None:
        """Note that a transport asks for deliveries of this channel."""
        key = self._layout.of(channel).key("served")
        now = self._db.now_ms()
        self._db.pipeline([
            ("ZADD", key, now, channel),
            ("ZREMRANGEBYRANK", key, 0, -SERVED_MAX - 1),
            ("PEXPIRE", key, lifetime_ms("served")),
        ])  # fmt: skip

    def served(self) -> dict[str, int]:
        """When a transport last asked for deliveries, by channel, in milliseconds; the last seven days."""
        keys = [shard.key("served") for shard in self._layout.all]
        replies = self._db.pipeline([("ZRANGE", key, 0, -1, "WITHSCORES") for key in keys])
        return {
            name.decode(): int(float(at)) for flat in replies for name, at in zip(flat[::2], flat[1::2], strict=True)
        }

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
