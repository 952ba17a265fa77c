"""The intake: streams by family and shard, notifications of new entries, and the lease of a consumer.

Two consumer groups read each stream. `notify` (NOACK) tells dispatchers that entries came. `consumer` is the ledger: an
entry stays pending until the script that stores its effect acknowledges and deletes it. See
docs/decisions/stream-as-ledger.md and docs/decisions/fences.md.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal

import msgspec
from redis import exceptions

from tellback import clock
from tellback.contracts.codec import AnyMessage
from tellback.errors import TellbackError
from tellback.log import get_logger
from tellback.names import Family
from tellback.state.database import Database, shorten_lifetime, small_write
from tellback.state.keys import Layout, Shard, lifetime_ms, stream_of
from tellback.state.script_calls import Arg, CommitParts, LeaseKeys, ScriptCall
from tellback.state.scripts import intake as scripts
from tellback.state.steady import STEP_MS, set_back

FIELD: Final = "m"
_FIELD: Final = FIELD.encode()
PENDING_MS: Final = 3_000
SET_BACK_SECONDS: Final = 1.0  # how long the answer is cached: an agent may wait for an event's feedback meanwhile
LEASE_MAX: Final = lifetime_ms("lease") / 1000
READ_BYTES: Final = 16 << 20  # of one read, by the stream's average entry size: bounds a consumer's memory
_CONSUMER_NAME: Final = "worker"  # one name for all: a consumer reads what its crashed predecessor left pending

StreamRef = tuple[Shard, Family]
WakeupState = Literal["due", "pending", "lingering"]

_log = get_logger("tellback.intake")


class Fenced(TellbackError):
    """The consumer's lease has expired or passed to another. Stop: the last script wrote nothing."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to consume one stream. `fence` grows with each lease, and every commit checks it."""

    shard: Shard
    family: Family
    fence: int

    @property
    def stream(self) -> str:
        """The intake stream: KEYS[1] of a commit."""
        return stream_of(self.shard, self.family)

    @property
    def key(self) -> str:
        """The key of the lease itself."""
        return self.shard.key("lease", self.family)

    def commit_of(self, entries: Sequence[IntakeEntry]) -> CommitParts:
        """Return the keys and arguments of every commit, for entries that it takes out of the stream."""
        stream, lease = _commit_keys(self.shard, self.family)
        ids = msgspec.json.encode([entry.id for entry in entries])
        return {"intake": stream, "lease": lease, "fence": self.fence, "entries": ids}


class RawEntry(msgspec.Struct, frozen=True, gc=False):  # no dataclass: a worker makes one for each event
    """An entry as stored in the stream; `raw` is None if the message field is missing."""

    id: str
    raw: bytes | None
    deliveries: int


class IntakeEntry(msgspec.Struct, frozen=True, gc=False):  # as above; no part of a cycle
    """A decoded entry. `deliveries` above 1 means that an earlier attempt failed or crashed.

    `read_at` is 0 unless the server's clock was set back and stream ids stand still. It is then the time of reading, in
    microseconds, by that clock as if it had gone on.
    """

    id: str
    message: AnyMessage
    deliveries: int
    read_at: int = 0

    @property
    def at_ms(self) -> int:
        """The time of arrival, by the server's clock."""
        return self.read_at // 1000 or int(self.id.partition("-")[0])

    @property
    def order(self) -> int:
        """A number that grows with each entry of its stream: microseconds of its arrival, in small steps."""
        milliseconds, _, sequence = self.id.partition("-")
        return self.read_at or int(milliseconds) * 1000 + min(int(sequence), 999)


def committed(reply: Any) -> bool:
    """Return True if a commit took effect, False if its compare-and-set lost ('stale').

    Raises:
        Fenced: the lease has passed on.
    """
    if reply == b"fenced":
        raise Fenced("the consumer's lease has passed on")
    return bool(reply == b"ok")


