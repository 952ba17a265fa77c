"""Scores of signals over time and at their caps: how they decay, what the script computes, which goes first."""

from __future__ import annotations

import struct

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tellback import Tellback
from tellback.contracts.signal_types import KINDS, NEUTRAL, WEEK_MS, SignalType
from tellback.errors import NotFound
from tellback.settings import Settings
from tellback.signals.ranking import score_delta
from tellback.state.bank_stats import BankStatistics
from tellback.state.keys import Layout, Shard
from tests.support.examples import examples
from tests.support.scores import apply_signal
from tests.support.signals import Bench, item, recall, signal
from tests.support.waiting import wait_until


def set_back(bench: Bench, shard: Shard, fact_id: str, by_ms: float, slot: int = 0) -> None:
    """Make a fact's scores as old as if their last signal had come `by_ms` earlier."""
    for key, form in ((shard.key("factscore", "b"), "<8d"), (shard.key("cluster", "b", str(slot)), "<4d")):
        numbers = list(struct.unpack(form, bench.runtime.database.command("HGET", key, fact_id)))
        numbers[1] -= by_ms
        bench.runtime.database.command("HSET", key, fact_id, struct.pack(form, *numbers))


def test_scores_decay_when_read(tb: Tellback, bench: Bench) -> None:
    signal(tb, bench, [item("f", "a", "helpful")])
    set_back(bench, bench.layout.of("b"), "f", 2 * WEEK_MS)
    expected = pytest.approx(0.5 + 0.15 * 0.95**2, abs=1e-6)
    assert tb.bank("b").fact_stats("f").usefulness_score == expected
    [hit] = recall(bench, tb.bank("b"), "a", [("f", 0.5)])
    assert hit.scope == "cluster"
    assert hit.usefulness == expected


kinds = st.sampled_from(KINDS)
steps = st.lists(st.tuples(st.floats(-1, 60), kinds, st.floats(0, 1)), min_size=1, max_size=12)


@hypothesis_settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=steps)
def test_the_script_computes_what_the_document_says(
    tb: Tellback, bench: Bench, history: list[tuple[float, SignalType, float]]
) -> None:
    """Signals weeks apart, or under a clock that went back, are compared with the same arithmetic in Python."""
    bench.runtime.database.command("FLUSHALL")
    score, age = NEUTRAL, 0.0  # the age is negative while a clock that went back has not caught up
    for number, (weeks, kind, confidence) in enumerate(history):
        if number:
            set_back(bench, bench.layout.of("b"), "f", weeks * WEEK_MS)
        signal(tb, bench, [item("f", "a", kind, confidence=confidence)])
        age += weeks * WEEK_MS if number else 0
        score, age = apply_signal(score, age, score_delta(kind, confidence)), min(age, 0)
    store = BankStatistics(bench.runtime.database, bench.layout.of("b"), "b")
    packed = bench.runtime.database.command("HGET", bench.layout.of("b").key("factscore", "b"), "f")
    assert struct.unpack("<8d", packed)[0] == pytest.approx(score, abs=1e-6)  # a test takes real milliseconds, too
    assert store.fact_stats("f").signal_count == len(history)


def test_at_the_cap_the_least_recently_signalled_cluster_goes(tb: Tellback, bench: Bench, layout: Layout) -> None:
    """Its slot is used again; the fact's global score stays, and no cluster outlives the cap."""
    tiny = Settings(redis_url=bench.runtime.settings.redis_url, bank_clusters=3)  # below what the setting allows
    worker = Bench(tiny, layout, bench.encoder)
    for query in ("a", "b", "c", "a", "d"):
        signal(tb, worker, [item("f", query)])
    assert tb.bank("b").stats().clusters == 3
    scopes = {q: recall(bench, tb.bank("b"), q, [("f", 0.5)])[0].scope for q in "abcd"}
    assert scopes == {"a": "cluster", "b": "global", "c": "cluster", "d": "cluster"}
    [hit] = recall(bench, tb.bank("b"), "d", [("f", 0.5)])
    assert hit.usefulness == pytest.approx(0.6, abs=1e-6), "nothing is left of the evicted cluster's scores"
    assert tb.bank("b").fact_stats("f").signal_count == 5
    worker.close()


def test_at_the_cap_the_least_recently_signalled_fact_goes(tb: Tellback, bench: Bench, layout: Layout) -> None:
    tiny = Settings(redis_url=bench.runtime.settings.redis_url, bank_facts=2)
    worker = Bench(tiny, layout, bench.encoder)
    for fact in ("f1", "f2", "f1", "f3"):
        signal(tb, worker, [item(fact, "a")])
    assert tb.bank("b").stats().facts == 2
    with pytest.raises(NotFound):
        tb.bank("b").fact_stats("f2")
    assert tb.bank("b").fact_stats("f1").signal_count == 2
    worker.close()


def test_a_cluster_keeps_its_most_recent_facts(tb: Tellback, bench: Bench) -> None:
    signal(tb, bench, [item(f"old{i}", "a") for i in range(600)])
    wait_until(
        lambda: bench.runtime.database.now_ms() > (tb.bank("b").stats().last_signal_at or 0), "the next millisecond"
    )
    signal(tb, bench, [item(f"new{i}", "a") for i in range(500)])
    key = bench.layout.of("b").key("cluster", "b", "0")
    fields = {field.decode() for field in bench.runtime.database.command("HKEYS", key)}
    assert len(fields) == 1_000
    assert sum(field.startswith("new") for field in fields) == 500


def test_ids_are_remembered_in_two_generations(tb: Tellback, bench: Bench) -> None:
    shard = bench.layout.of("b")
    signal(tb, bench, [item("f", "a", signal_id="first")])
    for start in range(0, 50_000, 10_000):
        bench.runtime.database.command("SADD", shard.key("sigseen", "b"), *range(start, start + 10_000))
    signal(tb, bench, [item("f", "a", signal_id="second")])
    assert bench.runtime.database.command("SCARD", shard.key("sigseen-old", "b")) == 50_001
    signal(tb, bench, [item("f", "a", signal_id=name) for name in ("first", "second", "third")])
    assert tb.bank("b").fact_stats("f").signal_count == 3
    bench.runtime.database.command("DEL", shard.key("sigseen-old", "b"))
