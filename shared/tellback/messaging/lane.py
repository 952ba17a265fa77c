"""The events of one stream on their way to Redis: buffered in memory, and spooled while the stream takes none.

`append_all` appends those of all streams in one round trip, each stream's by one script call. There is never a second
call for the same stream in a round trip. If the first were refused (the server lost the script, or was out of memory
just then) and the second accepted, the second's mark would make the first look sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from redis import exceptions

from tellback import clock
from tellback.contracts.codec import encode
from tellback.contracts.limits import MAX_MESSAGE_BYTES
from tellback.contracts.message import Message
from tellback.errors import InvalidInput, SpoolFull, TellbackError, Unavailable
from tellback.log import get_logger
from tellback.messaging.append_call import (
    CALL_BYTES,
    Bounds,
    StreamFull,
    append_call,
    end_of_call,
    must_notify,
    notification,
)
from tellback.messaging.spool import MAX_AGE_SECONDS, Send, Spool, SpooledEvent
from tellback.names import Family
from tellback.state.database import Database
from tellback.state.keys import FLEET
from tellback.state.script_calls import FirstCall, ScriptCall
from tellback.state.unavailable import LOST

RETRY_SECONDS: Final = 0.5
SAY_AGAIN_SECONDS: Final = 60.0  # between two log lines with the same reason; each retry wrote one
_NO_FIGURES: Final = str.maketrans("", "", "0123456789")  # how much a full stream holds makes no other reason

SLICE: Final = 1_000  # orphaned events between two flushes of our own: a whole backlog delayed a host by 23 s

_CONFIRMED: Final = tuple(f":in:{family}" for family in (Family.COMMANDS, Family.TURNS))

_logger = get_logger("tellback.publisher")


class BufferedTotal:
    """The number and size of one family's events in memory, over all its streams; the buffer lock guards it."""

    __slots__ = ("bytes", "events", "family")

    def __init__(self, family: Family) -> None:
        self.family = family
        self.events = 0
        self.bytes = 0


