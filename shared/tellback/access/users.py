"""The users of Redis: `agent` for one team, `worker`, `beat`, `flower` and `operator`, and the rights of each.

An agent's commands are listed one by one. Whole categories would let it run `LCS` or `SORT`, whose time grows faster
than their data, and every command of a later Redis. It runs scripts by EVALSHA only: a script that it wrote itself
could loop, and Redis would answer nobody. Workers bring the scripts. Requirements A-52 and A-94.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, Literal, NamedTuple

from tellback.broker import KEY_PREFIX
from tellback.names import SWEEPS_QUEUE, check_team
from tellback.state.keys import FLEET, NOTIFICATIONS, pattern_of


class Rights(NamedTuple):
    """The rights of a user on one server, each as Redis' ACL writes it: `+get`, `~tb:{acme.*`, `&channel`."""

    commands: tuple[str, ...]
    keys: tuple[str, ...]
    channels: tuple[str, ...] = ()
    selectors: tuple[Rights, ...] = ()

    @property
    def rules(self) -> str:
        """The rules of a user or a selector that has nothing else; each selector of a user is in parentheses."""
        selectors = (f"({each.rules})" for each in self.selectors)
        return " ".join(("-@all", *self.commands, *self.keys, *self.channels, *selectors))

    def without(self, commands: Collection[str]) -> Rights:
        """Return the same rights without these commands."""
        return self._replace(commands=tuple(each for each in self.commands if each not in commands))


class RedisUser(NamedTuple):
    """A user by its name in Redis; its rights are None on a server where it does not exist."""

    name: str
    state: Rights | None
    broker: Rights | None


def _allow(commands: str) -> tuple[str, ...]:
    return tuple(f"+{name}" for name in commands.split())


def _deny(commands: str) -> tuple[str, ...]:
    return tuple(f"-{name}" for name in commands.split())


# CLUSTER SLOTS, WAIT and ASKING are for a cluster and for confirmed writes; Redis ignores a denied CLIENT SETINFO.
_CONNECT: Final = "ping select time client|setinfo client|setname"

_SERVERS: Final = "cluster|slots asking wait waitaof"

AGENT_COMMANDS: Final = _allow(
    f"{_CONNECT} {_SERVERS} evalsha "
    "del exists persist pexpire pttl rename unlink memory|usage "
    "get incr set "
    "hdel hexists hget hgetall hincrby hkeys hlen hmget hscan hset hsetnx hstrlen hvals "
    "blmove blpop lindex llen lpop lpos lrange lrem lset ltrim rpush "
    "sadd scard sismember smismember "
    "xadd xdel xlen xrange xread xrevrange xtrim "
    "zadd zcard zcount zpopmin zrange zrangebyscore zrem zremrangebyrank zremrangebyscore zrevrange zscore"
)

# For TELLBACK_RECALL_IN_PROCESS; a client that may not run VCARD takes the server for one without vector sets.
_RECALL_HERE: Final = _allow("vcard vsim")

# Redis gives them no category, so that the categories below leave them out.
_VECTOR_SETS: Final = _allow("vadd vcard vrem vsim")

Release = Literal["7.0", "7.2", "8"]
"""The oldest release of Redis that is to load the files. Valkey counts as 7.2."""

# A server does not start with a user who may run what it lacks.
_SINCE: Final[dict[Release, tuple[str, ...]]] = {"7.2": _allow("client|setinfo waitaof"), "8": _VECTOR_SETS}

_ALL_DATA: Final = (
    "+@read",
    "+@write",
    "-@dangerous",
    *_deny("function fcall fcall_ro keys lcs move randomkey scan dbsize sort sort_ro swapdb"),
    "-@scripting",
)

_SCRIPTS: Final = "eval evalsha script|exists script|load"

_WORKER: Final = (
    *_ALL_DATA,
    *_allow(f"{_CONNECT} {_SERVERS} {_SCRIPTS} info memory|usage scan xgroup xinfo|groups"),
    *_VECTOR_SETS,
)

_OPERATOR: Final = (
    *_WORKER,
    *_allow("scan dbsize script|kill slowlog latency client|list client|kill acl|load acl|list acl|log acl|whoami"),
)

_TRANSACTION: Final = "multi exec discard watch unwatch"

_KOMBU: Final = f"{_CONNECT} {_TRANSACTION} publish subscribe psubscribe unsubscribe punsubscribe"

_WORKER_OF_BROKER: Final = _allow(
    f"{_KOMBU} {_SCRIPTS} brpop del exists get hdel hget hlen hset lindex llen lpush pexpire rpop rpush sadd scard set "
    "smembers srem zadd zrange zrangebyscore zrem zrevrange zrevrangebyscore"
)

