"""Redis over a plain socket: enough of its protocol (RESP2) for a few commands, with one deadline for all of them."""

from __future__ import annotations

import _socket  # what `socket` is made of: its own import costs as much as all of this module does
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from tellback import clock
from tellback.errors import ConfigurationError, Unavailable
from tellback.urls import Address

if TYPE_CHECKING:
    import ssl

MOST_BYTES: Final = 32 << 20  # of one reply; a mailbox holds at most 100 pieces of feedback of a few KB
DEEPEST: Final = 8
Arg = str | bytes | int


class Refusal(Unavailable):
    """The server answered with an error; the text is its first word, which holds nothing of what was sent."""


class Connection:
    """One connection that gives up at `deadline`, whatever it is doing, save for resolving a host's name."""

    def __init__(self, url: str, deadline: float) -> None:
        """Connect, authenticate, select the database.

        Raises:
            Unavailable: it cannot be reached in time, or refuses.
            ConfigurationError: not the URL of a Redis.
        """
        self._deadline = deadline
        self._buffer = bytearray()
        self._at = 0
        self._greeting: list[tuple[Arg, ...]] = []
        try:
            self._socket = self._open(url)
        except (OSError, ValueError) as error:
            raise Unavailable(type(error).__name__) from None

    def _open(self, url: str) -> _socket.socket | ssl.SSLSocket:
        address = Address(url)
        number = address.query.get("db", "") or address.path.strip("/")
        if address.scheme == "unix":
            number = address.query.get("db", "")
            line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
            line.settimeout(self._left())
            line.connect(address.path)
        elif address.scheme in ("redis", "rediss"):
            line = self._reach(address.host or "localhost", address.port or 6379)
        else:
            raise ConfigurationError("TELLBACK_REDIS_URL is not the URL of a Redis")
        user = address.user or address.query.get("username", "")
        password = address.password or address.query.get("password", "")
        if password:
            self._greeting.append(("AUTH", user, password) if user else ("AUTH", password))
        if number and int(number):
            self._greeting.append(("SELECT", int(number)))
        return _wrapped(line, address) if address.scheme == "rediss" else line

    def _reach(self, host: str, port: int) -> _socket.socket:
        """The first of the host's addresses that answers."""
        trouble: OSError = ConnectionError()
        for family, kind, protocol, _, place in _socket.getaddrinfo(host.encode(), port, 0, _socket.SOCK_STREAM):
            line = _socket.socket(family, kind, protocol)
            try:
                line.settimeout(self._left())
                line.connect(place)
                line.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
            except OSError as error:
                line.close()
                trouble = error
            else:
                return line
        raise trouble

    def _left(self) -> float:
        left = self._deadline - clock.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def ask(self, commands: Sequence[Sequence[Arg]]) -> list[Any]:
        """The replies of several commands, in one round trip; an error among them is returned, not raised.

        Raises:
            Unavailable: no whole reply came in time, or what came is no Redis reply.
            Refusal: the server refused the user or the database.
        """
        greeting, self._greeting = self._greeting, []
        try:
            self._socket.settimeout(self._left())
            self._socket.sendall(b"".join(map(_packed, [*greeting, *commands])))
            replies = [self._reply(0) for _ in range(len(greeting) + len(commands))]
        except (OSError, ValueError, RecursionError) as error:
            raise Unavailable(type(error).__name__) from None
        for reply in replies[: len(greeting)]:
            if isinstance(reply, Refusal):
                raise reply
        return replies[len(greeting) :]

    def _reply(self, depth: int) -> Any:
        line = self._line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest
        if kind == b"-":
            return Refusal(rest.partition(b" ")[0].decode("ascii", "replace")[:32])
        if kind == b":":
            return int(rest)
        if kind == b"$":
            size = _size(rest)
            return None if size < 0 else self._take(size + 2)[:-2]
        if kind == b"*" and depth < DEEPEST:
            count = _size(rest)
            return None if count < 0 else [self._reply(depth + 1) for _ in range(count)]
        raise ValueError

    def _line(self) -> bytes:
        while (end := self._buffer.find(b"\r\n", self._at)) < 0:
            if len(self._buffer) - self._at > 64 << 10:
                raise ValueError
            self._receive()
        line = bytes(self._buffer[self._at : end])
        self._at = end + 2
        return line

    def _take(self, size: int) -> bytes:
        while len(self._buffer) - self._at < size:
            self._receive()
        taken = bytes(self._buffer[self._at : self._at + size])
        self._at += size
        if not taken.endswith(b"\r\n"):
            raise ValueError
        return taken

    def _receive(self) -> None:
        self._socket.settimeout(self._left())
        data = self._socket.recv(1 << 16)
        if not data:
            raise ConnectionError
        self._buffer += data
        if len(self._buffer) > MOST_BYTES:
            raise ValueError


def _packed(command: Sequence[Arg]) -> bytes:
    parts = [part if isinstance(part, bytes) else str(part).encode() for part in command]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


def _size(text: bytes) -> int:
    size = int(text)
    if not -1 <= size <= MOST_BYTES:
        raise ValueError
    return size


def _wrapped(line: _socket.socket, address: Address) -> ssl.SSLSocket:
    """Encrypted, with the options of the URL that redis-py knows by these names."""
    import socket  # noqa: PLC0415 - only who encrypts pays for it
    import ssl  # noqa: PLC0415 - as above

    query = address.query
    context = ssl.create_default_context(cafile=query.get("ssl_ca_certs"), capath=query.get("ssl_ca_path"))
    if "ssl_certfile" in query:
        context.load_cert_chain(query["ssl_certfile"], query.get("ssl_keyfile"))
    if query.get("ssl_check_hostname", "").lower() in ("false", "0", "no"):
        context.check_hostname = False
    if query.get("ssl_cert_reqs") in ("none", "CERT_NONE"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    timeout = line.gettimeout()
    plain = socket.socket(fileno=line.detach())
    plain.settimeout(timeout)
    return context.wrap_socket(plain, server_hostname=address.host)
