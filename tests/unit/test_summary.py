"""Sums of counters and histories."""

from __future__ import annotations

from typing import Any

from tellback.guidance.summary import ProviderStats, count_history, sum_counters, summarize


def feedback(**more: Any) -> dict[str, Any]:
    return {"kind": "feedback", "at": 1, "prompt": "p", "evaluation": "e", "provider_name": "Deadline", **more}


def call(n: int, evaluation: str = "e", **more: Any) -> dict[str, Any]:
    return {"kind": "tool_call", "at": n, "tool": "t", "call_index": n, "prompt": "p", "evaluation": evaluation, **more}


def test_feedback_that_was_renewed_while_it_waited_is_one() -> None:
    counts = count_history([feedback(timed=True), feedback(timed=True, renewed=True), feedback()])
    assert counts == {"provider:Deadline:fires": 2, "provider:Deadline:timed": 1}


def test_a_call_counts_with_the_verdict_that_it_was_stored_with() -> None:
    """The evidence of the verdict is truncated or gone; equal calls alone say nothing."""
    assert "loop:3" not in count_history([call(1), call(2), call(3)])
    assert count_history([call(1), call(2, repeats=2), call(3, repeats=3)])["loop:3"] == 1


def test_what_no_history_of_ours_holds_is_passed_over() -> None:
    assert count_history([{"kind": "turn", "at": 1}, {"at": 2}, {}]) == {}


def test_a_failure_says_whether_it_was_late_and_the_last() -> None:
    failed = {"kind": "provider_failure", "at": 1, "provider_name": "X", "reason": "r"}
    counts = count_history([failed, {**failed, "timeout": True}, {**failed, "disabled": True}])
    assert summarize(counts).providers == [
        ProviderStats(provider="X", fires=0, timed=0, failures=3, timeouts=1, disabled=1)
    ]


def test_counters_of_a_later_version_are_passed_over() -> None:
    summary = summarize({"tool:t:calls": 2, "tool:t:unheard_of": 5, "moon:x:y": 1, "weather": 3, "a:b:c:d": 1})
    assert [(tool.tool, tool.calls, tool.codes) for tool in summary.tools] == [("t", 2, {})]
    assert summary.totals.calls == 2


def test_sums() -> None:
    assert sum_counters([]) == {}
    assert sum_counters([{"a": 1, "b": 2}, {"b": 3}]) == {"a": 1, "b": 5}


def test_nothing_has_no_rates() -> None:
    totals = summarize({}).totals
    assert (totals.error_rate, totals.taken_rate, totals.loops) == (None, None, {"3": 0, "5": 0, "8": 0})
    assert summarize({}).delivery.same_call_rate is None


def test_the_share_in_the_same_call_leaves_out_what_no_call_earned() -> None:
    delivered = {"delivery:same_call": 6, "delivery:late": 3, "delivery:expired": 1, "delivery:timed": 90}
    assert summarize(delivered).delivery.same_call_rate == 0.6
