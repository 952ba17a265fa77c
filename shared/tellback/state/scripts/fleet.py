"""The calls of the scripts in `lua/fleet`. Generated from their files by `make generate`: do not edit."""
# fmt: off

from __future__ import annotations

from collections.abc import Sequence

from tellback.state.keys import Shard
from tellback.state.script_calls import Script, ScriptCall, of_shard

_claim_visits = Script("fleet/claim_visits", "49d43c8775432aa08db8b77627013c5c3c8350cf")
_notice_places = Script("fleet/notice_places", "b05e2d78a3b5efb025b191ab05d5290bfc03f044")
_quarantine = Script("fleet/quarantine", "38d3ff9aa0267abf0be2e5da71b5f9768f223d74")
_rest_places = Script("fleet/rest_places", "eabad4e7b303f7648f5d564b00ba8594a0cbc249")
_shard_work = Script("fleet/shard_work", "b81af179ec494a3d085bcbe06ea1f201f628444c")


def claim_visits(
    *, shard: Shard, active_ms: int, idle_ms: int, whole_ms: int, quiet_ms: int, most: int, notices: int,
    only: Sequence[str],
) -> ScriptCall:
    """Claim the visits that are due: active places not visited for one period, whole teams not for a longer one."""
    return _claim_visits.call(
        [*of_shard(shard.prefix, "teams", "active", "noticed", "notifications")],
        [active_ms, idle_ms, whole_ms, quiet_ms, most, notices, *only],
    )


def notice_places(*, shard: Shard, places: Sequence[str]) -> ScriptCall:
    """Note that something new happened at these places, teams or shards."""
    return _notice_places.call([*of_shard(shard.prefix, "teams", "active", "noticed")], [*places])


def quarantine(*, wanted: Sequence[str], quarantined: Sequence[str], types: Sequence[str]) -> ScriptCall:
    """Rename the keys of a shard that hold another type than Tellback gives them."""
    return _quarantine.call([*wanted, *quarantined], [len(wanted), *types])


def rest_places(*, shard: Shard, quiet_ms: int, places: Sequence[str]) -> ScriptCall:
    """End the frequent visits of places in which nothing waits, unless something was new lately."""
    return _rest_places.call([*of_shard(shard.prefix, "active", "noticed")], [quiet_ms, *places])


def shard_work(
    *, shard: Shard, streams: Sequence[str], leases: Sequence[str], wakeups: Sequence[str], longest_lease: int,
    observed_ms: int,
) -> ScriptCall:
    """Look for what waits in one shard of a team, in one call, because the scheduler visits thousands of teams."""
    return _shard_work.call(
        [
            *of_shard(shard.prefix, "timers", "due", "turns", "running", "pools", "banks", "clock"), *streams, *leases,
            *wakeups,
        ],
        [len(streams), len(leases), longest_lease, observed_ms],
    )
