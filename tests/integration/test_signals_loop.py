"""The signals and recalls loops on a real Redis, with vectors made for the test in place of a model's."""

from __future__ import annotations

import msgspec
import pytest

from tellback import Tellback
from tellback.contracts.signals import Candidate, RecallReply, RecallRequested, SignalBatch
from tellback.errors import ConfigurationError, NotFound, Unavailable
from tellback.names import Family
from tellback.settings import Settings
from tellback.state.embeddings import Encoders
from tellback.state.intake import Intake
from tellback.state.intake_lease import Fenced
from tellback.state.keys import Layout
from tests.support.signals import Angles, Bench, counted, item, recall, signal
from tests.support.waiting import wait_until


def test_a_batch_moves_global_and_cluster_scores(tb: Tellback, bench: Bench) -> None:
    signal(tb, bench, [item("f1", "a"), item("f2", "a", "not_helpful"), item("f1", "b", "ignored", confidence=0.5)])
    one, two = tb.bank("b").fact_stats("f1"), tb.bank("b").fact_stats("f2")
    assert one.usefulness_score == pytest.approx(0.575, abs=1e-6)
    assert two.usefulness_score == pytest.approx(0.4, abs=1e-6)
    assert one.signal_count == 2
    assert one.signal_breakdown == counted(used=1, ignored=1)
    assert one.last_signal_at is not None
    assert one.last_signal_at >= one.created_at > 1_600_000_000_000
    stats = tb.bank("b").stats()
    assert (stats.facts, stats.clusters, stats.signal_count) == (2, 2, 3)
    assert (stats.model, stats.dimension, stats.threshold) == ("angles", 52, 0.85)


def test_the_same_fact_has_other_scores_for_other_queries(tb: Tellback, bench: Bench) -> None:
    """Requirement S-25. One fact has a score of its own under each of three queries."""
    signal(tb, bench, [item("pool", "database performance")] * 5 + [item("pool", "authentication", "ignored")] * 3)
    bank = tb.bank("b")
    [performance] = recall(bench, bank, "database performance", [("pool", 0.5)])
    [authentication] = recall(bench, bank, "authentication", [("pool", 0.5)])
    [limits] = recall(bench, bank, "rate limiting", [("pool", 0.5)])
    [other] = recall(bench, bank, "rate limiting", [("never signalled", 0.5)])
    assert performance.usefulness == pytest.approx(1.0, abs=1e-6)
    assert authentication.usefulness == pytest.approx(0.35, abs=1e-6)
    assert limits.usefulness == pytest.approx(0.85, abs=1e-6)
    assert [hit.scope for hit in (performance, authentication, limits, other)] == [
        "cluster",
        "cluster",
        "global",
        "neutral",
    ]
    assert other.usefulness == 0.5


def test_a_recall_goes_past_the_best_cluster_to_one_that_knows_the_fact(tb: Tellback, bench: Bench) -> None:
    """20 and -20 degrees from the query both match it; the nearer one has no score of the fact."""
    signal(tb, bench, [item("f", "x@-20", "helpful"), item("g", "x@15"), item("f", "y", "not_helpful")])
    far, near = recall(bench, tb.bank("b"), "x@0", [("f", 0.1), ("g", 0.1)])
    assert far.usefulness == pytest.approx(0.65, abs=1e-6)
    assert (far.scope, near.scope) == ("cluster", "cluster")


def test_a_stored_neutral_score_is_a_score(tb: Tellback, bench: Bench) -> None:
    """0.5 in the query's cluster is not taken for an absence, whatever the global score is."""
    signal(tb, bench, [item("f", "a"), item("f", "a", "not_helpful"), item("f", "b", "helpful")])
    [hit] = recall(bench, tb.bank("b"), "a", [("f", 0.1)])
    assert hit.scope == "cluster"
    assert hit.usefulness == pytest.approx(0.5, abs=1e-9)


