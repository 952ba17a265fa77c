"""Keys that a test left in Redis, compared with those that `tellback.state.keys` declares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tellback.broker import KEY_PREFIX
from tellback.state.cluster import ClusterConnections
from tellback.state.database import Database
from tellback.state.keys import FAMILIES, KeyFamily
from tellback.state.redis_py import RedisConnections

_READ = """
local length = {hash = 'HLEN', list = 'LLEN', set = 'SCARD', zset = 'ZCARD', stream = 'XLEN', vectorset = 'VCARD'}
local found = {}
for at, key in ipairs(ARGV) do
  local kind = redis.call('TYPE', key).ok
  found[at] = {kind, redis.call('PTTL', key), length[kind] and redis.call(length[kind], key) or 0}
end
return found
"""


class _Key(NamedTuple):
    """A key as it is in Redis."""

    name: str
    kind: str
    left: int  # milliseconds
    length: int


def undeclared(database: Database, *, slack_ms: int = 0) -> list[str]:
    """A line for each key that no family declares, that lives longer than declared, or that is over its cap.

    Where the server's clock has stepped back by `slack_ms`, what was written before lives longer by as much.
    """
    return [problem for key in _keys(database) if (problem := _problem(key, slack_ms))]


def _keys(database: Database) -> Iterator[_Key]:
    connections = database._connections
    nodes = connections.each_primary() if isinstance(connections, ClusterConnections) else [connections]
    for node in nodes:
        yield from _keys_of(node)


def _keys_of(node: RedisConnections) -> Iterator[_Key]:
    cursor: bytes | int = 0
    while True:
        cursor, keys = node.run(("SCAN", cursor, "COUNT", 1000))
        ours = [key for key in keys if not key.startswith(KEY_PREFIX.encode())]  # the others are Celery's
        # One call for all: key by key, a replay's thousands took a test 13 s of processor time.
        for key, (kind, left, length) in zip(ours, node.run(("EVAL", _READ, 0, *ours)), strict=True):
            yield _Key(key.decode(), kind.decode(), left, length)
        if int(cursor) == 0:
            return


def _problem(key: _Key, slack_ms: int) -> str | None:
    if not key.name.startswith("tb:{"):
        return f"{key.name}: not a key of ours"
    name = key.name.partition("}:")[2].partition(":")[0]
    family = FAMILIES.get(name)
    if family is None:
        return f"{key.name}: no family {name!r} is declared"
    if key.kind == "none":  # it expired while we looked
        return None
    return _against(key, family, slack_ms)


def _against(key: _Key, family: KeyFamily, slack_ms: int) -> str | None:
    if family.type not in (key.kind, "any"):
        return f"{key.name}: is a {key.kind}, declared a {family.type}"
    if family.lifetime is not None and not 0 <= key.left <= family.lifetime * 1000 + slack_ms:
        return f"{key.name}: lives {key.left} ms, declared {family.lifetime} s"
    if family.cap is not None and key.length > family.cap:
        return f"{key.name}: holds {key.length}, declared at most {family.cap}"
    return None
