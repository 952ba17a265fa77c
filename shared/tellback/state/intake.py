"""The intake: streams by family and shard, a doorbell that tells of new entries, and the lease of a drainer.

Two consumer groups read each stream. `bell` (NOACK) tells dispatchers that something came; `drain` is the ledger: an
entry stays pending until the script that stores its effect acknowledges and deletes it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal

import msgspec
from redis import exceptions

from tellback.contracts.codec import AnyMessage
from tellback.errors import TellbackError, Unavailable
from tellback.names import Family
from tellback.state.database import Arg, Database
from tellback.state.keys import Layout, Shard, stream_of
from tellback.state.script import Call, Script

FIELD: Final = "m"
_FIELD: Final = FIELD.encode()
RING_MS: Final = 3_000
READ_BYTES: Final = 16 << 20  # of one read, by the average size in the stream: bounds a drainer's memory
_CONSUMER: Final = "drainer"  # one name for all: what a dead drainer left pending is its successor's to read

Place = tuple[Shard, Family]  # of a stream
Ring = Literal["due", "pending", "attended"]

_take_lease = Script("take_lease")
_extend_lease = Script("extend_lease")
_release_lease = Script("release_lease")
_renew_lease = Script("renew_lease")
_read_stream = Script("read_stream")


class Fenced(TellbackError):
    """The drainer's lease ran out or passed to another: stop, nothing of the last script was written."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to drain one stream; `fence` grows with each lease and is checked by every commit."""

    shard: Shard
    family: Family
    fence: int

    @property
    def stream(self) -> str:
        """The intake stream: KEYS[1] of a commit."""
        return self.keys[0]

    @property
    def key(self) -> str:
        """The lease: KEYS[2] of a commit."""
        return self.keys[1]

    @property
    def keys(self) -> tuple[str, str]:
        """The first two keys of every commit."""
        return _commit_keys(self.shard, self.family)

    def args(self, entries: Sequence[Entry]) -> tuple[str, bytes]:
        """The first two arguments of every commit: fence and entry ids."""
        return (str(self.fence), msgspec.json.encode([entry.id for entry in entries]))


class RawEntry(msgspec.Struct, frozen=True, gc=False):  # no dataclass: a worker makes one for each event
    """An entry as it stands in the stream; `raw` is None where the message field is missing."""

    id: str
    raw: bytes | None
    deliveries: int


class Entry(msgspec.Struct, frozen=True, gc=False):  # as above; no part of a cycle
    """A decoded entry. `deliveries` above 1 means that an earlier attempt failed or died."""

    id: str
    message: AnyMessage
    deliveries: int

    @property
    def at_ms(self) -> int:
        """When it arrived, by the server's clock."""
        return int(self.id.partition("-")[0])

    @property
    def order(self) -> int:
        """A number that grows with each entry of its stream: microseconds of its arrival, in small steps."""
        milliseconds, _, sequence = self.id.partition("-")
        return int(milliseconds) * 1000 + min(int(sequence), 999)


def committed(reply: Any) -> bool:
    """Whether a commit took effect; False means that its compare-and-set lost ('stale').

    Raises:
        Fenced: the lease is no longer ours.
    """
    if reply == b"fenced":
        raise Fenced("the drainer's lease has passed on")
    return bool(reply == b"ok")


