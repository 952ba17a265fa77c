"""A recall whose query the model fails at is answered so: its host does not wait for what will never come."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tellback import RecallHit, Tellback
from tellback.errors import InvalidInput
from tellback.names import Family
from tellback.state.keys import Layout, stream_of
from tests.support.signals import Bench, item, recall, serving, signal
from tests.support.waiting import wait_until

LONGEST = 60
"""Seconds for which a host would wait."""


@pytest.fixture
def held(tb: Tellback, bench: Bench) -> Tellback:
    """A bank `b` that holds one fact, which helped once."""
    tb.bank("b").remember("f", "x")
    signal(tb, bench, [item("f", "x", "helpful")])
    return tb


def test_candidates_are_ranked_by_their_global_scores(held: Tellback, bench: Bench) -> None:
    [hit] = recall(bench, held.bank("b"), "x@bad", [("f", 0.5)], wait=LONGEST)
    assert (hit.fact_id, hit.degraded, hit.scope, round(hit.usefulness, 6)) == ("f", True, "global", 0.65)


def test_without_candidates_the_error_names_the_query(held: Tellback, bench: Bench, layout: Layout) -> None:
    """Nothing of it stays in the stream, and no secret of the query is shown."""
    secret = "ghp_" + "a1B2" * 9
    reason = "query: the model angles fails at this text: ValueError"
    with serving(bench), pytest.raises(InvalidInput, match=reason) as raised:
        held.bank("b").recall(f"x@bad\ntoken: {secret}", wait=LONGEST)
    assert secret not in str(raised.value)
    with serving(bench):
        assert [hit.fact_id for hit in held.bank("b").recall("x", wait=LONGEST)] == ["f"]
    assert held.context.database.command("XLEN", stream_of(layout.of("b"), Family.RECALLS)) == 0


def test_recalls_beside_it_are_answered_in_full(held: Tellback, bench: Bench) -> None:
    """Both wait in the stream before a worker comes, and one call of the model serves them."""
    fit, unfit = (_later(held, query) for query in ("x", "x@bad"))
    lease = bench.lease("b", Family.RECALLS)
    wait_until(lambda: held.context.database.command("XLEN", lease.stream) == 2, "both recalls wait")
    bench.loops[Family.RECALLS].apply(lease, bench.read(lease))
    bench.intake.release(lease)
    assert [hit.scope for hit in fit.result()] == ["cluster"]
    assert [hit.scope for hit in unfit.result()] == ["global"]


def _later(tb: Tellback, query: str) -> Future[list[RecallHit]]:
    return ThreadPoolExecutor(1).submit(lambda: tb.bank("b").recall(query, [("f", 0.5)], wait=LONGEST))
