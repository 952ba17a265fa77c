"""A link to Redis that can lose replies: the server has done what was asked, and the client never hears of it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress

from tests.support.redis_server import free_port


class LossyLink:
    """A link between a client and the server; `losing` may be changed at any time, `once` ends it."""

    def __init__(self, url: str, port: int) -> None:
        self.url = url
        self.losing = self.once = False
        self.lost = 0
        self._port = port
        self._lines: list[socket.socket] = []

    def serve(self, line: socket.socket) -> None:
        """Hand on what comes from either side; a reply to be lost ends the connection."""
        self._lines.append(line)
        with line, suppress(OSError), socket.create_connection(("127.0.0.1", self._port)) as server:
            threading.Thread(target=self._hand_on, args=(line, server), daemon=True).start()
            while data := server.recv(1 << 16):
                if self.losing:
                    self.lost += 1
                    self.losing = not self.once
                    line.shutdown(socket.SHUT_RDWR)
                    return
                line.sendall(data)

    def close(self) -> None:
        """End the connections that are left: their clients may leave that to the garbage collector, as kombu does."""
        for line in self._lines:
            with suppress(OSError):  # it has ended
                line.shutdown(socket.SHUT_RDWR)

    def _hand_on(self, line: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := line.recv(1 << 16):
                server.sendall(data)
            server.shutdown(socket.SHUT_RDWR)


@contextmanager
def lossy_link(port: int) -> Generator[LossyLink]:
    """A link to the server on `port`."""
    with socket.create_server(("127.0.0.1", free_port())) as listener:
        link = LossyLink(f"redis://127.0.0.1:{listener.getsockname()[1]}/0", port)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    line, _ = listener.accept()
                    threads.append(threading.Thread(target=link.serve, args=(line,), daemon=True))
                    threads[-1].start()

        threads = [threading.Thread(target=accept, daemon=True)]
        threads[0].start()
        yield link
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        link.close()
        for thread in threads:
            thread.join(5)
