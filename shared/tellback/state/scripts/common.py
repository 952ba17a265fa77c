"""The calls of the scripts in `lua/common`. Generated from their headers by `make generate`: do not edit."""
# fmt: off

from __future__ import annotations

from collections.abc import Sequence

from tellback.state.keys import Shard
from tellback.state.script_calls import Arg, DecisionCall, Script, ScriptCall, of_shard

_admit = Script("common/admit")


def admit(
    *,
    names: str, others: str, field: str, name: str, within_ms: int,
) -> ScriptCall:
    """Let a host use a session or bank, if the team has it already or may have one more."""
    keys: list[str] = [names, others, *of_shard(names, "limits")]
    args: list[Arg] = [field, name, within_ms]
    return _admit.call(keys, args)


_change_limits = Script("common/change_limits")


def change_limits(
    *,
    shard: Shard, before: str | bytes, entry: str | bytes, fields: Sequence[str | bytes],
) -> DecisionCall:
    """Replace the limits of a team in its first shard, where they stand as a whole beside the audit log."""
    keys: list[str] = [*of_shard(shard.prefix, "limits", "audit")]
    args: list[Arg] = [before, entry, *fields]
    return _change_limits.decision(keys, args)


_copy_limits = Script("common/copy_limits")


def copy_limits(
    *,
    shard: Shard, fields: Sequence[str | bytes],
) -> ScriptCall:
    """Replace the limits of a team in a shard that is not its first."""
    keys: list[str] = [*of_shard(shard.prefix, "limits")]
    args: list[Arg] = [*fields]
    return _copy_limits.call(keys, args)


_drop_missing = Script("common/drop_missing")


def drop_missing(
    *,
    index: str, key: str, member: str | bytes,
) -> ScriptCall:
    """Remove a member from an index unless its key exists."""
    keys: list[str] = [index, key]
    args: list[Arg] = [member]
    return _drop_missing.call(keys, args)


_drop_not_running = Script("common/drop_not_running")


def drop_not_running(
    *,
    job: str, command_id: str | bytes,
) -> ScriptCall:
    """Remove a command from the set of running ones unless it is running."""
    keys: list[str] = [job, *of_shard(job, "running")]
    args: list[Arg] = [command_id]
    return _drop_not_running.call(keys, args)


_hold_lease = Script("common/hold_lease")


def hold_lease(
    *,
    lease: str, token: str, ms: int,
) -> ScriptCall:
    """Give this process a lease that is free, or renew its own."""
    keys: list[str] = [lease]
    args: list[Arg] = [token, ms]
    return _hold_lease.call(keys, args)


_observe_clock = Script("common/observe_clock")


def observe_clock(
    *,
    shard: Shard, host: str, boot_ms: int, server_ms: int, fresh_ms: int, step_ms: int, gap_ms: int, hosts: int,
    stands_in: bool,
) -> ScriptCall:
    """Compare the server's clock with that of an observing host that never steps."""
    keys: list[str] = [*of_shard(shard.prefix, "clock")]
    args: list[Arg] = [host, boot_ms, server_ms, fresh_ms, step_ms, gap_ms, hosts, int(stands_in)]
    return _observe_clock.call(keys, args)


_postpone = Script("common/postpone")


def postpone(
    *,
    index: str, member: str, ms: int,
) -> ScriptCall:
    """Move a due member of an index to a later time."""
    keys: list[str] = [index, *of_shard(index, "clock")]
    args: list[Arg] = [member, ms]
    return _postpone.call(keys, args)


_small_write = Script("common/small_write")


def small_write(
    *,
    key: str, command: str, parts: Sequence[Arg],
) -> ScriptCall:
    """Run one write command on one key while Redis is full."""
    keys: list[str] = [key]
    args: list[Arg] = [command, *parts]
    return _small_write.call(keys, args)
