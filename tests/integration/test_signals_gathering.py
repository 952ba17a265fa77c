"""Batches of many clients and streams, embedded together and applied apart; what is bad costs its own batch."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tellback import Settings, Tellback
from tellback.embedding import embedder
from tellback.errors import Unavailable
from tellback.names import Family
from tellback.signals.matching import Vectors
from tellback.state.embeddings import Encoders
from tellback.state.intake import Intake
from tellback.state.intake_lease import Fenced, Lease
from tellback.state.keys import Layout, stream_of
from tests.support.signals import Angles, Bench, item
from tests.support.waiting import wait_until
from tests.support.workers import environment

ROOT = Path(__file__).resolve().parents[2]


class Gated(Angles):
    """Computes when it is let; raises at texts of the letter z, and at every text while it is broken."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()
        self.broken = False

    def encode(self, texts: Sequence[str]) -> Vectors:
        rows = super().encode(texts)
        assert self.gate.wait(60)
        if self.broken or any(text.startswith("z") for text in texts):
            raise RuntimeError("a text that the model fails at" if not self.broken else "CUDA error: out of memory")
        return rows


@pytest.fixture
def encoder() -> Gated:
    return Gated()


@pytest.fixture
def bench(settings: Settings, layout: Layout, encoder: Gated) -> Iterator[Bench]:
    bench = Bench(settings, layout, encoder)
    yield bench
    encoder.gate.set()
    bench.close()


def banks_by_shard(layout: Layout) -> list[str]:
    """A bank in each shard."""
    found = {layout.of(name).index: name for name in map(str, range(100))}
    assert len(found) == layout.shards
    return list(found.values())


def test_streams_of_a_process_share_one_call_and_are_applied_apart(
    tb: Tellback, bench: Bench, encoder: Gated, layout: Layout
) -> None:
    """Four shards wait while the model computes: one call has the queries of all, each once; each bank gets its own."""
    encoder.gate.clear()
    for number, bank in enumerate(banks_by_shard(layout)):
        tb.bank(bank).signal([item("f", "abcd"[number]), item("f", "shared"), item("f", "abcd"[number])])
    tb.flush()
    with ThreadPoolExecutor(5) as threads:
        held = threads.submit(bench.clusters.embedder.embed_each, ["held"], layout.shard(0))
        wait_until(lambda: encoder.calls, "the model computes")
        consumed = [threads.submit(bench.consumer().consume, shard, Family.SIGNALS) for shard in layout.all]
        wanted = bench.clusters.embedder._batched._wanted
        wait_until(lambda: len(wanted) == 5, "all four wait")
        encoder.gate.set()
        assert [consume.result(60) for consume in consumed] == [False] * 4
        held.result(60)
    assert [sorted(call) for call in encoder.calls] == [["held"], ["a", "b", "c", "d", "shared"]]
    for bank in banks_by_shard(layout):
        assert tb.bank(bank).fact_stats("f").signal_count == 3
        assert tb.bank(bank).stats().clusters == 2


def test_a_query_that_the_model_fails_at_costs_its_clients_batch_alone(
    tb: Tellback, bench: Bench, layout: Layout
) -> None:
    """It decodes, is gathered with others' batches, of its bank and of another, and fails later: those are applied."""
    other = next(name for name in map(str, range(100)) if layout.of(name) == layout.of("b"))
    tb.bank("b").signal([item("before", "a")])
    tb.bank("b").signal([item("bad", "a"), item("bad", "z@1"), item("bad", "b")])
    tb.bank(other).signal([item("of another", "c")])
    tb.bank("b").signal([item("after", "a")])
    tb.flush()
    bench.consume()
    assert tb.bank("b").stats().signal_count == 2, "in the first round, however often the bad one is tried"
    assert tb.bank(other).fact_stats("of another").signal_count == 1
    for _ in range(5):
        bench.consume()
    [letter] = tb.dead.newest()
    assert "RuntimeError: a text that the model fails at" in letter.reason
    assert tb.bank("b").stats().signal_count == 2, "nothing of its batch is applied"
    assert sum(bench.intake.lengths().values()) == 0


