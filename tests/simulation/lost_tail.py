"""The scenario of a lost tail: Redis comes back as it was up to a second before, in the middle of all loops."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from tellback import OutgoingResponse, RoutingOutcome, Tellback, Timeout, Unavailable
from tellback.contracts.guidance import ToolInvoked
from tellback.contracts.message import new_event_id
from tellback.contracts.signals import SignalItem
from tellback.names import Family
from tellback.state.evaluation_codec import EvaluationId
from tellback.state.evaluations import Evaluations
from tellback.state.records import Records
from tellback_workers.loops import fact_writer, loop_of
from tellback_workers.loops.clusters import clusters_of
from tellback_workers.loops.recalls import RecallsLoop
from tests.simulation.fleet import QUEUES, Fleet, FleetScenario
from tests.simulation.scheduler import Process, SimulatedTask
from tests.simulation.signals import BANK, Letters, stored_scores
from tests.simulation.world import World
from tests.support.lost_tail import restore, snapshot

ROUNDS = 10  # of a host's work
HOSTS = 2
TAIL = 1.0  # seconds of writes that Redis may lose: see docs/architecture.md
AWAY = 2.0  # seconds at most until it is back
OTHER_QUEUES = tuple(queue for queue in QUEUES if queue not in {"signals", "recalls"})
OF_A_BANK = ("signal", "signal", "fact", "fact", "recall")
KINDS = ("answer", "call", "command", *OF_A_BANK)
QUERIES = tuple("abcdefghijkl")  # many, so that clusters begin in the lost tail and after it
SESSION = "s0"
EVALUATION = EvaluationId(SESSION, "p", "e")
SENT = RoutingOutcome(attempted=True, sent_text=True)


class Done(NamedTuple):
    """One piece of work that Redis acknowledged, and when it began and was acknowledged."""

    kind: str
    id: str
    began: float
    ended: float


class LostTailScenario(FleetScenario):
    """An event acknowledged outside the lost tails has its effect once; one inside has it at most once."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.fleet = Fleet(world, lingers=world.random.random() < 0.3, encoder=Letters)
        self.tails: list[tuple[float, float]] = []
        self.done: list[Done] = []
        self.delivered: set[str] = set()
        self.queries: dict[str, str] = {}
        self.kinds = world.random.choice((KINDS, OF_A_BANK))

    def play(self) -> None:
        """Run the scenario."""
        copied = self.world.random.random() < 0.7  # without vector sets, each process with the model copies the facts
        with mock.patch.object(fact_writer, "has_vector_sets", return_value=False) if copied else nullcontext():
            super().play()

    def run(self) -> None:
        """Lose one or two tails while hosts work; wait until nothing is left, and compare."""
        world, scheduler, fleet = self.world, self.world.scheduler, self.fleet
        fleet.add_beat()
        fleet.add_main_process("main0")
        models = [fleet.add_pool_process(f"model{number}", ("signals", "recalls")) for number in range(2)]
        for number in range(2):
            fleet.add_pool_process(f"pool{number}", OTHER_QUEUES)
        transport = scheduler.process("transport")
        scheduler.spawn(transport, lambda: self._deliver(world.client(transport)), "transport")
        hosts = [self._start(scheduler.process(f"host{number}")) for number in range(HOSTS)]
        for _ in range(world.random.randrange(1, 3)):
            scheduler.sleep(world.choices.between(0.0, 6.0, "until a loss"))
            self._lose_tail()
        while not all(host.done for host in hosts):
            scheduler.sleep(0.5)
        world.network.fault = fleet.broker.fault = 0.0
        end = scheduler.now + 300
        while self._left() and scheduler.now < end:
            scheduler.sleep(2)
        assert not self._left(), f"never finished: {self._left()}"
        self._check()
        for process in models:
            audit = scheduler.spawn(process, self._check_copies, "audit")
            while not audit.done:
                scheduler.sleep(0.1)

    def _lose_tail(self) -> None:
        world, scheduler = self.world, self.world.scheduler
        kept, since = snapshot(world.database), scheduler.now
        scheduler.sleep(world.choices.between(0.0, TAIL, "length of the tail"))
        world.network.away = True
        scheduler.sleep(world.choices.between(0.0, AWAY, "away"))
        restore(world.database, kept)
        world.note(f"Redis is back as it was at {since:.3f} s")
        self.tails.append((since, scheduler.now))
        world.network.away = False

    # What hosts and the transport do.

    def _start(self, process: Process) -> SimulatedTask:
        tb = self.world.client(process)
        return self.world.scheduler.spawn(process, lambda: self._work(tb, process.name), "agent")

    def _work(self, tb: Tellback, name: str) -> None:
        random, scheduler = self.world.random, self.world.scheduler
        for number in range(ROUNDS):
            kind, began = random.choice(self.kinds), scheduler.now
            if kind == "recall":
                self._recall(tb)
                continue
            id_ = self._publish(tb, kind, f"{name}.{number}")
            tb.flush()
            while tb.context.publisher.spooled:
                scheduler.sleep(0.2)
            self.done.append(Done(kind, id_, began, scheduler.now))
            scheduler.sleep(random.choice((0.0, 0.1, 1.0)))

    def _publish(self, tb: Tellback, kind: str, name: str) -> str:
        """Do one piece of work, and return the id by which its effect is known."""
        if kind == "answer":
            turn = self.world.again(
                lambda: tb.open_turn(channel="chat", conversation="c", message_id=name, text="hi", answer_within=600)
            )
            self.world.again(lambda: turn.respond(OutgoingResponse.text_only(name)))
            return turn.id
        if kind == "command":
            return tb.submit(["sleep", "0.5"], session=SESSION, cwd=str(Path.cwd()), timeout=60).command_id
        if kind == "fact":
            tb.bank(BANK).remember(name, self.world.random.choice(QUERIES))
            return name
        if kind == "signal":
            query = self.world.random.choice(QUERIES)
            tb.bank(BANK).signal([SignalItem(fact_id=name, signal_type="used", query=query, signal_id=name)])
            self.queries[name] = query
            return name
        event = ToolInvoked(
            event_id=new_event_id(), session=SESSION, prompt=EVALUATION.prompt, evaluation=EVALUATION.evaluation,
            tool="t",
        )  # fmt: skip
        tb.context.publisher.publish(event)
        return event.event_id

    def _recall(self, tb: Tellback) -> None:
        """Recall stored facts, so that a process with the model has a copy of them."""
        with suppress(Unavailable, Timeout):
            tb.bank(BANK).recall(self.world.random.choice(QUERIES), limit=100, wait=1.0)

    def _deliver(self, tb: Tellback) -> None:
        def send() -> None:
            for delivery in tb.outbox("chat", wait=0.2):
                self.delivered.add(delivery.turn_id)
                delivery.settle(SENT)

        while True:
            self.world.again(send)

    # What must hold in the end.

    def _left(self) -> list[str]:
        """Return what waits anywhere: in streams, queues of commands and deliveries, or under a lease."""
        database, layout = self.world.database, self.world.layout
        left = self.world.waiting()
        indexes = [shard.key(*parts) for shard in layout.all for parts in (("running",), ("pools",), ("out", "chat"))]
        left += [f"{key}: {length}" for key in indexes if (length := database.command("ZCARD", key))]
        return left + [key.decode() for key in database.command("KEYS", "tb:*:outq:*")]

    def _safe(self, kind: str) -> set[str]:
        """Return the ids of the work that no lost tail can have touched."""
        return {
            done.id
            for done in self.done
            if done.kind == kind and all(done.ended < since or done.began > end for since, end in self.tails)
        }

    def _all(self, kind: str) -> set[str]:
        return {done.id for done in self.done if done.kind == kind}

    def _check(self) -> None:
        records = Counter(record.command_id for record in Records(self.world.database, self.world.layout).last(SESSION))
        scores = stored_scores(self.world)
        effects = {
            "answer": Counter(self.delivered),
            "command": records,
            "signal": Counter({fact: count for fact, (_, count) in scores.items()}),
            "fact": Counter(fact.decode() for fact in self.world.database.command("HKEYS", self._key("facttext"))),
        }
        for kind, found in effects.items():
            lost = self._safe(kind) - found.keys()
            assert not lost, f"{kind}s lost outside a tail: {sorted(lost)}"
            doubled = [id_ for id_, times in found.items() if times > 1]
            assert not doubled, f"{kind}s with two effects: {doubled}"
        misplaced = [fact for fact in scores if fact not in self._clusters().get(self.queries[fact], set())]
        assert not misplaced, f"signals that count for no cluster of their query: {misplaced}"
        counts = Evaluations(self.world.database, self.world.layout.of(SESSION)).counts(EVALUATION)
        least, most = len(self._safe("call")), len(self._all("call"))
        assert least <= counts.calls <= most, f"{counts.calls} calls count, of {least} to {most}"

    def _clusters(self) -> dict[str, set[str]]:
        """Return the facts with a score in the cluster of each query."""
        database, shard = self.world.database, self.world.layout.of(BANK)
        flat = database.command("HGETALL", self._key("clustertext"))
        pairs = zip(flat[::2], flat[1::2], strict=True)
        texts = {text.decode(): shard.key("cluster", BANK, slot.decode()) for slot, text in pairs}
        return {text: {fact.decode() for fact in database.command("HKEYS", key)} for text, key in texts.items()}

    def _check_copies(self) -> None:
        """Check that the process that asks knows the bank's clusters and stored facts as Redis has them."""
        world, shard, runtime = self.world, self.world.layout.of(BANK), self.fleet.runtime()
        bank = clusters_of(runtime, world.settings.team).bank_clusters(shard, BANK)
        with bank.lock:
            world.again(bank.sync)
        copied = {slot: bank.matrix.vector(slot).tobytes() for slot in range(bank.matrix.count)}
        flat = world.database.command("HGETALL", self._key("clustervec"))
        stored = {int(slot): vector for slot, vector in zip(flat[::2], flat[1::2], strict=True)}
        assert copied == stored, f"clusters {copied.keys()} in a copy, {stored.keys()} in the bank, or other vectors"
        loop = loop_of(runtime, world.settings.team, Family.RECALLS)
        assert isinstance(loop, RecallsLoop), loop
        vector = Letters().encode([QUERIES[0]])[0]
        found = world.again(lambda: loop._answering._fact_search.nearest(shard, BANK, vector, 1_000))
        facts = {fact.decode() for fact in world.database.command("HKEYS", self._key("facttext"))}
        assert {fact for fact, _ in found} == facts, f"facts {sorted(facts)} in the bank, found {found}"

    def _key(self, family: str) -> str:
        return self.world.layout.of(BANK).key(family, BANK)