def test_signals_change_the_next_recall(tb: Tellback, bench: Bench) -> None:
    bank, found = tb.bank("b"), [("old", 0.90), ("proven", 0.80)]
    assert [hit.fact_id for hit in recall(bench, bank, "x@0", found)] == ["old", "proven"]
    signal(tb, bench, [item("proven", "x@5")] * 4 + [item("old", "x@5", "ignored")] * 4)
    hits = recall(bench, bank, "x@0", found)
    assert [hit.fact_id for hit in hits] == ["proven", "old"]
    assert [hit.score for hit in hits] == pytest.approx([0.7 * 0.8 + 0.3 * 0.9, 0.7 * 0.9 + 0.3 * 0.3], abs=1e-6)
    unboosted = recall(bench, bank, "x@0", found, boost_by_usefulness=False)
    assert [hit.fact_id for hit in unboosted] == ["old", "proven"]
    assert [hit.fact_id for hit in recall(bench, bank, "x@0", found, min_usefulness=0.5)] == ["proven"]


def test_recall_changes_no_score(tb: Tellback, bench: Bench) -> None:
    signal(tb, bench, [item("f", "a")])
    before = tb.bank("b").fact_stats("f")
    for _ in range(3):
        recall(bench, tb.bank("b"), "a", [("f", 0.5), ("g", 0.5)])
    after = tb.bank("b").fact_stats("f")
    assert after.usefulness_score == pytest.approx(before.usefulness_score, abs=1e-6)
    assert after.signal_count == before.signal_count
    with pytest.raises(NotFound):
        tb.bank("b").fact_stats("g")


def test_without_a_worker_recall_uses_global_scores_and_says_so(tb: Tellback, bench: Bench) -> None:
    signal(tb, bench, [item("f", "a", "helpful"), item("f", "b")])
    for wait in (0, 0.2):
        hits = tb.bank("b").recall("a", [("f", 0.5), ("g", 0.6)], boost_by_usefulness=True, wait=wait)
        assert {hit.fact_id: (hit.scope, hit.degraded) for hit in hits} == {
            "f": ("global", True),
            "g": ("neutral", True),
        }
        assert hits[0].usefulness == pytest.approx(0.75, abs=1e-6)


def test_a_request_past_its_deadline_is_dropped(tb: Tellback, bench: Bench, layout: Layout, encoder: Angles) -> None:
    tb.bank("b").recall("late", [("f", 0.5)], wait=0.05)
    late = tb.context.database.now_ms() + 50  # the deadline counts from the arrival, a little after the host began
    wait_until(lambda: tb.context.database.now_ms() > late, "the deadline has passed")
    bench.consume(Family.RECALLS)
    assert encoder.calls == []
    assert sum(bench.intake.lengths().values()) == 0
    assert not [key for shard in layout.all for key in bench.runtime.database.command("KEYS", shard.key("reply", "*"))]


def test_a_reply_that_nobody_takes_expires(tb: Tellback, bench: Bench, layout: Layout) -> None:
    """Nobody takes it when the host dies, or when a host in another language looks later."""
    candidates = [Candidate("f", 0.5)]
    request = RecallRequested(event_id="e1", bank="b", query="a", candidates=candidates, deadline_in=5)
    tb.context.publisher.publish(request)
    tb.flush()
    bench.consume(Family.RECALLS)
    key = layout.of("b").key("reply", "e1")
    [raw] = bench.runtime.database.command("LRANGE", key, 0, -1)
    assert [hit.fact_id for hit in msgspec.json.decode(raw, type=RecallReply).hits] == ["f"]
    assert 0 < bench.runtime.database.command("PTTL", key) <= 60_000


def test_signals_count_once_however_often_they_come(tb: Tellback, bench: Bench) -> None:
    mine = item("f", "a", signal_id="mine")
    signal(tb, bench, [mine, mine, item("f", "a")])
    signal(tb, bench, [mine])
    batch = SignalBatch(event_id="again", bank="b", items=[item("f", "a"), item("f", "new cluster")])
    for _ in range(2):
        tb.context.publisher.publish(batch)
        tb.flush()
        bench.consume()
    assert tb.bank("b").fact_stats("f").signal_count == 4
    assert tb.bank("b").stats().clusters == 2


