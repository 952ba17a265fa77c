"""The Redis of the state: does it answer, is it new enough, does it keep what it is given."""

from __future__ import annotations

from collections.abc import Callable

from redis import exceptions

from tellback.doctor.finding import Finding, note, ok, wrong
from tellback.errors import ConfigurationError
from tellback.state.database import Database
from tellback.up.answers import check_redis
from tellback.urls import without_secrets

NEARLY_FULL = 0.9

Info = dict[str, str]


def reachable(url: str, source: str) -> Finding:
    """Whether it answers and is new enough; `source` says where its address comes from."""
    try:
        release = check_redis(url)
    except ConfigurationError as error:
        advice = "start the system with `tellback up`, or name a Redis in TELLBACK_REDIS_URL"
        return wrong("redis", f"{error} ({source})", advice)
    return ok("redis", f"{release} at {without_secrets(url)} ({source})")


def examine(database: Database) -> list[Finding]:
    """How it keeps data.

    Raises:
        Unavailable: it went away meanwhile.
    """
    checks: dict[str, Callable[[Info], Finding]] = {
        "persistence": _persistence,
        "eviction": _eviction,
        "memory": _memory,
    }
    try:
        info = _info(database)
    except exceptions.ResponseError as error:  # an ACL that keeps INFO from us
        return [note(name, f"cannot be asked: {error}", "ask as a user with +info") for name in checks]
    return [check(info) for check in checks.values()]


def _info(database: Database) -> Info:
    text = b"".join(database.command("INFO", section) for section in ("persistence", "memory")).decode()
    pairs = (line.partition(":") for line in text.splitlines() if ":" in line)
    return {name: value for name, _, value in pairs}


def _persistence(info: Info) -> Finding:
    if info.get("aof_enabled") != "1":
        advice = "a restart of Redis would lose facts: set `appendonly yes` and `appendfsync everysec`"
        return wrong("persistence", "the append-only file is off", advice)
    if info.get("aof_last_write_status") != "ok" or info.get("aof_last_bgrewrite_status") != "ok":
        return wrong("persistence", "the last write of the append-only file failed", "see Redis' log and its disk")
    return ok("persistence", "append-only file")


def _eviction(info: Info) -> Finding:
    policy = info.get("maxmemory_policy", "unknown")
    if policy != "noeviction":
        return wrong("eviction", policy, "Redis may drop facts that nobody has read: set `maxmemory-policy noeviction`")
    return ok("eviction", policy)


def _memory(info: Info) -> Finding:
    used, most = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))
    if not most:
        return ok("memory", f"{_mib(used)} used, no limit")
    found = f"{_mib(used)} of {_mib(most)} used"
    if used > most * NEARLY_FULL:
        return wrong("memory", found, "raise `maxmemory`; when it is full, hosts spool and decisions fail")
    return ok("memory", found)


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"
