"""The link between a client and a server, with the faults of a network: it cuts, forgets, delays and loses replies."""

from __future__ import annotations

import random
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Self


@dataclass
class _Era:
    """The connections that were made since the last `forget`, and the ways on which what comes vanishes."""

    drops_requests: bool = False
    drops_replies: bool = False


class Link:
    """A relay on loopback; its attributes may be changed from any thread at any time."""

    def __init__(self, port: int) -> None:
        """Relay to this port."""
        self.port = port
        """Where new connections lead, as by a virtual IP; those that stand stay."""
        self.losing = 0.0
        """The share of replies that are lost: the server has done what was asked, and the connection ends."""
        self.once = False
        """True if the first loss is the last."""
        self.delay = 0.0
        """Seconds that each piece waits."""
        self.accepted = self.lost = 0
        self._era = _Era()
        self._passes = threading.Event()
        self._passes.set()
        self._dice = random.Random(port)
        self._ends: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        _shut(self._listener)
        self.end_connections()
        self.heal()  # after the ends: what waited here is lost
        for thread in list(self._threads):
            thread.join(5)
        self._listener.close()

    @property
    def url(self) -> str:
        """The server's URL by way of this link."""
        return f"redis://127.0.0.1:{self._listener.getsockname()[1]}/0"

    def cut(self) -> None:
        """Let what comes wait, in both directions, as in a network that drops packets; no connection ends."""
        self._passes.clear()

    def heal(self) -> None:
        """Let everything pass, also what waits."""
        self.losing = self.delay = 0.0
        self._passes.set()

    def forget(self, *, requests: bool = False) -> None:
        """Let nothing pass on the connections that exist, as a firewall that lost its state; new ones are served.

        With `requests`, what a client sends still reaches the server: only the replies are lost.
        """
        self._era.drops_replies = True
        self._era.drops_requests = not requests
        self._era = _Era()

    def end_connections(self) -> None:
        """End every connection at once."""
        for end in list(self._ends):
            _shut(end)

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                near = self._listener.accept()[0]
                self.accepted += 1
                self._threads = [each for each in self._threads if each.is_alive()]
                self._threads.append(threading.Thread(target=self._serve, args=(near, self._era), daemon=True))
                self._threads[-1].start()

    def _serve(self, near: socket.socket, era: _Era) -> None:
        # OSError: the server is gone at the moment
        with near, suppress(OSError), socket.create_connection(("127.0.0.1", self.port)) as far:
            self._ends |= {near, far}
            requests = threading.Thread(target=self._relay, args=(near, far, era), daemon=True)
            requests.start()
            self._relay(far, near, era, replies=True)
            requests.join()
            self._ends -= {near, far}

    def _relay(self, source: socket.socket, sink: socket.socket, era: _Era, *, replies: bool = False) -> None:
        with suppress(OSError):  # closed at one end
            while data := source.recv(1 << 16):
                time.sleep(self.delay)
                self._passes.wait()
                if era.drops_replies if replies else era.drops_requests:
                    continue
                if replies and self._dice.random() < self.losing:
                    self.lost += 1
                    self.losing = 0.0 if self.once else self.losing
                    break
                sink.sendall(data)
        _shut(source)
        _shut(sink)


def _shut(end: socket.socket) -> None:
    with suppress(OSError):  # it has ended
        end.shutdown(socket.SHUT_RDWR)
