"""Fair shares of a stream: a session with a long backlog delays the other sessions of its shard by about a batch.

Entries leave a stream in the order in which they came, so the few events of one session used to wait behind the 50,000
of another: 1.8 s. While one session fills the batches, this peeks ahead, without delivering anything, and notes by
session what waits. Between two batches the oldest entries of the smaller sessions are then read out of turn. Those of
one session stay in order: everything up to the point that was looked at is known.

To look through 50,000 entries takes as long as a slice of a stream, so what one slice has seen is kept for the next.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from tellback import clock
from tellback.names import Family
from tellback.state.intake import READ_BYTES, Intake
from tellback.state.intake_lease import Lease, RawEntry, id_order

FULL_BATCHES: Final = 2  # in a row, before it peeks ahead: a shorter backlog is applied sooner than peeked through
SAMPLES: Final = 16  # entries of a batch that show whether one session fills it
# A session with a fourth of the largest one's backlog is no small one: where all have much to do, order is fair.
SMALLER: Final = 4
PEEK_BYTES: Final = 2 << 20  # of one peek; this and its entries keep a call of Redis below 10 ms
PEEK_ENTRIES: Final = 2_000
AHEAD: Final = 40  # entries of the peeks between two batches, for each one of a batch
AHEAD_BYTES: Final = 4 * READ_BYTES  # of the same: to look through large entries costs less than to apply them
MAX_NOTED: Final = 200_000  # entries, above which it peeks no further: bounds the memory of what is noted
OWN_ENTRIES: Final = 1_000  # counted for each stream that is kept, beside its entries: bounds their number
KEEP_SECONDS: Final = 60.0  # for which a process keeps what a slice has seen; slices of a busy host are far apart

Position = tuple[int, int]


class _EventSession(msgspec.Struct):
    """The part of an event that names its session."""

    session: str = ""


_decode = msgspec.json.Decoder(_EventSession).decode


class FairShares:
    """The backlog of one leased stream, as far as it has been looked through."""

    def __init__(self, intake: Intake, lease: Lease, batch: int, max_bytes: int = READ_BYTES) -> None:
        """Set up the shares of a stream that is read in batches of at most `batch` entries and `max_bytes`."""
        self._intake = intake
        self.renew(lease, batch, max_bytes)
        self._full = 0
        self._waiting: dict[str, deque[Position]] = {}
        self.noted = 0
        self._seen_to = ""

    def renew(self, lease: Lease, batch: int, max_bytes: int) -> None:
        """Go on under another lease: what others applied meanwhile is gone, and is not read again."""
        self._lease = lease
        self._batch = batch
        self._max_bytes = max_bytes

    def overtaking(self, applied: Sequence[RawEntry]) -> list[RawEntry]:
        """Read what may overtake the entries behind this batch, which was just read in order and applied.

        Raises:
            Fenced: the lease has passed on.
            Unavailable: Redis is unavailable.
        """
        # By a fourth of the bytes: what Redis counts includes what it allocates, and is the average of the stream.
        if _size(applied) * 4 >= self._max_bytes:
            self._full = FULL_BATCHES  # it took long enough for all who wait behind
        else:
            self._full = self._full + 1 if len(applied) >= self._batch else 0
        # Only tool events have a user that waits behind those of others; other families are applied far faster.
        if self._lease.family is not Family.EVENTS or self._full < FULL_BATCHES or not _fills(applied):
            return []
        last = applied[-1]
        self._forget_until(id_order(last.id.encode()))
        self._peek_ahead(last)
        chosen = self._smaller_sessions()
        return self._intake.claim(self._lease, [f"{at}-{nth}" for at, nth in chosen]) if chosen else []

    def _forget_until(self, read: Position) -> None:
        for session in [*self._waiting]:
            waiting = self._waiting[session]
            while waiting and waiting[0] <= read:
                waiting.popleft()
                self.noted -= 1
            if not waiting:
                del self._waiting[session]

    def _peek_ahead(self, last: RawEntry) -> None:
        if not self.noted:  # read up to here, or beyond what was looked at
            self._seen_to = last.id
        peeked = size = 0
        while peeked < AHEAD * self._batch and size < AHEAD_BYTES and self.noted < MAX_NOTED:
            entries, more = self._intake.peek(self._lease, self._seen_to, PEEK_ENTRIES, PEEK_BYTES)
            self._note(entries)
            if not more:
                return
            peeked += len(entries)
            size += _size(entries)

    def _note(self, entries: Sequence[RawEntry]) -> None:
        for entry in entries:
            if session := _session_of(entry):
                self._waiting.setdefault(session, deque()).append(id_order(entry.id.encode()))
                self.noted += 1
        if entries:
            self._seen_to = entries[-1].id

    def _smaller_sessions(self) -> list[Position]:
        """Remove and return the oldest entries of the smaller sessions, a batch at most and as many of each."""
        most = max(map(len, self._waiting.values()), default=0) // SMALLER
        smaller = [waiting for waiting in self._waiting.values() if len(waiting) <= most][: self._batch]
        share = self._batch // max(1, len(smaller))
        taken = [waiting.popleft() for waiting in smaller for _ in range(min(share, len(waiting)))]
        self.noted -= len(taken)
        return sorted(taken)


class KeptShares:
    """The shares of streams that wait for their next slice, in one process; together they note as much as one may."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[FairShares, float]] = {}  # by stream, the newest last, with the time until it goes

    def take(self, intake: Intake, lease: Lease, batch: int, max_bytes: int) -> FairShares:
        """Return the shares of a stream, with what this process has seen of it."""
        self._drop_old()
        found, _ = self._kept.pop(lease.stream, (None, 0.0))
        if found is None:
            return FairShares(intake, lease, batch, max_bytes)
        found.renew(lease, batch, max_bytes)
        return found

    def keep(self, lease: Lease, shares: FairShares) -> None:
        """Keep the shares of a stream that has another wake-up."""
        self._kept[lease.stream] = shares, clock.monotonic() + KEEP_SECONDS
        self._drop_old()

    def _drop_old(self) -> None:
        now, room = clock.monotonic(), MAX_NOTED
        for stream, (shares, end) in reversed(list(self._kept.items())):  # a copy: threads share it
            room -= shares.noted + OWN_ENTRIES
            if room < 0 or end <= now:
                self._kept.pop(stream, None)


def _fills(entries: Sequence[RawEntry]) -> bool:
    """Return whether one session has at least half of a batch, by a sample."""
    sample = entries[:: max(1, len(entries) // SAMPLES)]
    return _most(map(_session_of, sample)) * 2 >= len(sample)


def _size(entries: Iterable[RawEntry]) -> int:
    return sum(len(entry.raw or b"") for entry in entries)


def _most(sessions: Iterable[str]) -> int:
    [(_, count)] = Counter(sessions).most_common(1)
    return count


def _session_of(entry: RawEntry) -> str:
    """Return the session of an event; "" for an entry that is not an event, which waits for its turn."""
    try:
        return _decode(entry.raw or b"").session
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
