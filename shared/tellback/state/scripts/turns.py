"""The calls of the scripts in `lua/turns`. Generated from their files by `make generate`: do not edit."""
# fmt: off

from __future__ import annotations

from collections.abc import Sequence

from tellback.state.script_calls import DecisionCall, Script, ScriptCall, beside, of_shard

_answer_turn = Script("turns/answer_turn", "2f8abc13d5452aa65215ed09153de7b9212c05b5")
_claim_ambiguous = Script("turns/claim_ambiguous", "82013ce68b12e94d7583275e42071b3d0a6066a7")
_claim_delivery = Script("turns/claim_delivery", "7336af3e1e643603344ac6332e7225576f1e49b4")
_close_turn = Script("turns/close_turn", "c72ab1abb3125a6bc3a48e5033750f9f2d0ff946")
_defer_turn = Script("turns/defer_turn", "19de15a7a56e9fd23833f97b2bbfe95e1c351203")
_drop_handover = Script("turns/drop_handover", "244780ac8f1943cf468f8bd399714d05bffe7160")
_evict_delivery = Script("turns/evict_delivery", "324d70b40e2d7ee5ebc878e649a79473b1f1a827")
_fallback_turn = Script("turns/fallback_turn", "3d7d466904172d3a66db1878949acb89d2216fa7")
_finish_turn = Script("turns/finish_turn", "325287cb63a45541bed1282aa47b3f569e653221")
_hand_over_turn = Script("turns/hand_over_turn", "589943287e41e92b9a9a5109d33667ef7dc55885")
_mark_finishing = Script("turns/mark_finishing", "f479778a280392f946870a9a129cce1920853c2e")
_merge_turns = Script("turns/merge_turns", "3e97db3a6cc78bb212b1736407b2cb8a4bdf3f04")
_open_turn = Script("turns/open_turn", "9731e2a91f5646281d2565c802c5ed446ef33907")
_progress_turn = Script("turns/progress_turn", "8f7a0ce3204c2663eb6a29e503626e5a9ffcf2dd")
_ready_deliveries = Script("turns/ready_deliveries", "08ca4cf9cea6cc57f46677d3c56aeb4902a76923")
_reindex_queue = Script("turns/reindex_queue", "2073f9dc25bfb05809cf99413fbe2b664e97b9c2")
_settle_delivery = Script("turns/settle_delivery", "27ac2674da16fede8a2ebecb50beda11548bb25f")


def answer_turn(
    *, turn: str, out: str, queue: str, hist: str, response: str | bytes, code: str, excerpt: str, late_ms: int,
    lost_id: str, lost_channel: str, lost_conversation: str, lost_session: str, lost_message_id: str,
    lost_language: str, lost_opened_at: int, lost_state: str, lost_within_ms: int,
) -> DecisionCall:
    """Apply a host's answer to a turn, or its notice that there will be none."""
    return _answer_turn.decision(
        [
            turn, out, *beside(out, "posted"), queue, hist, *of_shard(turn, "due", "channels", "turnstats", "turns",
            "clock"),
        ],
        [
            response, code, excerpt, late_ms, lost_id, lost_channel, lost_conversation, lost_session, lost_message_id,
            lost_language, lost_opened_at, lost_state, lost_within_ms,
        ],
    )


def claim_ambiguous(
    *, queue: str, ambiguous: str, conversation: str, expected: str, token: str, delay_ms: int,
) -> ScriptCall:
    """Claim an ambiguous delivery, the first of its conversation, to ask the platform whether it was sent."""
    return _claim_ambiguous.call(
        [queue, ambiguous, *of_shard(queue, "clock")],
        [conversation, expected, token, delay_ms],
    )


def claim_delivery(
    *, out: str, queue: str, turn: str, hist: str, channel: str, conversation: str, expected: str, token: str,
    lease_ms: int, attempts: int,
) -> ScriptCall:
    """Lease the first delivery of a conversation to one transport."""
    return _claim_delivery.call(
        [out, *beside(out, "ambiguous"), queue, turn, hist, *of_shard(out, "turnstats", "clock")],
        [channel, conversation, expected, token, lease_ms, attempts],
    )


def close_turn(*, turn: str, out: str, queue: str, hist: str, reason: str) -> DecisionCall:
    """Close a turn that needs no reply, and keep the reason."""
    return _close_turn.decision(
        [turn, out, *beside(out, "posted"), queue, hist, *of_shard(turn, "due", "channels", "turnstats", "clock")],
        [reason],
    )


def defer_turn(*, turn: str, out: str, queue: str, hist: str, ms: int) -> DecisionCall:
    """Give an open turn a new deadline, earlier or later than before, at most its hard limit."""
    return _defer_turn.decision(
        [turn, out, *beside(out, "posted"), queue, hist, *of_shard(turn, "due", "channels", "turnstats", "clock")],
        [ms],
    )


def drop_handover(*, handover: str, turn: str, turn_id: str, host: str) -> ScriptCall:
    """Remove a turn from the list of turns handed over to a host, unless that host owes it now."""
    return _drop_handover.call([handover, turn], [turn_id, host])


def evict_delivery(*, queue: str, turn: str, hist: str, channel: str, conversation: str, expected: str) -> ScriptCall:
    """Evict the second oldest delivery of a conversation with too many."""
    return _evict_delivery.call([queue, turn, hist, *of_shard(queue, "turnstats")], [channel, conversation, expected])