_PUBLISH_TASKS: Final = _allow(f"{_CONNECT} {_TRANSACTION} exists llen lpush sadd scard smembers")

# Scripts, since kombu 5.7 renews and sweeps the bindings of queues that expire by two of its own.
_WATCH_WORKERS: Final = _allow(
    f"{_KOMBU} {_SCRIPTS} brpop del exists get llen lpush pexpire rpop sadd scard set smembers srem zadd zrange "
    "zrangebyscore zrem"
)

# All channels: kombu subscribes by patterns, which Redis compares letter by letter, with the number of the database in
# them. The servers carry no other channel of ours.
_CHANNELS: Final = ("&*",)

# kombu's tables of which queues an exchange has; with all of them a user could take the tasks of others.
_BINDING: Final = f"{KEY_PREFIX}_kombu.binding"

_REPLIES: Final = "reply.celery.pidbox"

# Its holder puts back tasks that a dead worker had taken. Flower may look for them, and leaves them to workers.
_LOCK: Final = (f"~{KEY_PREFIX}unacked_mutex",)

_OF_FLOWER: Final = tuple(f"~{_BINDING}{kind}.{name}" for kind in ("", "_permanent") for name in ("celeryev", _REPLIES))

_OPERATOR_OF_BROKER: Final = _allow(
    f"{_CONNECT} info llen lindex lrange smembers hlen zcard type scan dbsize memory|usage script|kill slowlog latency "
    "client|list client|kill acl|load acl|list acl|log acl|whoami"
)


# Hosts see which workers there are.
_OF_THE_FLEET: Final = tuple(f"%R~{FLEET.key(name)}*" for name in ("worker", "beat"))

# They notify the dispatchers of all teams, which check what a notification says. By no other command: one SET stopped
# the notifications of every team until a worker repaired the key, and wake-ups of minutes were lost with it.
_NOTIFY: Final = Rights(("+xadd",), (f"%W~{NOTIFICATIONS}",))


def agent_name(team: str) -> str:
    """Return the name of a team's user for agent hosts."""
    return f"agent-{team}"


def agent(team: str) -> RedisUser:
    """Return the user of a team's agent hosts.

    Raises:
        InvalidInput: the team's name is not allowed; it could reach another team's keys.
    """
    return RedisUser(
        agent_name(check_team(team)),
        Rights((*AGENT_COMMANDS, *_RECALL_HERE), (f"~{pattern_of(team)}", *_OF_THE_FLEET), selectors=(_NOTIFY,)),
        None,
    )


WORKER: Final = RedisUser(
    "worker",
    Rights(_WORKER, ("~tb:*",)),
    Rights(_WORKER_OF_BROKER, (f"~{KEY_PREFIX}*",), _CHANNELS),
)

# Beat puts sweeps into their queue; its health check reads when a worker last ran one.
BEAT: Final = RedisUser(
    "beat",
    Rights(_allow(f"{_CONNECT} {_SERVERS} get hget"), ("%R~tb:{*}:team", f"%R~{FLEET.key('beat')}")),
    Rights(
        _PUBLISH_TASKS,
        (f"~{KEY_PREFIX}{SWEEPS_QUEUE}*", f"~{_BINDING}*.{SWEEPS_QUEUE}"),
    ),
)

# Flower listens to workers, sends them remote control, and reads the lengths of queues.
FLOWER: Final = RedisUser(
    "flower",
    None,
    Rights(
        _WATCH_WORKERS,
        (f"%R~{KEY_PREFIX}*", f"~{KEY_PREFIX}*.{_REPLIES}*", *_OF_FLOWER, f"~{_BINDING}_deadlines", *_LOCK),
        _CHANNELS,
    ),
)

# A person, or `tellback metrics`.
OPERATOR: Final = RedisUser(
    "operator",
    Rights(_OPERATOR, ("~tb:*",)),
    Rights(_OPERATOR_OF_BROKER, (f"%R~{KEY_PREFIX}*",)),
)

SHARED: Final = (WORKER, BEAT, FLOWER, OPERATOR)
"""The users of a deployment beside its agents; they serve all teams."""


def users_for(teams: Iterable[str], *, release: Release) -> tuple[RedisUser, ...]:
    """Return the users of a deployment of these teams, whose servers have this release or a newer one.

    Raises:
        InvalidInput: the name of a team is not allowed.
    """
    newer = {command for since, commands in _SINCE.items() if since > release for command in commands}
    return tuple(_without(newer, user) for user in (*map(agent, dict.fromkeys(teams)), *SHARED))


def _without(commands: Collection[str], user: RedisUser) -> RedisUser:
    return user._replace(
        state=user.state and user.state.without(commands), broker=user.broker and user.broker.without(commands)
    )
