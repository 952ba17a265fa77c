"""The calls of the scripts in `lua/turns`. Generated from their headers by `make generate`: do not edit."""
# fmt: off

from __future__ import annotations

from collections.abc import Sequence

from tellback.state.script_calls import Arg, DecisionCall, Script, ScriptCall, beside, of_shard

_answer_turn = Script("turns/answer_turn")


def answer_turn(
    *,
    turn: str, out: str, queue: str, hist: str, response: str | bytes, code: str, excerpt: str, late_ms: int,
    lost_id: str, lost_channel: str, lost_conversation: str, lost_session: str, lost_message_id: str,
    lost_language: str, lost_opened_at: int, lost_state: str, lost_within_ms: int,
) -> DecisionCall:
    """Apply a host's answer to a turn, or its notice that there will be none."""
    keys: list[str] = [turn, out, queue, hist, *of_shard(turn, "due", "channels", "turnstats", "turns", "clock")]
    args: list[Arg] = [
        response, code, excerpt, late_ms, lost_id, lost_channel, lost_conversation, lost_session, lost_message_id,
        lost_language, lost_opened_at, lost_state, lost_within_ms,
    ]
    return _answer_turn.decision(keys, args)


_claim_ambiguous = Script("turns/claim_ambiguous")


def claim_ambiguous(
    *,
    queue: str, ambiguous: str, conversation: str, expected: str, token: str, delay_ms: int,
) -> ScriptCall:
    """Claim an ambiguous delivery, the first of its conversation, to ask the platform whether it was sent."""
    keys: list[str] = [queue, ambiguous, *of_shard(queue, "clock")]
    args: list[Arg] = [conversation, expected, token, delay_ms]
    return _claim_ambiguous.call(keys, args)


_claim_delivery = Script("turns/claim_delivery")


def claim_delivery(
    *,
    out: str, queue: str, turn: str, hist: str, channel: str, conversation: str, expected: str, token: str,
    lease_ms: int, attempts: int,
) -> ScriptCall:
    """Lease the first delivery of a conversation to one transport."""
    keys: list[str] = [out, *beside(out, "ambiguous"), queue, turn, hist, *of_shard(out, "turnstats", "clock")]
    args: list[Arg] = [channel, conversation, expected, token, lease_ms, attempts]
    return _claim_delivery.call(keys, args)


_close_turn = Script("turns/close_turn")


def close_turn(
    *,
    turn: str, out: str, queue: str, hist: str, reason: str,
) -> DecisionCall:
    """Close a turn that needs no reply, and keep the reason."""
    keys: list[str] = [turn, out, queue, hist, *of_shard(turn, "due", "channels", "turnstats", "clock")]
    args: list[Arg] = [reason]
    return _close_turn.decision(keys, args)


_defer_turn = Script("turns/defer_turn")


def defer_turn(
    *,
    turn: str, out: str, queue: str, hist: str, ms: int,
) -> DecisionCall:
    """Give an open turn a new deadline, earlier or later than before, at most its hard limit."""
    keys: list[str] = [turn, out, queue, hist, *of_shard(turn, "due", "channels", "turnstats", "clock")]
    args: list[Arg] = [ms]
    return _defer_turn.decision(keys, args)


_drop_handover = Script("turns/drop_handover")


def drop_handover(
    *,
    handover: str, turn: str, turn_id: str, host: str,
) -> ScriptCall:
    """Remove a turn from the list of turns handed over to a host, unless that host owes it now."""
    keys: list[str] = [handover, turn]
    args: list[Arg] = [turn_id, host]
    return _drop_handover.call(keys, args)


_evict_delivery = Script("turns/evict_delivery")


def evict_delivery(
    *,
    queue: str, turn: str, hist: str, channel: str, conversation: str, expected: str,
) -> ScriptCall:
    """Evict the second oldest delivery of a conversation with too many."""
    keys: list[str] = [queue, turn, hist, *of_shard(queue, "turnstats")]
    args: list[Arg] = [channel, conversation, expected]
    return _evict_delivery.call(keys, args)


_fallback_turn = Script("turns/fallback_turn")


def fallback_turn(
    *,
    turn: str, out: str, queue: str, hist: str, turn_id: str, response: str | bytes,
) -> ScriptCall:
    """Answer an overdue turn with a fallback, if it is still unanswered."""
    keys: list[str] = [turn, out, queue, hist, *of_shard(turn, "due", "channels", "turnstats", "clock")]
    args: list[Arg] = [turn_id, response]
    return _fallback_turn.call(keys, args)


_finish_turn = Script("turns/finish_turn")


def finish_turn(
    *,
    intake: str, turn: str, out: str, queue: str, hist: str, fence: int, entries: str | bytes, response: str | bytes,
    code: str, excerpt: str, late_ms: int, routed: str | bytes, lost_id: str, lost_channel: str, lost_conversation: str,
    lost_session: str, lost_message_id: str, lost_language: str, lost_opened_at: int, lost_state: str,
    lost_within_ms: int,
) -> ScriptCall:
    """Apply one TurnFinished."""
    keys: list[str] = [
        intake, *beside(intake, "lease"), turn, out, queue, hist, *of_shard(intake, "due", "channels", "turnstats",
        "turns", "clock"),
    ]
    args: list[Arg] = [
        fence, entries, response, code, excerpt, late_ms, routed, lost_id, lost_channel, lost_conversation,
        lost_session, lost_message_id, lost_language, lost_opened_at, lost_state, lost_within_ms,
    ]
    return _finish_turn.call(keys, args)


