"""The scenario of turns: hosts answer, put off and leave the same messages near their deadlines, beside sweeps."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any
from unittest import mock

import msgspec

from tellback import OutgoingResponse, StateConflict, Tellback
from tellback.client.turns import Turn
from tellback.names import Family
from tellback.state.records import read_history
from tellback.state.turn_view import TurnView
from tellback.state.turns import Turns
from tests.simulation.fleet import Fleet, FleetScenario
from tests.simulation.scheduler import Process, SimulatedTask
from tests.simulation.transports import Transports
from tests.simulation.world import World

CONVERSATIONS = 2
MESSAGES = 3  # of each conversation, each opened by two hosts
HOSTS = 2
TRANSPORTS = 2
FINISH_GRACE = 3.0
SHORTEST, LONGEST = 2.0, 6.0  # seconds to answer
STEP = 3600.0  # seconds by which the clock steps at most, either way
CALLS = ("respond", "respond", "finish", "fail", "defer", "progress", "no_reply", "nothing")
ENDS = {"answered": "responded", "fallback": "fallback", "no_reply": "no_reply"}  # event of the history: state


class TurnsScenario(FleetScenario):
    """Each turn has one first answer, or was closed without one, and each delivery comes to its end."""

    def __init__(self, world: World) -> None:
        self.world = world
        world.settings = msgspec.structs.replace(world.settings, finish_grace=FINISH_GRACE)
        self.fleet = Fleet(world)
        self.transports = Transports(world, TRANSPORTS, refusals=0.1)
        self.hosts: dict[Process, list[SimulatedTask]] = {}
        self.opened: dict[str, str] = {}  # the conversation of each turn
        self.results: dict[str, list[str]] = defaultdict(list)  # of each turn, as hosts got them
        self.until_overdue: dict[str, list[SimulatedTask]] = defaultdict(list)

    def play(self) -> None:
        """Run the scenario."""
        with self.transports.watched(), self._hosts_wake_beside_sweeps():
            super().play()

    def run(self) -> None:
        """Harm every part while hosts work on the turns; then wait until nothing is owed, and look at each turn."""
        world, scheduler, fleet = self.world, self.world.scheduler, self.fleet
        fleet.add_beat()
        main = [fleet.add_main_process("main0")]
        pool = [fleet.add_pool_process("pool0")]
        self.transports.start()
        for number in range(HOSTS):
            self._start_host(f"host{number}")
        for _ in range(world.random.randrange(4)):
            scheduler.sleep(world.choices.between(0.0, 3.0, "until a fault"))
            self._harm(main, pool)
        while not all(task.done or not host.alive for host, tasks in self.hosts.items() for task in tasks):
            scheduler.sleep(0.5)
        world.network.fault = fleet.broker.fault = self.transports.refusals = 0.0
        end = scheduler.now + 120
        while self._left() and scheduler.now < end:
            scheduler.sleep(1)
        assert not self._left(), f"never done: {self._left()}"
        self._check()

    def _harm(self, main: list[Process], pool: list[Process]) -> None:
        world, scheduler = self.world, self.world.scheduler
        host = next(iter(self.hosts))
        harms: list[Callable[[], object]] = [
            lambda: None,
            partial(self.fleet.harm, pool),
            self.transports.harm,
            partial(scheduler.kill, host),
            lambda: scheduler.freeze(host, world.choices.between(0.0, 10.0, "freeze of a host")),
            partial(self._replace_main, main),
            lambda: world.step_clock(world.choices.between(-STEP, STEP, "step")),
        ]
        harms[world.choices.pick(len(harms), "harm")]()

    def _replace_main(self, main: list[Process]) -> None:
        self.world.scheduler.kill(main[0])
        main[0] = self.fleet.add_main_process(f"{main[0].name}+")

    # The hosts.

    def _start_host(self, name: str) -> None:
        scheduler = self.world.scheduler
        process = scheduler.process(name)
        tb = self.world.client(process)
        messages = [(f"c{talk}", f"m{number}") for talk in range(CONVERSATIONS) for number in range(MESSAGES)]
        work = [scheduler.spawn(process, partial(self._work, tb, *message), "turn") for message in messages]
        self.hosts[process] = [*work, scheduler.spawn(process, partial(self._end_host, tb, work), "host")]

    def _end_host(self, tb: Tellback, work: list[SimulatedTask]) -> None:
        while not all(task.done for task in work):
            self.world.scheduler.sleep(0.5)
        tb.flush()
        while tb.context.publisher.spooled:
            self.world.scheduler.sleep(0.5)

    def _work(self, tb: Tellback, talk: str, message: str) -> None:
        scheduler, choices = self.world.scheduler, self.world.choices
        scheduler.sleep(choices.between(0.0, 3.0, "until the message"))
        within = choices.between(SHORTEST, LONGEST, "time to answer")
        turn = self.world.again(
            lambda: tb.open_turn(
                channel="chat", conversation=talk, message_id=message, text="hi", answer_within=round(within, 1)
            )
        )
        self.opened[turn.id] = talk
        self._wait_for_deadline(turn.id, within)
        call = CALLS[choices.pick(len(CALLS), "call")]
        self._call(turn, call)
        if call in ("defer", "progress") and choices.chance(0.7, "answer after it"):
            self._wait_for_deadline(turn.id, within)
            self._call(turn, "respond")

    def _wait_for_deadline(self, turn: str, within: float) -> None:
        """Wait until a sweep has read the turn as overdue and is about to answer it, or until about that time."""
        task = self.world.scheduler.current
        assert task is not None, "a task"
        if self.world.choices.chance(0.5, "beside the sweep"):
            self.until_overdue[turn].append(task)
            self.world.scheduler.park(within + 3.0)
        else:
            self.world.scheduler.sleep(self.world.choices.between(0.0, within + 3.0, "until the call"))

    @contextmanager
    def _hosts_wake_beside_sweeps(self) -> Generator[None]:
        """Let hosts call while a sweep is between its reads and its fallbacks: what random times seldom give."""
        overdue = Turns.overdue

        def read(turns: Turns, *args: Any) -> list[str]:
            found = overdue(turns, *args)
            for turn in found:
                for task in self.until_overdue.pop(turn, []):
                    self.world.scheduler.wake(task)
            return found

        with mock.patch.object(Turns, "overdue", read):
            yield

    def _call(self, turn: Turn, call: str) -> None:
        task = self.world.scheduler.current
        assert task is not None, "a task"
        response = OutgoingResponse.text_only(f"{turn.id} by {task.process.name}")
        if call == "respond":
            self.results[turn.id].append(turn.respond(response))
        elif call == "finish":
            turn.finish(response)
        elif call == "fail":
            self.results[turn.id].append(turn.fail(code="simulated"))
        elif call == "defer":
            self.world.again(lambda: turn.defer(seconds=SHORTEST))
        elif call == "progress":
            self.world.again(turn.progress)
        elif call == "no_reply":
            with suppress(StateConflict):
                self.world.again(lambda: turn.no_reply(reason="simulated"))

    # The checks.

    def _left(self) -> list[str]:
        """Return what is owed: turns without an end, finished ones in the streams, deliveries in the outbox."""
        database, layout = self.world.database, self.world.layout
        left = [
            f"{member.decode()} in {shard.key(*name)}"
            for shard in layout.all
            for name in (("due",), ("out", "chat"))
            for member in database.command("ZRANGE", shard.key(*name), 0, -1)
        ]
        lengths = self.world.intake.lengths()
        return left + [
            f"{n} in {family} of {at}" for (at, family), n in lengths.items() if n and family == Family.TURNS
        ]

    def _check(self) -> None:
        database, layout = self.world.database, self.world.layout
        events: dict[str, Counter[str]] = defaultdict(Counter)
        for talk in set(self.opened.values()):
            for entry in read_history(database, layout, talk):
                events[str(entry["turn"])][str(entry["event"])] += 1
        for found in Turns(database, layout).load(sorted(self.opened)):
            assert found is not None, "an opened turn is gone"
            seen = events[found.id]
            problems = self._problems(found, seen)
            assert not problems, (
                f"{found.id}: {', '.join(problems)}; {found.state}, {dict(seen)}, {self.results[found.id]}"
            )

    def _problems(self, found: TurnView, seen: Counter[str]) -> list[str]:
        firsts = {
            (sent.kind, sent.response.text)
            for sent in self.transports.sent
            if sent.turn_id == found.id and sent.kind != "late"
        }
        ended = [state for event, state in ENDS.items() for _ in range(seen[event])]
        state = "responded" if seen["replaced"] else "".join(ended)
        accepted = sum(result in ("accepted", "replaced") for result in self.results[found.id])
        answered = found.state in ("responded", "fallback")
        problems = {
            f"{len(ended)} first answers in its history": len(ended) != 1,
            "it was opened or replaced twice": seen["opened"] != 1 or seen["replaced"] > seen["fallback"],
            "two late answers": seen["late"] + seen["stale"] > 1,
            f"its history says {state}": state != found.state,
            "two answers were accepted": accepted > 1,
            "the accepted answer is not its end": bool(accepted) and found.state != "responded",
            f"first answers sent: {sorted(firsts, key=repr)}": len(firsts) != answered,
            f"its delivery is {found.delivery}": answered and found.delivery != "delivered",
            f"its late answer is {found.late_delivery}": bool(seen["late"]) and found.late_delivery != "delivered",
        }
        return [problem for problem, is_so in problems.items() if is_so]
