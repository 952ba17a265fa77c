"""The messages of errors for a failed call of Redis."""

from __future__ import annotations

from typing import Final

from redis import exceptions

from tellback.urls import Address, servers_of

# redis-py derives these from ConnectionError, yet a server sent them: advice to start one would mislead.
_REFUSALS: Final = (exceptions.AuthenticationError, exceptions.AuthorizationError, exceptions.BusyLoadingError)

CHECK_LOGIN: Final = "Check the user and the password in TELLBACK_REDIS_URL"

ONE_NODE: Final = "a Redis Cluster answers at {where}: write redis+cluster:// in place of redis:// in the URL"

WRONG_DATABASE: Final = (
    "Redis at {where} has no database of the number at the end of the URL ({error}): use a lower one, such as /0"
)

NOT_PERMITTED: Final = (
    "Redis at {where} refused the call: {error}. Connect as a user with the right (docs/operations/access.md)"
)


def where_of(url: str) -> str:
    """Return the address or addresses in a URL, without its password."""
    servers = servers_of(url)
    if servers is not None:
        return ", ".join(f"{host}:{port}" for host, port in servers.addresses)
    address = Address(url)
    return address.path if address.scheme == "unix" else f"{address.host or 'localhost'}:{address.port or 6379}"


def unavailable_text(error: Exception, url: str) -> str:
    """Return what failed, at which address (without its password), and the next step."""
    where = where_of(url)
    if isinstance(error, exceptions.TimeoutError):
        return f"Redis at {where} did not answer in time ({error}). Check its load with `tellback doctor`"
    if isinstance(error, exceptions.ConnectionError) and not isinstance(error, _REFUSALS):
        # redis-py raises its own error while it handles the socket's, whose words are shorter and hold no address.
        cause = error.__context__
        reason = cause.strerror if isinstance(cause, OSError) and cause.strerror else str(error).rstrip(".")
        reason = reason[:1].lower() + reason[1:]
        return f"Can't reach Redis at {where} ({reason}). Start it with `tellback up`, or set TELLBACK_REDIS_URL"
    if isinstance(error, exceptions.InvalidResponse):
        return f"No Redis answers at {where}, but another program ({error}). Check the port in TELLBACK_REDIS_URL"
    advice = f". {CHECK_LOGIN}" if isinstance(error, exceptions.AuthenticationError) else ""
    return f"Redis at {where} refused the call: {str(error).rstrip('.')}{advice}"
