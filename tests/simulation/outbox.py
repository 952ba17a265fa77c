"""The scenario of the outbox: answers of several conversations, posted as others are sent, by transports that die."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from functools import partial

from tellback import OutgoingResponse, Tellback
from tellback.client.outbox import OutboxDelivery
from tellback.client.turns import Turn
from tests.simulation.fleet import Fleet
from tests.simulation.leases import Leases
from tests.simulation.scheduler import Process, SimulatedTask
from tests.simulation.transports import Transports
from tests.simulation.world import World

CONVERSATIONS = 2
ANSWERS = 16  # of each conversation
TRANSPORTS = 3


class OutboxScenario:
    """Each answer is delivered, in its conversation's order; without faults and deaths once."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.transports = Transports(world, TRANSPORTS, on_settled=self._note_settled)
        self.answered: dict[str, list[str]] = defaultdict(list)
        self.eager = world.random.random() < 0.7
        self.harms = world.random.choice((0, 0, 1, 3))
        self.settled: set[str] = set()
        self.waiting: dict[str, SimulatedTask] = {}
        self.spooled: set[str] = set()

    def play(self) -> None:
        """Run the scenario."""
        with Leases(self.world).watched(), self.transports.watched():
            self.world.run(self.run)

    def run(self) -> None:
        """Play until every answer is delivered."""
        world, scheduler = self.world, self.world.scheduler
        calm = world.network.fault == 0 and not self.harms
        self.transports.start()
        hosts: list[SimulatedTask] = []
        for talk in (f"c{number}" for number in range(CONVERSATIONS)):
            process = scheduler.process(f"host of {talk}")
            hosts.append(scheduler.spawn(process, partial(self._host, process, talk), "host"))
        for _ in range(self.harms):
            scheduler.sleep(world.choices.between(0.0, 1.0, "until a fault"))
            self.transports.harm()
        while not all(host.done for host in hosts):
            scheduler.sleep(1)
        world.network.fault = 0.0
        with self._workers() if self.spooled else nullcontext():
            end = scheduler.now + 120
            while self._waiting() and scheduler.now < end:
                scheduler.sleep(1)
            assert not self._waiting(), f"never delivered: {self._waiting()}"
        self._check_order()
        assert not calm or len(self.transports.sent) == ANSWERS * CONVERSATIONS, "an answer was sent twice"

    def _check_order(self) -> None:
        """Check the first sendings of each conversation, without the answers that workers posted later from a spool."""
        for talk, turns in self.answered.items():
            firsts = [turn for turn in self._delivered(talk) if turn not in self.spooled]
            expected = [turn for turn in turns if turn not in self.spooled]
            assert firsts == expected, f"answered {expected}, first sent {firsts}"

    def _delivered(self, talk: str) -> list[str]:
        """Return the turns of a conversation in the order in which each was first sent."""
        return list(dict.fromkeys(sent.turn_id for sent in self.transports.sent if sent.conversation == talk))

    @contextmanager
    def _workers(self) -> Generator[None]:
        """Start the workers, which post what was spooled; most runs need none."""
        fleet = Fleet(self.world)
        fleet.broker.fault = 0.0
        with fleet.in_place():
            fleet.add_main_process("main0")
            fleet.add_pool_process("pool0")
            yield

    def _waiting(self) -> dict[str, list[str]]:
        sent = {delivery.turn_id for delivery in self.transports.sent}
        left = {talk: [turn for turn in turns if turn not in sent] for talk, turns in self.answered.items()}
        return {talk: turns for talk, turns in left.items() if turns}

    def _host(self, process: Process, talk: str) -> None:
        tb = self.world.client(process)
        for number in range(ANSWERS):
            turn = self._opened(tb, talk, number)
            self._respond(turn)
            self.answered[talk].append(turn.id)
            if self.eager:  # answer the next as soon as this one is settled: its queue is empty just then
                self._wait_until_settled(turn.id)
        while tb.context.publisher.spooled:
            self.world.scheduler.sleep(0.5)

    def _wait_until_settled(self, turn: str) -> None:
        task = self.world.scheduler.current
        assert task is not None, "a task"
        if turn not in self.settled:
            self.waiting[turn] = task
            self.world.scheduler.park(2.0)

    def _opened(self, tb: Tellback, talk: str, number: int) -> Turn:
        return self.world.again(
            lambda: tb.open_turn(
                channel="chat", conversation=talk, message_id=f"{talk}.{number}", text="hi", answer_within=600
            )
        )

    def _respond(self, turn: Turn) -> None:
        if self.world.again(lambda: turn.respond(OutgoingResponse.text_only(turn.id))) == "spooled":
            self.spooled.add(turn.id)

    def _note_settled(self, delivery: OutboxDelivery) -> None:
        self.settled.add(delivery.turn_id)
        if delivery.turn_id in self.waiting:
            self.world.scheduler.wake(self.waiting.pop(delivery.turn_id))