_hand_over_turn = Script("turns/hand_over_turn")


def hand_over_turn(
    *,
    turn: str, out: str, queue: str, hist: str, handover: str, host: str, limit: int,
) -> DecisionCall:
    """Hand an open turn over to another host."""
    keys: list[str] = [turn, out, queue, hist, handover, *of_shard(turn, "due", "channels", "turnstats", "clock")]
    args: list[Arg] = [host, limit]
    return _hand_over_turn.decision(keys, args)


_mark_finishing = Script("turns/mark_finishing")


def mark_finishing(
    *,
    turn: str, out: str, queue: str, hist: str, grace_ms: int, lost_id: str, lost_channel: str, lost_conversation: str,
    lost_session: str, lost_message_id: str, lost_language: str, lost_opened_at: int, lost_state: str,
    lost_within_ms: int,
) -> DecisionCall:
    """Mark that an answer is on its way through the intake."""
    keys: list[str] = [turn, out, queue, hist, *of_shard(turn, "due", "channels", "turnstats", "turns", "clock")]
    args: list[Arg] = [
        grace_ms, lost_id, lost_channel, lost_conversation, lost_session, lost_message_id, lost_language,
        lost_opened_at, lost_state, lost_within_ms,
    ]
    return _mark_finishing.decision(keys, args)


_merge_turns = Script("turns/merge_turns")


def merge_turns(
    *,
    turn: str, out: str, queue: str, hist: str, covered_turns: Sequence[str], covered_hists: Sequence[str],
    turn_id: str, covered_ids: Sequence[str],
) -> DecisionCall:
    """Merge open turns of a conversation into one, which covers them."""
    keys: list[str] = [
        turn, out, queue, hist, *of_shard(turn, "due", "channels", "turnstats", "clock"), *covered_turns,
        *covered_hists,
    ]
    args: list[Arg] = [len(covered_turns), turn_id, *covered_ids]
    return _merge_turns.decision(keys, args)


_open_turn = Script("turns/open_turn")


def open_turn(
    *,
    turn: str, out: str, queue: str, hist: str, turn_id: str, channel: str, conversation: str, message_id: str,
    session: str, language: str, text: str, excerpt: str, within_ms: int, limit_ms: int, auto: bool, host: str,
    trace: str,
) -> DecisionCall:
    """Open a turn once."""
    keys: list[str] = [
        turn, out, queue, hist, *of_shard(turn, "due", "channels", "turnstats", "turns", "limits", "clock"),
    ]
    args: list[Arg] = [
        turn_id, channel, conversation, message_id, session, language, text, excerpt, within_ms, limit_ms, int(auto),
        host, trace,
    ]
    return _open_turn.decision(keys, args)


_progress_turn = Script("turns/progress_turn")


def progress_turn(
    *,
    turn: str, out: str, queue: str, hist: str,
) -> DecisionCall:
    """Extend the deadline of a turn whose host still works on it: by as long again, at most to the hard limit."""
    keys: list[str] = [turn, out, queue, hist, *of_shard(turn, "due", "channels", "turnstats", "clock")]
    args: list[Arg] = []
    return _progress_turn.decision(keys, args)


_ready_deliveries = Script("turns/ready_deliveries")


def ready_deliveries(
    *,
    out: str, limit: int, longest_ms: int,
) -> ScriptCall:
    """List the conversations of a channel whose first delivery may be taken now, longest waiting first."""
    keys: list[str] = [out, *of_shard(out, "clock")]
    args: list[Arg] = [limit, longest_ms]
    return _ready_deliveries.call(keys, args)


_reindex_queue = Script("turns/reindex_queue")


def reindex_queue(
    *,
    out: str, queue: str, conversation: str,
) -> ScriptCall:
    """Put a conversation that has deliveries back into its channel's index if it is missing."""
    keys: list[str] = [out, queue, *of_shard(out, "clock")]
    args: list[Arg] = [conversation]
    return _reindex_queue.call(keys, args)


_settle_delivery = Script("turns/settle_delivery")


def settle_delivery(
    *,
    out: str, queue: str, turn: str, hist: str, channel: str, conversation: str, expected: str, token: str,
    settlement: str, delay_ms: int, attempts: int, outcome: str | bytes, reconcile_ms: int,
) -> DecisionCall:
    """Settle a delivery that was taken, or an ambiguous one after its platform was asked."""
    keys: list[str] = [out, *beside(out, "ambiguous"), queue, turn, hist, *of_shard(out, "turnstats", "clock")]
    args: list[Arg] = [channel, conversation, expected, token, settlement, delay_ms, attempts, outcome, reconcile_ms]
    return _settle_delivery.decision(keys, args)
