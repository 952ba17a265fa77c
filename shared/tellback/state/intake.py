"""The intake: streams by family and shard, the pending marker of their wake-ups, and the lease of a consumer.

The stream is the ledger: an entry stays in it until the script that stores its effect deletes it. What stands up to the
last id of its consumer group was delivered before. See docs/decisions/stream-as-ledger.md and docs/decisions/fences.md.

Notifications tell the dispatchers of all teams through one stream that something is new. A host appends one after its
events if nobody consumes their stream, and one before it opens a turn. Dispatchers read them as a consumer group,
so the cost follows what is new, not how many teams there are. A notification may be lost: the scheduler's visits find
what it named. Hosts in other languages may append one themselves, or leave it out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from redis import exceptions

from tellback import clock
from tellback.contracts.codec import AnyMessage
from tellback.names import FAMILIES, TEAM_PATTERN, Family
from tellback.state.database import Database, WrongType, shorten_lifetime, small_write
from tellback.state.intake_lease import Fenced, Lease, RawEntry, Read, Taken, id_order, many_in, pairs, raw_entry
from tellback.state.intake_many import deliver_many
from tellback.state.keys import NOTIFICATIONS, Layout, Shard, lifetime_ms, stream_of
from tellback.state.readable import read_each, reply_of, without_errors
from tellback.state.script_calls import Arg, Command, ScriptCall
from tellback.state.scripts import intake as scripts
from tellback.state.steady import STEP_MS, behind, clock_read, set_back

PENDING_MS: Final = 3_000
SET_BACK_SECONDS: Final = 1.0  # how long the answer is cached: an agent may wait for an event's feedback meanwhile
SET_BACK_SHARDS: Final = 4_096  # of which answers are cached; then all are forgotten
NOTIFIED: Final = 100  # notifications with one read: who lingers takes some streams, and leaves the rest to others
READ_BYTES: Final = 16 << 20  # of one read, by the stream's average entry size: bounds a consumer's memory
FEW_STREAMS: Final = 8  # up to which a read asks all of them in one round trip
_CONSUMER_NAME: Final = "worker"  # one name for all: a consumer reads what its crashed predecessor left pending

StreamRef = tuple[Shard, Family]
WakeupState = Literal["due", "pending", "lingering"]


class Intake:
    """The streams of one team."""

    def __init__(self, database: Database, layout: Layout) -> None:
        self._db = database
        self._layout = layout
        # How far each shard's clock was set back, and until when that counts. No cache of cachetools: threads share it.
        self._behind: dict[Shard, tuple[int, float]] = {}

    def shard_of(self, message: AnyMessage) -> Shard:
        """Return the shard of a message."""
        return self._layout.of(message.routing)

    def now_ms(self) -> int:
        """Return the server's time, in milliseconds."""
        return self._db.now_ms()

    def read_at(self, shard: Shard) -> int:
        """Return the `read_at` of entries read now, in microseconds; 0 if stream ids show when they arrived."""
        if self._unknown([shard]):
            self._note_behind([shard], set_back(self._db, [shard]))
        late, _ = self._behind.get(shard, (0, 0.0))
        return 1000 * (self._db.now_ms() + late) if late > STEP_MS else 0

    def _unknown(self, shards: Sequence[Shard]) -> list[Shard]:
        now = clock.monotonic()
        return [shard for shard in shards if self._behind.get(shard, (0, 0.0))[1] <= now]

    def _note_behind(self, shards: Sequence[Shard], late: Iterable[int]) -> None:
        if len(self._behind) > SET_BACK_SHARDS:
            self._behind.clear()
        until = clock.monotonic() + SET_BACK_SECONDS
        self._behind.update((shard, (each, until)) for shard, each in zip(shards, late, strict=True))

    def try_mark_timers_pending(self, shard: Shard) -> bool:
        """Set the pending marker of a shard's due timers; publish a wake-up only if this returns True."""
        key = shard.key("wakeup", "timers")
        # race: as for a stream, a wake-up that finds nothing
        marker_set = small_write("SET", key, 1, "NX", "PX", PENDING_MS)
        return self._db.run_all([marker_set], [shorten_lifetime(key, PENDING_MS)])[0] is not None

    def clear_timers_pending(self, shard: Shard) -> None:
        """Clear the marker after the wake-up has come; another one may then be published."""
        # race: at worst this deletes the marker of a later wake-up, and one more is sent
        self._db.command("DEL", shard.key("wakeup", "timers"))

    def lengths(self) -> dict[tuple[Shard, Family], int]:
        """Return the number of entries in each stream."""
        streams = [(shard, family) for shard in self._layout.all for family in Family]
        replies = self._db.pipeline([("XLEN", stream_of(*stream)) for stream in streams])
        return dict(zip(streams, replies, strict=True))

    def take_lease(self, shard: Shard, family: Family, seconds: float) -> Lease | None:
        """Lease a stream; return None while another consumer holds it."""
        return next((taken.lease for taken in self.take_each([shard], family, seconds, 0)), None)

    def take_each(
        self, shards: Sequence[Shard], family: Family, seconds: float, count: int, *, linger: bool = False
    ) -> list[Taken]:
        """Lease streams of any teams and read at most `count` new entries of each; leave out what others hold.

        So is what fails: an error here would leave the other streams under leases that nobody uses. With `linger`, no
        wake-ups are published for them until their release.
        """
        calls = [_lease_call(shard, family, seconds, linger=linger, count=count) for shard in shards]
        unknown = self._unknown(shards)
        # The clocks in the same round trip: whoever reads an entry asks for its `read_at`.
        replies = without_errors(self._db.run_each(calls, [clock_read(shard) for shard in unknown]))
        self._note_behind(unknown, map(behind, replies[len(calls) :]))
        taken = zip(shards, replies[: len(calls)], strict=True)
        held = {Lease(shard, family, reply[0]): reply[1:] for shard, reply in taken if reply is not None}
        found = {lease: items for lease, (_, items) in held.items()}
        if many := many_in(found):
            found |= deliver_many(self._db, many)
        return [
            Taken(lease, bool(pending), [raw_entry(id_, fields, 1) for id_, fields in found[lease]])
            for lease, (pending, _) in held.items()
            if found[lease] is not None
        ]

    def renew_lingering(self, leases: Sequence[Lease], seconds: float) -> list[Lease]:
        """Renew the leases of a lingering consumer for `seconds` from now; return those that it still holds."""
        calls = [
            scripts.extend_lease(lease=lease.key, fence=lease.fence, lease_ms=int(seconds * 1000)) for lease in leases
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
        self._db.run_all([scripts.release_lease(intake=lease.stream, fence=lease.fence) for lease in leases])

    def with_new(self, leases: Sequence[Lease]) -> list[Lease]:
        """Return those whose stream has entries that no consumer has read."""
        groups = [("XINFO", "GROUPS", lease.stream) for lease in leases]
        newest = [("XREVRANGE", lease.stream, "+", "-", "COUNT", 1) for lease in leases]
        replies = read_each(self._db, [*groups, *newest])
        found = zip(leases, replies[: len(leases)], replies[len(leases) :], strict=True)
        return [lease for lease, read, entries in found if _has_new(read, entries)]

    def last_read(self, leases: Sequence[Lease]) -> dict[Lease, bytes]:
        """Return the id of the last entry that a consumer has read of each stream."""
        replies = read_each(self._db, [("XINFO", "GROUPS", lease.stream) for lease in leases])
        return {lease: _last_read(groups) for lease, groups in zip(leases, replies, strict=True)}

    def read_or_release(self, leases: Sequence[Lease], count: int) -> Read:
        """Read the next new entries of each stream: at most `count`, fewer if they are large; release what has none.

        Who appends to a stream that was released finds that a wake-up is due.
        """
        return self._read(leases, count, or_release=True)

    def read_next(
        self, after: Mapping[Lease, bytes], count: int, block_ms: int, notified_after: str | None = None
    ) -> Read:
        """Wait `block_ms` at most, or not if 0; read at most `count` new entries of each stream, fewer if large.

        Many streams share them: of each is read as much as makes more than `count` if all of them have so many.
        `after` names the last entry that was read of each. A notification after `notified_after` ends the wait too, and
        is returned. On a cluster the streams must share a slot, and notifications have another.
        """
        # A script cannot block, and only a script can check the fence. So a read that takes nothing blocks, and the
        # scripts follow in the same round trip.
        streams: dict[str, Arg] = {lease.stream: last for lease, last in after.items()}
        also: list[Command] = []
        if notified_after is not None:
            streams[NOTIFICATIONS] = notified_after
            also = [("XREAD", "COUNT", NOTIFIED, "STREAMS", NOTIFICATIONS, notified_after)]
        block: Sequence[Arg] = ("BLOCK", block_ms) if block_ms else ()
        waiting: list[Arg] = ["XREAD", "COUNT", 1, *block, "STREAMS", *streams, *streams.values()]
        if block and len(after) <= FEW_STREAMS:
            return self._read(list(after), count, also, first=[waiting])
        # One more round trip costs less than a script for each stream that has nothing new.
        try:
            reply: Sequence[tuple[bytes, Any]] = self._db.pipeline([waiting])[0] or []
        except WrongType:  # of one of the streams: the scripts show which
            return self._read(list(after), count, also)
        names = {name for name, _ in reply}
        found = [lease for lease in after if lease.stream.encode() in names]
        return self._read(found, count // max(1, len(found)) + 1, also if names else ())

    def _read(
        self,
        leases: Sequence[Lease],
        count: int,
        also: Sequence[Command] = (),
        *,
        first: Sequence[Command] = (),
        or_release: bool = False,
    ) -> Read:
        bound = READ_BYTES // max(1, len(leases))
        calls = [
            scripts.read_stream(
                intake=lease.stream, fence=lease.fence, max_entries=count, max_bytes=bound, or_release=or_release
            )
            for lease in leases
        ]
        unknown = self._unknown([lease.shard for lease in leases])
        # The clocks too, as in `take_each`: who lingers reads every 25 ms, and so knows them when an event comes.
        # Not repeated: if the reply is lost, its entries count as delivered, and a second read would get later ones.
        replies = self._db.run_each(calls, [*also, *map(clock_read, unknown)], first=first, repeat=False)
        self._note_behind(unknown, map(behind, replies[len(calls) + len(also) :]))
        read = Read(notified=reply_of(replies[len(calls)]) if also else None)
        found = dict(zip(leases, without_errors(replies[: len(calls)]), strict=True))
        if many := many_in(found):
            found |= deliver_many(self._db, many)
        for lease, reply in found.items():
            # None: the stream has another type. As if its lease had passed on: the others' entries have been read.
            if reply is None or reply == b"fenced":
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
            intake=lease.stream, fence=lease.fence, consumer=_CONSUMER_NAME, after=after, max_entries=count
        )
        reply = self._db.run(call)
        if reply == b"fenced":
            raise Fenced
        return [raw_entry(*item) for item in reply]

    def peek(self, lease: Lease, after: str, count: int, max_bytes: int) -> tuple[list[RawEntry], bool]:
        """Return entries after id `after`, and deliver none; and whether more may wait behind them.

        They are at most `count`, and as many as fit `max_bytes`.
        """
        call = scripts.peek_entries(intake=lease.stream, after=after, max_entries=count, max_bytes=max_bytes)
        entries, more = self._db.run(call)
        return [raw_entry(id_, fields, 0) for id_, fields in entries], bool(more)

    def claim(self, lease: Lease, ids: Sequence[str]) -> list[RawEntry]:
        """Read entries that `peek` showed, before those in front of them.

        Raises:
            Fenced: the lease has passed on.
        """
        call = scripts.claim_entries(intake=lease.stream, fence=lease.fence, consumer=_CONSUMER_NAME, entries=ids)
        [reply] = without_errors(self._db.run_each([call], repeat=False))  # as in `_read`
        if reply is None or reply == b"fenced":
            raise Fenced
        return [raw_entry(id_, fields, 1) for id_, fields in reply]

    def uncount_delivery(self, lease: Lease, entry_id: str, deliveries: int) -> None:
        """Undo the delivery that a reading counted, for a deferred entry: it was not tried."""
        # race: without FORCE, XCLAIM does not make an applied entry pending; another consumer's entry gets one more try
        self._db.command(
            "XCLAIM", lease.stream, "consumer", _CONSUMER_NAME, 0, entry_id,
            "RETRYCOUNT", max(deliveries - 1, 0), "JUSTID",
        )  # fmt: skip


def mark_pending(database: Database, streams: Sequence[StreamRef]) -> list[WakeupState]:
    """Set the pending marker of each stream that has none; publish a wake-up only for those that are `due`.

    For the others one is `pending`, or a consumer is `lingering`.
    """
    keys = [shard.key("wakeup", family) for shard, family in streams]
    # race: a stream that was consumed since it was found costs a wake-up that finds nothing
    marks = [small_write("SET", key, 1, "NX", "GET", "PX", PENDING_MS) for key in keys]
    replies = database.run_each(marks, [shorten_lifetime(key, lifetime_ms("wakeup")) for key in keys])
    states: Mapping[bytes | None, WakeupState] = {None: "due", b"lingering": "lingering"}
    # A marker of another type is none, and the next consumer deletes it: its team must cost no other the wake-ups.
    return [states.get(reply, "pending") for reply in without_errors(replies)[: len(keys)]]


def unmark_pending(database: Database, streams: Sequence[StreamRef]) -> None:
    """Delete the pending markers of wake-ups that could not be published."""
    # unconditional: if another process has set the marker since, that costs one wake-up that finds nothing
    database.pipeline([("DEL", shard.key("wakeup", family)) for shard, family in streams])


def _has_new(groups: Sequence[Sequence[Any]] | Exception, newest: Sequence[Sequence[Any]] | Exception) -> bool:
    if isinstance(newest, Exception):  # of another type: nothing of ours is in it
        return False
    return bool(newest) and id_order(newest[0][0]) > id_order(_last_read(groups))


def _last_read(groups: Sequence[Sequence[Any]] | Exception) -> bytes:
    """Return the id of the last entry that the consumers' group was given, by a reply to XINFO GROUPS."""
    if isinstance(groups, Exception):  # there is no stream, or somebody changed its key by hand
        return b"0-0"
    by_name = {group[b"name"]: group for group in map(dict, map(pairs, groups))}
    return bytes(by_name[b"consumer"][b"last-delivered-id"]) if b"consumer" in by_name else b"0-0"


def _lease_call(shard: Shard, family: Family, seconds: float, *, linger: bool, count: int) -> ScriptCall:
    return scripts.take_lease(
        intake=stream_of(shard, family),
        lease_ms=int(seconds * 1000),
        linger=linger,
        max_entries=count,
        max_bytes=READ_BYTES,
    )


MOST_READ: Final = 1_000  # notifications of one call
GROUP: Final = "dispatchers"

_STREAM: Final = re.compile(rf"tb:\{{({TEAM_PATTERN.pattern})\.(\d{{1,4}})\}}:in:([a-z]+)", re.ASCII)


class Notified(NamedTuple):
    """A team in which something is new, and the shard and family of the stream if it is in one."""

    team: str
    stream: tuple[int, Family] | None = None


class Notifications:
    """The stream of notifications, as a dispatcher reads it."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._last = "$"

    def wait(self, block_ms: int) -> list[Notified]:
        """Wait at most `block_ms` for notifications that no other dispatcher gets, and return each once.

        Entries that are not notifications are skipped: every host may write to the stream.
        """
        read = ("XREADGROUP", "GROUP", GROUP, "dispatcher", "COUNT", MOST_READ, "BLOCK", block_ms, "NOACK",
                "STREAMS", NOTIFICATIONS, ">")  # fmt: skip
        try:
            return _parsed(self._db.command(*read))
        except exceptions.ResponseError as error:
            if not str(error).startswith("NOGROUP"):
                raise
            # unconditional: the script creates what is missing
            self._db.run(scripts.ensure_groups(intake=NOTIFICATIONS, groups=[GROUP]))
            return []

    def peek(self) -> list[Notified]:
        """Return the oldest notifications that no visit has noted yet, and leave them there."""
        return _parsed([(NOTIFICATIONS, self._db.command("XRANGE", NOTIFICATIONS, "-", "+", "COUNT", MOST_READ))])

    def watch(self, block_ms: int) -> list[Notified]:
        """Wait as `wait` does, but get what other dispatchers get too, from the first call on.

        It is for a worker that serves some teams only: it must not take the others' notifications away.
        """
        last = self.last_seen()
        read = self._db.command("XREAD", "COUNT", MOST_READ, "BLOCK", block_ms, "STREAMS", NOTIFICATIONS, last)
        if not read and (newest := self._newest()) is not None and id_order(newest) < id_order(last.encode()):
            self._last = "0-0"  # a host chose an id of the future, and somebody deleted the stream since
        return self.note_seen(read)

    def last_seen(self) -> str:
        """Return the id of the last notification that `watch` or `note_seen` returned, or at first of the newest."""
        if self._last == "$":
            newest = self._newest()
            self._last = "0-0" if newest is None else newest.decode()
        return self._last

    def _newest(self) -> bytes | None:
        newest = self._db.command("XREVRANGE", NOTIFICATIONS, "+", "-", "COUNT", 1)
        return newest[0][0] if newest else None

    def note_seen(self, reply: Any) -> list[Notified]:
        """Return what a reply to XREAD after `last_seen` names, for who reads other streams in the same call."""
        if reply:
            self._last = reply[0][1][-1][0].decode()
        return _parsed(reply)


def _parsed(reply: Any) -> list[Notified]:
    entries: Sequence[tuple[bytes, Sequence[bytes]]] = reply[0][1] if reply else []
    found = [_notified(fields[1].decode(errors="replace")) for _, fields in entries if fields]
    return list(dict.fromkeys(each for each in found if each is not None))


def _notified(text: str) -> Notified | None:
    if TEAM_PATTERN.fullmatch(text):
        return Notified(text)
    found = _STREAM.fullmatch(text)
    if found is None or found[3] not in FAMILIES:
        return None
    return Notified(found[1], (int(found[2]), Family(found[3])))
