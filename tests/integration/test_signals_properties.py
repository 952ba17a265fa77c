"""Properties of scores as the script computes them: bounds, fixed point, decay, order, idempotency; and examples."""

from __future__ import annotations

from itertools import permutations
from typing import get_args

import pytest
from hypothesis import HealthCheck, assume, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tellback import Tellback
from tellback.contracts.signal_types import SignalType
from tellback.contracts.signals import SignalItem
from tellback.signals.ranking import Usefulness, score_delta
from tellback.state.banks import BankStore
from tellback.state.decay import Decay
from tellback_workers.decay import run_for
from tests.support.clocks import WEEK_MS, ServerClock
from tests.support.examples import examples
from tests.support.scores import scores
from tests.support.signals import Bench, item, signal

MONDAY_NOON = 1_788_782_400_000  # 2026-09-07 12:00 UTC
few_examples = hypothesis_settings(
    max_examples=examples(10), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
types = st.sampled_from(get_args(SignalType))
shares = st.floats(0, 1)
moves = st.lists(st.tuples(types, shares), min_size=1, max_size=12)
histories = st.lists(st.tuples(types, shares, st.floats(0, 30)), min_size=1, max_size=8)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ServerClock:
    clock = ServerClock(monkeypatch)
    clock.stand_still(MONDAY_NOON)
    return clock


def start_over(bench: Bench) -> None:
    """Hypothesis calls a test many times with one and the same Redis."""
    bench.runtime.database.command("FLUSHALL")


def said(moves: list[tuple[SignalType, float]], fact: str = "f") -> list[SignalItem]:
    return [item(fact, "a", kind, confidence=confidence) for kind, confidence in moves]


def score(tb: Tellback, bank: str = "b", fact: str = "f") -> float:
    return tb.bank(bank).fact_stats(fact).usefulness_score


def in_cluster(bench: Bench, bank: str) -> Usefulness:
    """Read the usefulness that a recall of the bank's one cluster would find."""
    store = BankStore(bench.runtime.database, bench.layout.of(bank), bank)
    loaded = store.load("", 0, "")
    assert loaded.bank is not None
    found = store.usefulness(loaded.bank.id, loaded.version, loaded.bank.stamp, [0], ["f"])
    assert found is not None
    return found[0]


@few_examples
@given(history=histories)
def test_scores_stay_in_bounds(
    tb: Tellback, bench: Bench, clock: ServerClock, history: list[tuple[SignalType, float, float]]
) -> None:
    """Global and cluster scores do, whatever signals come, and whenever."""
    start_over(bench)
    for kind, confidence, weeks in history:
        signal(tb, bench, said([(kind, confidence)] * 3))
        for found in scores(bench.runtime.database, bench.layout.of("b"), "b").values():
            assert 0 <= found.score <= 1
        clock.step(weeks * WEEK_MS)
        assert 0 <= score(tb) <= 1


@few_examples
@given(weeks=st.lists(st.floats(0, 200), min_size=1, max_size=5), kind=types)
def test_neutral_stays_neutral(
    tb: Tellback, bench: Bench, clock: ServerClock, weeks: list[float], kind: SignalType
) -> None:
    """However much time passes, and whether decay is written or not: 0.5 is 0.5, exactly."""
    start_over(bench)
    for each in weeks:
        signal(tb, bench, said([(kind, 0.0)]))
        clock.step(each * WEEK_MS)
        assert score(tb) == 0.5
        run_for(Decay(bench.runtime.database, bench.layout), "t", 60)
        assert score(tb) == 0.5


@few_examples
@given(history=histories, read_after=st.floats(0, 100))
def test_decay_written_back_or_not_is_the_same_to_a_reader(
    tb: Tellback,
    bench: Bench,
    clock: ServerClock,
    history: list[tuple[SignalType, float, float]],
    read_after: float,
) -> None:
    """One bank is decayed after each signal, however late; the other, of another shard, never."""
    start_over(bench)
    database = bench.runtime.database
    often, never = "b", next(name for name in "cdefgh" if bench.layout.of(name) != bench.layout.of("b"))
    store = Decay(database, bench.layout)
    for kind, confidence, weeks in history:
        for bank in (often, never):
            signal(tb, bench, said([(kind, confidence)]), bank=bank)
        clock.step(weeks * WEEK_MS)
        for _ in range(2):
            database.command("HDEL", bench.layout.of(often).key("decay"), "done")
            assert store.run(bench.layout.of(often), "t", lambda: False) == "done"
    clock.step(read_after * WEEK_MS)
    assert score(tb, often) == pytest.approx(score(tb, never), abs=1e-9)
    one, two = (in_cluster(bench, bank) for bank in (often, never))
    assert (one.scope, two.scope) == ("cluster", "cluster")
    assert one.score == pytest.approx(two.score, abs=1e-9)
    assert tb.bank(often).fact_stats("f").last_signal_at == tb.bank(never).fact_stats("f").last_signal_at


@few_examples
@given(moves=moves, cut=st.integers(0, 12))
def test_a_batch_is_its_signals_in_order(
    tb: Tellback, bench: Bench, clock: ServerClock, moves: list[tuple[SignalType, float]], cut: int
) -> None:
    """One batch, two, or one for each signal give the same scores."""
    start_over(bench)
    assert clock.offset_ms >= 0
    signal(tb, bench, said(moves), bank="whole")
    for part in (moves[:cut], moves[cut:]):
        if part:
            signal(tb, bench, said(part), bank="parted")
    for move in moves:
        signal(tb, bench, said([move]), bank="single")
    assert score(tb, "whole") == score(tb, "parted") == score(tb, "single")


@few_examples
@given(moves=moves, again=st.lists(st.integers(0, 11), max_size=20))
def test_an_id_counts_once(
    tb: Tellback, bench: Bench, clock: ServerClock, moves: list[tuple[SignalType, float]], again: list[int]
) -> None:
    """Whatever comes again, in the same batch or another, with the same content or not: the first is what counts."""
    start_over(bench)
    assert clock.offset_ms >= 0
    items = [
        item("f", "a", kind, confidence=confidence, signal_id=f"s{i}") for i, (kind, confidence) in enumerate(moves)
    ]
    repeats = [items[i % len(items)] for i in again]
    forged = [item("f", "b", "not_helpful", signal_id=repeat.signal_id) for repeat in repeats]
    signal(tb, bench, items + repeats)
    if repeats:
        signal(tb, bench, repeats + forged)
    signal(tb, bench, said(moves), bank="once")
    assert score(tb) == score(tb, "once")
    assert tb.bank("b").stats().signal_count == len(moves)


@few_examples
@given(moves=st.lists(st.tuples(types, shares), min_size=2, max_size=3))
def test_signals_commute_within_the_bounds(
    tb: Tellback, bench: Bench, clock: ServerClock, moves: list[tuple[SignalType, float]]
) -> None:
    """At one moment, where no order reaches an end of the scale, order does not matter."""
    start_over(bench)
    assert clock.offset_ms >= 0
    changes = [score_delta(kind, confidence) for kind, confidence in moves]
    up, down = sum(c for c in changes if c > 0), sum(c for c in changes if c < 0)
    assume(up < 0.5)
    assume(down > -0.5)
    found = set[float]()
    for number, order in enumerate(permutations(moves)):
        signal(tb, bench, said(list(order)), bank=f"order-{number}")
        found.add(round(score(tb, f"order-{number}"), 12))
    assert max(found) - min(found) <= 1e-11


def test_signals_do_not_commute_at_the_clamp(tb: Tellback, bench: Bench, clock: ServerClock) -> None:
    """Changes beyond an end of the scale are lost: up, down from 1.0 ends at 0.9, and down, up at 1.0."""
    assert clock.offset_ms == 0
    up: list[tuple[SignalType, float]] = [("helpful", 1.0)]
    down: list[tuple[SignalType, float]] = [("not_helpful", 1.0)]
    for bank, order in (("up-down", up + down), ("down-up", down + up)):
        signal(tb, bench, said(up * 4), bank=bank)
        assert score(tb, bank) == 1.0
        signal(tb, bench, said(order), bank=bank)
    assert score(tb, "up-down") == pytest.approx(0.9, abs=1e-12)
    assert score(tb, "down-up") == 1.0


def test_time_and_signals_do_not_commute(tb: Tellback, bench: Bench, clock: ServerClock) -> None:
    """Requirement S-16: recent signals matter more than old ones."""
    signal(tb, bench, said([("helpful", 1.0)]), bank="good-first")
    signal(tb, bench, said([("not_helpful", 1.0)]), bank="bad-first")
    clock.step(20 * WEEK_MS)
    signal(tb, bench, said([("not_helpful", 1.0)]), bank="good-first")
    signal(tb, bench, said([("helpful", 1.0)]), bank="bad-first")
    assert score(tb, "good-first") == pytest.approx(0.5 + 0.15 * 0.95**20 - 0.1, abs=1e-9)
    assert score(tb, "bad-first") == pytest.approx(0.5 - 0.1 * 0.95**20 + 0.15, abs=1e-9)


def test_submitting_signals(tb: Tellback, bench: Bench, clock: ServerClock) -> None:
    """Requirement S-12: used facts at confidence 1.0, ignored ones at 0.5."""
    assert clock.offset_ms == 0
    used = [item(fact, "a", "used", confidence=1.0) for fact in ("fact-1", "fact-3")]
    ignored = [item(fact, "a", "ignored", confidence=0.5) for fact in ("fact-2", "fact-4")]
    signal(tb, bench, used + ignored)
    expected = {"fact-1": 0.6, "fact-3": 0.6, "fact-2": 0.475, "fact-4": 0.475}
    assert {fact: score(tb, fact=fact) for fact in expected} == pytest.approx(expected, abs=1e-12)


def test_the_effects_of_the_document_in_the_script(tb: Tellback, bench: Bench, clock: ServerClock) -> None:
    """Requirements S-1 and S-12, as a worker applies them."""
    assert clock.offset_ms == 0
    effects = {"used": 0.10, "ignored": -0.05, "helpful": 0.15, "not_helpful": -0.10}
    for kind in get_args(SignalType):
        signal(tb, bench, said([(kind, 1.0)], fact=kind))
        assert score(tb, fact=kind) == pytest.approx(0.5 + effects[kind], abs=1e-12)
