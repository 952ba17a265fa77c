"""The control of a running command from other threads, such as the heartbeat of its lease or a signal handler."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress


class CommandControl:
    """Passes on a stop, or a renewed lease, to the runner of one command."""

    def __init__(self, *, after: float = 0.0, begin: Callable[[], None] | None = None) -> None:
        """Accept requests from `after` seconds into the command, when the runner's thread calls `begin` once.

        Most commands end sooner, and so cost neither a thread nor descriptors for requests.
        """
        self.after = after
        self.begin = begin
        self._lock = threading.RLock()  # a signal handler may stop the command of its own thread
        self._ends: tuple[socket.socket, socket.socket] | None = None
        self._reason: str | None = None
        self._alive_until: float | None = None

    def request_stop(self, reason: str) -> None:
        """Stop the command; `reason` becomes the record's error. The first reason stays."""
        with self._lock:
            self._reason = self._reason or reason
            self._wake_up()

    def lease_renewed(self, alive_until: float) -> None:
        """Note the time until which the command may live now; a length would count from when it is passed on."""
        with self._lock:
            self._alive_until = alive_until
            self._wake_up()

    def _wake_up(self) -> None:
        if self._ends is not None:
            with suppress(OSError):  # full: the runner wakes up anyway; closed: the command has ended
                self._ends[1].send(b"!")

    def wake_descriptor(self) -> int:
        """Return a descriptor that is readable when there is a request."""
        with self._lock:
            if self._ends is None:
                self._ends = socket.socketpair()
                for end in self._ends:
                    end.settimeout(0)
            if self._reason is not None or self._alive_until is not None:
                self._wake_up()
            return self._ends[0].fileno()

    def take_requests(self) -> tuple[str | None, float | None]:
        """Return the reason to stop, if any, and the newest renewal since the last call."""
        with self._lock:
            if self._ends is not None:
                with suppress(BlockingIOError):
                    self._ends[0].recv(4096)
            renewed, self._alive_until = self._alive_until, None
            return self._reason, renewed

    def close(self) -> None:
        """Free the descriptors."""
        with self._lock:
            for end in self._ends or ():
                end.close()
