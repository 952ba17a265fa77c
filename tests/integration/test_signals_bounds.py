"""Bounds and guards of the signals loop, on a real Redis: caches, replies in parts, races, leases."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

import tellback
from tellback import Tellback
from tellback.contracts.codec import decode
from tellback.contracts.signal_types import KINDS
from tellback.contracts.signals import Candidate, RecallRequested
from tellback.embedding import clusters, embedder
from tellback.errors import Unavailable
from tellback.names import Family
from tellback.settings import Settings
from tellback.state import banks
from tellback.state.database import Database
from tellback.state.embeddings import EmbeddingCache
from tellback.state.intake_lease import Fenced, IntakeEntry
from tellback.state.keys import Layout, stream_of
from tests.support.intake_entries import read_new
from tests.support.signals import Angles, Bench, apply_at_once, item, recall, serving, signal
from tests.support.waiting import wait_until


@pytest.fixture
def other(settings: Settings, layout: Layout, encoder: Angles) -> Iterator[Bench]:
    """A second worker process."""
    other = Bench(settings, layout, encoder)
    yield other
    other.close()


def test_clusters_are_loaded_in_parts(
    tb: Tellback, bench: Bench, other: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that starts late reads every cluster, however many replies that takes."""
    queries = [item("f", letter) for letter in "abcdefghijklmnopqrstuvwxyz"]
    signal(tb, bench, queries)
    monkeypatch.setattr(banks, "CLUSTER_BATCH", 3)
    signal(tb, other, queries)
    assert tb.bank("b").stats().clusters == 26
    for letter in "az":
        [hit] = recall(other, tb.bank("b"), letter, [("f", 0.5)])
        assert (hit.scope, round(hit.usefulness, 6)) == ("cluster", 0.7), "both signals stand in one cluster"
    shared = bench.clusters.bank_clusters(bench.layout.of("b"), "b")
    assert shared.sync().slots == (), "what a worker has begun itself it need not read back"


