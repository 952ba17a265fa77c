"""A minimal Redis client over a plain socket: enough of RESP2 for a few commands, with one deadline for all of them.

redis-py takes 0.2 s to import, and a hook runs with every tool call (docs/decisions/parsers.md).
"""

from __future__ import annotations

import _socket  # the C part of `socket`, whose own import costs as much as this whole module
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from tellback import clock
from tellback.errors import ConfigurationError, Unavailable
from tellback.state.script_calls import Arg, Command
from tellback.urls import Address

if TYPE_CHECKING:
    import ssl

MAX_REPLY_BYTES: Final = 32 << 20  # of one reply; a mailbox holds at most 100 pieces of feedback of a few KB
MAX_DEPTH: Final = 8
NOT_A_URL: Final = "TELLBACK_REDIS_URL is not the URL of a Redis"
WRONG_FILES: Final = "a file of ssl_... in TELLBACK_REDIS_URL can't be used; `tellback doctor` names it"


class RedisErrorReply(Unavailable):
    """The server answered with an error. The message is only its first word: the rest may quote what was sent.

    `redirection` is the text of MOVED and ASK, which name a slot and a node.
    """

    redirection = ""


class RespConnection:
    """A connection that gives up at `deadline`, whatever it is doing except resolving a host name.

    `has_nodes` is true if other nodes may answer while one hangs. `where` is the address that was asked last; each
    error has it as a note.
    """

    has_nodes = False
    where = ""

    def __init__(self, url: str, deadline: float) -> None:
        """Connect. AUTH and SELECT are sent with the first commands, which saves round trips.

        Raises:
            Unavailable: the server cannot be reached in time, or refuses the connection.
            ConfigurationError: `url` is not the URL of a Redis.
        """
        self.deadline = deadline
        self._buffer = bytearray()
        self._at = 0
        self._greeting: list[tuple[Arg, ...]] = []
        try:
            self._socket = self._connect(url)
        except (OSError, ValueError) as error:
            raise self._noted(Unavailable(type(error).__name__)) from None

    def _noted(self, error: Unavailable) -> Unavailable:
        if self.where:
            error.add_note(self.where)
        return error

    def _connect(self, url: str) -> _socket.socket | ssl.SSLSocket:
        address = Address(url)
        number = address.query.get("db", "") or address.path.strip("/")
        if address.scheme == "unix":
            number, self.where = address.query.get("db", ""), address.path
            line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
            line.settimeout(self._seconds_left())
            line.connect(address.path)
        elif address.scheme in ("redis", "rediss"):
            host, port = address.host or "localhost", address.port or 6379
            self.where = f"{host}:{port}"
            line = self._connect_address(host, port)
        else:
            raise ConfigurationError(NOT_A_URL)
        user = address.user or address.query.get("username", "")
        password = address.password or address.query.get("password", "")
        if password:
            self._greeting.append(("AUTH", user, password) if user else ("AUTH", password))
        if number and int(number):
            self._greeting.append(("SELECT", int(number)))
        return _wrap_tls(line, address) if address.scheme == "rediss" else line

    def _connect_address(self, host: str, port: int) -> _socket.socket:
        """Connect to the first of the host's addresses that answers."""
        trouble: OSError = ConnectionError()
        for family, kind, protocol, _, place in _socket.getaddrinfo(host.encode(), port, 0, _socket.SOCK_STREAM):
            line = _socket.socket(family, kind, protocol)
            try:
                line.settimeout(self._seconds_left())
                line.connect(place)
                line.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
            except OSError as error:
                line.close()
                trouble = error
            else:
                return line
        raise trouble

    def _seconds_left(self) -> float:
        left = self.deadline - clock.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def run_commands(self, commands: Sequence[Command]) -> list[Any]:
        """Return the replies of several commands in one round trip; an error among them is returned, not raised.

        Raises:
            Unavailable: no complete reply came in time, or it was not a Redis reply.
            RedisErrorReply: the server refused the user or the database.
        """
        greeting, self._greeting = self._greeting, []
        try:
            self._socket.settimeout(self._seconds_left())
            self._socket.sendall(b"".join(map(_pack_command, [*greeting, *commands])))
            replies = [self._read_reply(0) for _ in range(len(greeting) + len(commands))]
        except (OSError, ValueError, RecursionError) as error:
            raise self._noted(Unavailable(type(error).__name__)) from None
        for reply in replies[: len(greeting)]:
            if isinstance(reply, RedisErrorReply):
                raise reply
        return replies[len(greeting) :]

    def _read_reply(self, depth: int) -> Any:
        line = self._read_line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest
        if kind == b"-":
            return self._noted(_error_reply(rest))
        if kind == b":":
            return int(rest)
        if kind == b"$":
            size = _parse_size(rest)
            return None if size < 0 else self._read_bytes(size + 2)[:-2]
        if kind == b"*" and depth < MAX_DEPTH:
            count = _parse_size(rest)
            return None if count < 0 else [self._read_reply(depth + 1) for _ in range(count)]
        raise ValueError

    def _read_line(self) -> bytes:
        while (end := self._buffer.find(b"\r\n", self._at)) < 0:
            # Without a limit, a server that is no Redis could send one endless line.
            if len(self._buffer) - self._at > 64 << 10:
                raise ValueError
            self._fill_buffer()
        line = bytes(self._buffer[self._at : end])
        self._at = end + 2
        return line

    def _read_bytes(self, size: int) -> bytes:
        while len(self._buffer) - self._at < size:
            self._fill_buffer()
        taken = bytes(self._buffer[self._at : self._at + size])
        self._at += size
        if not taken.endswith(b"\r\n"):
            raise ValueError
        return taken

    def _fill_buffer(self) -> None:
        # Each read gets only the rest of the deadline: a server that sends a byte at a time cannot extend it.
        self._socket.settimeout(self._seconds_left())
        data = self._socket.recv(1 << 16)
        if not data:
            raise ConnectionError
        self._buffer += data
        if len(self._buffer) > MAX_REPLY_BYTES:
            raise ValueError


