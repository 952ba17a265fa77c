"""The calls of the scripts in `lua/intake`. Generated from their files by `make generate`: do not edit."""
# fmt: off

from __future__ import annotations

from collections.abc import Sequence

from tellback.state.keys import Shard
from tellback.state.script_calls import DecisionCall, Script, ScriptCall, beside, of_shard

_add_dead_letter = Script("intake/add_dead_letter", "95015a7cf7b0cc6f1ef0be3307d6b8f04ad854c3")
_append_events = Script("intake/append_events", "41a1a04db7c365c88c3088cee62ee04deb92edf4")
_claim_entries = Script("intake/claim_entries", "2d6546b3aff3e104c5d3450b4a468a6796fa2772")
_deliver_entries = Script("intake/deliver_entries", "29ef3592f7ec5b97c6502006f064fc321be14657")
_drop_dead = Script("intake/drop_dead", "8de411e1e53f4a47270d6b810902beb485ae04a5")
_ensure_groups = Script("intake/ensure_groups", "cb87ce74a43b9f3240dbe890b7c7d64e1cc15b0c")
_extend_lease = Script("intake/extend_lease", "55c67242896c9aab606c4003a7bbc5633df84f60")
_peek_entries = Script("intake/peek_entries", "3ea6875518d74259fd9c97bb54c4b8bf534347a4")
_read_pending = Script("intake/read_pending", "a0f1740e8b2d9658fde2dc5271eac0f241b14b70")
_read_stream = Script("intake/read_stream", "ad8eff4218eaa55c49e94d8ce73c7f0c9cfaf6cd")
_release_lease = Script("intake/release_lease", "512256b681a20356231414b09d6f284d3a53e3d1")
_renew_lease = Script("intake/renew_lease", "a941c0436529d14f9e3a6ce214029bd518ebc6f8")
_replay_dead = Script("intake/replay_dead", "b01ef2b5c6eb51b4d82229eaef58f10f591595c5")
_take_lease = Script("intake/take_lease", "1694dd560dfa2ab7790ddb01df6c9586054d444c")


def add_dead_letter(
    *, intake: str, fence: int, entries: str | bytes, family: str, reason: str, raw: bytes, size: int, memory: int,
) -> ScriptCall:
    """Move one entry from its intake stream to the dead letters."""
    return _add_dead_letter.call(
        [intake, *beside(intake, "lease"), *of_shard(intake, "dead")],
        [fence, entries, family, reason, raw, size, memory],
    )


def append_events(
    *, intake: str, mark: str | None = None, max_entries: int, max_bytes: int, first: int,
    events: Sequence[str | bytes],
) -> ScriptCall:
    """Append events to one intake stream, all or none."""
    return _append_events.call(
        [
            intake, *beside(intake, "lease", "wakeup"), *of_shard(intake, "limits", "bucket"),
            *(() if mark is None else (mark,)),
        ],
        [max_entries, max_bytes, first, *events],
    )


def claim_entries(*, intake: str, fence: int, consumer: str, entries: Sequence[str]) -> ScriptCall:
    """Give the holder of a stream's lease entries that are behind others."""
    return _claim_entries.call([intake, *beside(intake, "lease")], [fence, consumer, *entries])


def deliver_entries(*, intake: str, fence: int, last: str) -> ScriptCall:
    """Deliver entries that the holder of a stream's lease has read itself."""
    return _deliver_entries.call([intake, *beside(intake, "lease")], [fence, last])


def drop_dead(*, shard: Shard, letter: str | bytes, entry: str | bytes) -> DecisionCall:
    """Delete one dead letter for good."""
    return _drop_dead.decision([*of_shard(shard.prefix, "dead", "audit")], [letter, entry])


def ensure_groups(*, intake: str, groups: Sequence[str]) -> ScriptCall:
    """Create the consumer groups that an intake stream lacks, from the first entry on."""
    return _ensure_groups.call([intake], [*groups])


def extend_lease(*, lease: str, fence: int, lease_ms: int) -> ScriptCall:
    """Extend the lease of a consumer that lingers on its stream, together with its pending marker."""
    return _extend_lease.call([lease, *beside(lease, "wakeup")], [fence, lease_ms])


def peek_entries(*, intake: str, after: str, max_entries: int, max_bytes: int) -> ScriptCall:
    """Return entries that wait in a stream, and deliver none: as many as fit the bytes, and one at least."""
    return _peek_entries.call([intake], [after, max_entries, max_bytes])


def read_pending(*, intake: str, fence: int, consumer: str, after: str, max_entries: int) -> ScriptCall:
    """Read entries that were delivered before and never applied."""
    return _read_pending.call([intake, *beside(intake, "lease")], [fence, consumer, after, max_entries])


def read_stream(*, intake: str, fence: int, max_entries: int, max_bytes: int, or_release: bool) -> ScriptCall:
    """Read the next entries of a stream that no consumer has read, or release the stream if there are none."""
    return _read_stream.call(
        [intake, *beside(intake, "lease", "wakeup")],
        [fence, max_entries, max_bytes, int(or_release)],
    )


def release_lease(*, intake: str, fence: int) -> ScriptCall:
    """Release a stream, and the pending marker if its consumer lingered."""
    return _release_lease.call([intake, *beside(intake, "lease", "wakeup")], [fence])


def renew_lease(*, lease: str, fence: int, lease_ms: int) -> ScriptCall:
    """Renew the lease of a consumer that waits for something, such as a model."""
    return _renew_lease.call([lease], [fence, lease_ms])


def replay_dead(*, intake: str, letter: str | bytes, entry: str | bytes) -> DecisionCall:
    """Move one dead letter back into its intake stream."""
    return _replay_dead.decision(
        [intake, *beside(intake, "lease", "wakeup"), *of_shard(intake, "dead", "audit")],
        [letter, entry],
    )


def take_lease(*, intake: str, lease_ms: int, linger: bool, max_entries: int, max_bytes: int) -> ScriptCall:
    """Make the caller the only consumer of a stream for a while."""
    return _take_lease.call(
        [intake, *beside(intake, "lease", "fence", "wakeup")],
        [lease_ms, int(linger), max_entries, max_bytes],
    )
