"""The calls of the scripts in `lua/intake`. Generated from their headers by `make generate`: do not edit."""
# fmt: off

from __future__ import annotations

from collections.abc import Sequence

from tellback.state.keys import Shard
from tellback.state.script_calls import Arg, DecisionCall, Script, ScriptCall, beside, of_shard

_add_dead_letter = Script("intake/add_dead_letter")


def add_dead_letter(
    *,
    intake: str, fence: int, entries: str | bytes, family: str, reason: str, raw: bytes, size: int, memory: int,
) -> ScriptCall:
    """Move one entry from its intake stream to the dead letters."""
    keys: list[str] = [intake, *beside(intake, "lease"), *of_shard(intake, "dead")]
    args: list[Arg] = [fence, entries, family, reason, raw, size, memory]
    return _add_dead_letter.call(keys, args)


_append_events = Script("intake/append_events")


def append_events(
    *,
    intake: str, mark: str | None = None, max_entries: int, max_bytes: int, first: int, events: Sequence[str | bytes],
) -> ScriptCall:
    """Append events to one intake stream, all or none."""
    keys: list[str] = [
        intake, *beside(intake, "lease", "wakeup"), *of_shard(intake, "limits", "bucket"),
        *(() if mark is None else (mark,)),
    ]
    args: list[Arg] = [max_entries, max_bytes, first, *events]
    return _append_events.call(keys, args)


_claim_entries = Script("intake/claim_entries")


def claim_entries(
    *,
    intake: str, fence: int, consumer: str, entries: Sequence[str],
) -> ScriptCall:
    """Give the holder of a stream's lease entries that are behind others."""
    keys: list[str] = [intake, *beside(intake, "lease")]
    args: list[Arg] = [fence, consumer, *entries]
    return _claim_entries.call(keys, args)


_drop_dead = Script("intake/drop_dead")


def drop_dead(
    *,
    shard: Shard, letter: str | bytes, entry: str | bytes,
) -> DecisionCall:
    """Delete one dead letter for good."""
    keys: list[str] = [*of_shard(shard.prefix, "dead", "audit")]
    args: list[Arg] = [letter, entry]
    return _drop_dead.decision(keys, args)


_ensure_groups = Script("intake/ensure_groups")


def ensure_groups(
    *,
    intake: str, groups: Sequence[str],
) -> ScriptCall:
    """Create the consumer groups that an intake stream lacks, from the first entry on."""
    keys: list[str] = [intake]
    args: list[Arg] = [*groups]
    return _ensure_groups.call(keys, args)


_extend_lease = Script("intake/extend_lease")


def extend_lease(
    *,
    lease: str, fence: int, lease_ms: int,
) -> ScriptCall:
    """Extend the lease of a consumer that lingers on its stream, together with its pending marker."""
    keys: list[str] = [lease, *beside(lease, "wakeup")]
    args: list[Arg] = [fence, lease_ms]
    return _extend_lease.call(keys, args)


_peek_entries = Script("intake/peek_entries")


def peek_entries(
    *,
    intake: str, after: str, max_entries: int, max_bytes: int,
) -> ScriptCall:
    """Return entries that wait in a stream, and deliver none: as many as fit the bytes, and one at least."""
    keys: list[str] = [intake]
    args: list[Arg] = [after, max_entries, max_bytes]
    return _peek_entries.call(keys, args)


_read_pending = Script("intake/read_pending")


def read_pending(
    *,
    intake: str, fence: int, consumer: str, after: str, max_entries: int,
) -> ScriptCall:
    """Read entries that were read before and never applied."""
    keys: list[str] = [intake, *beside(intake, "lease")]
    args: list[Arg] = [fence, consumer, after, max_entries]
    return _read_pending.call(keys, args)


_read_stream = Script("intake/read_stream")


def read_stream(
    *,
    intake: str, fence: int, consumer: str, max_entries: int, max_bytes: int, or_release: bool,
) -> ScriptCall:
    """Read the next entries of a stream that no consumer has read, or release the stream if there are none."""
    keys: list[str] = [intake, *beside(intake, "lease", "wakeup")]
    args: list[Arg] = [fence, consumer, max_entries, max_bytes, int(or_release)]
    return _read_stream.call(keys, args)


_release_lease = Script("intake/release_lease")


def release_lease(
    *,
    lease: str, fence: int,
) -> ScriptCall:
    """Release a stream, and the pending marker if its consumer lingered."""
    keys: list[str] = [lease, *beside(lease, "wakeup")]
    args: list[Arg] = [fence]
    return _release_lease.call(keys, args)


_renew_lease = Script("intake/renew_lease")


def renew_lease(
    *,
    lease: str, fence: int, lease_ms: int,
) -> ScriptCall:
    """Renew the lease of a consumer that waits for something, such as a model."""
    keys: list[str] = [lease]
    args: list[Arg] = [fence, lease_ms]
    return _renew_lease.call(keys, args)


_replay_dead = Script("intake/replay_dead")


def replay_dead(
    *,
    intake: str, letter: str | bytes, entry: str | bytes,
) -> DecisionCall:
    """Move one dead letter back into its intake stream."""
    keys: list[str] = [intake, *of_shard(intake, "dead", "audit")]
    args: list[Arg] = [letter, entry]
    return _replay_dead.decision(keys, args)


_take_lease = Script("intake/take_lease")


def take_lease(
    *,
    intake: str, lease_ms: int, linger: bool, consumer: str, max_entries: int, max_bytes: int,
) -> ScriptCall:
    """Make the caller the only consumer of a stream for a while."""
    keys: list[str] = [intake, *beside(intake, "lease", "fence", "wakeup")]
    args: list[Arg] = [lease_ms, int(linger), consumer, max_entries, max_bytes]
    return _take_lease.call(keys, args)
