"""The scenario of signals and recalls: batches sent twice, consumers that die, and a bank that must be exact."""

from __future__ import annotations

import struct
from collections import Counter
from typing import Any

import numpy as np

from tellback import Tellback, Unavailable
from tellback.client.banks import Bank
from tellback.contracts.signal_types import NEUTRAL
from tellback.contracts.signals import Candidate, RecallHit, SignalItem
from tellback.signals.matching import Vectors
from tellback.signals.ranking import score_delta
from tests.simulation.fleet import Fleet, FleetScenario
from tests.simulation.scheduler import Process, SimulatedTask
from tests.simulation.world import World

BANK = "b"
HOSTS = 2
BATCHES = 4  # of each host
QUERIES = ("alpha", "beta", "gamma")
SHARED = "shared"  # the fact that each batch has a signal for; the others belong to one batch alone
CONFIDENCE = 0.5
STEP = score_delta("used", CONFIDENCE)  # eight of them leave the score below 1, so their order does not matter
CHECK_EVERY = 3  # round trips between two checks of the bank
ERROR = 1e-5  # of a score, which moves towards 0.5 by 5 % a week: by 5e-6 in the five minutes of a run


class Letters:
    """A model of the simulation: texts that begin with another letter are at right angles."""

    model = "letters"
    weights = ""
    dimension = 26

    def load(self) -> None:
        """Do nothing: it is there."""

    def encode(self, texts: list[str]) -> Vectors:
        """Return a row for each text."""
        rows = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in zip(rows, texts, strict=True):
            row[ord(text[0]) - ord("a")] = 1.0
        return rows


def stored_scores(world: World) -> dict[str, tuple[float, int]]:
    """Return the score and the number of signals of each fact in the bank."""
    flat: list[bytes] = world.database.command("HGETALL", world.layout.of(BANK).key("factscore", BANK))
    values = (struct.unpack(f"<{len(packed) // 8}d", packed) for packed in flat[1::2])
    pairs = zip(flat[::2], values, strict=True)
    return {fact.decode(): (numbers[0], round(sum(numbers[4:]))) for fact, numbers in pairs}


class SignalsScenario(FleetScenario):
    """Each signal is applied once, each batch whole, and a recall ranks by exact scores."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.fleet = Fleet(world, encoder=Letters)
        self.batches: list[list[SignalItem]] = []
        self.asked: Counter[str] = Counter()  # signals by query
        self.parts: list[str] = []
        self.checked_at = 0

    def play(self) -> None:
        """Run the scenario."""
        self.world.checks.append(self._check_whole)
        super().play()

    def run(self) -> None:
        """Harm the consumers while hosts signal and recall; then compare the bank with what was sent."""
        world, scheduler, fleet = self.world, self.world.scheduler, self.fleet
        fleet.add_beat()
        fleet.add_main_process("main0")
        pool = [fleet.add_pool_process(f"model{number}") for number in range(2)]
        hosts = [scheduler.process(f"host{number}") for number in range(HOSTS)]
        work = [self._start(process) for process in hosts]
        for _ in range(world.random.randrange(4)):
            scheduler.sleep(world.choices.between(0.0, 6.0, "until a fault"))
            fleet.harm(pool)
        while not all(task.done for task in work):
            scheduler.sleep(0.5)
        world.network.fault = fleet.broker.fault = 0.0
        end = scheduler.now + 180
        while self.world.waiting() and scheduler.now < end:
            scheduler.sleep(1)
        assert not self.world.waiting(), f"never applied: {self.world.waiting()}"
        self._check_bank()
        # A frozen process holds its lease on the recalls, and nobody else may answer them meanwhile.
        scheduler.sleep(
            max(0.0, *(process.frozen_until - scheduler.now for process in pool)) + world.settings.embed_lease
        )
        last = scheduler.spawn(scheduler.process("reader"), self._check_recall, "reader")
        while not last.done:
            scheduler.sleep(0.5)
        assert not self.parts, self.parts[0]

    def _start(self, process: Process) -> SimulatedTask:
        tb = self.world.client(process)
        return self.world.scheduler.spawn(process, lambda: self._work(tb, process.name), "agent")

    def _work(self, tb: Tellback, name: str) -> None:
        random, scheduler, bank = self.world.random, self.world.scheduler, tb.bank(BANK)
        for number in range(BATCHES):
            items = self._batch(f"{name}.{number}", random.choice(QUERIES), random.randrange(1, 4))
            for _ in range(random.choice((1, 1, 2))):  # a host that does not trust its first attempt
                bank.signal(items)
            if random.random() < 0.4:
                self._recall(bank, random.choice(QUERIES), wait=1.0)
            scheduler.sleep(random.choice((0.0, 0.2, 2.0)))
        tb.flush()
        while tb.context.publisher.spooled:
            scheduler.sleep(0.5)

    def _batch(self, name: str, query: str, own: int) -> list[SignalItem]:
        facts = [SHARED, *(f"{name}.{number}" for number in range(own))]
        items = [
            SignalItem(fact_id=fact, signal_type="used", query=query, confidence=CONFIDENCE, signal_id=f"{name}:{fact}")
            for fact in facts
        ]
        self.batches.append(items)
        self.asked[query] += 1
        return items

    def _recall(self, bank: Bank, query: str, wait: float) -> list[RecallHit]:
        facts = [SHARED, *(items[1].fact_id for items in self.batches)]
        try:
            hits = bank.recall(query, [Candidate(fact, 0.5) for fact in facts], limit=100, wait=wait,
                               boost_by_usefulness=True)  # fmt: skip
        except Unavailable:
            return []
        found = [hit.fact_id for hit in hits]
        assert sorted(found) == sorted(set(facts)), f"recalled {found} of {facts}"
        return hits

    def _check_whole(self, now: float) -> None:
        """Note a batch of which some signals were applied and others not: as time passes, this looks at the bank."""
        trips = self.world.network.trips
        if not self.batches or self.parts or trips < self.checked_at + CHECK_EVERY:
            return
        self.checked_at = trips
        found = stored_scores(self.world)
        for items in list(self.batches):
            own = [item.fact_id in found for item in items[1:]]
            if any(own) and not all(own):
                self.parts.append(f"a part of batch {items[1].fact_id} was applied at {now:.3f} s")

    def _check_bank(self) -> None:
        found, expected = stored_scores(self.world), {item.fact_id: 1 for items in self.batches for item in items}
        expected[SHARED] = len(self.batches)
        counted: dict[str, Any] = {fact: count for fact, (_, count) in found.items()}
        assert counted == expected, f"signals counted: {counted}, sent: {expected}"
        for fact, (score, count) in found.items():
            assert abs(score - NEUTRAL - count * STEP) < ERROR, f"{fact} has {score} after {count} signals"
        shard = self.world.layout.of(BANK)
        logged = self.world.database.command("LLEN", shard.key("siglog", BANK))
        assert logged == sum(map(len, self.batches)), f"{logged} signals in the bank's log"

    def _check_recall(self) -> None:
        """Recall by each query: the usefulness of the fact of all batches is the score in that query's cluster."""
        task = self.world.scheduler.current
        assert task is not None, "a task"
        bank = self.world.client(task.process).bank(BANK)
        for query, signals in self.asked.items():
            hits = {hit.fact_id: hit for hit in self._recall(bank, query, wait=20.0)}
            shared = hits[SHARED]
            assert not shared.degraded, f"nobody answered the recall of {query!r}"
            expected = NEUTRAL + signals * STEP
            assert abs(shared.usefulness - expected) < ERROR, f"{query}: {shared.usefulness}, not {expected}"
