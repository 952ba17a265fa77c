"""Publishes facts: buffered by count and a short linger, spooled to disk while Redis is away or an intake is full.

Each family has a lane of its own, so that a stream at its bound holds up only its own family. Order holds per process
and family.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from tellback.contracts.codec import encode
from tellback.contracts.message import MAX_MESSAGE_BYTES, Message
from tellback.errors import InvalidInput, SpoolFull, StateConflict, Unavailable
from tellback.log import get_logger
from tellback.messaging.lane import RETRY_SECONDS, Lane
from tellback.messaging.places import SpoolPlace
from tellback.messaging.spool import Fact, Spool
from tellback.names import Family, shard_of
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.keys import Layout, stream_of
from tellback.state.script import Call, Script

BUFFER_MAX: Final = 20_000
BUFFER_BYTES: Final = 64 << 20
SCRIPT_BYTES: Final = 512 << 10

_append = Script("append_facts")
_log = get_logger("tellback.publisher")


class Publisher:
    """The way in for the facts of one process; safe across threads and forks."""

    def __init__(self, database: Database, layout: Layout, settings: Settings, place: SpoolPlace | None = None) -> None:
        """Take the Redis, the team's shards, the limits, and where on disk facts for this Redis are kept."""
        self._db = database
        self._layout = layout
        self._settings = settings
        self._place = place or SpoolPlace(str(settings.data_path / "spool" / layout.team), "here")
        self._closed = False
        self._stream_of = lru_cache(maxsize=4096)(self._find_stream)  # a host has few sessions at a time
        self._new_process()
        atexit.register(self.close)

    def _new_process(self) -> None:
        self._pid = os.getpid()
        self._hurried = False
        self._lengths: dict[str, int] = {}
        self._guard = threading.Condition()
        self._sending = threading.Lock()
        self._thread: threading.Thread | None = None
        self._lanes = {family: self._lane(family) for family in Family}

    def _lane(self, family: Family) -> Lane:
        batch = self._settings.publish_batch
        spool = Spool(self._place, family, max_bytes=self._settings.spool_max_bytes, chunk=batch)
        return Lane(spool, self._send, batch)

    def _follow_fork(self) -> None:
        """In a forked child begin anew: buffer, spool and locks are the parent's, and its threads are not here."""
        if os.getpid() == self._pid:
            return
        self._new_process()
        util = sys.modules.get("multiprocessing.util")
        if util is not None:  # its children end without running what atexit holds
            util.Finalize(None, self.close, exitpriority=0)

    def publish(self, message: Message) -> None:
        """Take a fact; it is sent within the linger, or by `flush`.

        Raises:
            InvalidInput: the message is above the size of one entry, or holds text that UTF-8 cannot.
            SpoolFull: Redis is away and so is the room to keep facts; this one was not taken.
            StateConflict: this publisher was closed; nothing would send the fact.
        """
        try:
            raw = encode(message)
        except (
            UnicodeEncodeError
        ) as error:  # half a surrogate pair, as Python makes of a file's name in another encoding
            raise InvalidInput(
                f"{type(message).__name__} holds text that is not valid Unicode: {error.reason}"
            ) from None
        if len(raw) > MAX_MESSAGE_BYTES:
            raise InvalidInput(f"{type(message).__name__} has {len(raw)} bytes; an entry holds {MAX_MESSAGE_BYTES}")
        self._follow_fork()
        stream = self._stream_of(message.family, message.routing)
        lane = self._lanes[message.family]
        with self._guard:
            if self._closed:
                raise StateConflict("this client is closed: connect again")
            if lane.full is not None:
                raise lane.full
            waiting = lane.take((stream, raw))
            if waiting in (1, self._settings.publish_batch):
                self._start()
                self._guard.notify()
        if waiting >= BUFFER_MAX or lane.bytes >= BUFFER_BYTES:
            self.flush()  # a producer faster than Redis pays here, rather than in memory

    def _find_stream(self, family: Family, routing: str) -> str:
        return stream_of(self._layout.shard(shard_of(routing, self._layout.shards)), family)

    def flush(self) -> None:
        """Send what is buffered, now; it is in Redis or in the spool when this returns.

        Raises:
            SpoolFull: neither took it; it stays in memory and is tried again.
        """
        self._follow_fork()
        with self._sending:
            for lane in self._lanes.values():
                if len(lane) or lane.trouble:
                    self._send_lane(lane)
        self._raise_full()

    def _raise_full(self) -> None:
        for lane in self._lanes.values():
            if lane.full is not None:
                raise lane.full

    def recover(self, family: Family) -> None:
        """Have what dead processes of this host left on disk for a family sent; returns at once.

        Whoever publishes does that by the way. This is for those who may never: whose calls are decisions.
        """
        self._follow_fork()
        with self._guard:
            if not self._closed and self._lanes[family].recover():
                self._start()
                self._guard.notify()

    def hurry(self) -> None:
        """Have what is buffered sent without the linger; returns at once."""
        self._follow_fork()
        with self._guard:
            self._hurried = any(map(len, self._lanes.values()))
            self._guard.notify()

    @property
    def spooled(self) -> bool:
        """Whether facts of this process wait on disk."""
        return any(lane.spooled for lane in self._lanes.values())

    def close(self) -> None:
        """Flush, stop the thread, let go of the spool; safe to call again."""
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        with self._guard:
            self._guard.notify()
        try:
            self.flush()
        except SpoolFull:
            _log.exception("publisher.lost", facts=sum(map(len, self._lanes.values())))
        with self._sending:
            for lane in self._lanes.values():
                lane.close()
        atexit.unregister(self.close)

    def _start(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="tellback-publisher", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        lanes = self._lanes.values()
        while not self._closed:
            with self._guard:
                if not any(lane.due for lane in lanes):
                    self._guard.wait(timeout=RETRY_SECONDS if any(lane.trouble for lane in lanes) else None)
                most = max(map(len, lanes))
                if most < self._settings.publish_batch and not self._hurried and not self._closed:
                    self._guard.wait(timeout=self._settings.publish_linger)
                self._hurried = False
            with self._sending:
                for lane in lanes:
                    if lane.due and not self._closed:
                        self._send_lane(lane)

    def _send_lane(self, lane: Lane) -> None:
        with self._guard:
            facts = lane.empty()
        lane.send(facts)
        if lane.trouble:
            with self._guard:
                self._start()
                self._guard.notify()  # the thread may sleep without a limit; from now on it tries again and again

    def _send(self, facts: Sequence[Fact]) -> None:
        """Append to the streams unless one is at its bound; what was sent twice after a fault has no effect."""
        streams = sorted({stream for stream, _ in facts})
        if any(self._lengths.get(stream, 0) >= self._settings.intake_max for stream in streams):
            self._lengths.update(zip(streams, self._db.pipeline([("XLEN", stream) for stream in streams]), strict=True))
        for stream in streams:
            if self._lengths.get(stream, 0) >= self._settings.intake_max:
                raise Unavailable(f"{stream} is at its bound of {self._settings.intake_max} entries")
        calls = list(_appends(facts))
        for call, length in zip(calls, self._db.run_all(calls), strict=True):
            self._lengths[call.keys[0]] = length


def _appends(facts: Sequence[Fact]) -> Iterator[Call]:
    """Scripts that append each stream's facts in order, each small enough not to hold Redis up."""
    streams: dict[str, list[bytes]] = {}
    sizes: dict[str, int] = {}
    for stream, raw in facts:
        waiting = streams.setdefault(stream, [])
        if waiting and sizes[stream] + len(raw) > SCRIPT_BYTES:
            yield _append.call([stream], waiting)
            waiting = streams[stream] = []
            sizes[stream] = 0
        waiting.append(raw)
        sizes[stream] = sizes.get(stream, 0) + len(raw)
    for stream, waiting in streams.items():
        yield _append.call([stream], waiting)
