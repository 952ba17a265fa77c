"""One HTTP POST with a certain result: not sent (`NotSent`), answered (`Reply`), or unknown (`NoReply`).

The distinction decides whether a delivery may be sent again. It uses the standard library's client because that does
nothing on its own: a redirect, retry or proxy that a richer client adds would make the result uncertain.
"""

from __future__ import annotations

import http.client
import ipaddress
import secrets
import socket
import ssl
import threading
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Final, Self
from urllib.parse import SplitResult, urlsplit

import msgspec

from tellback import clock
from tellback.errors import ConfigurationError
from tellback.sanitize import is_printable

MAX_RESPONSE_BYTES: Final = 65_536  # of a reply's body; the rest stays unread, to bound memory

OK: Final = range(200, 300)

REDIRECTS: Final = range(300, 400)


class NotSent(Exception):
    """No connection was made, so the receiver saw nothing; the message gives the reason without secrets."""


class NoReply(Exception):
    """At least a part of the request was sent and no complete reply came: the receiver's action is unknown."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A receiver's reply, with at most `MAX_RESPONSE_BYTES` of its body."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def retry_after(self) -> float | None:
        """The seconds of a Retry-After header, given as a number or a date; None without a valid one."""
        text = self.headers.get("Retry-After", "").strip()
        if text.isascii() and text.isdigit():
            return float(text[:9])  # nine digits are thirty years, and no float overflows
        try:
            at = parsedate_to_datetime(text)
        except (ValueError, OverflowError):
            return None
        return max(0.0, (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - clock.wall())


def check_url(name: str, url: str) -> str:
    """Check an absolute URL to post to and return it: https, or http to this host.

    Raises:
        ConfigurationError: it has another scheme, plain http to another host, no host, or a user or password.
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
        or not is_printable(url)
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


def post_request(
    url: str, body: bytes, headers: Mapping[str, str], *, timeout: float, tls: ssl.SSLContext | None = None
) -> Reply:
    """Post `body`; `timeout` bounds the whole exchange in seconds, even if the peer sends single bytes.

    Raises:
        NotSent: there was no connection, or the certificate was refused.
        NoReply: at least a part was sent, and no readable status came back.
    """
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    end = clock.monotonic() + timeout
    with closing(_open_connection(parts, timeout)) as connection, _SocketDeadline() as guard:
        _connect(connection, guard, parts, end, tls)
        try:
            connection.request("POST", target, body, dict(headers))
            response = connection.getresponse()
        except (OSError, http.client.HTTPException, ValueError) as error:
            over = guard.over or isinstance(error, TimeoutError)
            raise NoReply(f"no reply in {timeout:g} s" if over else f"no reply: {type(error).__name__}") from None
        if guard.over:  # http.client reads a head that was cut off as if it were complete
            raise NoReply(f"no whole reply in {timeout:g} s")
        return Reply(response.status, response.headers, _read_body(response))


def _read_body(response: http.client.HTTPResponse) -> bytes:
    """Return as much of the body as came; the status alone already decides the request's outcome."""
    try:
        return response.read(MAX_RESPONSE_BYTES)
    except http.client.IncompleteRead as error:
        return error.partial
    except (OSError, http.client.HTTPException, ValueError):
        return b""


def _open_connection(parts: SplitResult, timeout: float) -> http.client.HTTPConnection:
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return kind(parts.hostname or "", parts.port, timeout=timeout)


def _connect(
    connection: http.client.HTTPConnection,
    guard: _SocketDeadline,
    parts: SplitResult,
    end: float,
    tls: ssl.SSLContext | None,
) -> None:
    try:
        sock = socket.create_connection((connection.host, connection.port), max(0.001, end - clock.monotonic()))
        connection.sock = guard.guard(sock, end)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if parts.scheme == "https":
            context = tls or ssl.create_default_context()
            secured = context.wrap_socket(sock, server_hostname=connection.host, do_handshake_on_connect=False)
            connection.sock = guard.guard(secured, end)
            secured.do_handshake()
    except ssl.SSLCertVerificationError as error:
        raise NotSent(f"the certificate was refused: {error.verify_message}") from None
    except (OSError, ValueError) as error:
        raise NotSent(f"no connection: {_reason(error)}") from None
    if clock.monotonic() >= end:  # no timeout bounds a look-up; by now another transport may have the delivery
        raise NotSent("no connection: TimeoutError")


def _reason(error: OSError | ValueError) -> str:
    """Return why there is no connection, in words without the address."""
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({(error.reason or 'no reason given').replace('_', ' ').lower()})"
    said = error.strerror if isinstance(error, OSError) else None  # none of a timeout
    return f"{said[0].lower()}{said[1:]}" if said else type(error).__name__


class _SocketDeadline:
    """Shuts a socket down at a deadline; a socket's own timeout starts again with every byte."""

    def __init__(self) -> None:
        self.over = False
        self._sock: socket.socket | None = None
        self._timer: threading.Timer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()  # a late shutdown could hit another socket that reuses the descriptor

    def guard(self, sock: socket.socket, end: float) -> socket.socket:
        self._sock = sock
        if self._timer is None:
            self._timer = threading.Timer(max(0.0, end - clock.monotonic()), self._shut_down)
            self._timer.daemon = True
            self._timer.start()
        return sock

    def _shut_down(self) -> None:
        self.over = True
        if self._sock is not None:
            with suppress(OSError):
                socket.socket.shutdown(self._sock, socket.SHUT_RDWR)  # bypasses TLS, which the other thread uses


def encode_multipart(fields: Mapping[str, Any], name: str, content: bytes) -> tuple[bytes, str]:
    """Return a multipart/form-data body and its content type; values other than text are encoded as JSON."""
    boundary = secrets.token_hex(16)  # 128 random bits: the content can't contain it by accident
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n'.encode()
        + (value.encode() if isinstance(value, str) else msgspec.json.encode(value))
        for field, value in fields.items()
    ]
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; filename="{name}.ogg"\r\n'
    parts.append(f"{head}Content-Type: audio/ogg\r\n\r\n".encode() + content)
    return b"\r\n".join([*parts, f"--{boundary}--\r\n".encode()]), f"multipart/form-data; boundary={boundary}"
