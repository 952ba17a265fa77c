"""The errors that a failed call of Redis raises in place of those of redis-py, and their messages."""

from __future__ import annotations

import re
import ssl
from typing import Final

from redis import exceptions
from redis.sentinel import MasterNotFoundError

from tellback.errors import ConfigurationError, Unavailable
from tellback.tls_options import check_tls
from tellback.urls import Address, servers_of

# First words of the errors of a server that cannot serve now, for which redis-py has no types.
RETRYABLE_ERRORS: Final = {
    "BUSY",  # somebody's script has run for longer than `busy-reply-threshold`
    "MISCONF",  # its disk is full
    "NOREPLICAS",  # replicas are missing
    "UNBLOCKED",  # it was demoted while this client waited in a blocking read
}

# redis-py has no type for them (the second is that of Redis 7.0); a plain command raises NoPermissionError.
DENIED_IN_SCRIPT: Final = ("ACL failure in script", "The user executing the script can't")
NO_DATABASE: Final = ("DB index is out of range", "SELECT is not allowed")  # the latter of any but 0 in a cluster
OLD_REDIS: Final = "Error compiling script (new function): user_script:1: unexpected symbol near '#'"  # before 7.0

# Errors of a server that does not answer, or cannot serve now.
_AWAY: Final = (
    exceptions.ConnectionError,  # BusyLoadingError is one of them
    exceptions.TimeoutError,
    exceptions.ReadOnlyError,
    exceptions.ClusterDownError,  # MasterDownError is one of them
    exceptions.TryAgainError,
    exceptions.InvalidResponse,  # the server at this address is no Redis
)

_TLS_ALERT: Final = r"\x15"  # as hiredis quotes the first byte of a record that tells a client without TLS to go away

_SCRIPT_PLACE: Final = re.compile(r" script: \w+, on @user_script:\d+\.$")  # as Redis ends an error of a script

_SSL_PLACE: Final = re.compile(r"^\[SSL: \w+\] | \(_ssl\.c:\d+\)$")

_SENTINEL_ERROR: Final = re.compile(r" - \w+:(\w+)")  # of each Sentinel, after its client

# redis-py derives these from ConnectionError, yet a server sent them: advice to start one would mislead.
_REFUSALS: Final = (exceptions.AuthenticationError, exceptions.AuthorizationError, exceptions.BusyLoadingError)

START_REDIS: Final = "Start it with `tellback up`, or set TELLBACK_REDIS_URL"

CHECK_LOGIN: Final = "Check the user and the password in TELLBACK_REDIS_URL"

START_PRIMARY: Final = "A primary is away and no replica took over: `tellback doctor` names the node"

SLOT_MOVES: Final = "The slot is moving to another node: try again when it has moved"

ONE_NODE: Final = "a Redis Cluster answers at {where}: write redis+cluster:// in place of redis:// in the URL"

NO_SENTINEL: Final = "Redis at {where} is not a Sentinel: name the ports of the Sentinels in the URL, 26379 by default"

WRONG_DATABASE: Final = (
    "Redis at {where} has no database of the number at the end of the URL ({error}): use a lower one, such as /0"
)

TOO_OLD: Final = "Redis at {where} is older than 7.0, which Tellback requires: upgrade it, or name another server"

NOT_PERMITTED: Final = (
    "Redis at {where} refused the call: {error}. Connect as a user with the right (docs/operations/access.md)"
)

FULL: Final = (
    "Redis at {where} is full (at its maxmemory) and refuses what is new; workers still apply and answer, which frees "
    "memory: try again later, or raise maxmemory"
)

LOST: Final = "a failover of Redis lost the call just after it was made: try again"

SCRIPTS_MISSING: Final = (
    "Redis at {where} lacks a script of this release, and this user may not load it (EVAL is refused): workers of the "
    "same release load it within 5 seconds of their start, or of a restart of Redis; check with `tellback doctor` that "
    "one runs"
)


class RedisFull(Unavailable):
    """Redis is at its `maxmemory`. It refuses this call, but not those that free memory or answer a user."""


class NotPermitted(Unavailable):
    """Redis refused this call to this user. The next one may be allowed: an access list changes without a restart."""


def where_of(url: str) -> str:
    """Return the address or addresses in a URL, without its password."""
    servers = servers_of(url)
    if servers is not None:
        return ", ".join(f"{host}:{port}" for host, port in servers.addresses)
    address = Address(url)
    return address.path if address.scheme == "unix" else f"{address.host or 'localhost'}:{address.port or 6379}"


def _node_of(error: Exception) -> str:
    """Return the node of a cluster that an error is noted to be about, or ""."""
    return "".join(getattr(error, "__notes__", ())[:1])


def _is_by_sentinel(url: str) -> bool:
    servers = servers_of(url)
    return servers is not None and servers.kind == "sentinel"


def server_of(url: str, node: str = "") -> str:
    """Return the address of the server that a call went to, as far as it is known; `node` is that of a cluster."""
    where = node or where_of(url)
    return f"the address that the Sentinels at {where} name" if _is_by_sentinel(url) else where


def unanswered_text(reason: str, where: str) -> str:
    """Return that Redis did not answer, at which address, and the next step."""
    advice = "Check the network, and the load of Redis with `tellback doctor`"
    return f"Redis at {where} did not answer in time ({reason}). {advice}"