def test_nothing_of_a_bad_call_is_published(tb: Tellback, bench: Bench) -> None:
    with pytest.raises(ValueError, match=r"signals\[600\]\.confidence"):
        tb.bank("b").signal([item("f", "a")] * 600 + [item("f", "a", confidence=2)])
    tb.flush()
    assert sum(bench.intake.lengths().values()) == 0


def test_a_bad_batch_of_a_foreign_host_goes_to_the_dead_letters_whole(
    tb: Tellback, bench: Bench, layout: Layout
) -> None:
    raw = b'{"type":"SignalBatch","event_id":"e","bank":"b","items":[{"fact_id":"f","signal_type":"used","query":"a"},'
    raw += b'{"fact_id":"f","signal_type":"used","query":"a","confidence":1.5}]}'
    bench.runtime.database.command("XADD", layout.of("b").key("in", "signals"), "*", "m", raw)
    signal(tb, bench, [item("g", "a")])
    [letter] = tb.dead.newest()
    assert "confidence" in letter.reason
    assert "items[1]" in letter.reason
    assert tb.bank("b").stats().facts == 1


def test_long_calls_travel_in_chunks_and_keep_their_order(tb: Tellback, bench: Bench) -> None:
    """At the clamp order matters: 1,100 times up, then 3 down, ends at 0.7; down first would end at 1."""
    signal(tb, bench, [item("f", "a")] * 1_100 + [item("f", "a", "not_helpful")] * 3)
    stats = tb.bank("b").fact_stats("f")
    assert stats.signal_count == 1_103
    assert stats.usefulness_score == pytest.approx(0.7, abs=1e-6)


def test_chunks_are_bounded_by_bytes_too(tb: Tellback, bench: Bench) -> None:
    """20 remarks of 60 KB: at most eight fit into 512 KB."""
    tb.bank("b").signal([item(f"f{i}", "a", context="x" * 60_000) for i in range(20)])
    tb.flush()
    assert sum(bench.intake.lengths().values()) == 3
    bench.consume()
    assert tb.bank("b").stats().signal_count == 20


def test_each_distinct_query_is_embedded_once(tb: Tellback, bench: Bench, encoder: Angles, settings: Settings) -> None:
    """The model gets one call for the distinct queries of a batch over all its banks, and none for cached ones."""
    shard_of = bench.layout.of
    banks = [name for name in map(str, range(100)) if shard_of(name) == shard_of("b")][:3]
    for bank in banks:
        tb.bank(bank).signal([item("f", query) for query in "abcab"])
    tb.flush()
    bench.consume()
    assert encoder.calls == [["a", "b", "c"]]
    cache = shard_of("b").key("vec", encoder.model)
    kept = bench.runtime.database.command("DUMP", cache)
    bench.runtime.database.command("DEL", cache)
    signal(tb, bench, [item("f", "a")], bank=banks[0])
    assert len(encoder.calls) == 1, "this process remembers"
    bench.runtime.database.command("RESTORE", cache, 60_000, kept)
    other = Bench(settings, bench.layout, encoder)
    signal(tb, other, [item("f", "a"), item("f", "d")], bank=banks[0])
    assert encoder.calls[1:] == [["d"]], "Redis remembers for other processes"
    other.close()


def test_banks_are_isolated(tb: Tellback, bench: Bench) -> None:
    signal(tb, bench, [item("f", "a")] * 5, bank="one")
    signal(tb, bench, [item("f", "a", "not_helpful")] * 5, bank="two")
    assert tb.bank("one").fact_stats("f").usefulness_score == pytest.approx(1.0, abs=1e-6)
    assert tb.bank("two").fact_stats("f").usefulness_score == pytest.approx(0.0, abs=1e-6)
    [hit] = recall(bench, tb.bank("two"), "a", [("f", 0.5)])
    assert hit.usefulness == pytest.approx(0.0, abs=1e-6)


