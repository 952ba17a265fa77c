"""The link between one process and a server, which can be cut for a while without an end of any connection."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self


class Link:
    """A relay on loopback; while it is cut, bytes of both directions wait, as in a network that drops packets."""

    def __init__(self, port: int) -> None:
        """Relay to this port."""
        self._to = port
        self._whole = threading.Event()  # of the connections since the last `forget`
        self._whole.set()
        self._forgotten: list[threading.Event] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for whole in (self._whole, *self._forgotten):
            whole.set()
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    @property
    def url(self) -> str:
        """The server's URL by way of this link."""
        return f"redis://127.0.0.1:{self._listener.getsockname()[1]}/0"

    def cut(self) -> None:
        """Let nothing pass."""
        self._whole.clear()

    def heal(self) -> None:
        """Let everything pass, also what waits."""
        self._whole.set()

    def forget(self) -> None:
        """Let nothing pass on the connections that exist, as a firewall that lost its state; new ones are served."""
        forgotten, self._whole = self._whole, threading.Event()
        self._whole.set()
        self._forgotten.append(forgotten)
        forgotten.clear()

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
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=_relay, args=(one, other, self._whole), daemon=True).start()


def _relay(source: socket.socket, target: socket.socket, whole: threading.Event) -> None:
    with suppress(OSError):  # closed at one end
        while data := source.recv(1 << 16):
            whole.wait()
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
