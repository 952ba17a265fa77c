"""The scenario of clock steps: the server's wall clock jumps by up to an hour while turns and commands are open."""

from __future__ import annotations

from functools import partial

import msgspec

from tellback import Tellback
from tellback.client.turns import Turn
from tests.simulation.fleet import Fleet, FleetScenario
from tests.simulation.world import World

TURNS = 4
ANSWER_WITHIN = 20.0
TURN_LIMIT = 200.0  # longer than a run, and shorter than most steps
MAX_STEP = 3600.0
# Seconds between deadline and fallback at most. Only the step before whose observation a turn was opened moves its
# deadline, by ten seconds at most (see docs/architecture.md), so it does not matter how many steps there are; then
# comes a sweep.
LATITUDE = 12.0


class ClockScenario(FleetScenario):
    """Each turn that nobody answers has its fallback near its deadline, whatever the wall clock says."""

    def __init__(self, world: World) -> None:
        world.settings = msgspec.structs.replace(world.settings, turn_limit=TURN_LIMIT)
        self.world = world
        self.fleet = Fleet(world)
        self.opened: dict[str, float] = {}  # or when it last reported progress
        self.turns: list[Turn] = []
        self.closed: dict[str, float] = {}

    def run(self) -> None:
        """Open turns, step the clock, and see when each is answered."""
        world, scheduler, fleet = self.world, self.world.scheduler, self.fleet
        world.network.fault = fleet.broker.fault = 0.0  # a late round trip is no clock step
        fleet.add_beat()
        fleet.add_main_process("main0")
        fleet.add_pool_process("pool0")
        scheduler.sleep(3)  # a first observation
        host = scheduler.process("host")
        opening = scheduler.spawn(host, self._open_turns, "host")
        watching = scheduler.spawn(scheduler.process("watch"), self._watch, "watch")
        for _ in range(world.random.randrange(1, 3)):
            scheduler.sleep(world.choices.between(0.0, 20.0, "until a step"))
            step = world.choices.between(-MAX_STEP, MAX_STEP, "step")
            world.note(f"the server's clock steps by {step:.0f} s")
            world.step_clock(step)
            if self.turns and world.random.random() < 0.5:  # before the next observation
                at_work = world.random.choice(self.turns)
                scheduler.spawn(host, partial(self._report_progress, at_work), "agent")
        while not opening.done or not watching.done:
            scheduler.sleep(1)
            self._check()

    def _check(self) -> None:
        after = {turn: self.closed.get(turn, self.world.scheduler.now) - at for turn, at in self.opened.items()}
        wrong = {
            turn: round(seconds - ANSWER_WITHIN, 1)
            for turn, seconds in after.items()
            if seconds > ANSWER_WITHIN + LATITUDE or (turn in self.closed and seconds < ANSWER_WITHIN - LATITUDE)
        }
        assert not wrong, f"seconds between deadline and fallback: {wrong}"

    def _open_turns(self) -> None:
        task = self.world.scheduler.current
        assert task is not None, "a task"
        tb = self.world.client(task.process)
        for number in range(TURNS):
            turn = self._opened(tb, number)
            self.opened[turn.id] = self.world.scheduler.now
            self.turns.append(turn)
            if self.world.random.random() < 0.5:
                self.world.scheduler.spawn(task.process, partial(self._work, turn), "agent")
            self.world.scheduler.sleep(self.world.choices.between(0.0, 8.0, "between turns"))

    def _work(self, turn: Turn) -> None:
        """Report progress a few times: the user waits from the last of them."""
        for _ in range(self.world.random.randrange(1, 4)):
            self.world.scheduler.sleep(self.world.choices.between(0.0, 12.0, "until progress"))
            self._report_progress(turn)

    def _report_progress(self, turn: Turn) -> None:
        if turn.progress() > 0:
            self.opened[turn.id] = self.world.scheduler.now

    def _opened(self, tb: Tellback, number: int) -> Turn:
        return tb.open_turn(
            channel="chat", conversation=f"c{number}", message_id="m", text="hi", answer_within=ANSWER_WITHIN
        )

    def _watch(self) -> None:
        """Note when each turn leaves the index of open ones."""
        scheduler = self.world.scheduler
        while len(self.closed) < TURNS:
            scheduler.sleep(0.5)
            due = {
                turn.decode()
                for shard in self.world.layout.all
                for turn in self.world.database.command("ZRANGE", shard.key("due"), 0, -1)
            }
            for turn in self.opened.keys() - self.closed.keys() - due:
                self.closed[turn] = scheduler.now