def test_signals_stand_in_the_history_of_their_session(tb: Tellback, bench: Bench) -> None:
    signal(
        tb,
        bench,
        [item("f", 'say "a"', context="in the\nanswer"), item("g", "b", "ignored", confidence=0.5)],
        session="s",
    )
    signal(tb, bench, [item("f", "a")])
    first, second = tb.history("s")
    at = first.pop("at")
    assert isinstance(at, int)
    assert first == {
        "kind": "signal",
        "score": 0.6,
        "bank": "b",
        "fact_id": "f",
        "signal_type": "used",
        "confidence": 1.0,
        "query": 'say "a"',
        "context": "in the\nanswer",
    }
    assert (second["fact_id"], second["confidence"]) == ("g", 0.5)


def test_secrets_are_redacted_before_they_leave_the_host(tb: Tellback, bench: Bench) -> None:
    tb.bank("b").signal([item("f", "log in with password=hunter2", context="api_key=123456")])
    tb.flush()
    for stream in bench.intake.lengths():
        for _, fields in bench.runtime.database.command("XRANGE", stream[0].key("in", stream[1]), "-", "+"):
            assert b"hunter2" not in fields[1]
            assert b"123456" not in fields[1]
    bench.runtime.database.command("FLUSHALL")


def test_a_consumer_whose_lease_has_passed_on_writes_nothing(tb: Tellback, bench: Bench) -> None:
    lease = bench.lease("b")
    tb.bank("b").signal([item("f", "a")])
    tb.flush()
    entries = bench.read(lease)
    bench.intake.release(lease)
    assert bench.lease("b").fence > lease.fence
    with pytest.raises(Fenced):
        bench.loops[Family.SIGNALS].apply(lease, entries)
    with pytest.raises(NotFound):
        tb.bank("b").stats()
    assert sum(bench.intake.lengths().values()) == 1


def test_another_model_is_refused_with_what_to_do(
    tb: Tellback, bench: Bench, settings: Settings, layout: Layout
) -> None:
    """The entry waits and is tried again; nothing of the bank is changed. A recall raises on the host."""
    signal(tb, bench, [item("f", "a")])
    other_encoder = Angles()
    other_encoder.model = "other"
    other = Bench(settings, layout, other_encoder)
    fine = next(name for name in map(str, range(100)) if layout.of(name) == layout.of("b"))
    tb.bank("b").signal([item("f", "a")])
    tb.bank(fine).signal([item("f", "a")])
    tb.flush()
    lease = other.lease("b")
    with pytest.raises(ConfigurationError, match=r"begun with the model angles.*TELLBACK_MODEL"):
        other.loops[Family.SIGNALS].apply(lease, other.read(lease))
    assert tb.bank(fine).stats().model == "other", "what fails is one bank, not the batch that was gathered"
    other.intake.release(lease)
    other.consume()
    assert tb.bank("b").fact_stats("f").signal_count == 1
    with pytest.raises(ConfigurationError, match="angles"):
        recall(other, tb.bank("b"), "a", [("f", 0.5)])
    bench.consume()
    assert tb.bank("b").fact_stats("f").signal_count == 2
    other.close()


def test_signals_wait_for_a_model_that_does_not_load(
    tb: Tellback, bench: Bench, encoder: Angles, layout: Layout
) -> None:
    encoder.failure = "the embedding model angles does not load: no such file"
    tb.bank("b").signal([item("f", "a")])
    tb.flush()
    with pytest.raises(Unavailable, match="no such file"):
        bench.consume()
    assert sum(bench.intake.lengths().values()) == 1
    [state] = Encoders(bench.runtime.database, layout).all()
    assert (state.state, state.model) == ("failed", "angles")
    assert "no such file" in state.reason
    encoder.failure = ""
    bench.consume()
    assert tb.bank("b").fact_stats("f").signal_count == 1
    assert [state.state for state in Encoders(bench.runtime.database, layout).all()] == ["loaded"]


def test_intake_of_each_shard_is_consumed(tb: Tellback, bench: Bench, layout: Layout) -> None:
    names = [f"bank{i}" for i in range(12)]
    assert len({layout.of(name).index for name in names}) == layout.shards
    for name in names:
        tb.bank(name).signal([item("f", "a")])
    tb.flush()
    bench.consume()
    assert all(tb.bank(name).fact_stats("f").signal_count == 1 for name in names)
    assert isinstance(bench.intake, Intake)
