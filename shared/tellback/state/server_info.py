"""The `INFO` of each Redis server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from redis.exceptions import NoPermissionError, ResponseError

from tellback.state.database import Database
from tellback.state.unavailable import OLD_REDIS, NotPermitted, as_raised

Info = dict[str, str]


class Eviction(NamedTuple):
    """The policy of each primary that may delete keys when it is full; `keys` were deleted since the servers started.

    Servers that do not say, as some hosted ones, count as those that may not.
    """

    policies: dict[str, str]
    keys: int = 0


def server_infos(database: Database) -> dict[str, Info]:
    """Return the `INFO` of each primary, by its address; "" is that of a single server.

    No sections are named: Redis 6.2, which is to be refused by its version, knows no more than one at a time.

    Nodes of a cluster that do not answer are left out.

    Raises:
        Unavailable: Redis is away.
        NotPermitted, NoPermissionError: the user may not read it.
    """
    if database.cluster is None:
        return {"": _parsed(database.command("INFO"))}
    replies = database.cluster.run_at_primaries(lambda _number: [("INFO",)])
    for reply in replies.values():
        if isinstance(reply, NoPermissionError):
            raise reply
    return {
        f"{host}:{port}": _parsed(said[0]) for (host, port), said in replies.items() if not isinstance(said, Exception)
    }


def read_eviction(database: Database) -> Eviction:
    """Ask each primary. It raises what `server_infos` raises."""
    return eviction_of(server_infos(database))


def eviction_of(infos: Mapping[str, Info]) -> Eviction:
    """Read it from what `server_infos` returned."""
    policies = {place: info.get("maxmemory_policy", "noeviction") for place, info in infos.items()}
    keys = sum(int(info.get("evicted_keys", 0)) for info in infos.values())
    return Eviction({place: policy for place, policy in policies.items() if policy != "noeviction"}, keys)


def refuse_old(database: Database, url: str) -> None:
    """Refuse a Redis before 7.0, for a caller that found nothing there: no script ran that would have said so.

    Raises:
        ConfigurationError: it is older.
        Unavailable: Redis is away.
    """
    with suppress(NotPermitted, NoPermissionError):
        release = _parsed(database.command("INFO", "server")).get("redis_version", "")
        if re.match(r"[0-6]\.", release):
            raise as_raised(ResponseError(OLD_REDIS), url)


def _parsed(text: bytes) -> Info:
    pairs = (line.partition(":") for line in text.decode("utf-8", "replace").splitlines() if ":" in line)
    return {name: value for name, _, value in pairs}