def unavailable_text(error: Exception, url: str) -> str:
    """Return what failed, at which address (without its password), and the next step."""
    if said := _tls_text(error, url):
        return said
    if isinstance(error, MasterNotFoundError):
        return _sentinels_text(error, where_of(url))
    where = server_of(url, _node_of(error))
    if isinstance(error, exceptions.TimeoutError):
        return unanswered_text(str(error), where)
    if isinstance(error, exceptions.ConnectionError) and not isinstance(error, _REFUSALS):
        # redis-py raises its own error while it handles the socket's, whose words are shorter and hold no address.
        cause = error.__context__
        reason = cause.strerror if isinstance(cause, OSError) and cause.strerror else str(error).rstrip(".")
        reason = reason[:1].lower() + reason[1:]
        advice = START_REDIS
        if _node_of(error):
            advice = "Start this node of the cluster"
        elif _is_by_sentinel(url):
            advice = "They promote a replica, if there is one; else start it"
        return f"Can't reach Redis at {where} ({reason}). {advice}"
    if isinstance(error, exceptions.InvalidResponse):
        return f"No Redis answers at {where}, but another program ({error}). Check the port in TELLBACK_REDIS_URL"
    advice = f". {CHECK_LOGIN}" if isinstance(error, exceptions.AuthenticationError) else ""
    if type(error) is exceptions.ClusterDownError:  # not of a replica without its primary, which derives from it
        advice = f". {START_PRIMARY}"
    elif isinstance(error, exceptions.TryAgainError):
        advice = f". {SLOT_MOVES}"
    return f"Redis at {where} refused the call: {str(error).rstrip('.')}{advice}"


def _sentinels_text(error: MasterNotFoundError, where: str) -> str:
    """Return why no Sentinel names a primary; redis-py's own text is the settings of a client for each of them."""
    kinds = set(_SENTINEL_ERROR.findall(str(error)))
    if "AuthenticationError" in kinds:
        why = "refuse the login. Check sentinel_username and sentinel_password in its URL"
    elif kinds:
        why = "do not answer. Start them, and check their addresses and ssl_... in its URL"
    else:
        why = "know none of this name that answers. Check master_name in its URL, and start the primary"
    return f"The Sentinels at {where} name no primary: they {why}"


def _tls_text(error: Exception, url: str) -> str:
    """Return the text of an error for which one side speaks TLS and the other does not, or trusts it not."""
    where, servers, cause = server_of(url, _node_of(error)), servers_of(url), error.__context__
    by_sentinel = _is_by_sentinel(url)
    scheme = servers.scheme if servers else Address(url).scheme
    if scheme == "rediss":
        without = "leave out ssl" if by_sentinel else "write redis for rediss"
        if isinstance(error, exceptions.TimeoutError) and "handshake" in str(cause):
            return (
                f"Redis at {where} did not answer the TLS handshake in time. If it speaks no TLS, {without} in its URL"
            )
        if isinstance(cause, (ssl.SSLError, FileNotFoundError, PermissionError)) and (wrong := _wrong_file(url)):
            return f"No TLS with Redis at {where}: {wrong}"
        if isinstance(cause, ssl.SSLError):
            reason = _SSL_PLACE.sub("", cause.strerror or str(cause))
            own = ""
            if not isinstance(cause, ssl.SSLCertVerificationError):  # the server ended the handshake, often wordless
                shows = "ssl_certfile=" in url
                own = "; its log says if it refuses your certificate" if shows else "; it may ask for ssl_certfile"
            advice = f"See if it runs, and check ssl_... in its URL{own}; if it speaks no TLS, {without}"
            return f"No TLS with Redis at {where} ({reason}). {advice}"
    elif scheme == "redis" and _is_refusal_of_plain_text(error):
        advice = "add ssl=true to" if by_sentinel else "write rediss for redis in"
        return f"Redis at {where} closed the connection. If it speaks TLS, {advice} its URL; else see if it runs"
    return ""


def _wrong_file(url: str) -> str:
    """Return what is wrong with a file of TLS since this process began, such as one that is being renewed."""
    try:
        check_tls(url)
    except ConfigurationError as error:
        return str(error)
    return ""


def _is_refusal_of_plain_text(error: Exception) -> bool:
    """Check whether the server did what one with TLS does to a client without; one that stops does it too."""
    closed = isinstance(error.__context__, ConnectionResetError) or "closed by server" in str(error)
    return closed or _TLS_ALERT in str(error)


def as_raised(error: Exception, url: str) -> Exception:
    """Return the error that every call raises for an error of redis-py: one of ours, or else the same."""
    text, where = str(error), server_of(url, _node_of(error))
    if isinstance(error, exceptions.OutOfMemoryError):
        return RedisFull(FULL.format(where=where))
    # BUSYGROUP is another error than BUSY
    if isinstance(error, _AWAY) or (
        isinstance(error, exceptions.ResponseError) and text.partition(" ")[0] in RETRYABLE_ERRORS
    ):
        return Unavailable(unavailable_text(error, url))
    if isinstance(error, exceptions.AskError):  # MovedError is one; a client of the cluster follows them
        return ConfigurationError(ONE_NODE.format(where=where))
    if isinstance(error, exceptions.NoPermissionError) or text.startswith(DENIED_IN_SCRIPT):
        return NotPermitted(NOT_PERMITTED.format(where=where, error=_SCRIPT_PLACE.sub("", text)))
    for beginning, said in (
        (NO_DATABASE, WRONG_DATABASE.format(where=where, error=error)),
        ("unknown command 'SENTINEL'", NO_SENTINEL.format(where=where_of(url))),
        (OLD_REDIS, TOO_OLD.format(where=where)),
    ):
        if text.startswith(beginning):
            return ConfigurationError(said)
    return error
