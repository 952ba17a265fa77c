"""The checks of each Redis server: its release, its append-only file, its memory, and what it can confirm."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

import msgspec
from redis.exceptions import NoPermissionError

from tellback.doctor.infrastructure import DoctorFinding, not_permitted, note, ok, wrong
from tellback.doctor.vulnerabilities import Server, vulnerabilities_of
from tellback.settings import Settings
from tellback.state.confirmation import Confirmation
from tellback.state.database import Database
from tellback.state.server_info import Info, server_infos
from tellback.state.unavailable import NotPermitted
from tellback.up.redis_server import parse_version
from tellback.wording import count_phrase

NEARLY_FULL: Final = 0.9  # of Redis' maxmemory

_SEVERITY: Final = {"ok": 0, "note": 1, "wrong": 2}


def check_servers(database: Database, settings: Settings) -> list[DoctorFinding]:
    """Check that Redis has no known vulnerability in Lua, persists data, evicts none, has memory left, and confirms.

    Each primary of a cluster is asked. Those that do not answer are left out: another check names them.

    Raises:
        Unavailable: the connection was lost meanwhile.
    """
    checks: dict[str, Callable[[Info], DoctorFinding]] = {
        "scripts": _check_scripts,
        "persistence": _check_persistence,
        "eviction": _check_eviction,
        "memory": _check_memory,
        **({"confirmation": partial(_check_confirmation, settings)} if Confirmation.of(settings) else {}),
    }
    try:
        infos = _by_memory(server_infos(database))
    except (NotPermitted, NoPermissionError):
        return [not_permitted(name) for name in checks]
    return [_worst([(place, check(info)) for place, info in infos]) for check in checks.values() if infos]


def _by_memory(infos: dict[str, Info]) -> list[tuple[str, Info]]:
    """Return the servers with the fullest first."""
    return sorted(infos.items(), key=lambda each: -int(each[1].get("used_memory", 0)))


def _worst(found: Sequence[tuple[str, DoctorFinding]]) -> DoctorFinding:
    """Return the worst finding of all servers; of several, it names those that it and its advice are about."""
    worst = max((finding for _, finding in found), key=lambda finding: _SEVERITY[finding.state])
    alike = [(place, finding) for place, finding in found if finding.state == worst.state]
    texts = _by_text((finding.found, place) for place, finding in alike)
    if len(found) == 1 or (worst.state == "ok" and len(texts) == 1):
        return worst
    if worst.state == "ok":
        return msgspec.structs.replace(worst, found=f"{worst.found} ({found[0][0]}; {len(found) - 1} more nodes)")
    advice = _by_text((finding.advice, place) for place, finding in alike)
    return msgspec.structs.replace(
        worst, found=_named(texts), advice=_named(advice) if len(advice) > 1 else worst.advice
    )


def _by_text(found: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    places: dict[str, list[str]] = {}
    for text, place in found:
        places.setdefault(text, []).append(place)
    return places


def _named(places: dict[str, list[str]]) -> str:
    return "; ".join(f"{text} ({', '.join(some)})" for text, some in places.items())


def _check_scripts(info: Info) -> DoctorFinding:
    server: Server = "Valkey" if "valkey_version" in info else "Redis"
    release = info.get("valkey_version") or info.get("redis_version", "")
    version = parse_version(release)
    replicates = info.get("role") == "slave" or info.get("connected_slaves", "0") != "0"
    vulnerabilities = vulnerabilities_of(server, version, replicates=replicates)
    if not vulnerabilities.names:
        return ok("scripts", f"no known vulnerability in the Lua of {server} {release}")
    found = f"{server} {release} has known vulnerabilities in Lua: {'; '.join(vulnerabilities.names)}"
    if version[:2] == (7, 0):  # Debian 12 fixes 7.0.15 and keeps that number, which nobody else maintains
        return note("scripts", found, "upgrade Redis, unless your distribution says that its package is fixed")
    target = (
        ".".join(map(str, vulnerabilities.upgrade))
        if vulnerabilities.upgrade
        else "a release line that is still maintained"
    )
    return wrong("scripts", found, f"whoever may run a script may run code as its user: upgrade to {target} or newer")


def _check_persistence(info: Info) -> DoctorFinding:
    if info.get("aof_enabled") != "1":
        advice = (
            "a restart of Redis would lose events: set `appendonly yes` and `appendfsync everysec`, with which a "
            "server that is killed may still lose a second or two of answered writes"
        )
        return wrong("persistence", "the append-only file is off", advice)
    if info.get("aof_last_write_status") != "ok" or info.get("aof_last_bgrewrite_status") != "ok":
        return wrong("persistence", "the last write of the append-only file failed", "check Redis' log and disk space")
    return ok("persistence", "append-only file")


def _check_confirmation(settings: Settings, info: Info) -> DoctorFinding:
    """Check that the server can confirm what the settings ask for, or answers and commands stay on hosts' disks."""
    check, wanted = "confirmation", settings.wait_replicas
    replicas = sum(name.startswith("slave") and "state=online" in value for name, value in info.items())
    if replicas < wanted:
        found = f"TELLBACK_WAIT_REPLICAS is {wanted}, and Redis has {count_phrase(replicas, 'replica')} in step"
        return wrong(check, found, "until it has as many, nothing is confirmed: start replicas, or set a lower number")
    if settings.wait_aof and (info.get("aof_enabled") != "1" or parse_version(info.get("redis_version", "")) < (7, 2)):
        found = "TELLBACK_WAIT_AOF is set, and this Redis cannot confirm from disk"
        return wrong(check, found, "turn on its append-only file, use Redis 7.2 or newer, or leave out the setting")
    return ok(check, f"{count_phrase(replicas, 'replica')} in step{', from disk too' * settings.wait_aof}")


def _check_eviction(info: Info) -> DoctorFinding:
    policy = info.get("maxmemory_policy", "unknown")
    if policy != "noeviction":
        return wrong("eviction", policy, "Redis may evict unread events: set `maxmemory-policy noeviction`")
    return ok("eviction", policy)


def _check_memory(info: Info) -> DoctorFinding:
    used, most = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))
    if not most:
        return ok("memory", f"{_format_mib(used)} used, no limit")
    found = f"{_format_mib(used)} of {_format_mib(most)} used"
    if used > most * NEARLY_FULL:
        return wrong("memory", found, "raise `maxmemory`; once it is reached, hosts spool and decisions fail")
    return ok("memory", found)


def _format_mib(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"
