"""The client's question whether its team may have one more session or bank. Requirement A-122."""

from __future__ import annotations

import threading
from typing import Final

from cachetools import TTLCache

from tellback import clock
from tellback.errors import Unavailable
from tellback.forks import run_in_child
from tellback.state.admission import Counted, admit_call, is_limited
from tellback.state.call_deadline import CircuitBreaker
from tellback.state.database import Database
from tellback.state.keys import Layout, Shard

REPEAT_SECONDS: Final = 60.0
"""Seconds after which a client asks again."""

_MAX_NAMES: Final = 10_000


class Admission:
    """Asks before the first event of a session or bank, and once a minute. Safe across threads, and in a forked child.

    A team without limits costs a round trip a minute for each shard that gets something new. While Redis is away,
    everything is let in: the events wait on the host's disk, and agents continue.
    """

    def __init__(self, database: Database, layout: Layout, breaker: CircuitBreaker) -> None:
        self._db = database
        self._layout = layout
        self._breaker = breaker
        self._begin()
        run_in_child(self._begin)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._known: TTLCache[tuple[str, Shard, str], None] = TTLCache(_MAX_NAMES, REPEAT_SECONDS, clock.monotonic)

    def ask(self, kind: Counted, name: str) -> None:
        """Return if the team may use this session or bank.

        Raises:
            TooMany: it has as many as an operator allows.
        """
        shard = self._layout.of(name)
        unlimited, admitted = (kind, shard, ""), (kind, shard, name)
        with self._lock:
            if unlimited in self._known or admitted in self._known:
                return
        if self._breaker.is_open:
            return
        try:
            reply = self._db.run(admit_call(shard, kind, name))
        except Unavailable:  # the append that follows says why
            self._breaker.trip()
            return
        limited = is_limited(kind, reply)
        with self._lock:
            self._known[admitted if limited else unlimited] = None
