"""The scenario of exhaustion: Redis is full, the broker in it takes nothing, and workers go on by themselves."""

from __future__ import annotations

from functools import partial

from tellback import Tellback
from tellback.contracts.guidance import EvaluationBegun, ToolInvoked
from tellback.contracts.message import Message, new_event_id
from tellback.names import Family
from tests.simulation.fleet import Fleet
from tests.simulation.leases import Leases
from tests.simulation.world import World

TURNS = 3
EVENTS = 12
FULL_SECONDS = 90.0


class ExhaustionScenario:
    """While Redis is full the backlog is applied and each overdue turn is answered."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.fleet = Fleet(world)

    def play(self) -> None:
        """Run the scenario."""
        with self.fleet.in_place(), Leases(self.world).watched():
            self.world.run(self.run)

    def run(self) -> None:
        """Fill Redis beside a backlog and open turns; wait until both are done, with Redis still full."""
        world, scheduler = self.world, self.world.scheduler
        world.network.fault = 0.0  # what a full Redis refuses is fault enough
        host = scheduler.process("host")
        filling = scheduler.spawn(host, self._fill, "filling")
        while not filling.done:
            scheduler.sleep(0.1)
        world.database.command("CONFIG", "SET", "maxmemory", 1)
        self.fleet.broker.away = True
        self.fleet.add_main_process("main0", families=(Family.EVENTS, Family.TURNS))
        if world.choices.chance(0.5, "a second worker"):
            self.fleet.add_main_process("main1", families=(Family.EVENTS, Family.TURNS))
        end = scheduler.now + FULL_SECONDS
        try:
            while self._left() and scheduler.now < end:
                scheduler.sleep(1)
            assert not self._left(), f"still there after {FULL_SECONDS:g} s with a full Redis: {self._left()}"
        finally:
            world.database.command("CONFIG", "SET", "maxmemory", 0)

    def _fill(self) -> None:
        process = self.world.scheduler.current
        assert process is not None, "a task"
        tb = self.world.client(process.process)
        for number in range(TURNS):
            self.world.again(partial(self._open_turn, tb, number))
        for number in range(EVENTS):
            tb.context.publisher.publish(self._event(number))
        tb.flush()

    def _open_turn(self, tb: Tellback, number: int) -> None:
        tb.open_turn(channel="chat", conversation=f"c{number}", message_id="m", text="hi", answer_within=2)

    def _event(self, number: int) -> Message:
        id_, session = new_event_id(), f"s{number % 3}"
        if number < 3:  # each session's first
            return EvaluationBegun(event_id=id_, session=session, evaluation="e", prompt="p")
        return ToolInvoked(event_id=id_, session=session, evaluation="e", prompt="p", tool="t")

    def _left(self) -> list[str]:
        database, layout = self.world.database, self.world.layout
        lengths = self.world.intake.lengths()
        left = [f"{family} of {shard}: {length}" for (shard, family), length in lengths.items() if length]
        open_turns = [turn for shard in layout.all for turn in database.command("ZRANGE", shard.key("due"), 0, -1)]
        return left + [f"turn {turn.decode()}" for turn in open_turns]
