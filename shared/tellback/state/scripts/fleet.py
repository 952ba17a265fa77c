"""The calls of the scripts in `lua/fleet`. Generated from their headers by `make generate`: do not edit."""
# fmt: off

from __future__ import annotations

from collections.abc import Sequence

from tellback.state.keys import Shard
from tellback.state.script_calls import Arg, Script, ScriptCall, of_shard

_claim_visits = Script("fleet/claim_visits")


def claim_visits(
    *,
    shard: Shard, active_ms: int, idle_ms: int, whole_ms: int, quiet_ms: int, most: int, notices: int,
    only: Sequence[str],
) -> ScriptCall:
    """Claim the visits that are due: active places not visited for one period, whole teams not for a longer one."""
    keys: list[str] = [*of_shard(shard.prefix, "teams", "active", "noticed", "notifications")]
    args: list[Arg] = [active_ms, idle_ms, whole_ms, quiet_ms, most, notices, *only]
    return _claim_visits.call(keys, args)


_notice_places = Script("fleet/notice_places")


def notice_places(
    *,
    shard: Shard, places: Sequence[str],
) -> ScriptCall:
    """Note that something new happened at these places, teams or shards."""
    keys: list[str] = [*of_shard(shard.prefix, "teams", "active", "noticed")]
    args: list[Arg] = [*places]
    return _notice_places.call(keys, args)


_quarantine = Script("fleet/quarantine")


def quarantine(
    *,
    wanted: Sequence[str], quarantined: Sequence[str], types: Sequence[str],
) -> ScriptCall:
    """Rename the keys of a shard that hold another type than Tellback gives them."""
    keys: list[str] = [*wanted, *quarantined]
    args: list[Arg] = [len(wanted), *types]
    return _quarantine.call(keys, args)


_rest_places = Script("fleet/rest_places")


def rest_places(
    *,
    shard: Shard, quiet_ms: int, places: Sequence[str],
) -> ScriptCall:
    """End the frequent visits of places in which nothing waits, unless something was new lately."""
    keys: list[str] = [*of_shard(shard.prefix, "active", "noticed")]
    args: list[Arg] = [quiet_ms, *places]
    return _rest_places.call(keys, args)


_shard_work = Script("fleet/shard_work")


def shard_work(
    *,
    shard: Shard, streams: Sequence[str], leases: Sequence[str], wakeups: Sequence[str], longest_lease: int,
    observed_ms: int,
) -> ScriptCall:
    """Look for what waits in one shard of a team, in one call, because the scheduler visits thousands of teams."""
    keys: list[str] = [
        *of_shard(shard.prefix, "timers", "due", "turns", "running", "pools", "banks", "clock"), *streams, *leases,
        *wakeups,
    ]
    args: list[Arg] = [len(streams), len(leases), longest_lease, observed_ms]
    return _shard_work.call(keys, args)