class Lane:
    """One stream's buffer in memory, with a spool behind it. While anything is spooled, later events are spooled too.

    The writer's mark needs this order, not only the reader: an event that overtakes another makes it look sent.
    `append`, `take_all` and `put_back` run under the publisher's buffer lock, everything else under its send lock.
    """

    def __init__(self, stream: str, writer: str, spool: Spool, total: BufferedTotal) -> None:
        self.total = total
        self._stream = stream
        self._writer = writer
        self._spool = spool
        # No `SpooledEvent` for each: with 20,000 of those in memory, garbage collection took 7 % of a host's time.
        self._buffer: list[bytes] = []
        self._first = 1  # the number of the first of them; the others follow without a gap
        self.taken: list[SpooledEvent] = []  # by a send that has not ended, or was given up; sent first
        self._bytes = 0
        self._next_try = 0.0
        self._reason: str = ""  # of the last line about spooled events, without figures
        self._was_said = False  # since the last recovery
        self._say_again: float = 0.0
        self._unsaid = 0  # events that were spooled since
        self._tried_since: float | None = None  # since the first attempt to send what is in memory; by `since_boot`
        self.may_have_orphans = False
        """True if other processes may have left events to send."""
        self.full: SpoolFull | None = None
        self.trouble: Exception | None = None
        """The error for which events were spooled last."""

    def __len__(self) -> int:
        """Return the number of events in memory, those of a send that has not ended included."""
        return len(self.taken) + len(self._buffer)

    @property
    def spooled(self) -> bool:
        """True if events of this process wait on disk."""
        return self._spool.pending

    @property
    def behind(self) -> bool:
        """True if events on disk must be sent first."""
        return self.may_have_orphans or self._spool.pending

    @property
    def needs_retry(self) -> bool:
        """True if sending failed and must be retried, or other processes may have left events."""
        return self.full is not None or self.behind

    @property
    def due(self) -> bool:
        """True if it is time to send; after a failure a lane waits `RETRY_SECONDS`."""
        return clock.monotonic() >= self._next_try if self.needs_retry else bool(self)

    def refuse_if_full(self) -> None:
        """Return unless what is in memory found no room on disk.

        Raises:
            SpoolFull: it did not.
        """
        if self.full is not None:
            raise self.full.with_traceback(None)  # or each time would add to the frames that it keeps alive

    def fits_call(self, events: int) -> bool:
        """Check whether what is in memory may be sent now, by one call of at most so many events; hold both locks."""
        if self.needs_retry or self.taken or not self:  # taken: by a send that was interrupted
            return False
        return len(self) <= events and (self._bytes <= CALL_BYTES or len(self) == 1)

    def append(self, raw: bytes) -> None:
        """Add an event to the buffer, with the next number."""
        self._buffer.append(raw)
        self._bytes += len(raw)
        self.total.events += 1
        self.total.bytes += len(raw)

    def take_all(self) -> list[SpooledEvent]:
        """Remove and return all events in memory; drop them if the first attempt was too long ago.

        They wait here if the disk is full, while Redis forgets the writer's mark.
        """
        fresh = self._numbered()
        count = len(fresh)
        # What a send was interrupted with, or had refused, goes first; the writer's mark drops what was appended.
        events = self.taken + fresh
        # Without a call in between: a signal handler may raise or publish at each, and no event may get two numbers.
        self.taken, self._first, self._buffer = events, self._first + count, self._buffer[count:]
        self.total.events -= count
        self.total.bytes -= self._bytes
        self._bytes = 0
        if self._tried_since is None:
            self._tried_since = clock.since_boot()
        elif events and self._age() > MAX_AGE_SECONDS:
            _logger.error("spool.dropped", stream=self._stream, events=len(events), reason="older than six days")
            self.taken = []
            return []
        return events

    def _numbered(self) -> list[SpooledEvent]:
        stream, writer = self._stream, self._writer
        return [SpooledEvent(stream, raw, writer, number) for number, raw in enumerate(self._buffer, self._first)]

    def emptied(self) -> None:
        """Note that everything from `take_all` is in Redis or on disk."""
        self.full = self._tried_since = None
        self.taken = []

    def _age(self) -> float:
        return 0.0 if self._tried_since is None else clock.since_boot() - self._tried_since

    def put_back(self, events: list[SpooledEvent]) -> None:
        """Put events from `take_all` back in front of those that came since."""
        raws = [event.raw for event in events]
        size, count = sum(map(len, raws)), len(raws)
        self.taken, self._first, self._buffer = [], self._first - count, raws + self._buffer  # as in `take_all`
        self._bytes += size
        self.total.events += len(events)
        self.total.bytes += size

    def catch_up(self, send: Send) -> None:
        """Send this process's spooled events, then a slice of those that dead processes left; `send` may raise."""
        self._send_own(send)
        self._send_others(send)

    def _send_own(self, send: Send) -> None:
        if self._spool.pending:
            self._spool.send_own(send)
            self.may_have_orphans = True  # other processes may have died during the outage
            if not isinstance(self.trouble, StreamFull):  # at its bound a stream takes some and refuses more, often
                self._reason, self._unsaid = "", 0  # the next outage is another
            if self._was_said:
                _logger.info("publisher.recovered")
            self._was_said = False

    def _send_others(self, send: Send) -> None:
        """Send a slice of what others left, ahead of the events in memory: a small backlog keeps its place in order."""
        if self.may_have_orphans:
            rest = SLICE

            def more(sent: int) -> bool:
                nonlocal rest
                rest -= max(sent, SLICE // 8)  # a chunk of large events has few
                return rest > 0

            self.may_have_orphans = self._spool.send_orphans(send, more)

    def spool_events(self, events: list[SpooledEvent], trouble: Exception) -> None:
        """Spool events that could not be sent.

        Raises:
            SpoolFull: there is no room; the caller puts the events back.
        """
        self._next_try = clock.monotonic() + RETRY_SECONDS
        self.trouble = trouble
        if events:
            try:
                self._spool.append(events, self._age())
            except SpoolFull as full:
                raise SpoolFull(f"events can neither be sent ({trouble}) nor kept on disk: {full}") from full
            self._say_spooled(len(events), str(trouble))

    def _say_spooled(self, events: int, reason: str) -> None:
        self._unsaid += events
        form = reason.translate(_NO_FIGURES)
        if form != self._reason or clock.monotonic() >= self._say_again:
            _logger.warning("publisher.spooled", stream=self._stream, events=self._unsaid, reason=reason)
            self._reason, self._say_again, self._unsaid = form, clock.monotonic() + SAY_AGAIN_SECONDS, 0
            self._was_said = True

    def spool_first(self) -> None:
        """Spool the first of the events in memory, as many as there is room for, before their process ends."""
        events = self.take_all()
        kept, some = 0, len(events)
        while some and kept < len(events):
            try:
                self._spool.append(events[kept : kept + some], self._age())
                kept += some
            except SpoolFull:
                some //= 2
        self.put_back(events[kept:])

    def spool_apart(self) -> None:
        """Write the events in memory, and those of a send that has not ended, to a spool file of their own.

        The caller interrupted that send, so nothing that it uses may be touched. If it goes on, it sends them too.

        Raises:
            SpoolFull: there is no room.
        """
        if events := [*self.taken, *self._numbered()]:
            self._spool.append_apart(events, self._age())

    def abandon(self) -> None:
        """Close the parent's files in a forked child, without changing or unlocking them.

        A lock lasts while any process has the file open, and in the child the frames of the parent's threads keep this
        lane alive. Without this, nobody could send the file of a parent that died before its child.
        """
        self._spool.abandon()

    def close(self) -> None:
        """Close the spool."""
        self._spool.close(unsent=bool(self))


def encode_event(message: Message) -> bytes:
    """Return a message as an entry of a stream.

    Raises:
        InvalidInput: it is larger than an entry may be, or has text that UTF-8 cannot encode.
    """
    try:
        raw = encode(message)
    except UnicodeEncodeError as error:  # half a surrogate pair, as in names of files that are not UTF-8
        raise InvalidInput(f"{error.object!r:.60} is not valid Unicode text") from None
    if len(raw) > MAX_MESSAGE_BYTES:
        raise InvalidInput(f"{type(message).__name__} has {len(raw)} bytes; an entry holds {MAX_MESSAGE_BYTES}")
    return raw


class Unreachable(Unavailable):
    """Redis gave no reply, so trying other streams is pointless."""


class AppendOutcome:
    """The number of a stream's events that were appended, and the error that stopped it."""

    __slots__ = ("sent", "trouble")

    def __init__(self) -> None:
        self.sent = 0
        self.trouble: Exception | None = None


def append_all(
    database: Database,
    bounds: Bounds,
    batch: int,
    waiting: Sequence[Sequence[SpooledEvent]],
    outcomes: Sequence[AppendOutcome],
) -> None:
    """Append events, one sequence per stream, at most `batch` of each per call; store the results in `outcomes`.

    An error of one stream does not stop the others.
    """
    while True:
        calls: list[ScriptCall] = []
        running: list[tuple[AppendOutcome, int]] = []
        for events, outcome in zip(waiting, outcomes, strict=True):
            if outcome.trouble is None and outcome.sent < len(events):
                end = end_of_call(events, outcome.sent, batch)
                calls.append(append_call(events[outcome.sent : end], bounds))
                running.append((outcome, end))
        if not calls:
            return
        try:
            replies = database.run_each(calls)
        # No reply does not mean no effect. The caller resends, and the writers' marks drop what was appended.
        except (TellbackError, exceptions.RedisError) as error:
            for outcome, _ in running:
                outcome.trouble = Unreachable(str(error))
            return
        notify(database, [call.keys[0] for call, reply in zip(calls, replies, strict=True) if must_notify(reply)])
        for (outcome, end), call, reply in zip(running, calls, replies, strict=True):
            outcome.trouble = _trouble(call.keys[0], bounds, reply) or _unconfirmed(database, call)
            if outcome.trouble is None:
                outcome.sent = end


def direct_call(
    lane: Lane, events: list[SpooledEvent], bounds: Bounds, database: Database, ended: Callable[[], None]
) -> FirstCall:
    """Return the call that appends events from `take_all`, for a thread that sends it with a call of its own.

    The reply notes if they were appended, and then calls `ended`, while the thread waits for what follows.
    """
    call = append_call(events, bounds)

    def answered(reply: Any) -> None:
        notify(database, call.keys[:1] if must_notify(reply) else ())
        if _trouble(call.keys[0], bounds, reply) is None:
            lane.emptied()
        ended()

    return FirstCall(call, answered)


def notify(database: Database, streams: Sequence[str]) -> None:
    """Notify the dispatchers of these streams; if that fails, the scheduler finds their entries later."""
    if streams:
        with suppress(Unavailable, exceptions.RedisError):
            if database.answering([FLEET]):  # else each event of a node that is well would wait for one that hangs
                database.pipeline([notification(stream) for stream in streams])


def _trouble(stream: str, bounds: Bounds, reply: Any) -> Exception | None:
    if isinstance(reply, Exception):
        return reply
    try:
        bounds.check(stream, reply)
    except StreamFull as full:
        return full
    return None


def _unconfirmed(database: Database, call: ScriptCall) -> Exception | None:
    """Return the error of events that no replica confirmed; they are sent again, and appended once.

    That is asked for commands and answers only. Waiting for each batch of tool events would cost more than they are
    worth. The call itself is repeated: its writer's mark keeps it from a second effect, and a failover that lost the
    first one is made good by it.
    """
    stream, numbered = call.keys[0], "}:writer:" in call.keys[-1]
    if not (database.confirms and numbered and stream.endswith(_CONFIRMED)):
        return None
    try:
        [(outcome, *_)] = database.confirm([call.evalsha])
    except (Unavailable, exceptions.RedisError) as error:
        return Unavailable(str(error))
    return None if outcome == b"appended" else Unavailable(LOST)
