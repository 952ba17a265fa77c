"""The calls of the scripts in `lua/common`. Generated from their headers by `make generate`: do not edit."""
# fmt: off

from __future__ import annotations

from collections.abc import Sequence

from tellback.state.keys import Shard
from tellback.state.script_calls import Arg, DecisionCall, Script, ScriptCall, of_shard

_admit = Script("common/admit")
_change_limits = Script("common/change_limits")
_copy_limits = Script("common/copy_limits")
_drop_missing = Script("common/drop_missing")
_drop_not_running = Script("common/drop_not_running")
_hold_lease = Script("common/hold_lease")
_observe_clock = Script("common/observe_clock")
_postpone = Script("common/postpone")
_small_write = Script("common/small_write")


def admit(*, names: str, others: str, field: str, name: str, within_ms: int) -> ScriptCall:
    """Let a host use a session or bank, if the team has it already or may have one more."""
    return _admit.call([names, others, *of_shard(names, "limits")], [field, name, within_ms])


def change_limits(
    *, shard: Shard, before: str | bytes, entry: str | bytes, fields: Sequence[str | bytes],
) -> DecisionCall:
    """Replace the limits of a team in its first shard, where they stand as a whole beside the audit log."""
    return _change_limits.decision([*of_shard(shard.prefix, "limits", "audit")], [before, entry, *fields])


def copy_limits(*, shard: Shard, fields: Sequence[str | bytes]) -> ScriptCall:
    """Replace the limits of a team in a shard that is not its first."""
    return _copy_limits.call([*of_shard(shard.prefix, "limits")], [*fields])


def drop_missing(*, index: str, key: str, member: str | bytes) -> ScriptCall:
    """Remove a member from an index unless its key exists."""
    return _drop_missing.call([index, key], [member])


def drop_not_running(*, job: str, command_id: str | bytes) -> ScriptCall:
    """Remove a command from the set of running ones unless it is running."""
    return _drop_not_running.call([job, *of_shard(job, "running")], [command_id])


def hold_lease(*, lease: str, token: str, ms: int) -> ScriptCall:
    """Give this process a lease that is free, or renew its own."""
    return _hold_lease.call([lease], [token, ms])


def observe_clock(
    *, shard: Shard, host: str, boot_ms: int, server_ms: int, fresh_ms: int, step_ms: int, gap_ms: int, hosts: int,
    stands_in: bool,
) -> ScriptCall:
    """Compare the server's clock with that of an observing host that never steps."""
    return _observe_clock.call(
        [*of_shard(shard.prefix, "clock")],
        [host, boot_ms, server_ms, fresh_ms, step_ms, gap_ms, hosts, int(stands_in)],
    )


def postpone(*, index: str, member: str, ms: int) -> ScriptCall:
    """Move a due member of an index to a later time."""
    return _postpone.call([index, *of_shard(index, "clock")], [member, ms])


def small_write(*, key: str, command: str, parts: Sequence[Arg]) -> ScriptCall:
    """Run one write command on one key while Redis is full."""
    return _small_write.call([key], [command, *parts])
