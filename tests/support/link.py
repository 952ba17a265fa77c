"""The link between one process and a server, which can be cut for a while without an end of any connection."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self


def _open() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


@dataclass
class _Ways:
    """The two ways of some connections; what comes waits while its way is closed."""

    requests: threading.Event = field(default_factory=_open)
    replies: threading.Event = field(default_factory=_open)


class Link:
    """A relay on loopback; while it is cut, bytes of both directions wait, as in a network that drops packets."""

    def __init__(self, port: int) -> None:
        """Relay to this port."""
        self._to = port
        self._ways = _Ways()  # of the connections since the last `forget`
        self._forgotten: list[_Ways] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for ways in (self._ways, *self._forgotten):  # after the sockets: what waited here is lost
            ways.requests.set()
            ways.replies.set()

    @property
    def url(self) -> str:
        """The server's URL by way of this link."""
        return f"redis://127.0.0.1:{self._listener.getsockname()[1]}/0"

    def cut(self) -> None:
        """Let nothing pass."""
        self._ways.requests.clear()
        self._ways.replies.clear()

    def heal(self) -> None:
        """Let everything pass, also what waits."""
        self._ways.requests.set()
        self._ways.replies.set()

    def forget(self, *, requests: bool = False) -> None:
        """Let nothing pass on the connections that exist, as a firewall that lost its state; new ones are served.

        With `requests`, what a client sends still reaches the server: only the replies are lost.
        """
        ways, self._ways = self._ways, _Ways()
        self._forgotten.append(ways)
        ways.replies.clear()
        if not requests:
            ways.requests.clear()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                near = self._listener.accept()[0]
                self._sockets.append(near)
                try:
                    far = socket.create_connection(("127.0.0.1", self._to))
                except OSError:  # the server is gone at the moment
                    near.close()
                    continue
                self._sockets.append(far)
                ways = self._ways
                for one, other, way in ((near, far, ways.requests), (far, near, ways.replies)):
                    threading.Thread(target=_relay, args=(one, other, way), daemon=True).start()


def _relay(source: socket.socket, target: socket.socket, way: threading.Event) -> None:
    with suppress(OSError):  # closed at one end
        while data := source.recv(1 << 16):
            way.wait()
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
