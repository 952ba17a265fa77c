"""The query clusters of a bank, as several processes and a process that was restarted know them."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from tellback import Tellback
from tellback.embedding.clusters import BankClusters
from tellback.settings import Settings
from tellback.state.banks import BankUpdates
from tellback.state.database import Database
from tests.support.lost_tail import restore, snapshot
from tests.support.signals import Angles, Bench, apply_at_once, item, recall, signal


def test_concurrent_appliers_make_one_cluster_where_one_would_match(
    tb: Tellback, bench: Bench, settings: Settings, encoder: Angles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes plan against the same empty bank; the second has to load again and joins the first's cluster."""
    lease = bench.lease("b")
    for degrees in (0, 10):
        tb.bank("b").signal([item("f", f"x@{degrees}")])
        tb.flush()
    first, second = bench.read(lease)
    other = Bench(settings, bench.layout, encoder)
    apply_at_once(monkeypatch, lease, {bench: first, other: second})
    assert tb.bank("b").stats().clusters == 1
    assert tb.bank("b").fact_stats("f").signal_count == 2
    assert sum(bench.intake.lengths().values()) == 0
    bench.intake.release(lease)
    [hit] = recall(bench, tb.bank("b"), "x@5", [("f", 0.5)])
    assert hit.scope == "cluster"
    assert hit.usefulness == pytest.approx(0.7, abs=1e-6), "both signals stand in it"
    other.close()


def test_a_restarted_worker_finds_the_clusters_again(
    tb: Tellback, bench: Bench, settings: Settings, encoder: Angles
) -> None:
    signal(tb, bench, [item("f", "x@0"), item("f", "y@0")])
    fresh = Bench(settings, bench.layout, encoder)
    signal(tb, fresh, [item("f", "x@20"), item("f", "z@0")])
    signal(tb, bench, [item("f", "z@20"), item("f", "x@10")])
    assert tb.bank("b").stats().clusters == 3
    fresh.close()


def test_a_bank_that_was_started_over_is_not_taken_for_the_old_one(
    tb: Tellback, bench: Bench, settings: Settings, encoder: Angles
) -> None:
    """Another worker began it, at the version that this one knew of the old bank."""
    signal(tb, bench, [item("f", "x@0")])
    bench.runtime.database.command("FLUSHALL")
    other = Bench(settings, bench.layout, encoder)
    signal(tb, other, [item("f", "y@0")])
    scopes = {query: recall(bench, tb.bank("b"), query, [("f", 0.5)])[0].scope for query in ("x@0", "y@0")}
    assert scopes == {"x@0": "global", "y@0": "cluster"}
    signal(tb, bench, [item("f", "y@10")])
    assert tb.bank("b").stats().clusters == 1
    other.close()


def test_clusters_of_a_lost_tail_are_not_used_again(tb: Tellback, bench: Bench, database: Database) -> None:
    """Redis comes back without its last second: the worker must not continue with a cluster that only it knows."""
    signal(tb, bench, [item("f", "a")])
    kept = snapshot(database)
    signal(tb, bench, [item("g", "b")])
    restore(database, kept)
    signal(tb, bench, [item("h", "b")])
    other = Bench(bench.runtime.settings, bench.layout, Angles())
    try:
        [hit] = recall(other, tb.bank("b"), "b", [("h", 0.5)])
    finally:
        other.close()
    assert hit.scope == "cluster"


@pytest.mark.parametrize("begun", [1, 2], ids=["as many", "one more"])
def test_clusters_of_a_lost_tail_are_not_taken_for_those_begun_since(
    tb: Tellback, bench: Bench, database: Database, begun: int
) -> None:
    """Redis comes back without its last second, and another process begins clusters under the same versions."""
    signal(tb, bench, [item("f", "a")])
    kept = snapshot(database)
    signal(tb, bench, [item("g", "b")])
    restore(database, kept)
    others = [Bench(bench.runtime.settings, bench.layout, Angles()) for _ in range(2)]
    try:
        signal(tb, others[0], [item(fact_id, fact_id) for fact_id in ("x", "y")[:begun]])
        assert recall(bench, tb.bank("b"), "x", [("x", 0.5)])[0].scope == "cluster"
        signal(tb, bench, [item("h", "b")])
        assert recall(others[1], tb.bank("b"), "b", [("h", 0.5)])[0].scope == "cluster"
        assert recall(others[1], tb.bank("b"), "x", [("h", 0.5)])[0].scope == "global"
    finally:
        for other in others:
            other.close()


def test_a_plan_and_a_match_of_a_lost_tail_are_refused(tb: Tellback, bench: Bench) -> None:
    """The tail is lost between a worker's look and its script: version and id are the bank's, the stamp is not."""
    signal(tb, bench, [item("f", "a")])
    clusters = bench.clusters.bank_clusters(bench.layout.of("b"), "b")
    known, of_tail = clusters.matrix, "0" * 16
    assert clusters.store.usefulness(known.bank_id, known.version, known.stamp, [0], ["f"]) is not None
    assert clusters.store.usefulness(known.bank_id, known.version, of_tail, [0], ["f"]) is None
    stamps = iter([of_tail])
    tb.bank("b").signal([item("g", "b")])
    tb.flush()
    original = BankClusters.sync

    def overtaken(self: BankClusters, **asked: Any) -> BankUpdates:
        loaded = original(self, **asked)
        self.matrix.stamp = next(stamps, self.matrix.stamp)
        return loaded

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BankClusters, "sync", overtaken)
        bench.consume()
    assert next(stamps, None) is None
    with closing(Bench(bench.runtime.settings, bench.layout, Angles())) as fresh:
        assert recall(fresh, tb.bank("b"), "b", [("g", 0.5)])[0].scope == "cluster"
    assert known is not clusters.matrix, "what it knew was loaded again"
