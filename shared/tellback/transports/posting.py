"""One HTTP request, and what is surely known of it afterwards: not sent, answered, or nobody knows.

The standard library's client, since it does nothing by itself: no redirects, no retries, no proxies, no cookies.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import threading
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final, Self
from urllib.parse import SplitResult, urlsplit

from tellback import clock
from tellback.errors import ConfigurationError

MOST_BYTES: Final = 65_536  # of a reply's body; the rest is left unread
OK: Final = range(200, 300)
REDIRECTS: Final = range(300, 400)


class NotSent(Exception):
    """No connection came about: the receiver saw nothing. The message says why, in words without secrets."""


class NoReply(Exception):
    """The request went out, at least in part, and no whole reply came: nobody knows what the receiver did."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a receiver said; of the body at most `MOST_BYTES`."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def retry_after(self) -> float | None:
        """Seconds of a Retry-After header, in either form; None where there is none that can be read."""
        text = self.headers.get("Retry-After", "").strip()
        if text.isascii() and text.isdigit():
            return float(text[:9])
        try:
            at = parsedate_to_datetime(text)
        except ValueError:
            return None
        return max(0.0, (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - clock.wall())


def check_url(name: str, url: str) -> str:
    """An absolute URL to post to: https, or http on this very host.

    Raises:
        ConfigurationError: another scheme, plain http to another host, no host, or a user or password in it.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = parts.port
    except ValueError as error:
        raise ConfigurationError(f"{name}: not a URL ({error})") from None
    if (
        parts.scheme not in {"http", "https"}
        or not host
        or port == 0
        or not url.isascii()
        or not url.isprintable()
        or " " in url
    ):
        raise ConfigurationError(f"{name}: an absolute URL that begins with https://")
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError(f"{name}: must not carry a user or password; logs and proxies would see them")
    if parts.scheme == "http" and not _is_loopback(host):
        raise ConfigurationError(f"{name}: plain http is for this host alone (127.0.0.1, localhost); use https://")
    return url


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def post(
    url: str, body: bytes, headers: Mapping[str, str], *, timeout: float, tls: ssl.SSLContext | None = None
) -> Reply:
    """Post `body`; `timeout` bounds the whole exchange, also with a peer that sends a byte now and then.

    Raises:
        NotSent: no connection, or its certificate was refused.
        NoReply: it was sent, at least in part, and no reply came whose status could be read.
    """
    parts = urlsplit(url)
    end = clock.monotonic() + timeout
    with closing(_connection(parts, timeout)) as connection, _Guard() as guard:
        _connect(connection, guard, parts, end, tls)
        try:
            connection.request("POST", _target(parts), body, dict(headers))
            response = connection.getresponse()
        except (OSError, http.client.HTTPException, ValueError) as error:
            over = guard.over or isinstance(error, TimeoutError)
            raise NoReply(f"no reply in {timeout:g} s" if over else f"no reply: {type(error).__name__}") from None
        if guard.over:  # what was cut off reads like a whole head
            raise NoReply(f"no whole reply in {timeout:g} s")
        return Reply(response.status, response.headers, _body(response))


def _body(response: http.client.HTTPResponse) -> bytes:
    """As much of it as came: the status is known, which settles what became of the request."""
    try:
        return response.read(MOST_BYTES)
    except http.client.IncompleteRead as error:
        return error.partial
    except (OSError, http.client.HTTPException, ValueError):
        return b""


def _connection(parts: SplitResult, timeout: float) -> http.client.HTTPConnection:
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return kind(parts.hostname or "", parts.port, timeout=timeout)


def _target(parts: SplitResult) -> str:
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _connect(
    connection: http.client.HTTPConnection,
    guard: _Guard,
    parts: SplitResult,
    end: float,
    tls: ssl.SSLContext | None,
) -> None:
    try:
        sock = socket.create_connection((connection.host, connection.port), max(0.001, end - clock.monotonic()))
        connection.sock = guard.watch(sock, end)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if parts.scheme == "https":
            context = tls or ssl.create_default_context()
            secured = context.wrap_socket(sock, server_hostname=connection.host, do_handshake_on_connect=False)
            connection.sock = guard.watch(secured, end)
            secured.do_handshake()
    except ssl.SSLCertVerificationError as error:
        raise NotSent(f"the certificate was refused: {error.verify_message}") from None
    except (OSError, ValueError) as error:
        raise NotSent(f"no connection: {type(error).__name__}") from None


class _Guard:
    """Shuts a socket down when its time is over; a socket's own timeout begins anew with each byte."""

    def __init__(self) -> None:
        self.over = False
        self._sock: socket.socket | None = None
        self._timer: threading.Timer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()  # a late shutdown must not meet the descriptor of another socket

    def watch(self, sock: socket.socket, end: float) -> socket.socket:
        self._sock = sock
        if self._timer is None:
            self._timer = threading.Timer(max(0.0, end - clock.monotonic()), self._end)
            self._timer.daemon = True
            self._timer.start()
        return sock

    def _end(self) -> None:
        self.over = True
        if self._sock is not None:
            with suppress(OSError):
                socket.socket.shutdown(self._sock, socket.SHUT_RDWR)  # past TLS, which is in use by the other thread
