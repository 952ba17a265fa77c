"""Ends calls of a client that must not wait, whatever holds them up: a handshake, a late reply, one that trickles in.

A socket's time-out bounds one read. A reply that comes byte by byte never meets it, and a handshake may take several.
So a thread looks at the calls under way, and shuts the connection of one that is over its time.
"""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from typing import Any, Final

from tellback import clock

LOOK: Final = 0.02  # seconds between two looks, by which a call may be longer
LINGER: Final = 2.0  # seconds without a call after which the thread ends


class BoundedCall:
    """One call: until when, and over which connection, which may have no more than its socket yet."""

    __slots__ = ("connection", "end")

    def __init__(self, end: float) -> None:
        """Take the moment, by the monotonic clock."""
        self.end = end
        self.connection: Any = None


class Patience:
    """The calls of one client. Safe across threads, and in a forked child."""

    def __init__(self, seconds: float) -> None:
        """Take how long a call may be."""
        self._seconds = seconds
        self._here = threading.local()
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[BoundedCall, bool] = {}
        self._watched = False
        self._pid = os.getpid()

    def begin(self, seconds: float = 0.0) -> BoundedCall:
        """A call of this thread, which may take `seconds` beside what any may take."""
        if self._pid != os.getpid():
            self._begin_anew()  # threads do not come along with a fork
        call = self._here.call = BoundedCall(clock.monotonic() + self._seconds + seconds)
        self._calls[call] = True
        if not self._watched:
            self._watch()
        return call

    def connects(self, connection: Any) -> None:
        """This thread's call makes this connection."""
        call: BoundedCall | None = getattr(self._here, "call", None)
        if call is not None:
            call.connection = connection

    def end(self, call: BoundedCall) -> bool:
        """The call is over; False where its connection was shut, which is good for nothing else now."""
        self._here.call = None
        if self._calls.pop(call, False):
            return True
        with self._lock:  # whoever shuts it has done so: what the connection has next is another socket
            return False

    def _watch(self) -> None:
        with self._lock:
            if not self._watched:
                self._watched = True
                threading.Thread(target=self._run, name="tellback-patience", daemon=True).start()

    def _run(self) -> None:
        idle = 0.0
        while idle < LINGER:
            clock.sleep(LOOK)
            idle = 0.0 if self._calls else idle + LOOK
            now = clock.monotonic()
            for call in list(self._calls):
                if call.end < now:
                    self._shut(call)
        self._watched = False
        if self._calls:  # one that began while this thread still seemed to be there
            self._watch()

    def _shut(self, call: BoundedCall) -> None:
        """Let whoever reads from its connection find it closed."""
        with self._lock:
            line = getattr(call.connection, "_sock", None)
            if line is not None and self._calls.pop(call, False):
                with suppress(OSError):
                    socket.socket.shutdown(line, socket.SHUT_RDWR)  # an encrypted one too, without a word to the server
