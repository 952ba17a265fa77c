"""The loops of signals and recalls run by hand, with vectors made for the test in place of a model's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from tellback import Tellback
from tellback.client.banks import Bank
from tellback.contracts.codec import decode
from tellback.contracts.signal_types import KINDS, SignalType
from tellback.contracts.signals import RecallHit, SignalItem
from tellback.embedding.clusters import ClusterCache
from tellback.embedding.reembedding import Reembedding
from tellback.errors import Unavailable
from tellback.names import Family
from tellback.settings import Settings
from tellback.signals.matching import Vectors
from tellback.state.dead_letters import DeadLetters
from tellback.state.intake_lease import IntakeEntry, Lease
from tellback.state.keys import Layout
from tellback_workers.consumer import Consumer, Loop
from tellback_workers.loops.recalls import RecallsLoop
from tellback_workers.loops.signals import SignalsLoop
from tellback_workers.runtime import Runtime
from tests.support.intake_entries import read_new

TEAM = "default"


class Angles:
    """A text such as `x@30` points 30 degrees away from `x@0`; texts of other first letters are at right angles."""

    model = "angles"
    weights = ""
    dimension = 52

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.failure = ""

    def load(self) -> None:
        if self.failure:
            raise Unavailable(self.failure)

    def encode(self, texts: Sequence[str]) -> Vectors:
        self.calls.append(list(texts))
        rows = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in zip(rows, texts, strict=True):
            name, _, degrees = text.partition("@")
            axis, angle = 2 * (ord(name[0].lower()) - ord("a")), np.radians(float(degrees or 0))
            row[axis], row[axis + 1] = np.cos(angle), np.sin(angle)
        return rows


class Wider(Angles):
    """Another model: more dimensions, and other directions."""

    model = "wider"
    weights = "fedcba9876543210"
    dimension = 60

    def encode(self, texts: Sequence[str]) -> Vectors:
        return np.ascontiguousarray(super().encode(texts)[:, ::-1])


class Raced(Wider):
    """The other model; `meanwhile` happens while it embeds the first texts."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        super().__init__()
        self._meanwhile = meanwhile

    def encode(self, texts: Sequence[str]) -> Vectors:
        if not self.calls:
            self._meanwhile()
        return super().encode(texts)


def interrupt(job: Reembedding, at: int = 0) -> None:
    """Stop it as soon as it has come so far, at the earliest after its first part."""

    def stop(done: int, _of: int) -> None:
        if done >= at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        job.run(progress=stop)


class Bench:
    """Loops of one worker process, run by hand."""

    def __init__(self, settings: Settings, layout: Layout, encoder: Angles) -> None:
        self.encoder = encoder
        self.runtime = Runtime(settings)
        self.layout = layout
        self.clusters = ClusterCache(settings, self.runtime.database, layout, encoder)
        self.intake = self.runtime.intake(TEAM)
        self.loops: Mapping[Family, Loop] = {
            Family.SIGNALS: SignalsLoop(self.runtime, TEAM, self.clusters),
            Family.RECALLS: RecallsLoop(self.runtime, TEAM, self.clusters),
        }

    def consumer(
        self, family: Family = Family.SIGNALS, *, lease_seconds: float = 30, trials: threading.Lock | None = None
    ) -> Consumer:
        dead = DeadLetters(self.runtime.database, self.layout)
        return Consumer(
            self.intake,
            dead,
            self.loops[family],
            lease_seconds=lease_seconds,
            batch=500,
            recovery_lock=trials,
            model_wait=self.runtime.settings.model_wait,
        )

    def consume(self, family: Family = Family.SIGNALS, *, lease_seconds: float = 30) -> None:
        consumer = self.consumer(family, lease_seconds=lease_seconds)
        for shard in self.layout.all:
            while consumer.consume(shard, family):
                pass

    def lease(self, bank: str, family: Family = Family.SIGNALS) -> Lease:
        lease = self.intake.take_lease(self.layout.of(bank), family, 30)
        assert lease is not None
        return lease

    def read(self, lease: Lease) -> list[IntakeEntry]:
        raws = read_new(self.intake, lease, 100)
        return [IntakeEntry(raw.id, decode(raw.raw or b"", lease.family), raw.deliveries) for raw in raws]

    def close(self) -> None:
        self.runtime.database.close()


def apply_at_once(monkeypatch: pytest.MonkeyPatch, lease: Lease, given: Mapping[Bench, IntakeEntry]) -> None:
    """Have each process apply its entry of bank `b`, once all of them have planned."""
    barrier = threading.Barrier(len(given), timeout=60)
    for process in given:
        shared = process.clusters.bank_clusters(lease.shard, "b")
        shared.sync()
        waits = iter([True])

        def apply(*args: Any, original: Any = shared.store.apply, waits: Iterator[bool] = waits) -> bool:
            if next(waits, False):
                barrier.wait()
            return bool(original(*args))

        monkeypatch.setattr(shared.store, "apply", apply)
    with ThreadPoolExecutor() as threads:
        done = [threads.submit(process.loops[Family.SIGNALS].apply, lease, [entry]) for process, entry in given.items()]
        for each in done:
            each.result(60)


def item(fact_id: str, query: str, signal_type: SignalType = "used", **more: Any) -> SignalItem:
    return SignalItem(fact_id=fact_id, signal_type=signal_type, query=query, **more)


def counted(**counts: int) -> dict[str, int]:
    """The counts by signal type of a fact, a day or a bank; a type that is not named has none."""
    assert counts.keys() <= set(KINDS)
    return {kind: counts.get(kind, 0) for kind in KINDS}


def signal(
    tb: Tellback, bench: Bench, items: Sequence[SignalItem], *, bank: str = "b", session: str | None = None
) -> None:
    tb.bank(bank).signal(items, session=session)
    tb.flush()
    bench.consume()


@contextmanager
def serving(bench: Bench, *families: Family) -> Generator[None]:
    """A worker's loops run beside."""
    done = threading.Event()

    def serve() -> None:
        while not done.wait(0.01):
            for family in families or (Family.RECALLS,):
                bench.consume(family)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def recall(bench: Bench, bank: Bank, query: str, facts: Sequence[tuple[str, float]], **more: Any) -> list[RecallHit]:
    """Recall while a worker's loop runs beside."""
    with serving(bench):
        options: dict[str, Any] = {"boost_by_usefulness": True, "wait": 5, **more}
        return bank.recall(query, facts, **options)
