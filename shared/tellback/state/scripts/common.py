"""The calls of the scripts in `lua/common`. Generated from their files by `make generate`: do not edit."""
# fmt: off

from __future__ import annotations

from collections.abc import Sequence

from tellback.state.keys import Shard
from tellback.state.script_calls import Arg, DecisionCall, Script, ScriptCall, of_shard

_admit = Script("common/admit", "8f15331cb2925218450c5b081a58e3a8c2e7d6c6")
_change_limits = Script("common/change_limits", "cee8c2af7b6f79e8a8047e3b101ed518a160c747")
_copy_limits = Script("common/copy_limits", "ad78cb8eb17f7dc8f78a0422125a170fda5deb5a")
_drop_missing = Script("common/drop_missing", "249ceba116f4d85d7876ee9242f14f0e19db511b")
_drop_not_running = Script("common/drop_not_running", "ce2178da87c32dea76e1d5f81f7c9b9d47f33edc")
_hold_lease = Script("common/hold_lease", "cc1e63278498d2e7a9ec49bff4c5ee658ede3199")
_log_act = Script("common/log_act", "4417c17bbcaa54c989114ef7ff64692a88aa24c2")
_observe_clock = Script("common/observe_clock", "371b5713f51da7d6e693c00b029916668803d945")
_postpone = Script("common/postpone", "4c527dfedc9b8404a08f4985c212a405714ce50b")
_small_write = Script("common/small_write", "ead6a4429454ec97797a1098525f580bbe40af59")


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


def log_act(*, shard: Shard, entry: str | bytes) -> DecisionCall:
    """Add an act to the audit log before it begins, if one script cannot do it whole."""
    return _log_act.decision([*of_shard(shard.prefix, "audit")], [entry])


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