def test_a_model_that_fails_at_any_text_sends_nothing_to_the_dead_letters(
    tb: Tellback, bench: Bench, encoder: Gated, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Signals wait however often they are tried, hosts learn why, and the worker continues without a restart."""
    monkeypatch.setattr(embedder, "RETRY_SECONDS", -1.0)
    encoder.broken = True
    tb.bank("b").signal([item("f", "a")])
    tb.bank("b").signal([item("f", "b")])
    tb.flush()
    for _ in range(8):
        with pytest.raises(Unavailable, match="out of memory"):
            bench.consume()
    assert sum(bench.intake.lengths().values()) == 2
    monkeypatch.setattr(embedder, "RETRY_SECONDS", 30.0)
    with pytest.raises(Unavailable, match="out of memory"):
        bench.consume()
    [state] = Encoders(bench.runtime.database, layout).all()
    assert state.state == "failed"
    assert "CUDA error: out of memory" in state.reason
    encoder.broken = False
    monkeypatch.setattr(embedder, "RETRY_SECONDS", -1.0)
    bench.consume()
    assert tb.bank("b").fact_stats("f").signal_count == 2
    assert tb.dead.count() == 0
    [state] = Encoders(bench.runtime.database, layout).all()
    assert state.state == "loaded"


@pytest.mark.parametrize("read", ["new", "pending"])
def test_a_lease_is_kept_while_the_model_computes(
    tb: Tellback, bench: Bench, encoder: Gated, layout: Layout, monkeypatch: pytest.MonkeyPatch, read: str
) -> None:  # fmt: skip
    """The model takes longer than the lease: nobody else gets the stream, and what was computed is applied."""
    monkeypatch.setattr(embedder, "KEEP_SECONDS", 0.05)
    encoder.gate.clear()
    shard = layout.of("b")
    tb.bank("b").signal([item("f", "a")])
    tb.flush()
    if read == "pending":
        lease = bench.lease("b")
        bench.read(lease)
        bench.intake.release(lease)
    with ThreadPoolExecutor(1) as threads:
        consuming = threads.submit(bench.consumer(lease_seconds=1.5).consume, shard, Family.SIGNALS)
        wait_until(lambda: encoder.calls, "the model computes")
        later = tb.context.database.now_ms() + 3_000
        wait_until(lambda: tb.context.database.now_ms() > later, "the lease would have run out twice")
        assert bench.intake.take_lease(shard, Family.SIGNALS, 1) is None
        encoder.gate.set()
        consuming.result(60)
    assert tb.bank("b").fact_stats("f").signal_count == 1
    assert len(encoder.calls) == 1


def test_a_consumer_that_lost_its_lease_waits_no_longer(
    tb: Tellback, bench: Bench, encoder: Gated, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leaves what it computed to its successor, so that no text is computed twice."""
    monkeypatch.setattr(embedder, "KEEP_SECONDS", 0.05)
    encoder.gate.clear()
    tb.bank("b").signal([item("f", "a")])
    tb.flush()
    with ThreadPoolExecutor(1) as threads:
        consuming = threads.submit(bench.consumer().consume, layout.of("b"), Family.SIGNALS)
        wait_until(lambda: encoder.calls, "the model computes")
        bench.runtime.database.command("DEL", layout.of("b").key("lease", "signals"))
        successor = bench.lease("b")
        assert consuming.result(60) is False
    with pytest.raises(Fenced):
        bench.intake.renew(Lease(successor.shard, successor.family, successor.fence - 1), 30)
    bench.intake.release(successor)
    encoder.gate.set()
    bench.consume()
    assert tb.bank("b").fact_stats("f").signal_count == 1


def test_only_one_suspect_is_tried_at_a_time(tb: Tellback, bench: Bench, encoder: Gated, layout: Layout) -> None:
    """While one that may end the process is tried, no other suspect is read: no other would seem to have ended it."""
    one, other, *_ = banks_by_shard(layout)
    for bank in (one, other):
        tb.bank(bank).signal([item("f", "a" if bank == one else "b")])
        tb.flush()
        lease = bench.lease(bank)
        bench.read(lease)
        bench.intake.release(lease)
    encoder.gate.clear()
    trials, database = threading.Lock(), bench.runtime.database
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(bench.consumer(trials=trials).consume, layout.of(one), Family.SIGNALS)
        wait_until(lambda: encoder.calls, "one is tried")
        second = bench.consumer(trials=trials, lease_seconds=1.5)
        consuming = threads.submit(second.consume, layout.of(other), Family.SIGNALS)
        wait_until(lambda: database.command("EXISTS", layout.of(other).key("lease", "signals")), "the other waits")
        later = database.now_ms() + 3_000
        wait_until(lambda: database.now_ms() > later, "its lease would have run out twice")
        again = database.command("XPENDING", stream_of(layout.of(other), Family.SIGNALS), "consumer", "-", "+", 9)
        assert again == [], "it was delivered once, before"
        assert database.command("EXISTS", layout.of(other).key("lease", "signals")) == 1
        encoder.gate.set()
        first.result(60)
        consuming.result(60)
    assert [tb.bank(bank).stats().signal_count for bank in (one, other)] == [1, 1]
    assert encoder.calls == [["a"], ["b"]]


# Four threads of one process, as a worker has them; a text of the letter z ends the process.
CONSUMER = """
import os, threading, time
from tellback.names import Family
from tellback.settings import load
from tellback.state.database import Database
from tellback.state.team import open_layout
from tests.support.signals import Angles, Bench

class Deadly(Angles):
    def encode(self, texts):
        if any(text.startswith("z") for text in texts):
            os._exit(9)
        return super().encode(texts)

settings = load()
layout = open_layout(Database(settings.redis_url), "default", settings.shards)
bench, trials = Bench(settings, layout, Deadly()), threading.Lock()

def run(shard):
    while True:
        bench.consumer(lease_seconds=settings.embed_lease, trials=trials).consume(shard, Family.SIGNALS)
        time.sleep(0.005)

threads = [threading.Thread(target=run, args=(shard,)) for shard in layout.all]
for thread in threads:
    thread.start()
"""


def _ended_or_empty(consumer: subprocess.Popen[bytes], intake: Intake) -> bool:
    return consumer.poll() is not None or not any(intake.lengths().values())


@pytest.mark.faults
@pytest.mark.slow
def test_a_query_that_ends_the_worker_costs_its_own_batch_alone(
    tb: Tellback, settings: Settings, layout: Layout
) -> None:
    """Every life ends with it until it is in the dead letters; batches that died beside it are not taken for it."""
    banks = banks_by_shard(layout)
    tb.bank(banks[0]).signal([item("f", "z")])
    for bank in banks:
        for number in range(6):
            tb.bank(bank).signal([item("f", f"a@{number}")])
    tb.flush()
    intake = Intake(tb.context.database, layout)
    env = environment(settings, {"TELLBACK_EMBED_LEASE": "0.4"})
    lives = 0
    while any(intake.lengths().values()):
        lives += 1
        assert lives < 10, tb.dead.newest()
        consumer = subprocess.Popen([sys.executable, "-c", CONSUMER], env=env, cwd=ROOT)
        try:
            wait_until(partial(_ended_or_empty, consumer, intake), "it dies or the intake is empty")
        finally:
            consumer.kill()
            consumer.wait()
    [letter] = tb.dead.newest()
    assert "each time its worker died" in letter.reason
    assert '"z"' in letter.raw
    assert [tb.bank(bank).stats().signal_count for bank in banks] == [6] * 4
