"""The policy of eviction of each server: any but `noeviction` lets Redis delete events and answers when it is full."""

from __future__ import annotations

from typing import Final

from tellback.state.database import Database

_POLICY: Final = b"maxmemory_policy:"


def evicting_servers(database: Database) -> dict[str, str]:
    """Return the policy of each primary that may evict keys, by its address, which is "" of a single server.

    Nodes of a cluster that do not answer are left out, and servers that do not say, as some hosted ones.

    Raises:
        Unavailable: Redis is away.
        NoPermissionError: the user may not read it.
    """
    if database.cluster is None:
        found = {"": database.command("INFO", "memory")}
    else:
        replies = database.cluster.run_at_primaries(lambda _number: [("INFO", "memory")])
        found = {f"{host}:{port}": said[0] for (host, port), said in replies.items() if not isinstance(said, Exception)}
    policies = {place: _policy_in(said) for place, said in found.items()}
    return {place: policy for place, policy in policies.items() if policy not in {"noeviction", ""}}


def _policy_in(said: bytes) -> str:
    return next((line.removeprefix(_POLICY).decode() for line in said.splitlines() if line.startswith(_POLICY)), "")