def share_of_time(end: float, number: int) -> float:
    """Return the end of one share of the time until `end`, of as many: for a node that may hang."""
    now = clock.monotonic()
    return now + (end - now) / number


def checked_replies(replies: Sequence[Any]) -> list[Any]:
    """Return the replies.

    Raises:
        Unavailable: one of them is an error.
    """
    for reply in replies:
        if isinstance(reply, Unavailable):
            raise reply
    return list(replies)


def _error_reply(text: bytes) -> RedisErrorReply:
    word = text.partition(b" ")[0].decode("ascii", "replace")[:32]
    error = RedisErrorReply(word)
    if word in ("ASK", "MOVED"):
        error.redirection = text.decode("ascii", "replace")
    return error


def _pack_command(command: Command) -> bytes:
    parts = [part if isinstance(part, bytes) else str(part).encode() for part in command]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


def _parse_size(text: bytes) -> int:
    size = int(text)
    if not -1 <= size <= MAX_REPLY_BYTES:
        raise ValueError
    return size


def _wrap_tls(line: _socket.socket, address: Address) -> ssl.SSLSocket:
    """Encrypt a connection, with the URL options that redis-py has under the same names."""
    import socket
    import ssl

    query = address.query
    try:
        context = ssl.create_default_context(cafile=query.get("ssl_ca_certs"), capath=query.get("ssl_ca_path"))
        if "ssl_certfile" in query:
            # a password, also an empty one, keeps OpenSSL from asking the agent's terminal for one
            context.load_cert_chain(query["ssl_certfile"], query.get("ssl_keyfile"), query.get("ssl_password", ""))
    except OSError:  # ssl.SSLError is one; neither names the file, as `tellback doctor` does
        raise Unavailable(WRONG_FILES) from None
    if query.get("ssl_check_hostname", "").lower() in ("false", "0", "no"):
        context.check_hostname = False
    if query.get("ssl_cert_reqs") in ("none", "CERT_NONE"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    timeout = line.gettimeout()
    plain = socket.socket(fileno=line.detach())
    plain.settimeout(timeout)
    return context.wrap_socket(plain, server_hostname=address.host)
