"""The publisher of a process: it buffers events for a short delay, and spools them if Redis or a stream takes none.

Each stream has a lane of its own, so a full stream holds back only its own events. Order holds per process and stream.
Each process is a writer that numbers the events of each stream; the script that appends them drops what it has seen, so
resending is safe (docs/decisions/idempotent-appends.md).
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, TypeVar

from redis import exceptions

from tellback import clock
from tellback.contracts.message import Message
from tellback.errors import SpoolFull, StateConflict, TellbackError, Unavailable
from tellback.forks import run_in_child
from tellback.log import get_logger
from tellback.messaging.append_call import Bounds
from tellback.messaging.lane import (
    RETRY_SECONDS,
    AppendOutcome,
    BufferedTotal,
    Lane,
    Unreachable,
    append_all,
    direct_call,
    encode_event,
)
from tellback.messaging.spool import Spool, SpooledEvent
from tellback.messaging.team_cache import SPOOL, SpoolLocation, spool_name
from tellback.messaging.team_renewal import TeamRenewal
from tellback.names import Family, shard_of
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.keys import Layout, stream_of
from tellback.state.script_calls import FirstCall
from tellback.tracing import tracing_of, with_context

_logger = get_logger("tellback.publisher")
CLOSED: Final = "this client is closed: connect again"
BUFFER_MAX: Final = 20_000  # events of a family in memory
BUFFER_BYTES: Final = 64 << 20

T = TypeVar("T")


class Publisher:
    """Publishes the events of one process; safe across threads and forks. `location` is the spool's place on disk."""

    def __init__(
        self, database: Database, layout: Layout, settings: Settings, location: SpoolLocation | None = None
    ) -> None:
        self._db = database
        self._layout = layout
        self._settings = settings
        self._tracing = tracing_of(settings)
        self._bounds = Bounds.of(settings.intake_max, settings.intake_max_bytes, layout.shards)
        self._place = location or SpoolLocation(str(settings.data_path / SPOOL / layout.team), "here")
        self._team = TeamRenewal(database, layout)
        self.closed = False  # nothing sends an event any more once it is true
        self._stream_of = lru_cache(maxsize=4096)(self._stream_key)  # a host has few sessions at a time
        self._begin()
        self._finalized = True
        atexit.register(self.close)
        run_in_child(self._begin_in_child)

    def _begin(self) -> None:
        self._writer = os.urandom(8).hex()
        self._flush_soon = False
        self._fresh = 0  # events taken since the last pass
        self._send_lock, self._buffer_lock = threading.RLock(), threading.RLock()
        self._buffer_changed = threading.Condition(self._buffer_lock)  # its own `with` takes ten times as long
        self._thread: threading.Thread | None = None
        self._lanes: dict[str, Lane] = {}  # by the name of their spool
        self._totals = {family: BufferedTotal(family) for family in Family}
        self._asked: set[Family] = set()  # families whose orphaned spools were looked for
        self._unanswered: tuple[float, Unreachable] | None = None  # the last try to which Redis gave no answer

    def _begin_in_child(self) -> None:
        """Start with an empty state: buffers, spools and locks are the parent's, and its threads do not run here."""
        for lane in self._lanes.values():
            lane.abandon()
        self._begin()
        self._finalized = False

    def publish(self, message: Message, accepted: Callable[[], None] = lambda: None) -> None:
        """Buffer an event; it is sent after the publish delay, or by `flush`.

        `accepted` is called once it is buffered, in the order of the stream's events whichever threads publish them.

        Raises:
            InvalidInput: the message is larger than an entry may be, or has text that UTF-8 cannot encode.
            SpoolFull: Redis is unavailable and the spool is full; the event was not accepted.
            StateConflict: this publisher is closed, so nothing would send the event.
        """
        raw = encode_event(message if self._tracing is None else with_context(self._tracing, message))
        family = message.family
        stream, name = self._stream_of(family, message.routing)
        with self._buffer_lock:
            if self.closed:
                raise StateConflict(CLOSED)
            lane = self._lanes.get(name) or self._open(family, name, stream)
            lane.refuse_if_full()
            lane.append(raw)
            accepted()
            self._fresh += 1
            if self._fresh == 1 or len(lane) == self._settings.publish_batch:
                self._wake()
        if lane.total.events >= BUFFER_MAX or lane.total.bytes >= BUFFER_BYTES:
            self._flush()  # back-pressure: a producer faster than Redis waits here instead of filling the memory

    def _stream_key(self, family: Family, routing: str) -> tuple[str, str]:
        stream = stream_of(self._layout.shard(shard_of(routing, self._layout.shards)), family)
        return stream, spool_name(stream)

    def _open(self, family: Family, name: str, stream: str) -> Lane:
        """Return the lane of a stream, holding the buffer lock; a family's first one also opens its orphaned spools."""
        if family not in self._asked:
            self._find_orphans(family)
        if name not in self._lanes:
            batch, most = self._settings.publish_batch, self._settings.spool_max_bytes
            spool = Spool(self._place, name, max_bytes=most, chunk=batch)
            self._lanes[name] = Lane(stream, self._writer, spool, self._totals[family])
        return self._lanes[name]

    def _find_orphans(self, family: Family) -> bool:
        """Open lanes for what other processes left on disk for a family, holding the buffer lock; return if any."""
        self._asked.add(family)
        names = self._place.with_files(family)
        for name in names:
            shard = name.partition(".")[2]
            # A folder without a shard has events of several streams. Each line names its own; the lane gets no others.
            stream = stream_of(self._layout.shard(int(shard)), family) if shard.isdecimal() else ""
            self._open(family, name, stream).may_have_orphans = True
        return bool(names)

    def flush(self) -> Unavailable | None:
        """Send all buffered events now; when this returns they are in Redis, or in the spool if it did not answer.

        Raises:
            SpoolFull: some are in neither; they stay in memory and are retried.
        """
        if self._interrupts_itself:
            self._spool_apart()
        away = self._flush()
        for lane in self._all():
            lane.refuse_if_full()
        return away

    def spool(self, away: Unavailable) -> None:
        """Write all buffered events to disk, for a caller to whom Redis has just given no answer (`away`).

        Raises:
            SpoolFull: there is no room; they stay in memory and are retried.
        """
        if self._interrupts_itself or not self._send_lock.acquire(blocking=False):
            with self._buffer_lock:  # another thread may wait for Redis too, with events that go before these
                self._spool_apart()
                return
        try:
            self._send(self._all(), away)
        finally:
            self._send_lock.release()
        for lane in self._all():
            lane.refuse_if_full()

    def _flush(self) -> Unavailable | None:
        if self._interrupts_itself:
            return None
        began = clock.monotonic()
        with self._send_lock:  # its last holder may have waited for a Redis that did not answer, and this call with it
            away = self._unanswered[1] if self._unanswered and self._unanswered[0] >= began else None
            return self._send([lane for lane in self._all() if len(lane) or lane.needs_retry], away)

    @property
    def _interrupts_itself(self) -> bool:
        """True in a signal handler, for example, that interrupted this thread within the publisher.

        Sending would then wait forever for what only the interrupted call can release, or overtake its events.
        """
        locks: Any = self._send_lock, self._buffer_lock
        return any(lock._is_owned() for lock in locks)  # noqa: SLF001 - what `Condition` asks its locks

    def _spool_apart(self) -> None:
        """Keep on disk what is in memory, also what the interrupted call is sending, for a process that ends now."""
        for lane in self._all():
            lane.spool_apart()

    def _all(self) -> list[Lane]:
        with self._buffer_lock:
            return list(self._lanes.values())

    def send_orphans(self, family: Family) -> None:
        """Start sending what dead processes of this host left on disk, as publishing does; return at once."""
        with self._buffer_lock:
            if not self.closed and family not in self._asked and self._find_orphans(family):
                self._wake()

    def flush_soon(self) -> None:
        """Start sending buffered events without the publish delay; return at once."""
        with self._buffer_lock:
            self._flush_soon = any(map(len, self._lanes.values()))
            self._buffer_changed.notify()

    def sending(self, session: str, database: Database, ask: Callable[[FirstCall | None], T]) -> T:
        """Call `ask` with the call that appends a session's buffered events, if any, to be sent before its own.

        What one call does not take, waits behind a spool or is refused is left to the publisher's thread, which needs
        longer to wake up than Redis to take an event; so is everything while another thread sends. No context manager:
        Ctrl-C within `contextlib` would leave the lock held for as long as somebody keeps the traceback.
        """
        lane = self._lanes.get(self._stream_of(Family.EVENTS, session)[1])
        if not lane or self._interrupts_itself:
            if lane:
                self.flush_soon()
            return ask(None)
        lock: Any = self._send_lock  # a forked child has another
        events: list[SpooledEvent] = []

        def end() -> None:  # let others send, what was not appended too; the second time do nothing
            if lock._is_owned():  # noqa: SLF001 - as above; by this call, since it interrupted no other
                unsent = bool(lane.taken)
                lock.release()
                if unsent:
                    self.flush_soon()

        try:  # from here on Ctrl-C may come at any time, and the program may continue
            if lock.acquire(blocking=False):
                with self._buffer_lock:  # `_fresh` stays: the thread waits for its delay, and may have other lanes
                    events = lane.take_all() if lane.fits_call(self._settings.publish_batch) else []
            if not events:
                end()
                self.flush_soon()
            return ask(direct_call(lane, events, self._bounds, database, end) if events else None)
        finally:
            try:
                end()
            finally:
                if lock._is_owned():  # noqa: SLF001 - `end` was interrupted
                    lock.release()

    @property
    def spooled(self) -> bool:
        """True if events of this process wait on disk."""
        return any(lane.spooled for lane in self._all())

    @property
    def refusal(self) -> str:
        """The reason for which events wait on disk, such as an outage or a full stream; empty if none do."""
        return next((str(lane.trouble) for lane in self._all() if lane.spooled), "")

    def close(self) -> None:
        """Flush, stop the thread and close the spool; safe to call again.

        In a signal handler that interrupted this publisher it only flushes, to the spool; the exit handler closes it.
        """
        if self.closed:
            return
        interrupting = self._interrupts_itself
        if not interrupting:
            self.closed = True
            with self._buffer_lock:
                self._buffer_changed.notify()
        try:
            self.flush()
        except SpoolFull as error:
            if not interrupting:
                with self._send_lock, self._buffer_lock:
                    for lane in self._all():
                        lane.spool_first()
            if lost := sum(map(len, self._all())):
                _logger.error("publisher.events_lost", events=lost, reason=str(error))  # noqa: TRY400 - its text says all
        if not interrupting:
            with self._send_lock:
                for lane in self._all():
                    lane.close()
            atexit.unregister(self.close)

    def _wake(self) -> None:
        """Wake the thread, starting it if necessary, to send what is due. Call it holding the buffer lock."""
        if self.closed:
            return
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="tellback-publisher", daemon=True)
            try:
                self._thread.start()
            except RuntimeError as error:  # the system gives no more; the event must not cost the agent its call
                _logger.warning("publisher.no_thread", reason=str(error))
                self._fresh = 0  # so the next event tries again
        util = None if self._finalized else sys.modules.get("multiprocessing.util")
        if util is not None:  # children of multiprocessing end by os._exit, which skips atexit handlers
            util.Finalize(None, self.close, exitpriority=0)
            self._finalized = True
        self._buffer_changed.notify()

    def _run(self) -> None:
        while not self.closed:
            with self._buffer_lock:
                lanes = self._lanes.values()
                if not any(lane.due for lane in lanes):
                    self._fresh = 0  # a caller may have sent what came since the last pass
                    self._buffer_changed.wait(RETRY_SECONDS if any(lane.needs_retry for lane in lanes) else None)
                most = max(map(len, lanes), default=0)
                if most < self._settings.publish_batch and not self._flush_soon and not self.closed:
                    self._buffer_changed.wait(timeout=self._settings.publish_delay)
                self._flush_soon = False
            with self._send_lock:
                if not self.closed:
                    self._send([lane for lane in self._all() if lane.due])
            is_due = clock.monotonic() >= self._team.due_at and not self.closed
            if is_due and not any(lane.needs_retry for lane in self._all()):
                self._team.renew()  # without the lock: callers must not wait for a node of a cluster that hangs

    def _send(self, lanes: Sequence[Lane], away: Unavailable | None = None) -> Unavailable | None:
        """Send the events of lanes, those without a spool in shared round trips; return the error if Redis is away."""
        waiting = [lane for lane in lanes if lane.behind or away is not None]
        if away is None:
            away = self._send_buffered([lane for lane in lanes if not lane.behind])
        for lane in waiting:
            if away is None:
                away = self._catch_up(lane)
            else:  # one timeout is enough: the other lanes do not try a Redis that does not answer
                self._spool_events(lane, self._emptied([lane])[0], away)
        if any(lane.needs_retry for lane in lanes):
            with self._buffer_lock:
                self._wake()  # the thread may be waiting without a timeout; now it has something to retry
        return away

    def _catch_up(self, lane: Lane) -> Unreachable | None:
        """Send a lane's events from disk, then from memory; return the error if Redis does not answer at all."""
        recovering = lane.spooled
        try:
            lane.catch_up(self._send_spooled)
        except (TellbackError, exceptions.RedisError, OSError) as trouble:  # OSError comes from the spool's files
            self._spool_events(lane, self._emptied([lane])[0], trouble)
            return trouble if isinstance(trouble, Unreachable) else None
        with self._buffer_lock:
            if recovering and self._find_orphans(lane.total.family):  # of processes that died while Redis was away
                self._wake()
        return self._send_buffered([lane])

    def _send_spooled(self, events: Sequence[SpooledEvent]) -> None:
        """Send part of a spool, after the new events of lanes without a spool, which must not wait for a backlog."""
        away = self._send_buffered([lane for lane in self._all() if len(lane) and not lane.behind])
        if away is not None:
            raise away
        streams: dict[str, list[SpooledEvent]] = {}
        for event in events:
            streams.setdefault(event.stream, []).append(event)
        outcomes = [AppendOutcome() for _ in streams]
        self._append(list(streams.values()), outcomes)
        if trouble := next((outcome.trouble for outcome in outcomes if outcome.trouble is not None), None):
            raise trouble

    def _send_buffered(self, lanes: Sequence[Lane]) -> Unreachable | None:
        """Send the lanes' events in memory; return the error if Redis does not answer at all."""
        outcomes = [AppendOutcome() for _ in lanes]
        try:
            waiting = self._emptied(lanes)
            self._append(waiting, outcomes)
            for lane, events, outcome in zip(lanes, waiting, outcomes, strict=True):
                if outcome.trouble is None:
                    lane.emptied()
                else:
                    self._spool_events(lane, events[outcome.sent :], outcome.trouble)
        except BaseException:  # for example Ctrl-C in a caller's thread, whose program may continue
            with self._buffer_lock:
                self._wake()  # to send again what the lanes still have as taken
            raise
        return next((outcome.trouble for outcome in outcomes if isinstance(outcome.trouble, Unreachable)), None)

    def _append(self, waiting: Sequence[Sequence[SpooledEvent]], outcomes: Sequence[AppendOutcome]) -> None:
        append_all(self._db, self._bounds, self._settings.publish_batch, waiting, outcomes)
        for outcome in outcomes:
            if isinstance(outcome.trouble, Unreachable):
                self._unanswered = clock.monotonic(), outcome.trouble

    def _emptied(self, lanes: Sequence[Lane]) -> list[list[SpooledEvent]]:
        with self._buffer_lock:
            self._fresh = 0
            return [lane.take_all() for lane in lanes]

    def _spool_events(self, lane: Lane, events: list[SpooledEvent], trouble: Exception) -> None:
        try:
            lane.spool_events(events, trouble)
        except BaseException as error:  # for example Ctrl-C: the events go back before it propagates
            with self._buffer_lock:
                lane.put_back(events)
                if not isinstance(error, SpoolFull):
                    raise
                lane.full = error
        else:
            lane.emptied()