class Intake:
    """The streams of one team."""

    def __init__(self, database: Database, layout: Layout) -> None:
        """Take the Redis and the team's shards."""
        self._db = database
        self._layout = layout
        self._streams = {
            stream_of(shard, family).encode(): (shard, family) for shard in layout.all for family in Family
        }

    def shard_of(self, message: AnyMessage) -> Shard:
        """Where a message belongs."""
        return self._layout.of(message.routing)

    def now_ms(self) -> int:
        """The server's time."""
        return self._db.now_ms()

    def ensure_groups(self) -> None:
        """Create the consumer groups where they are missing, from the first entry on."""
        commands = [
            ("XGROUP", "CREATE", stream, group, "0", "MKSTREAM")
            for stream in self._streams
            for group in ("drain", "bell")
        ]
        for reply in self._db.pipeline(commands, raise_on_error=False):
            if isinstance(reply, exceptions.ConnectionError):
                raise Unavailable(str(reply)) from reply
            if isinstance(reply, Exception) and not str(reply).startswith("BUSYGROUP"):
                raise reply

    def listen(self, shards: Iterable[Shard], block_ms: int, without: Container[Place] = frozenset()) -> list[Place]:
        """The streams of these shards in which something new came, after waiting for at most `block_ms`.

        Each entry is told to one listener only. One entry of a stream says it; the group then passes over the others
        unread, so that a listener carries and holds none of what the drainers read. What comes after that rings again.
        """
        places = [(shard, family) for shard in shards for family in Family]
        streams = [stream_of(*place) for place in places if place not in without]
        reply = self._grouped(
            "XREADGROUP", "GROUP", "bell", "bell", "COUNT", 1, "BLOCK", block_ms, "NOACK",
            "STREAMS", *streams, *([">"] * len(streams)),
        )  # fmt: skip
        rung: list[bytes] = [stream for stream, _ in reply or ()]
        self._db.pipeline([("XGROUP", "SETID", stream, "bell", "$") for stream in rung])
        return [self._streams[stream] for stream in rung]

    def idle(self) -> list[Place]:
        """Streams that have entries, no drainer and no wake-up pending."""
        places = list(self._streams.values())
        replies = self._db.pipeline(
            [
                command
                for shard, family in places
                for command in (
                    ("XLEN", stream_of(shard, family)),
                    ("EXISTS", shard.key("lease", family), shard.key("ring", family)),
                )
            ]
        )
        return [
            place
            for place, length, held in zip(places, replies[::2], replies[1::2], strict=True)
            if length and not held
        ]

    def ring(self, shard: Shard, family: Family) -> Ring:
        """Whether the caller is to publish a wake-up: it is `pending`, or `attended` to by a drainer, or `due`."""
        token = self._db.command("SET", shard.key("ring", family), 1, "NX", "GET", "PX", RING_MS)
        if token is None:
            return "due"
        return "attended" if token == b"attended" else "pending"

    def ring_looks(self, shard: Shard) -> bool:
        """The same for evaluations of a shard that are to be looked at."""
        return self._db.command("SET", shard.key("ring", "looks"), 1, "NX", "PX", RING_MS) is not None

    def answer_looks(self, shard: Shard) -> None:
        """The wake-up has come; a further one may be published."""
        self._db.command("DEL", shard.key("ring", "looks"))

    def lengths(self) -> dict[tuple[Shard, Family], int]:
        """Entries that wait in each stream."""
        replies = self._db.pipeline([("XLEN", stream) for stream in self._streams])
        return dict(zip(self._streams.values(), replies, strict=True))

    def take_lease(self, shard: Shard, family: Family, seconds: float) -> Lease | None:
        """The lease of a stream, or None while another drainer holds it."""
        fence = self._db.run(_lease_call(shard, family, seconds, attend=False))
        return None if fence is None else Lease(shard, family, int(fence))

    def attend(self, shards: Iterable[Shard], family: Family, seconds: float) -> list[Lease]:
        """The leases of those streams that nobody drains; no wake-up is published for them until they are released."""
        places = list(shards)
        fences = self._db.run_all([_lease_call(shard, family, seconds, attend=True) for shard in places])
        found = zip(places, fences, strict=True)
        return [Lease(shard, family, int(fence)) for shard, fence in found if fence is not None]

    def extend(self, leases: Sequence[Lease], seconds: float) -> list[Lease]:
        """The leases that are still ours, from now on for `seconds`; we still attend to their streams."""
        calls = [_extend_lease.call(_lease_keys(lease), [lease.fence, int(seconds * 1000)]) for lease in leases]
        return [lease for lease, ours in zip(leases, self._db.run_all(calls), strict=True) if ours]

    def renew(self, lease: Lease, seconds: float) -> None:
        """Have the lease from now on for `seconds`.

        Raises:
            Fenced: it is no longer ours.
        """
        if not self._db.run(_renew_lease.call([lease.key], [lease.fence, int(seconds * 1000)])):
            raise Fenced("the drainer's lease has passed on")

    def release(self, *leases: Lease) -> None:
        """Give the streams back."""
        self._db.run_all([_release_lease.call(_lease_keys(lease), [lease.fence]) for lease in leases])

    def has_new(self, lease: Lease) -> bool:
        """Whether entries wait that no drainer has read."""
        groups, last = self._db.pipeline(
            [("XINFO", "GROUPS", lease.stream), ("XREVRANGE", lease.stream, "+", "-", "COUNT", 1)]
        )
        if not last:
            return False
        delivered = next(
            (info[b"last-delivered-id"] for info in map(_pairs, groups) if info[b"name"] == b"drain"), b"0-0"
        )
        return _id(last[0][0]) > _id(delivered)

    def read_new(self, lease: Lease, count: int) -> list[RawEntry]:
        """The next entries that nobody has read: at most `count`, fewer where they are large."""
        memory, length = self._db.pipeline([("MEMORY", "USAGE", lease.stream), ("XLEN", lease.stream)])
        if length:
            count = max(1, min(count, READ_BYTES * length // memory))
        reply = self._grouped(
            "XREADGROUP", "GROUP", "drain", _CONSUMER, "COUNT", count, "STREAMS", lease.stream, ">"
        )  # fmt: skip
        return [_raw_entry(item, 1) for item in reply[0][1]] if reply else []

    def read_waiting(self, leases: Sequence[Lease], count: int) -> dict[Lease, list[RawEntry]]:
        """At most `count` new entries of each stream that has some, fewer where they are large, all in one round trip.

        On a cluster the streams must share a slot.
        """
        bound = READ_BYTES // max(1, len(leases))
        calls = [_read_stream.call([lease.stream], [_CONSUMER, count, bound]) for lease in leases]
        try:
            replies = self._db.run_all(calls)
        except exceptions.ResponseError as error:
            self._make_groups(error)
            return {}
        found = zip(leases, replies, strict=True)
        return {lease: [_raw_entry(item, 1) for item in items] for lease, items in found if items}

    def read_next(self, leases: Sequence[Lease], count: int, block_ms: int) -> dict[Lease, list[RawEntry]]:
        """At most `count` new entries of each stream that has some, after waiting for at most `block_ms`.

        On a cluster the streams must share a slot.
        """
        by_stream = {lease.stream.encode(): lease for lease in leases}
        reply = self._grouped(
            "XREADGROUP", "GROUP", "drain", _CONSUMER, "COUNT", count, "BLOCK", block_ms,
            "STREAMS", *by_stream, *([">"] * len(by_stream)),
        )  # fmt: skip
        return {by_stream[stream]: [_raw_entry(item, 1) for item in items] for stream, items in reply or ()}

    def read_pending(self, lease: Lease, after: str, count: int) -> list[RawEntry]:
        """Entries after id `after` that were read before and never applied; reading counts as a delivery."""
        reply = self._grouped(
            "XREADGROUP", "GROUP", "drain", _CONSUMER, "COUNT", count, "STREAMS", lease.stream, after
        )  # fmt: skip
        items: list[Any] = reply[0][1] if reply else []
        if not items:
            return []
        pending = self._db.command("XPENDING", lease.stream, "drain", items[0][0], items[-1][0], count)
        deliveries = {id_: int(times) for id_, _, _, times in pending}
        return [_raw_entry(item, deliveries.get(item[0], 1)) for item in items]

    def uncount(self, lease: Lease, entry_id: str, deliveries: int) -> None:
        """Take back the delivery that a reading counted: the entry could not be tried, through no fault of its own."""
        self._db.command(
            "XCLAIM", lease.stream, "drain", _CONSUMER, 0, entry_id, "RETRYCOUNT", max(deliveries - 1, 0), "JUSTID"
        )  # fmt: skip

    def _grouped(self, *command: Arg) -> Any:
        try:
            return self._db.command(*command)
        except exceptions.ResponseError as error:
            self._make_groups(error)
            return None

    def _make_groups(self, error: exceptions.ResponseError) -> None:
        """Have the groups there for the next reading, if they were missing: the database was emptied while we ran."""
        if not str(error).startswith(("NOGROUP", "UNBLOCKED")):
            raise error
        self.ensure_groups()


@lru_cache(maxsize=1024)
def _commit_keys(shard: Shard, family: Family) -> tuple[str, str]:
    """Built once: every commit of a batch asks for them."""
    return (stream_of(shard, family), shard.key("lease", family))


def _lease_keys(lease: Lease) -> tuple[str, str]:
    return lease.key, lease.shard.key("ring", lease.family)


def _lease_call(shard: Shard, family: Family, seconds: float, *, attend: bool) -> Call:
    keys = [shard.key("lease", family), shard.key("fence", family), shard.key("ring", family)]
    return _take_lease.call(keys, [int(seconds * 1000), int(attend)])


def _raw_entry(item: Any, deliveries: int) -> RawEntry:
    id_, fields = item
    if fields and len(fields) == 2 and fields[0] == _FIELD:  # as our publishers write them
        return RawEntry(id_.decode(), fields[1], deliveries)
    return RawEntry(id_.decode(), _pairs(fields or ()).get(_FIELD), deliveries)


def _pairs(flat: Sequence[Any]) -> dict[bytes, Any]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _id(text: bytes) -> tuple[int, int]:
    milliseconds, _, sequence = text.partition(b"-")
    return int(milliseconds), int(sequence)
