"""The call deadline of a client that must not wait, and the circuit breaker that spares it repeated waits.

A socket's timeout bounds a single read: a reply that trickles in byte by byte never reaches it, and a handshake takes
several reads. A thread therefore watches the calls in progress and shuts the connection of an overdue one. After an
unanswered call, the circuit breaker makes the client's latency-sensitive callers skip Redis for half a second.
"""

from __future__ import annotations

import math
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from tellback import clock
from tellback.forks import run_in_child

CHECK_SECONDS: Final = 0.02  # seconds between two checks; a call may overrun by as much

IDLE_SECONDS: Final = 2.0  # seconds without a call that somebody waits for, after which the thread ends


class BoundedCall:
    """One call: the monotonic time of its end, and its connection, which may still be in its handshake."""

    __slots__ = ("connection", "end")

    def __init__(self, end: float) -> None:
        self.end = end
        self.connection: Any = None


class CallDeadline:
    """The calls of one client, each at most `seconds` long. Safe across threads, and in a forked child.

    `open_socket` returns the socket of a call's connection, if it has one.
    """

    def __init__(self, seconds: float, open_socket: Callable[[Any], socket.socket | None]) -> None:
        self._seconds = seconds
        self._open_socket = open_socket
        self._local = threading.local()
        self._begin()
        run_in_child(self._begin)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[BoundedCall, bool] = {}
        self._watched = False

    def begin(self, seconds: float = 0.0) -> BoundedCall:
        """Start a call of this thread, which may take `seconds` more than the deadline."""
        call = self._local.call = BoundedCall(clock.monotonic() + self._seconds + seconds)
        self._calls[call] = True
        if not self._watched:
            self._watch()
        return call

    def set_connection(self, connection: Any) -> None:
        """Note the connection that this thread's call is opening."""
        call: BoundedCall | None = getattr(self._local, "call", None)
        if call is not None:
            call.connection = connection

    def end(self, call: BoundedCall) -> bool:
        """End the call; return False if its connection was shut and cannot be used again."""
        self._local.call = None
        if self._calls.pop(call, False):
            return True
        with self._lock:  # wait until the socket is shut: otherwise that could hit the connection's next socket
            return False

    def _watch(self) -> None:
        # Without a thread the call goes on, bounded by the timeout of each read, and the next call tries again.
        with self._lock, suppress(RuntimeError):
            if not self._watched:
                threading.Thread(target=self._run, name="tellback-call-deadline", daemon=True).start()
                self._watched = True

    def _run(self) -> None:
        idle = 0.0
        while idle < IDLE_SECONDS:
            clock.sleep(CHECK_SECONDS)
            idle = 0.0 if self._calls else idle + CHECK_SECONDS
            now = clock.monotonic()
            for call in list(self._calls):
                if call.end < now:
                    self._shut(call)
        self._watched = False
        if self._calls:  # race: a call began while this thread still seemed to be running
            self._watch()

    def _shut(self, call: BoundedCall) -> None:
        """Shut the call's socket; the thread that reads from it finds it closed.

        A call that has none for long was given up: Ctrl-C came as it began, and nobody ends it.
        """
        with self._lock:
            line = self._open_socket(call.connection)
            if line is None and call.end < clock.monotonic() - IDLE_SECONDS:
                self._calls.pop(call, None)
            if line is not None and self._calls.pop(call, False):
                with suppress(OSError):
                    # Bypasses TLS, whose shutdown would talk to the server.
                    socket.socket.shutdown(line, socket.SHUT_RDWR)


OPEN_SECONDS: Final = 0.5


class CircuitBreaker:
    """Stops calls for a while after one went unanswered.

    All prompts of a client share one. Otherwise each of them would have to wait out the deadline by itself.
    """

    def __init__(self) -> None:
        self._open_until = -math.inf

    @property
    def is_open(self) -> bool:
        """True while calls must be skipped."""
        return clock.monotonic() < self._open_until

    def trip(self) -> None:
        """Open the breaker: a call just went unanswered."""
        self._open_until = clock.monotonic() + OPEN_SECONDS
