"""The scenario of banks over weeks: signals, stored facts and the weekly decay, whose workers die and freeze."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection
from unittest import mock

import msgspec

from tellback import Tellback
from tellback.contracts.signal_types import KINDS, NEUTRAL
from tellback.contracts.signals import SignalItem
from tellback.signals.ranking import clamp_score, decay_score, score_delta
from tellback.state.bank_stats import BankStatistics
from tellback.state.decay import Decay
from tellback.state.redis_py import SOCKET_TIMEOUT
from tellback_workers import scheduler
from tests.simulation.fleet import Fleet, FleetScenario
from tests.simulation.scheduler import Process, SimulatedTask
from tests.simulation.signals import BANK, QUERIES, Letters
from tests.simulation.world import World

HOSTS = 2
ROUNDS = 8  # of a host's work between two steps of weeks
FACTS = 3  # of a host
MAX_DAYS = 30.0
DAY = 86_400.0
IDLE_DECAY = 60.0  # in place of an hour, which would take thousands of ticks
# Seconds until everything is applied, or decayed: a team at rest is visited every five minutes, and a worker that died
# or froze with a visit costs one more.
LATEST = 720.0
LATE = SOCKET_TIMEOUT + 5.0  # by when a request on its way has arrived: weeks would forget that it was sent before
ERROR = 1e-9


class BanksScenario(FleetScenario):
    """Scores are a pure function of the signals and their times, and a bank holds what was remembered last."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.fleet = Fleet(world, encoder=Letters)
        self.scores: dict[str, tuple[float, int]] = {}  # by fact: the score that the signals' log makes, and its time
        self.stored: dict[str, str] = {}  # what each host remembered last
        self.published = 0

    def play(self) -> None:
        """Run the scenario."""
        with mock.patch.object(scheduler, "IDLE_DECAY_SECONDS", IDLE_DECAY):
            super().play()

    def run(self) -> None:
        """Work for a while, let weeks pass, wait for their decay; two or three times."""
        world, clock, fleet = self.world, self.world.scheduler, self.fleet
        fleet.add_beat()
        fleet.add_main_process("main0")
        pool = [fleet.add_pool_process(f"model{number}") for number in range(2)]
        hosts = [clock.process(f"host{number}") for number in range(HOSTS)]
        clients = [world.client(host) for host in hosts]
        for _ in range(world.random.randrange(2, 4)):
            work = [self._start(host, tb) for host, tb in zip(hosts, clients, strict=True)]
            self._harm(pool)
            while not all(task.done for task in work):
                clock.sleep(0.5)
            self._wait(self.world.waiting, "never applied")
            self._note_signals()
            self._check()
            clock.sleep(LATE)
            world.step_clock(DAY * world.choices.between(0.0, MAX_DAYS, "days"))
            self._harm(pool)
            self._wait(lambda: [shard.index for shard in Decay(world.database, world.layout).due_shards()], "no decay")
            self._check()

    def _harm(self, pool: list[Process]) -> None:
        for _ in range(self.world.random.randrange(3)):
            self.world.scheduler.sleep(self.world.choices.between(0.0, 4.0, "until a fault"))
            self.fleet.harm(pool)

    def _wait(self, left: Callable[[], Collection[object]], complaint: str) -> None:
        network, broker = self.world.network, self.fleet.broker
        faults = network.fault, broker.fault
        network.fault = broker.fault = 0.0
        end = self.world.scheduler.now + LATEST
        while left() and self.world.scheduler.now < end:
            self.world.scheduler.sleep(1)
        assert not left(), f"{complaint}: {left()}"
        network.fault, broker.fault = faults

    # What hosts do.

    def _start(self, host: Process, tb: Tellback) -> SimulatedTask:
        return self.world.scheduler.spawn(host, lambda: self._work(tb, host.name), "agent")

    def _work(self, tb: Tellback, name: str) -> None:
        random, bank = self.world.random, tb.bank(BANK)
        for _ in range(ROUNDS):
            fact, what = f"{name}.{random.randrange(FACTS)}", random.choice(("signal", "signal", "remember", "forget"))
            if what == "signal":
                items = [self._signal(fact), self._signal("shared")]
                for _ in range(random.choice((1, 1, 2))):
                    bank.signal(items)
            elif what == "remember":
                self.stored[fact] = random.choice(QUERIES)
                bank.remember(fact, self.stored[fact])
            else:
                self.stored.pop(fact, None)
                bank.forget(fact)
            self.world.scheduler.sleep(random.choice((0.0, 0.2, 1.0)))
        tb.flush()
        while tb.context.publisher.spooled:
            self.world.scheduler.sleep(0.5)

    def _signal(self, fact: str) -> SignalItem:
        random = self.world.random
        self.published += 1
        return SignalItem(
            fact_id=fact, signal_type=random.choice(KINDS), query=random.choice(QUERIES),
            confidence=random.choice((0.3, 1.0)), signal_id=str(self.published),
        )  # fmt: skip

    # What must hold.

    def _note_signals(self) -> None:
        """Work out each fact's score from the log of the signals since the last weeks, which expires within them."""
        key = self._key("siglog")
        entries = [msgspec.json.decode(raw) for raw in self.world.database.command("LRANGE", key, 0, -1)]
        self.world.database.command("DEL", key)
        for entry in entries:
            score, at = self.scores.get(entry["fact_id"], (NEUTRAL, entry["at"]))
            change = score_delta(entry["signal_type"], entry["confidence"])
            self.scores[entry["fact_id"]] = clamp_score(decay_score(score, entry["at"] - at) + change), entry["at"]

    def _check(self) -> None:
        database, now = self.world.database, self.world.database.now_ms()
        flat = database.command("HGETALL", self._key("factscore"))
        records = {
            name.decode(): struct.unpack(f"<{len(raw) // 8}d", raw)
            for name, raw in zip(flat[::2], flat[1::2], strict=True)
        }
        found = {fact: decay_score(record[0], now - record[1]) for fact, record in records.items()}
        expected = {fact: decay_score(score, now - at) for fact, (score, at) in self.scores.items()}
        assert found.keys() == expected.keys(), f"scores of {sorted(found)}, signals of {sorted(expected)}"
        wrong = {fact: (found[fact], expected[fact]) for fact in found if abs(found[fact] - expected[fact]) > ERROR}
        assert not wrong, f"scores, and what the signals make: {wrong}"
        signals = sum(round(sum(record[4:])) for record in records.values())
        assert signals == self.published, f"{signals} signals counted of {self.published}"
        if found:
            mean = BankStatistics(database, self.world.layout.of(BANK), BANK).stats().average_score
            assert mean is not None
            assert abs(mean - sum(found.values()) / len(found)) < 1e-6, f"a mean of {mean}, scores {found}"
        flat = database.command("HGETALL", self._key("facttext"))
        texts = {name.decode(): raw[8:].decode() for name, raw in zip(flat[::2], flat[1::2], strict=True)}
        assert texts == self.stored, f"{texts} stored, {self.stored} remembered"

    def _key(self, family: str) -> str:
        return self.world.layout.of(BANK).key(family, BANK)
