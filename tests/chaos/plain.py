"""Redis spoken by hand: one command on a connection of its own, sent once whatever becomes of it."""

from __future__ import annotations

import socket


def ask(port: int, *command: str | bytes, timeout: float = 3.0) -> bytes:
    """Send a command and return the first bytes of its reply.

    Raises:
        OSError: Redis refused it, or its reply did not come: it may have been done or not.
    """
    parts = [part.encode() if isinstance(part, str) else part for part in command]
    with socket.create_connection(("127.0.0.1", port), timeout) as line:
        line.settimeout(timeout)
        line.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts))
        reply = line.recv(1 << 16)
    if not reply or reply.startswith(b"-"):
        raise OSError(reply.decode(errors="replace") or "the connection ended")
    return reply
