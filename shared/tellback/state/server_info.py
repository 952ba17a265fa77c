"""The `INFO` of each Redis server."""

from __future__ import annotations

from redis.exceptions import NoPermissionError

from tellback.state.database import Database

Info = dict[str, str]


def server_infos(database: Database, *sections: str) -> dict[str, Info]:
    """Return these sections of `INFO` of each primary, by its address; "" is that of a single server.

    Nodes of a cluster that do not answer are left out.

    Raises:
        Unavailable: Redis is away.
        NotPermitted, NoPermissionError: the user may not read it.
    """
    if database.cluster is None:
        return {"": _parsed(database.command("INFO", *sections))}
    replies = database.cluster.run_at_primaries(lambda _number: [("INFO", *sections)])
    for reply in replies.values():
        if isinstance(reply, NoPermissionError):
            raise reply
    return {
        f"{host}:{port}": _parsed(said[0]) for (host, port), said in replies.items() if not isinstance(said, Exception)
    }


def evicting_servers(database: Database) -> dict[str, str]:
    """Return the policy of each primary that may delete keys when it is full, which are events and answers too.

    Servers that do not say, as some hosted ones, are left out. It raises what `server_infos` raises.
    """
    infos = server_infos(database, "memory")
    policies = {place: info.get("maxmemory_policy", "noeviction") for place, info in infos.items()}
    return {place: policy for place, policy in policies.items() if policy != "noeviction"}


def _parsed(text: bytes) -> Info:
    pairs = (line.partition(":") for line in text.decode("utf-8", "replace").splitlines() if ":" in line)
    return {name: value for name, _, value in pairs}