class Intake:
    """The streams of one team."""

    def __init__(self, database: Database, layout: Layout) -> None:
        self._db = database
        self._layout = layout
        self._behind: dict[Shard, int] = {}
        self._behind_until = -math.inf
        self._streams = {
            stream_of(shard, family).encode(): (shard, family) for shard in layout.all for family in Family
        }

    def shard_of(self, message: AnyMessage) -> Shard:
        """Return the shard of a message."""
        return self._layout.of(message.routing)

    def now_ms(self) -> int:
        """Return the server's time, in milliseconds."""
        return self._db.now_ms()

    def read_at(self, shard: Shard) -> int:
        """Return the `read_at` of entries read now, in microseconds; 0 if stream ids show when they arrived."""
        if clock.monotonic() >= self._behind_until:
            self._behind = dict(zip(self._layout.all, set_back(self._db, self._layout.all), strict=True))
            self._behind_until = clock.monotonic() + SET_BACK_SECONDS
        behind = self._behind[shard]
        return 1000 * (self._db.now_ms() + behind) if behind > STEP_MS else 0

    def ensure_groups(self) -> None:
        """Create missing consumer groups, from the first entry on."""
        self._db.run_all(
            [
                scripts.ensure_groups(intake=stream_of(*place), groups=["consumer", "notify"])
                for place in self._streams.values()
            ]
        )

    def wait_for_notifications(
        self, shards: Iterable[Shard], block_ms: int, exclude: Container[StreamRef] = frozenset()
    ) -> list[StreamRef]:
        """Wait at most `block_ms` for new entries, and return the streams of these shards that have some.

        Only one dispatcher is notified of an entry. It reads one entry of a stream and moves the group past the others
        unread, because it needs none of the data that the consumers read. Later entries notify again.
        """
        refs = [(shard, family) for shard in shards for family in Family]
        streams = [stream_of(*place) for place in refs if place not in exclude]
        reply = self._group_command(
            "XREADGROUP", "GROUP", "notify", "notify", "COUNT", 1, "BLOCK", block_ms, "NOACK",
            "STREAMS", *streams, *([">"] * len(streams)),
        )  # fmt: skip
        notified: list[bytes] = [stream for stream, _ in reply or ()]
        # race: an entry that comes between the two is passed over and does not notify again. The caller's wake-up,
        # which is sent later, covers it, or a pending one, whose consumer has read nothing yet; if the caller crashes
        # before, the sweep of idle streams finds it. One script cannot do both, because it cannot block; without SETID
        # a dispatcher would read every entry.
        self._db.pipeline([("XGROUP", "SETID", stream, "notify", "$") for stream in notified])
        return [self._streams[stream] for stream in notified]

    def idle_streams(self, longest: float = LEASE_MAX) -> list[StreamRef]:
        """Return streams that have entries but no consumer and no pending wake-up.

        No lease is longer than `longest` seconds. A lease or marker with more time left has no holder: the server's
        clock was set back.
        """
        refs = list(self._streams.values())
        most = round(longest * 1000)
        replies = self._db.pipeline(
            [
                command
                for shard, family in refs
                for command in (
                    ("XLEN", stream_of(shard, family)),
                    ("PTTL", shard.key("lease", family)),
                    ("PTTL", shard.key("wakeup", family)),
                )
            ],
            raise_on_error=False,
        )
        found: list[StreamRef] = []
        for (shard, family), *states in zip(refs, replies[::3], replies[1::3], replies[2::3], strict=True):
            trouble = next((reply for reply in states if isinstance(reply, Exception)), None)
            if trouble is None:
                length, lease, marker_set = states
                held = 0 <= lease <= most or 0 <= marker_set <= lifetime_ms("wakeup")
                found += [(shard, family)] if length and not held else []
            elif str(trouble).startswith("WRONGTYPE"):  # somebody else's key: it must not hide the other streams
                _log.error("intake.no_stream", key=stream_of(shard, family))
            else:
                raise trouble
        return found

    def try_mark_pending(self, shard: Shard, family: Family) -> WakeupState:
        """Set the stream's pending marker if it has none; publish a wake-up only if the answer is `due`.

        Otherwise one is `pending`, or a consumer is `lingering` on the stream.
        """
        key = shard.key("wakeup", family)
        # race: a stream that was consumed since it was found costs a wake-up that finds nothing
        marker_set = small_write("SET", key, 1, "NX", "GET", "PX", PENDING_MS)
        marker, _ = self._db.run_all([marker_set], [shorten_lifetime(key, lifetime_ms("wakeup"))])
        if marker is None:
            return "due"
        return "lingering" if marker == b"lingering" else "pending"

    def unmark_pending(self, shard: Shard, family: Family) -> None:
        """Delete the pending marker of a wake-up that could not be published."""
        # unconditional: if another process has set the marker since, that costs one wake-up that finds nothing
        self._db.command("DEL", shard.key("wakeup", family))

    def try_mark_timers_pending(self, shard: Shard) -> bool:
        """Set the pending marker of a shard's due timers; publish a wake-up only if this returns True."""
        key = shard.key("wakeup", "timers")
        # race: as for a stream, a wake-up that finds nothing
        marker_set = small_write("SET", key, 1, "NX", "PX", PENDING_MS)
        return self._db.run_all([marker_set], [shorten_lifetime(key, PENDING_MS)])[0] is not None

    def clear_timers_pending(self, shard: Shard) -> None:
        """Clear the marker after the wake-up has come; another one may then be published."""
        # unconditional: at worst this deletes the marker of a later wake-up, and one more is sent
        self._db.command("DEL", shard.key("wakeup", "timers"))

    def lengths(self) -> dict[tuple[Shard, Family], int]:
        """Return the number of entries in each stream."""
        replies = self._db.pipeline([("XLEN", stream) for stream in self._streams])
        return dict(zip(self._streams.values(), replies, strict=True))

    def take_lease(self, shard: Shard, family: Family, seconds: float) -> Lease | None:
        """Lease a stream; return None while another consumer holds it."""
        fence = self._db.run(_lease_call(shard, family, seconds, linger=False))
        return None if fence is None else Lease(shard, family, int(fence))

    def lease_to_linger(self, shards: Iterable[Shard], family: Family, seconds: float) -> list[Lease]:
        """Lease the streams that nobody consumes; no wake-ups are published for them until their release."""
        wanted = list(shards)
        fences = self._db.run_all([_lease_call(shard, family, seconds, linger=True) for shard in wanted])
        found = zip(wanted, fences, strict=True)
        return [Lease(shard, family, int(fence)) for shard, fence in found if fence is not None]

    def renew_lingering(self, leases: Sequence[Lease], seconds: float) -> list[Lease]:
        """Renew the leases of a lingering consumer for `seconds` from now; return those that it still holds."""
        calls = [
            scripts.extend_lease(**_lease_keys(lease), fence=lease.fence, lease_ms=int(seconds * 1000))
            for lease in leases
        ]
        return [lease for lease, ours in zip(leases, self._db.run_all(calls), strict=True) if ours]

    def renew(self, lease: Lease, seconds: float) -> None:
        """Renew the lease for `seconds` from now.

        Raises:
            Fenced: the lease has passed on.
        """
        if not self._db.run(scripts.renew_lease(lease=lease.key, fence=lease.fence, lease_ms=int(seconds * 1000))):
            raise Fenced("the consumer's lease has passed on")

    def release(self, *leases: Lease) -> None:
        """Release the leases."""
        self._db.run_all([scripts.release_lease(**_lease_keys(lease), fence=lease.fence) for lease in leases])

    def has_new(self, lease: Lease) -> bool:
        """Check for entries that no consumer has read."""
        groups, last = self._db.pipeline(
            [("XINFO", "GROUPS", lease.stream), ("XREVRANGE", lease.stream, "+", "-", "COUNT", 1)]
        )
        if not last:
            return False
        delivered = next(
            (info[b"last-delivered-id"] for info in map(_pairs, groups) if info[b"name"] == b"consumer"), b"0-0"
        )
        return _id(last[0][0]) > _id(delivered)

    def read_new(self, lease: Lease, count: int) -> list[RawEntry]:
        """Read the next new entries: at most `count`, fewer if they are large."""
        memory, length = self._db.pipeline([("MEMORY", "USAGE", lease.stream), ("XLEN", lease.stream)])
        if length:
            count = max(1, min(count, READ_BYTES * length // memory))
        reply = self._group_command(
            "XREADGROUP", "GROUP", "consumer", _CONSUMER_NAME, "COUNT", count, "STREAMS", lease.stream, ">"
        )  # fmt: skip
        return [_raw_entry(item, 1) for item in reply[0][1]] if reply else []

    def read_waiting(self, leases: Sequence[Lease], count: int) -> dict[Lease, list[RawEntry]]:
        """Read at most `count` new entries of each stream, fewer if they are large, all in one round trip.

        On a cluster the streams must share a slot.
        """
        bound = READ_BYTES // max(1, len(leases))
        calls = [
            scripts.read_stream(intake=lease.stream, consumer=_CONSUMER_NAME, max_entries=count, max_bytes=bound)
            for lease in leases
        ]
        try:
            replies = self._db.run_all(calls)
        except exceptions.ResponseError as error:
            self._recreate_groups(error)
            return {}
        found = zip(leases, replies, strict=True)
        return {lease: [_raw_entry(item, 1) for item in items] for lease, items in found if items}

    def read_next(self, leases: Sequence[Lease], count: int, block_ms: int) -> dict[Lease, list[RawEntry]]:
        """Read at most `count` new entries of each stream, after waiting for at most `block_ms`.

        On a cluster the streams must share a slot.
        """
        by_stream = {lease.stream.encode(): lease for lease in leases}
        reply = self._group_command(
            "XREADGROUP", "GROUP", "consumer", _CONSUMER_NAME, "COUNT", count, "BLOCK", block_ms,
            "STREAMS", *by_stream, *([">"] * len(by_stream)),
        )  # fmt: skip
        return {by_stream[stream]: [_raw_entry(item, 1) for item in items] for stream, items in reply or ()}

    def read_pending(self, lease: Lease, after: str, count: int) -> list[RawEntry]:
        """Read entries after id `after` that were read before and never applied; each reading counts as a delivery."""
        reply = self._group_command(
            "XREADGROUP", "GROUP", "consumer", _CONSUMER_NAME, "COUNT", count, "STREAMS", lease.stream, after
        )  # fmt: skip
        items: list[Any] = reply[0][1] if reply else []
        if not items:
            return []
        pending = self._db.command("XPENDING", lease.stream, "consumer", items[0][0], items[-1][0], count)
        deliveries = {id_: int(times) for id_, _, _, times in pending}
        return [_raw_entry(item, deliveries.get(item[0], 1)) for item in items]

    def uncount_delivery(self, lease: Lease, entry_id: str, deliveries: int) -> None:
        """Undo the delivery that a reading counted, for a deferred entry: it was not tried."""
        # race: without FORCE, XCLAIM does not make an applied entry pending; another consumer's entry gets one more try
        self._db.command(
            "XCLAIM", lease.stream, "consumer", _CONSUMER_NAME, 0, entry_id,
            "RETRYCOUNT", max(deliveries - 1, 0), "JUSTID",
        )  # fmt: skip

    def _group_command(self, *command: Arg) -> Any:
        try:
            return self._db.command(*command)
        except exceptions.ResponseError as error:
            self._recreate_groups(error)
            return None

    def _recreate_groups(self, error: exceptions.ResponseError) -> None:
        """Create the groups again if they were missing: the database was emptied while this process ran."""
        if not str(error).startswith(("NOGROUP", "UNBLOCKED")):
            raise error
        self.ensure_groups()


@lru_cache(maxsize=1024)
def _commit_keys(shard: Shard, family: Family) -> tuple[str, str]:
    """Return the stream and lease keys, cached: every commit of a batch needs them."""
    return (stream_of(shard, family), shard.key("lease", family))


def _lease_keys(lease: Lease) -> LeaseKeys:
    return {"lease": lease.key, "wakeup": lease.shard.key("wakeup", lease.family)}


def _lease_call(shard: Shard, family: Family, seconds: float, *, linger: bool) -> ScriptCall:
    return scripts.take_lease(
        lease=shard.key("lease", family),
        fence_counter=shard.key("fence", family),
        wakeup=shard.key("wakeup", family),
        lease_ms=int(seconds * 1000),
        linger=linger,
    )


def _raw_entry(item: Any, deliveries: int) -> RawEntry:
    id_, fields = item
    # The form that our publishers write, without the cost of a dict.
    if fields and len(fields) == 2 and fields[0] == _FIELD:
        return RawEntry(id_.decode(), fields[1], deliveries)
    return RawEntry(id_.decode(), _pairs(fields or ()).get(_FIELD), deliveries)


def _pairs(flat: Sequence[Any]) -> dict[bytes, Any]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _id(text: bytes) -> tuple[int, int]:
    milliseconds, _, sequence = text.partition(b"-")
    return int(milliseconds), int(sequence)
