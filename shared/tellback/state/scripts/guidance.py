"""The calls of the scripts in `lua/guidance`. Generated from their files by `make generate`: do not edit."""
# fmt: off

from __future__ import annotations

from collections.abc import Sequence

from tellback.state.keys import Shard
from tellback.state.script_calls import Arg, DecisionCall, Script, ScriptCall, beside, of_shard

_claim_timers = Script("guidance/claim_timers", "26573c73a847bb6fb5ceb0a1dd53afbfb72e46b1")
_commit_evaluation = Script("guidance/commit_evaluation", "4832426603d5532d3434fbe3784ceec329b1efbb")
_commit_timer = Script("guidance/commit_timer", "c523294232362dc26c30c50cdf1c7d5c3f1cd319")
_note_tools = Script("guidance/note_tools", "b29446f4444e1b4b63a5b0b19088705c69585abd")
_store_shared_changes = Script("guidance/store_shared_changes", "e4b7efc88243a0812c648b7109ecdc5efacbafbd")
_take_feedback = Script("guidance/take_feedback", "46a1ee1229f6170de1fadb53edd25092ff314e02")


def claim_timers(*, shard: Shard, lease_ms: int, limit: int) -> ScriptCall:
    """Claim evaluations whose timers are due."""
    return _claim_timers.call([*of_shard(shard.prefix, "timers", "clock")], [lease_ms, limit])


def commit_evaluation(
    *, intake: str, evaluation: str, hist: str, guidestats: str, fence: int, entries: str | bytes, version: str | bytes,
    new_version: str | bytes, state: bytes, calls: int, check_seen: bool, timer: str, next_timer: str,
    session_name: str, at: int, new_calls: int, or_release: bool, outdated: str | bytes,
    newest_calls: Sequence[str | bytes], event_ids: Sequence[str], feedback: Sequence[str | bytes],
    counts: Sequence[Arg], lines: Sequence[str | bytes], newest: Sequence[Arg],
) -> ScriptCall:
    """Commit the effects of a batch of events on one evaluation."""
    return _commit_evaluation.call(
        [
            intake, *beside(intake, "lease", "wakeup"), evaluation, *beside(evaluation, "seen", "seen-old", "mailbox"),
            hist, *beside(hist, "activity"), guidestats, *of_shard(intake, "timers", "sessions"),
        ],
        [
            len(newest_calls), len(event_ids), len(feedback), len(counts), len(lines), fence, entries, version,
            new_version, state, calls, int(check_seen), timer, next_timer, session_name, at, new_calls, int(or_release),
            outdated, *newest_calls, *event_ids, *feedback, *counts, *lines, *newest,
        ],
    )


def commit_timer(
    *, evaluation: str, hist: str, guidestats: str, version: str | bytes, new_version: str | bytes, generation: int,
    state: bytes, calls: int, timer: str, next_timer: str, newest_calls: Sequence[str | bytes],
    feedback: Sequence[str | bytes], counts: Sequence[Arg], lines: Sequence[str | bytes],
) -> ScriptCall:
    """Commit the effects of a timer on one evaluation."""
    return _commit_timer.call(
        [
            evaluation, *beside(evaluation, "mailbox"), hist, *beside(hist, "activity"), guidestats,
            *of_shard(evaluation, "timers"),
        ],
        [
            len(newest_calls), len(feedback), len(counts), version, new_version, generation, state, calls, timer,
            next_timer, *newest_calls, *feedback, *counts, *lines,
        ],
    )


def note_tools(*, shard: Shard, cooldown_ms: int, sightings: str | bytes) -> ScriptCall:
    """Merge what calls observed about their tools."""
    return _note_tools.call([*of_shard(shard.prefix, "health")], [cooldown_ms, sightings])


def store_shared_changes(
    *, intake: str, changes: str, seen: str, fence: int, entries: str | bytes, event_ids: Sequence[str],
    orders: Sequence[int], shared: Sequence[str | bytes], lines: Sequence[str | bytes],
) -> ScriptCall:
    """Store changes that were published to a whole session, and acknowledge their entries."""
    return _store_shared_changes.call(
        [intake, *beside(intake, "lease"), changes, *beside(changes, "hist"), seen, *beside(seen, "seen-old")],
        [len(event_ids), len(orders), len(shared), fence, entries, *event_ids, *orders, *shared, *lines],
    )


def take_feedback(*, evaluation: str, guidestats: str, member: str, day: int) -> DecisionCall:
    """Return and remove the waiting feedback of one evaluation."""
    return _take_feedback.decision(
        [evaluation, *beside(evaluation, "mailbox"), guidestats, *of_shard(evaluation, "timers", "clock")],
        [member, day],
    )
