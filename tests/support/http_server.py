"""A real HTTP server on a real socket that answers, fails and misbehaves as the test says, request by request."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Request:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Behaviour = Callable[[socket.socket, Request, threading.Event], None]
"""Answers one request, or does not; the event is set when the test is over."""


@dataclass
class HttpServer:
    """Behaves as `behaviours` say, one for each request, and then as `usual` does."""

    url: str
    usual: Behaviour
    behaviours: list[Behaviour] = field(default_factory=list[Behaviour])
    requests: list[Request] = field(default_factory=list[Request])
    ended: threading.Event = field(default_factory=threading.Event)

    def then(self, *behaviours: Behaviour) -> None:
        """Add behaviours for the next requests to meet."""
        self.behaviours.extend(behaviours)


def reply(status: int, body: bytes | dict[str, Any] = b"", **headers: str) -> Behaviour:
    """A whole reply; a header's underscores are dashes."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} Said", f"Content-Length: {len(content)}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    raw = ("\r\n".join(lines) + "\r\n\r\n").encode() + content
    return lambda sock, _request, _ended: sock.sendall(raw)


def answered_by(answer: Callable[[Request], Behaviour]) -> Behaviour:
    """A reply that depends on the request."""
    return lambda sock, request, ended: answer(request)(sock, request, ended)


def silent(_sock: socket.socket, _request: Request, ended: threading.Event) -> None:
    """Receive the request and send nothing."""
    ended.wait(60)


def reset(sock: socket.socket, _request: Request, _ended: threading.Event) -> None:
    """Receive the request, then reset the connection."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def byte_by_byte(sock: socket.socket, _request: Request, ended: threading.Event) -> None:
    """A head that never ends: a byte now and then, so that no timeout of a single read ever comes."""
    with contextlib.suppress(OSError):
        for byte in b"HTTP/1.1 200 OK\r\nX-Padding: " + b"x" * 10_000:
            sock.sendall(bytes([byte]))
            if ended.wait(0.02):
                return


def endless(status: int) -> Behaviour:
    """A good head, and a body that never ends."""

    def behave(sock: socket.socket, _request: Request, ended: threading.Event) -> None:
        with contextlib.suppress(OSError):
            sock.sendall(f"HTTP/1.1 {status} OK\r\nContent-Length: 10000000000\r\n\r\n".encode())
            while not ended.is_set():
                sock.sendall(b"x" * 65_536)

    return behave


def garbage(sock: socket.socket, _request: Request, _ended: threading.Event) -> None:
    """No HTTP at all."""
    sock.sendall(b"\x00\xff\x00 hello\r\n\r\n")


@contextmanager
def http_server(
    usual: Behaviour, wrap: Callable[[socket.socket], socket.socket] | None = None
) -> Generator[HttpServer]:
    """A server on a port of its own; `wrap` puts TLS around each connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        server = HttpServer(f"{'https' if wrap else 'http'}://localhost:{port}", usual)
        if wrap is None:
            server.url = f"http://127.0.0.1:{port}"
        accepting = threading.Thread(target=_accept, args=(listening, server, wrap), daemon=True)
        accepting.start()
        try:
            yield server
        finally:
            server.ended.set()
            with contextlib.suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
            accepting.join(5)


def _accept(
    listening: socket.socket, server: HttpServer, wrap: Callable[[socket.socket], socket.socket] | None
) -> None:
    while not server.ended.is_set():
        try:
            sock, _ = listening.accept()
        except OSError:
            return
        threading.Thread(target=_converse, args=(sock, server, wrap), daemon=True).start()


def _converse(sock: socket.socket, server: HttpServer, wrap: Callable[[socket.socket], socket.socket] | None) -> None:
    with contextlib.suppress(OSError):
        try:
            sock = wrap(sock) if wrap else sock
            request = _read(sock)
            server.requests.append(request)
            behaviour = server.behaviours.pop(0) if server.behaviours else server.usual
            behaviour(sock, request, server.ended)
        finally:
            sock.close()


def _read(sock: socket.socket) -> Request:
    with sock.makefile("rb") as lines:
        method, path, _ = lines.readline().decode().split(" ", 2)
        headers: dict[str, str] = {}
        while (line := lines.readline().decode().strip()) != "":
            name, _, value = line.partition(":")
            headers[name.strip()] = value.strip()
        length = next((value for name, value in headers.items() if name.lower() == "content-length"), "0")
        return Request(method, path, headers, lines.read(int(length)))