@pytest.mark.parametrize("at_once", [1, 2, 16])
def test_scores_are_read_in_parts(tb: Tellback, bench: Bench, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    """However few clusters one read looks through, the best that knows a fact counts, then the global score."""
    angles = {"x@0": "f0", "x@-35": "f1", "x@35": "f2"}
    signal(tb, bench, [item(fact, query, "helpful") for query, fact in angles.items()])
    signal(tb, bench, [item(fact, "y", "not_helpful") for fact in ("f0", "f1", "f2", "g")])
    tb.context.database.command("HSET", bench.layout.of("b").key("bank", "b"), "threshold", "0.5")
    monkeypatch.setattr(banks, "MATCH_BATCH", at_once)
    hits = {hit.fact_id: hit for hit in recall(bench, tb.bank("b"), "x@1", [(f, 0.5) for f in ("f0", "f1", "f2", "g")])}
    assert [hits[fact].scope for fact in ("f0", "f1", "f2", "g")] == ["cluster", "cluster", "cluster", "global"]
    assert [hits[fact].usefulness for fact in ("f0", "f1", "f2", "g")] == pytest.approx([0.65] * 3 + [0.4], abs=1e-6)


@pytest.mark.parametrize(("most", "calls"), [(10_000, 1), (100, 3), (0, 6)])
def test_scores_come_from_the_best_cluster_of_any_size(
    database: Database, layout: Layout, monkeypatch: pytest.MonkeyPatch, most: int, calls: int
) -> None:
    """Small clusters are read whole and large ones by name; a call ends after so many scores; the next continues."""
    shard = layout.of("b")
    now = database.now_ms()
    of_cluster, of_bank = struct.Struct("<4d"), banks.FACT
    sizes = [3, 200, 0, 40, 1, 150, 90]  # of the clusters, best match first; fact n of cluster c is f{n * (c + 2)}
    facts = [f"f{n}" for n in range(120)] + ["unknown", "f3"]
    known: dict[str, tuple[float, str]] = {f"f{n}": (0.25, "global") for n in range(0, 120, 2)}
    database.command("HSET", shard.key("bank", "b"), "id", "x", "version", 7)
    packed = of_bank.pack(0.25, now, now, now, *([0] * len(KINDS)))
    database.command("HSET", shard.key("factscore", "b"), *(part for fact in known for part in (fact, packed)))
    for slot, size in reversed(list(enumerate(sizes))):
        score = 0.5 + slot / 20
        names = [f"f{n * (slot + 2)}" for n in range(size)]
        known |= dict.fromkeys(names, (score, "cluster"))
        for name in names:
            database.command("HSET", shard.key("cluster", "b", str(slot)), name, of_cluster.pack(score, now, now, 6))
    monkeypatch.setattr(banks, "FIELDS_READ", most)
    store = banks.BankStore(database, shard, "b")
    store.usefulness("x", 7, "", (), ["f0"])  # brings the script, which is a call too
    before = script_calls(database)
    found = store.usefulness("x", 7, "", range(7), facts)
    assert script_calls(database) - before == calls
    assert found is not None
    expected = [known.get(fact, (0.5, "neutral")) for fact in facts]
    assert [each.scope for each in found] == [scope for _, scope in expected]
    assert [each.score for each in found] == pytest.approx([score for score, _ in expected], abs=1e-6)


def script_calls(database: Database) -> int:
    stats: str = database.command("INFO", "commandstats").decode()
    lines = dict(line.split(":", 1) for line in stats.splitlines() if ":" in line)
    return sum(
        int(lines.get(f"cmdstat_{name}", "calls=0,").split(",")[0].removeprefix("calls="))
        for name in ("eval", "evalsha")
    )


def test_a_bank_that_changes_under_a_recall_is_matched_again(
    tb: Tellback, bench: Bench, other: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    signal(tb, bench, [item("f", "a", "helpful")])
    store = bench.clusters.bank_clusters(bench.layout.of("b"), "b").store
    original, calls = store.usefulness, list[int]()

    def meddled(*args: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            signal(tb, other, [item("g", "new cluster")])
        return original(*args)

    monkeypatch.setattr(store, "usefulness", meddled)  # a race, placed where it hurts
    [hit] = recall(bench, tb.bank("b"), "a", [("f", 0.5)])
    assert (hit.scope, hit.degraded, len(calls)) == ("cluster", False, 2)


def test_the_same_signal_in_two_hands_counts_once(
    tb: Tellback, bench: Bench, other: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both workers find it new and plan against the same version; the script lets one of them through."""
    signal(tb, bench, [item("f", "a")])
    lease = bench.lease("b")
    for _ in range(2):
        tb.bank("b").signal([item("f", "a", signal_id="same")])
        tb.flush()
    first, second = bench.read(lease)
    apply_at_once(monkeypatch, lease, {bench: first, other: second})
    assert tb.bank("b").fact_stats("f").signal_count == 2
    assert sum(bench.intake.lengths().values()) == 0


def test_what_many_clients_sent_is_applied_in_short_calls_and_a_batch_in_one(
    tb: Tellback, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis serves nobody else meanwhile; what each query needs of the model is asked for once all the same."""
    store = bench.clusters.bank_clusters(bench.layout.of("b"), "b").store
    original, sizes = store.apply, list[tuple[int, int]]()

    def measured(*args: Any) -> bool:
        sizes.append((len(args[1]), len(args[2].items)))
        return original(*args)

    monkeypatch.setattr(store, "apply", measured)  # the real one, looked at
    for clients, count in ((5, 100), (1, 500)):
        for client in range(clients):
            tb.bank("b").signal([item(f"f{i}", f"{chr(97 + i % 20)}@{client}") for i in range(count)])
        tb.flush()
    bench.consume()
    assert sizes == [(2, 200), (2, 200), (1, 100), (1, 500)]
    assert tb.bank("b").stats().signal_count == 1_000
    assert len(bench.encoder.calls) == 1, "one for what five clients sent, none for what is known"


def test_a_commit_renews_the_lease(tb: Tellback, bench: Bench) -> None:
    """The next batch may have to be embedded, which takes seconds."""
    lease = bench.intake.take_lease(bench.layout.of("b"), Family.SIGNALS, 2)
    assert lease is not None
    tb.bank("b").signal([item("f", "a")])
    tb.flush()
    bench.loops[Family.SIGNALS].apply(lease, bench.read(lease))
    assert tb.context.database.command("PTTL", lease.key) > 20_000


def test_a_fenced_consumer_answers_no_recall(tb: Tellback, bench: Bench) -> None:
    request = RecallRequested(event_id="e", bank="b", query="a", candidates=[Candidate("f", 1.0)], deadline_in=30)
    tb.context.publisher.publish(request)
    tb.flush()
    lease = bench.lease("b", Family.RECALLS)
    entries = [
        IntakeEntry(raw.id, decode(raw.raw or b"", Family.RECALLS), 1) for raw in read_new(bench.intake, lease, 9)
    ]
    bench.intake.release(lease)
    bench.lease("b", Family.RECALLS)
    with pytest.raises(Fenced):
        bench.loops[Family.RECALLS].apply(lease, entries)
    assert tb.context.database.command("EXISTS", bench.layout.of("b").key("reply", "e")) == 0
    assert sum(bench.intake.lengths().values()) == 1


def test_where_too_many_recalls_wait_a_host_does_not(
    tb: Tellback, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tellback.client.recall.MAX_WAITING", 0)
    start = time.monotonic()
    [hit] = tb.bank("b").recall("a", [("f", 1.0)], wait=60)
    assert hit.degraded
    assert time.monotonic() - start < 60
    tb.bank("b").remember("f", "a")
    tb.flush()
    bench.consume()
    with pytest.raises(Unavailable, match=r"and its bound is 0 entries: start more workers$"):
        tb.bank("b").recall("a", wait=60)
    assert sum(bench.intake.lengths().values()) == 0


def test_recalls_are_bounded_in_bytes_and_go_on_when_they_were_answered(
    database: Database, layout: Layout, settings: Settings, bench: Bench
) -> None:
    """A stream takes requests until it is at its share of the family's bytes, and the next one finds it full."""
    share = 64 << 10
    with tellback.connect(settings=msgspec.structs.replace(settings, intake_max_bytes=share * layout.shards)) as tb:
        bank, stream = tb.bank("b"), stream_of(layout.of("b"), Family.RECALLS)
        other = next(f"b{n}" for n in range(100) if layout.of(f"b{n}") != layout.of("b"))
        bank.remember("f", "a")
        tb.flush()
        bench.consume()
        asked = 0

        def size() -> int:
            return database.command("MEMORY", "USAGE", stream, "SAMPLES", 0) or 0

        while size() < share:
            assert [hit.degraded for hit in bank.recall("a" * 5_000, [("f", 1.0)], wait=0.001)] == [True]
            asked += 1
            assert database.command("XLEN", stream) == asked
        assert size() < share + 10_000, "it is exceeded by one request at most"
        assert [hit.degraded for hit in bank.recall("a", [("f", 1.0)], wait=5)] == [True]
        bound = rf"holds {asked} entries in \d+ bytes, .* bound is {share} bytes.* or raise TELLBACK_INTAKE_MAX_BYTES$"
        with pytest.raises(Unavailable, match=bound):
            bank.recall("a", wait=5)
        assert database.command("XLEN", stream) == asked, "nothing was added"
        tb.bank(other).recall("a", [("f", 1.0)], wait=0.001)
        assert sum(bench.intake.lengths().values()) == asked + 1, "another shard has room"
        with serving(bench):  # the requests are past their deadline, and dropped
            wait_until(lambda: database.command("XLEN", stream) == 0, "the stream is empty")
            assert [hit.degraded for hit in bank.recall("a", [("f", 1.0)], wait=60)] == [False]
            assert [hit.fact_id for hit in bank.recall("a", wait=60)] == ["f"]


def test_a_process_drops_the_bank_that_it_used_longest_ago(
    tb: Tellback, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is loaded again when it is needed."""
    monkeypatch.setattr(clusters, "MAX_MEMORY_BYTES", 1)
    bench: Bench = request.getfixturevalue("bench")
    for bank in ("one", "two", "one"):
        signal(tb, bench, [item("f", "a@0")], bank=bank)
    assert len(bench.clusters._banks) == 1
    assert tb.bank("one").stats().clusters == 1
    assert tb.bank("one").fact_stats("f").signal_count == 2


def test_a_process_remembers_a_bounded_number_of_embeddings(
    request: pytest.FixtureRequest, encoder: Angles, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedder, "MAX_CACHED", 2)
    bench: Bench = request.getfixturevalue("bench")
    for text in ("a", "b", "a", "c", "d"):
        vectors, _ = bench.clusters.embedder.embed_each([text], layout.shard(0))
        assert (vectors[text] == encoder.encode([text])[0]).all()
    assert set(bench.clusters.embedder._known) == {"c", "d"}


def test_redis_keeps_embeddings_in_two_generations(tb: Tellback, layout: Layout) -> None:
    """The newest 10,000 are always there, and never more than two generations."""
    cache = EmbeddingCache(tb.context.database, layout.shard(0), "m")
    for start in range(0, 25_000, 500):
        cache.put({f"text {i}": b"vector" for i in range(start, start + 500)})
    found = cache.get([f"text {i}" for i in range(25_000)])
    assert set(found) >= {f"text {i}" for i in range(15_000, 25_000)}
    assert len(found) <= 20_000