def fallback_turn(*, turn: str, out: str, queue: str, hist: str, turn_id: str, response: str | bytes) -> ScriptCall:
    """Answer an overdue turn with a fallback, if it is still unanswered."""
    return _fallback_turn.call(
        [turn, out, *beside(out, "posted"), queue, hist, *of_shard(turn, "due", "channels", "turnstats", "clock")],
        [turn_id, response],
    )


def finish_turn(
    *, intake: str, turn: str, out: str, queue: str, hist: str, fence: int, entries: str | bytes, response: str | bytes,
    code: str, excerpt: str, late_ms: int, routed: str | bytes, lost_id: str, lost_channel: str, lost_conversation: str,
    lost_session: str, lost_message_id: str, lost_language: str, lost_opened_at: int, lost_state: str,
    lost_within_ms: int,
) -> ScriptCall:
    """Apply one TurnFinished."""
    return _finish_turn.call(
        [
            intake, *beside(intake, "lease"), turn, out, *beside(out, "posted"), queue, hist, *of_shard(intake, "due",
            "channels", "turnstats", "turns", "clock"),
        ],
        [
            fence, entries, response, code, excerpt, late_ms, routed, lost_id, lost_channel, lost_conversation,
            lost_session, lost_message_id, lost_language, lost_opened_at, lost_state, lost_within_ms,
        ],
    )


def hand_over_turn(*, turn: str, out: str, queue: str, hist: str, handover: str, host: str, limit: int) -> DecisionCall:
    """Hand an open turn over to another host."""
    return _hand_over_turn.decision(
        [
            turn, out, *beside(out, "posted"), queue, hist, handover, *of_shard(turn, "due", "channels", "turnstats",
            "clock"),
        ],
        [host, limit],
    )


def mark_finishing(
    *, turn: str, out: str, queue: str, hist: str, grace_ms: int, lost_id: str, lost_channel: str,
    lost_conversation: str, lost_session: str, lost_message_id: str, lost_language: str, lost_opened_at: int,
    lost_state: str, lost_within_ms: int,
) -> DecisionCall:
    """Mark that an answer is on its way through the intake."""
    return _mark_finishing.decision(
        [
            turn, out, *beside(out, "posted"), queue, hist, *of_shard(turn, "due", "channels", "turnstats", "turns",
            "clock"),
        ],
        [
            grace_ms, lost_id, lost_channel, lost_conversation, lost_session, lost_message_id, lost_language,
            lost_opened_at, lost_state, lost_within_ms,
        ],
    )


def merge_turns(
    *, turn: str, out: str, queue: str, hist: str, covered_turns: Sequence[str], covered_hists: Sequence[str],
    turn_id: str, covered_ids: Sequence[str],
) -> DecisionCall:
    """Merge open turns of a conversation into one, which covers them."""
    return _merge_turns.decision(
        [
            turn, out, *beside(out, "posted"), queue, hist, *of_shard(turn, "due", "channels", "turnstats", "clock"),
            *covered_turns, *covered_hists,
        ],
        [len(covered_turns), turn_id, *covered_ids],
    )


def open_turn(
    *, turn: str, out: str, queue: str, hist: str, turn_id: str, channel: str, conversation: str, message_id: str,
    session: str, language: str, text: str, excerpt: str, within_ms: int, limit_ms: int, auto: bool, host: str,
    trace: str,
) -> DecisionCall:
    """Open a turn once."""
    return _open_turn.decision(
        [
            turn, out, *beside(out, "posted"), queue, hist, *of_shard(turn, "due", "channels", "turnstats", "turns",
            "limits", "clock"),
        ],
        [
            turn_id, channel, conversation, message_id, session, language, text, excerpt, within_ms, limit_ms,
            int(auto), host, trace,
        ],
    )


def progress_turn(*, turn: str, out: str, queue: str, hist: str) -> DecisionCall:
    """Extend the deadline of a turn whose host still works on it: by as long again, at most to the hard limit."""
    return _progress_turn.decision(
        [turn, out, *beside(out, "posted"), queue, hist, *of_shard(turn, "due", "channels", "turnstats", "clock")],
        [],
    )


def ready_deliveries(*, out: str, limit: int, longest_ms: int) -> ScriptCall:
    """List the conversations of a channel whose first delivery may be taken now, longest waiting first."""
    return _ready_deliveries.call([out, *of_shard(out, "clock")], [limit, longest_ms])


def reindex_queue(*, out: str, queue: str, conversation: str) -> ScriptCall:
    """Put a conversation that has deliveries back into its channel's index if it is missing."""
    return _reindex_queue.call([out, queue, *of_shard(out, "clock")], [conversation])


def settle_delivery(
    *, out: str, queue: str, turn: str, hist: str, channel: str, conversation: str, expected: str, token: str,
    settlement: str, delay_ms: int, attempts: int, outcome: str | bytes, reconcile_ms: int,
) -> DecisionCall:
    """Settle a delivery that was taken, or an ambiguous one after its platform was asked."""
    return _settle_delivery.decision(
        [out, *beside(out, "ambiguous"), queue, turn, hist, *of_shard(out, "turnstats", "clock")],
        [channel, conversation, expected, token, settlement, delay_ms, attempts, outcome, reconcile_ms],
    )
