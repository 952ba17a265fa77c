"""A bank's figures: kept with each signal, equal to what looking at every fact would give, whatever happened."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tellback import Tellback
from tellback.contracts.signal_types import KINDS, SignalType
from tellback.contracts.signals import BankStats, FactScore
from tellback.errors import InvalidInput, NotFound
from tellback.settings import Settings
from tellback.state import bank_stats
from tellback.state.bank_stats import BankStatistics, PruneRule
from tellback.state.database import Database
from tellback.state.decay import Decay
from tellback.state.keys import FAMILIES, Layout, Shard
from tellback_workers.decay import run_for
from tests.support.clocks import DAY_MS, WEEK_MS, ServerClock
from tests.support.examples import examples
from tests.support.scores import mean, scores
from tests.support.signals import Angles, Bench, counted, item, signal

pytestmark = pytest.mark.usefixtures("one_day")

EDGE = 1e-6  # a score so near the edge of a band may stand on either side: a test takes milliseconds itself


@pytest.fixture
def bench(settings: Settings, layout: Layout) -> Iterator[Bench]:
    bench = Bench(Settings(redis_url=settings.redis_url, bank_facts=25), layout, Angles())
    yield bench
    bench.close()


@pytest.fixture
def shard(layout: Layout) -> Shard:
    return layout.of("b")


def members(database: Database, key: str) -> dict[str, float]:
    flat = database.command("ZRANGE", key, 0, -1, "WITHSCORES")
    return {name.decode(): float(at) for name, at in zip(flat[::2], flat[1::2], strict=True)}


def check(database: Database, shard: Shard) -> BankStats:
    """Compare what the bank says with a count over all of its facts."""
    stats = BankStatistics(database, shard, "b").stats()
    found = {name: score for name, score in scores(database, shard, "b").items() if "/" not in name}
    now = database.now_ms()
    assert stats.facts == len(found)
    assert stats.average_score == pytest.approx(mean(found, now), abs=1e-6)
    assert members(database, shard.key("factabove", "b")).keys() == {n for n, s in found.items() if s.score >= 0.5}
    assert members(database, shard.key("factbelow", "b")).keys() == {n for n, s in found.items() if s.score < 0.5}
    values = {name: score.at(now) for name, score in found.items()}
    assert sum(stats.distribution) == len(found)
    for band, facts_in in enumerate(stats.distribution):
        low, high = band / 10, (band + 1) / 10
        certain = sum(low + EDGE <= value < high - EDGE for value in values.values())
        possible = sum(low - EDGE <= value <= high + EDGE for value in values.values())
        assert certain <= facts_in <= possible, band
    ascending = sorted(values.values())
    assert [fact.usefulness_score for fact in stats.least_useful] == pytest.approx(ascending[:10], abs=1e-6)
    assert [fact.usefulness_score for fact in stats.most_useful] == pytest.approx(ascending[::-1][:10], abs=1e-6)
    for fact in (*stats.most_useful, *stats.least_useful):
        assert fact.usefulness_score == pytest.approx(values[fact.fact_id], abs=1e-6)
    return stats


facts = st.sampled_from([f"f{i}" for i in range(40)])
signals = st.tuples(facts, st.sampled_from(KINDS), st.floats(0, 1))
steps = st.lists(
    st.tuples(st.lists(signals, min_size=1, max_size=12), st.floats(0, 5), st.booleans()), min_size=1, max_size=8
)


@hypothesis_settings(max_examples=examples(12), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=steps)
def test_figures_are_those_of_all_facts(
    tb: Tellback,
    bench: Bench,
    shard: Shard,
    clock: ServerClock,
    history: list[tuple[list[tuple[str, SignalType, float]], float, bool]],
) -> None:
    """Weeks lie between signals, the cap of 25 drops facts, and the weekly decay comes at times in between."""
    database = bench.runtime.database
    database.command("FLUSHALL")
    for batch, weeks, decays in history:
        signal(tb, bench, [item(fact, "a", kind, confidence=confidence) for fact, kind, confidence in batch])
        clock.step(weeks * WEEK_MS)
        if decays:
            assert run_for(Decay(database, bench.layout), "t", 60)
        check(database, shard)


def test_a_clock_that_goes_back_leaves_the_mean_near(
    tb: Tellback, bench: Bench, shard: Shard, clock: ServerClock, database: Database
) -> None:
    """While it is back, the mean is that of the latest time that the bank has seen; then it is exact again."""
    signal(tb, bench, [item(f"f{i}", "a", "helpful") for i in range(20)])
    clock.step(-10 * DAY_MS)
    signal(tb, bench, [item(f"f{i}", "a", "not_helpful") for i in range(5)])
    assert run_for(Decay(database, bench.layout), "t", 60)
    signal(tb, bench, [item("g", "a", "used")])
    stats = BankStatistics(database, shard, "b").stats()
    found = {name: score for name, score in scores(database, shard, "b").items() if "/" not in name}
    assert stats.average_score == pytest.approx(mean(found, database.now_ms() + 10 * DAY_MS), abs=1e-6)
    clock.step(10 * DAY_MS)
    check(database, shard)


def test_records_from_before_the_newest_signal_type(
    tb: Tellback, bench: Bench, shard: Shard, database: Database
) -> None:
    """An earlier release stored a fact, a day and an evicted fact without the last count."""
    signal(tb, bench, [item("f", "a"), item("g", "a")])
    for family in ("factscore", "bankdays"):
        key = shard.key(family, "b")
        flat = database.command("HGETALL", key)
        for name, packed in zip(flat[::2], flat[1::2], strict=True):
            database.command("HSET", key, name, packed[:-8])
    statistics = BankStatistics(database, shard, "b")
    assert statistics.fact_stats("f").signal_breakdown == counted(used=1)
    check(database, shard)
    newest = KINDS[-1]
    signal(tb, bench, [item("f", "a", newest), *(item(f"h{i}", "a") for i in range(24))])
    assert statistics.fact_stats("f").signal_breakdown == counted(used=1) | {newest: 1}
    assert [day.signal_breakdown for day in statistics.days()] == [counted(used=26) | {newest: 1}]
    check(database, shard)


def test_ten_years_drift_nowhere(
    tb: Tellback, bench: Bench, shard: Shard, clock: ServerClock, database: Database
) -> None:
    """The sum fades with the facts, and grows into no number that doubles hold badly."""
    for year in range(40):
        signal(tb, bench, [item(f"f{year * 7 % 30 + i}", "a", "helpful" if i % 2 else "not_helpful") for i in range(9)])
        clock.step(13 * WEEK_MS)
    check(database, shard)
    total = float(database.command("HGET", shard.key("bank", "b"), "offset"))
    assert abs(total) < 25


def test_a_neutral_fact_stands_in_the_order(tb: Tellback, bench: Bench, shard: Shard, database: Database) -> None:
    """A score of exactly 0.5 is above those below and below those above."""
    signal(tb, bench, [item("up", "a"), item("down", "a", "ignored"), item("none", "a", confidence=0)])
    stats = check(database, shard)
    assert [fact.fact_id for fact in stats.most_useful] == ["up", "none", "down"]
    assert [fact.fact_id for fact in stats.least_useful] == ["down", "none", "up"]
    assert (stats.distribution[4], sum(stats.distribution[5:7])) == (1, 2)


def test_an_evicted_fact_leaves_every_figure(tb: Tellback, bench: Bench, shard: Shard, database: Database) -> None:
    for start in range(0, 60, 10):
        signal(tb, bench, [item(f"f{start + i}", "a", "helpful") for i in range(10)])
    stats = check(database, shard)
    assert stats.facts == 25
    assert stats.signal_count == 60, "what was counted stays counted"


def test_a_cap_that_was_lowered_is_reached_step_by_step(
    tb: Tellback, settings: Settings, layout: Layout, shard: Shard, database: Database
) -> None:
    """One call of Redis evicts at most 1,000 facts."""
    wide = Bench(settings, layout, Angles())
    for start in range(0, 2_500, 500):
        signal(tb, wide, [item(f"f{start + i}", "a") for i in range(500)])
    narrow = Bench(Settings(redis_url=settings.redis_url, bank_facts=10), layout, Angles())
    left: list[int] = []
    for _ in range(4):
        signal(tb, narrow, [item("g", "a")])
        left.append(check(database, shard).facts)
    assert left == [1_501, 501, 10, 10]
    wide.close()
    narrow.close()


def test_days_hold_the_mean_and_the_signals(
    tb: Tellback, bench: Bench, shard: Shard, clock: ServerClock, database: Database
) -> None:
    signal(tb, bench, [item("f", "a", "helpful"), item("g", "a", "ignored")])
    signal(tb, bench, [item("f", "a", "helpful")])
    clock.step(2 * DAY_MS)
    signal(tb, bench, [item("h", "a", "used")])
    first, last = BankStatistics(database, shard, "b").days()
    assert first.average_score == pytest.approx((0.8 + 0.45) / 2, abs=1e-6)
    assert (first.facts, last.facts) == (2, 3)
    assert first.signal_breakdown == counted(ignored=1, helpful=2)
    assert last.signal_breakdown["used"] == 1
    assert last.average_score == pytest.approx(check(database, shard).average_score, abs=1e-6)
    assert first.day < last.day


def test_the_oldest_days_go(tb: Tellback, bench: Bench, shard: Shard, clock: ServerClock, database: Database) -> None:
    cap = FAMILIES["bankdays"].cap
    assert cap is not None
    key = shard.key("bankdays", "b")
    database.command("HSET", key, *(part for day in range(95, 95 + cap) for part in (day, b"\0" * 48)))
    for _ in range(2):
        signal(tb, bench, [item("f", "a")])
        clock.step(DAY_MS)
    days = sorted(int(day) for day in database.command("HKEYS", key))
    assert len(days) == cap
    assert days[0] == 97


def test_each_logged_signal_has_the_score_after_it(tb: Tellback, bench: Bench, shard: Shard) -> None:
    signal(tb, bench, [item("f", "a", "helpful"), item("f", "b", "helpful"), item("f", "a", "ignored")])
    newest = BankStatistics(bench.runtime.database, shard, "b").newest_signals(10)
    assert [entry["score"] for entry in newest] == pytest.approx([0.65, 0.8, 0.75], abs=1e-5)


def test_signals_are_counted_for_the_team(tb: Tellback, bench: Bench, layout: Layout, database: Database) -> None:
    for bank in ("one", "two", "three"):
        signal(tb, bench, [item("f", "a"), item("g", "a", "ignored")], bank=bank)
    totals = [database.command("HGET", shard.key("sigstats"), "used") for shard in layout.all]
    assert sum(int(total or 0) for total in totals) == 3


def test_banks_do_not_share_figures(tb: Tellback, bench: Bench) -> None:
    signal(tb, bench, [item("f", "a", "helpful")], bank="one")
    signal(tb, bench, [item("f", "a", "not_helpful")], bank="two")
    one, two = tb.bank("one").stats(), tb.bank("two").stats()
    assert (one.average_score, two.average_score) == pytest.approx((0.65, 0.4), abs=1e-6)
    assert [fact.fact_id for fact in one.least_useful] == ["f"]


def names(found: list[FactScore]) -> list[str]:
    return [fact.fact_id for fact in found]


@pytest.mark.parametrize("page", [500, 1])
def test_candidates_for_pruning(
    tb: Tellback, bench: Bench, shard: Shard, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    """They are chosen by score, count, and ignored over used, the worst first; nothing is deleted."""
    monkeypatch.setattr(bank_stats, "PAGE", page)
    counts: dict[str, list[Any]] = {
        "worst": ["not_helpful"] * 5,  # 0.0
        "ignored": ["ignored"] * 8,  # 0.1
        "young": ["not_helpful"] * 3 + ["ignored"],  # 0.15
        "torn": ["used"] * 4 + ["not_helpful"] * 7,  # 0.2, 1.75 against 1
        "mixed": ["used"] * 3 + ["ignored"] * 11,  # 0.25, 3.7 against 1
        "fine": ["used"],
        "good": ["helpful"] * 3,
    }
    for fact, kinds in counts.items():
        signal(tb, bench, [item(fact, "a", kind) for kind in kinds])
    bank, before = BankStatistics(bench.runtime.database, shard, "b"), bench.runtime.database.command("DBSIZE")
    assert names(bank.prune_candidates(PruneRule())) == ["worst", "ignored", "mixed"]
    assert names(bank.prune_candidates(PruneRule(min_signals=1))) == ["worst", "ignored", "young", "mixed"]
    assert names(bank.prune_candidates(PruneRule(min_against=1))) == ["worst", "ignored", "torn", "mixed"]
    assert names(bank.prune_candidates(PruneRule(), limit=2)) == ["worst", "ignored"]
    assert names(bank.prune_candidates(PruneRule(), limit=10**30))[:2] == ["worst", "ignored"]
    everything = PruneRule(max_score=1, min_signals=0, min_against=0)
    assert names(bank.prune_candidates(everything)) == [*counts]
    host = tb.bank("b")
    assert names(host.prune_candidates()) == ["worst", "ignored", "mixed"]
    assert names(host.prune_candidates(min_signals=1, against=3, limit=2)) == ["worst", "ignored"]
    assert names(host.prune_candidates(max_score=0.12)) == ["worst", "ignored"]
    assert host.stats().facts == len(counts)
    assert bench.runtime.database.command("DBSIZE") == before


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"max_score": 1.1}, "max_score is 1.1: use a number from 0 to 1"),
        ({"min_signals": -1}, "min_signals is -1: use 0 or more"),
        ({"against": -0.5}, "against is -0.5: use a finite number, 0 or more"),
        ({"against": math.inf}, "against is inf: use a finite number"),
        ({"against": "2"}, "against is '2': use a finite number"),
        ({"limit": 0}, "limit is 0: use 1 or more"),
    ],
)
def test_wrong_rules_of_pruning_are_named(tb: Tellback, bench: Bench, wrong: dict[str, Any], says: str) -> None:
    signal(tb, bench, [item("f", "a")])
    with pytest.raises(InvalidInput, match=re.escape(says)):
        tb.bank("b").prune_candidates(**wrong)


def test_a_bank_that_is_not_there_has_no_candidates_for_pruning(tb: Tellback) -> None:
    with pytest.raises(NotFound, match="no bank 'none'"):
        tb.bank("none").prune_candidates()
