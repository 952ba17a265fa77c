"""The intake: streams by family and shard, notifications of new entries, and the lease of a consumer.

Two consumer groups read each stream. `notify` (NOACK) tells dispatchers that entries came. `consumer` is the ledger: an
entry stays pending until the script that stores its effect acknowledges and deletes it. See
docs/decisions/stream-as-ledger.md and docs/decisions/fences.md.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from redis import exceptions

from tellback import clock
from tellback.contracts.codec import AnyMessage
from tellback.log import get_logger
from tellback.names import Family
from tellback.state.database import Command, Database, shorten_lifetime, small_write
from tellback.state.intake_entry import RawEntry, id_order, pairs, raw_entry
from tellback.state.intake_lease import Fenced, Lease, Read, Taken
from tellback.state.keys import Layout, Shard, lifetime_ms, stream_of
from tellback.state.script_calls import Arg, ScriptCall
from tellback.state.scripts import intake as scripts
from tellback.state.steady import STEP_MS, set_back

PENDING_MS: Final = 3_000
SET_BACK_SECONDS: Final = 1.0  # how long the answer is cached: an agent may wait for an event's feedback meanwhile
LEASE_MAX: Final = lifetime_ms("lease") / 1000
READ_BYTES: Final = 16 << 20  # of one read, by the stream's average entry size: bounds a consumer's memory
_CONSUMER_NAME: Final = "worker"  # one name for all: a consumer reads what its crashed predecessor left pending

StreamRef = tuple[Shard, Family]
WakeupState = Literal["due", "pending", "lingering"]

_log = get_logger("tellback.intake")


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
        taken = self.take_and_read(shard, family, seconds, 0)
        return taken and taken.lease

    def take_and_read(self, shard: Shard, family: Family, seconds: float, count: int) -> Taken | None:
        """Lease a stream and read at most `count` new entries; return None while another consumer holds it."""
        reply = self._db.run(_lease_call(shard, family, seconds, count=count))
        if reply is None:
            return None
        fence, pending, items = reply
        entries = [raw_entry(id_, fields, 1) for id_, fields in items]
        return Taken(Lease(shard, family, fence), bool(pending), entries)

    def lease_to_linger(self, shards: Iterable[Shard], family: Family, seconds: float) -> list[Lease]:
        """Lease the streams that nobody consumes; no wake-ups are published for them until their release."""
        wanted = list(shards)
        replies = self._db.run_all([_lease_call(shard, family, seconds, linger=True) for shard in wanted])
        found = zip(wanted, replies, strict=True)
        return [Lease(shard, family, reply[0]) for shard, reply in found if reply is not None]

    def renew_lingering(self, leases: Sequence[Lease], seconds: float) -> list[Lease]:
        """Renew the leases of a lingering consumer for `seconds` from now; return those that it still holds."""
        calls = [
            scripts.extend_lease(**lease.keys, fence=lease.fence, lease_ms=int(seconds * 1000)) for lease in leases
        ]
        return [lease for lease, ours in zip(leases, self._db.run_all(calls), strict=True) if ours]

    def renew(self, lease: Lease, seconds: float) -> None:
        """Renew the lease for `seconds` from now.

        Raises:
            Fenced: the lease has passed on.
        """
        if not self._db.run(scripts.renew_lease(lease=lease.key, fence=lease.fence, lease_ms=int(seconds * 1000))):
            raise Fenced

    def release(self, *leases: Lease) -> None:
        """Release the leases."""
        self._db.run_all([scripts.release_lease(**lease.keys, fence=lease.fence) for lease in leases])

    def has_new(self, lease: Lease) -> bool:
        """Check for entries that no consumer has read."""
        groups, newest = self._db.pipeline(
            [("XINFO", "GROUPS", lease.stream), ("XREVRANGE", lease.stream, "+", "-", "COUNT", 1)]
        )
        return bool(newest) and id_order(newest[0][0]) > id_order(_last_read(groups))

    def last_read(self, leases: Sequence[Lease]) -> dict[Lease, bytes]:
        """Return the id of the last entry that a consumer has read of each stream."""
        replies = self._db.pipeline([("XINFO", "GROUPS", lease.stream) for lease in leases])
        return {lease: _last_read(groups) for lease, groups in zip(leases, replies, strict=True)}

    def read_or_release(self, lease: Lease, count: int) -> list[RawEntry] | None:
        """Read the next new entries: at most `count`, fewer if they are large. If there are none, release the stream.

        Returns None if it was released: who appends from now on finds that a wake-up is due.

        Raises:
            Fenced: the lease has passed on.
        """
        read = self._read([lease], count, or_release=True)
        if read.fenced:
            raise Fenced
        return None if read.released else read.entries.get(lease, [])

    def read_next(self, after: Mapping[Lease, bytes], count: int, block_ms: int) -> Read:
        """Wait at most `block_ms`, and read at most `count` new entries of each stream, fewer if they are large.

        `after` names the last entry that was read of each. On a cluster the streams must share a slot.
        """
        # A script cannot block, and only a script can check the fence. So a read that takes nothing blocks, and the
        # scripts follow in the same round trip.
        streams = [lease.stream for lease in after]
        waiting: list[Arg] = ["XREAD", "COUNT", 1, "BLOCK", block_ms, "STREAMS", *streams, *after.values()]
        return self._read(list(after), count, first=[waiting])

    def _read(
        self, leases: Sequence[Lease], count: int, *, first: Sequence[Command] = (), or_release: bool = False
    ) -> Read:
        bound = READ_BYTES // len(leases)
        calls = [
            scripts.read_stream(
                **lease.keys,
                intake=lease.stream,
                fence=lease.fence,
                consumer=_CONSUMER_NAME,
                max_entries=count,
                max_bytes=bound,
                or_release=or_release,
            )
            for lease in leases
        ]
        try:
            # Not repeated: if the reply is lost, its entries are pending, and a second read would get later ones.
            replies = self._db.run_once(calls, first=first)
        except exceptions.ResponseError as error:
            self._recreate_groups(error)
            return Read()
        read = Read()
        for lease, reply in zip(leases, replies, strict=True):
            if reply == b"fenced":
                read.fenced.append(lease)
            elif reply == b"released":
                read.released.append(lease)
            elif reply:
                read.entries[lease] = [raw_entry(id_, fields, 1) for id_, fields in reply]
        return read

    def read_pending(self, lease: Lease, after: str, count: int) -> list[RawEntry]:
        """Read entries after id `after` that were read before and never applied; each reading counts as a delivery.

        Raises:
            Fenced: the lease has passed on.
        """
        call = scripts.read_pending(
            intake=lease.stream,
            lease=lease.key,
            fence=lease.fence,
            consumer=_CONSUMER_NAME,
            after=after,
            max_entries=count,
        )
        try:
            reply = self._db.run(call)
        except exceptions.ResponseError as error:
            self._recreate_groups(error)
            return []
        if reply == b"fenced":
            raise Fenced
        return [raw_entry(*item) for item in reply]

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


def _last_read(groups: Sequence[Sequence[Any]]) -> bytes:
    """Return the id of the last entry that the consumers' group was given, by a reply to XINFO GROUPS."""
    by_name = {group[b"name"]: group for group in map(dict, map(pairs, groups))}
    return bytes(by_name[b"consumer"][b"last-delivered-id"]) if b"consumer" in by_name else b"0-0"


def _lease_call(shard: Shard, family: Family, seconds: float, *, linger: bool = False, count: int = 0) -> ScriptCall:
    return scripts.take_lease(
        lease=shard.key("lease", family),
        fence_counter=shard.key("fence", family),
        wakeup=shard.key("wakeup", family),
        intake=stream_of(shard, family),
        lease_ms=int(seconds * 1000),
        linger=linger,
        consumer=_CONSUMER_NAME,
        max_entries=count,
        max_bytes=READ_BYTES,
    )
