"""The table of who may do what, published in docs/operations/access.md; tests try every row on a real server.

Rows are commands that an attacker with a stolen password would try, and what Tellback itself needs.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from tellback.broker import KEY_PREFIX
from tellback.names import SWEEPS_QUEUE, Family
from tellback.state.keys import FLEET, NOTIFICATIONS, Shard

Server = Literal["state", "broker"]

OWN: Final = "acme"
"""The team of the agent that tries."""

OTHER: Final = "beta"
"""Another team on the same server."""

SCRIPT: Final = "<sha of a loaded script>"
"""Stands for the digest of `common/small_write`, which runs the command that it is given."""

KINDS: Final = ("agent", "worker", "beat", "flower", "operator")


class Action(NamedTuple):
    """Something that a user tries on one server, the command by which, and the kinds of users that may."""

    text: str
    server: Server
    command: tuple[str, ...]
    allowed: frozenset[str]


def _on(server: Server, text: str, *command: str, may: str = "") -> Action:
    return Action(text, server, command, frozenset(may.split()))


def _key(team: str, name: str = "cmdstats") -> str:
    return Shard(team, 0).prefix + name


_TASKS: Final = f"{KEY_PREFIX}{Family.COMMANDS}"

_CONTROL: Final = f"{KEY_PREFIX}/0.celery.pidbox"

_EVENTS: Final = f"{KEY_PREFIX}/0.celeryev/worker.*"

ACTIONS: Final = (
    _on("state", "read the state of its team", "HGETALL", _key(OWN), may="agent worker operator"),
    _on("state", "change the state of its team", "HSET", _key(OWN), "f", "1", may="agent worker operator"),
    _on("state", "publish an event of its team", "XADD", _key(OWN, "in:events"), "*", "m", "{}",
        may="agent worker operator"),
    _on("state", "wait for the next answer to its users", "BLPOP", _key(OWN, "posted:chat"), "0.01",
        may="agent worker operator"),
    _on("state", "run a script that a worker loaded", "EVALSHA", SCRIPT, "1", _key(OWN), "HGET", "f",
        may="agent worker operator"),
    _on("state", "run a script of its own", "EVAL", "return 1", "0", may="worker operator"),
    _on("state", "load a script", "SCRIPT", "LOAD", "return 1", may="worker operator"),
    _on("state", "load a function", "FUNCTION", "LOAD", "#!lua name=f\nredis.register_function('f', function() end)"),
    _on("state", "forget all scripts", "SCRIPT", "FLUSH"),
    _on("state", "read another team's state", "HGETALL", _key(OTHER), may="worker operator"),
    _on("state", "change another team's state", "HSET", _key(OTHER), "f", "1", may="worker operator"),
    _on("state", "publish an event of another team", "XADD", _key(OTHER, "in:events"), "*", "m", "{}",
        may="worker operator"),
    _on("state", "reach another team by a loaded script", "EVALSHA", SCRIPT, "1", _key(OTHER), "HGET", "f",
        may="worker operator"),
    _on("state", "name another team's key inside a loaded script", "EVALSHA", SCRIPT, "1", _key(OWN), "RENAME",
        _key(OTHER), may="worker operator"),
    _on("state", "move its own key over another team's", "RENAME", _key(OWN), _key(OTHER), may="worker operator"),
    _on("state", "notify the dispatchers", "XADD", NOTIFICATIONS, "*", "k", OWN, may="agent worker operator"),
    _on("state", "read the notifications of all teams", "XRANGE", NOTIFICATIONS, "-", "+", may="worker operator"),
    _on("state", "delete the notifications of all teams", "DEL", NOTIFICATIONS, may="worker operator"),
    _on("state", "put another value in their place", "SET", NOTIFICATIONS, "x", may="worker operator"),
    _on("state", "let them expire", "PEXPIRE", NOTIFICATIONS, "1", may="worker operator"),
    _on("state", "see which workers there are", "ZRANGE", FLEET.key("workers"), "0", "-1", may="agent worker operator"),
    _on("state", "list the teams", "ZRANGE", FLEET.key("teams"), "0", "-1", may="worker operator"),
    _on("state", "read when beat was last alive", "GET", FLEET.key("beat"), may="agent worker beat operator"),
    _on("state", "read a team's number of shards", "HGET", _key(OWN, "team"), "shards",
        may="agent worker beat operator"),
    _on("state", "write a key outside all teams", "SET", "elsewhere", "1"),
    _on("state", "list keys by SCAN", "SCAN", "0", may="worker operator"),
    _on("state", "list keys by KEYS", "KEYS", "*"),
    _on("state", "take a random key", "RANDOMKEY"),
    _on("state", "run a command of more than linear time", "LCS", _key(OWN, "a"), _key(OWN, "b")),
    _on("state", "sort", "SORT", _key(OWN, "banks")),
    _on("state", "empty the server", "FLUSHALL"),
    _on("state", "empty the database", "FLUSHDB"),
    _on("state", "swap databases", "SWAPDB", "0", "1"),
    _on("state", "move a key to another database", "MOVE", _key(OWN), "1"),
    _on("state", "read the configuration", "CONFIG", "GET", "*"),
    _on("state", "change the configuration", "CONFIG", "SET", "maxmemory", "1"),
    _on("state", "give itself rights", "ACL", "SETUSER", "agent-acme", "~*", "+@all"),
    _on("state", "remove a user", "ACL", "DELUSER", "nobody"),
    _on("state", "write the file of users", "ACL", "SAVE"),
    _on("state", "list users and their rights", "ACL", "LIST", may="operator"),
    _on("state", "load the file of users again", "ACL", "LOAD", may="operator"),
    _on("state", "list connections", "CLIENT", "LIST", may="operator"),
    _on("state", "end another connection", "CLIENT", "KILL", "ID", "999999", may="operator"),
    _on("state", "pause all clients", "CLIENT", "PAUSE", "1"),
    _on("state", "watch what others send", "MONITOR"),
    _on("state", "read the slow log", "SLOWLOG", "GET", "1", may="operator"),
    _on("state", "read statistics of the server", "INFO", "memory", may="worker operator"),
    _on("state", "end a script that loops", "SCRIPT", "KILL", may="operator"),
    _on("state", "write the data to another server", "REPLICAOF", "127.0.0.1", "1"),
    _on("state", "send a key to another server", "MIGRATE", "127.0.0.1", "1", _key(OWN), "0", "10"),
    _on("state", "stop the server", "SHUTDOWN", "NOSAVE"),
    _on("state", "debug", "DEBUG", "SLEEP", "0"),
    _on("state", "load a module", "MODULE", "LOAD", "/nowhere.so"),
    _on("state", "send remote control to workers", "PUBLISH", _CONTROL, "{"),
    _on("state", "publish to a channel", "PUBLISH", "channel", "x"),
    _on("state", "listen to a channel", "SUBSCRIBE", "channel"),
    _on("broker", "publish a task that runs a command", "LPUSH", _TASKS, "x", may="worker"),
    _on("broker", "publish a sweep", "LPUSH", f"{KEY_PREFIX}{SWEEPS_QUEUE}", "x", may="worker beat"),
    _on("broker", "take a task from a queue", "RPOP", _TASKS, may="worker"),
    _on("broker", "read the length of a queue", "LLEN", _TASKS, may="worker flower operator"),
    _on("broker", "send remote control to workers", "PUBLISH", _CONTROL, "{", may="worker flower"),
    _on("broker", "listen to events of workers", "PSUBSCRIBE", _EVENTS, may="worker flower"),
    _on("broker", "run a script of its own", "EVAL", "return 1", "0", may="worker flower"),
    _on("broker", "load a script", "SCRIPT", "LOAD", "return 1", may="worker flower"),
    _on("broker", "read the state of a team", "HGETALL", _key(OWN)),
    _on("broker", "write a key outside all queues", "SET", "elsewhere", "1"),
    _on("broker", "list keys by KEYS", "KEYS", "*"),
    _on("broker", "list keys by SCAN", "SCAN", "0", may="operator"),
    _on("broker", "swap databases", "SWAPDB", "0", "1"),
    _on("broker", "list users and their rights", "ACL", "LIST", may="operator"),
    _on("broker", "write the data to another server", "REPLICAOF", "127.0.0.1", "1"),
    _on("broker", "stop the server", "SHUTDOWN", "NOSAVE"),
    _on("broker", "debug", "DEBUG", "SLEEP", "0"),
    _on("broker", "load a module", "MODULE", "LOAD", "/nowhere.so"),
    _on("broker", "empty the server", "FLUSHALL"),
    _on("broker", "change the configuration", "CONFIG", "SET", "maxmemory", "1"),
    _on("broker", "give itself rights", "ACL", "SETUSER", "agent-acme", "~*", "+@all"),
    _on("broker", "end another connection", "CLIENT", "KILL", "ID", "999999", may="operator"),
    _on("broker", "watch what others send", "MONITOR"),
    _on("broker", "forget all scripts", "SCRIPT", "FLUSH"),
    _on("broker", "load a function", "FUNCTION", "LOAD", "#!lua name=f\nredis.register_function('f', function() end)"),
)  # fmt: skip
