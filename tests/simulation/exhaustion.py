"""The scenario of exhaustion: Redis is full, the broker in it takes nothing, and workers continue by themselves."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

import msgspec

from tellback import OutgoingResponse, Tellback
from tellback.client.turns import Turn
from tellback.contracts.guidance import EvaluationBegun, ToolInvoked
from tellback.contracts.message import Message, new_event_id
from tellback.contracts.signals import SignalItem
from tellback.errors import Unavailable
from tellback.names import Family, Task
from tellback.state.evaluation_codec import EvaluationId
from tellback.state.evaluations import Evaluations
from tellback.state.job_keys import ANY_POOL
from tellback.state.records import Records
from tests.simulation.fleet import QUEUES, Fleet, FleetScenario
from tests.simulation.scheduler import Process
from tests.simulation.signals import BANK, QUERIES, Letters, stored_scores
from tests.simulation.world import World

TURNS = 3
EVENTS = 12
BATCHES = 3
SESSIONS = tuple(EvaluationId(f"s{number}", "p", "e") for number in range(3))
RUNNING = 12.0  # seconds of the command that runs when Redis becomes full
ANSWER_WITHIN = 20.0  # seconds; an answer of which Redis did not hear is a fallback then, still with a full Redis
FULL_SECONDS = 180.0
HARMS = 2  # deaths and freezes of workers while Redis is full: each may hold a lease of signals for half a minute
RESCUED = (Family.EVENTS, Family.TURNS, Family.SIGNALS, Family.COMMANDS)


class ExhaustionScenario(FleetScenario):
    """While Redis is full the backlog is applied and each overdue turn is answered; then comes what had to wait."""

    def __init__(self, world: World) -> None:
        # A command whose lease is not renewed while Redis is full is stopped before its end.
        world.settings = msgspec.structs.replace(world.settings, job_lease=4.0, command_redis_wait=2.0)
        self.world = world
        self.fleet = Fleet(world, encoder=Letters)
        self.calls: Counter[str] = Counter()  # by session
        self.facts: set[str] = set()
        self.commands: dict[str, str] = {}  # how long each sleeps, by its id; all differ
        self.turns: list[Turn] = []  # the last one is answered
        self.accepted = False
        self.faulty = world.network.fault > 0
        self.lost: set[str] = set()  # how long the commands sleep that ran when their runner died

    def run(self) -> None:
        """Fill Redis beside a backlog, open turns and a running command; then wait, and make room."""
        world, scheduler, fleet = self.world, self.world.scheduler, self.fleet
        host = scheduler.process("host")
        tb = world.client(host)
        # A lease whose reply is lost ends with a sweep, of which there is none yet: the command would never run.
        fault, world.network.fault = world.network.fault, 0.0
        submitting = scheduler.spawn(host, lambda: self._submit(tb, RUNNING), "submitting")
        runner = fleet.add_pool_process("runner", ("commands",))
        while not submitting.done or not fleet.executions:
            self._wake_runner()
            scheduler.sleep(1)
        world.network.fault = fault
        filling = scheduler.spawn(host, lambda: self._fill(tb), "filling")
        while not filling.done:
            scheduler.sleep(0.1)
        world.database.command("CONFIG", "SET", "maxmemory", 1)
        fleet.broker.away = True
        workers = 1 + world.choices.pick(2, "a second worker")
        mains = [fleet.add_main_process(f"main{number}", families=RESCUED) for number in range(workers)]
        harms, loses = HARMS, world.choices.chance(0.3, "the runner dies")
        refused = scheduler.spawn(host, lambda: self._work_while_full(tb), "refused")
        end = scheduler.now + FULL_SECONDS
        try:
            while (self._left() or not refused.done) and scheduler.now < end:
                scheduler.sleep(1)
                if loses and runner.alive and world.choices.chance(0.2, "now"):
                    self.lost = self._running()
                    scheduler.kill(runner)
                if harms and world.choices.chance(0.1, "harm while full"):
                    harms -= 1
                    self._harm(mains)
            assert not self._left(), f"still there after {FULL_SECONDS:g} s with a full Redis: {self._left()}"
            assert refused.done, "a call still waits for a full Redis"
        finally:
            world.database.command("CONFIG", "SET", "maxmemory", 0)
        self._make_room(tb)

    def _make_room(self, tb: Tellback) -> None:
        """Wait for what Redis refused, and compare."""
        world, scheduler, fleet = self.world, self.world.scheduler, self.fleet
        world.network.fault = fleet.broker.fault = 0.0
        fleet.broker.away = False
        fleet.add_beat()
        fleet.add_pool_process("pool", QUEUES)
        end = scheduler.now + 200
        while (tb.context.publisher.spooled or self._left() or self._unrecorded()) and scheduler.now < end:
            scheduler.sleep(1)
        assert not tb.context.publisher.spooled, "events are still spooled though there is room"
        assert not self._left(), f"still there though there is room: {self._left()}"
        assert not self._unrecorded(), f"without a record: {self._unrecorded()}"
        self._check()

    def _harm(self, mains: list[Process]) -> None:
        """Kill a worker, whose supervisor starts another, or freeze it beyond its lease."""
        victim = self.world.choices.pick(len(mains), "process")
        if self.world.choices.chance(0.5, "death"):
            self.world.scheduler.kill(mains[victim])
            mains[victim] = self.fleet.add_main_process(f"{mains[victim].name}+", families=RESCUED)
        else:
            self.world.scheduler.freeze(mains[victim], self.world.choices.between(0.0, 20.0, "freeze"))

    # What the host does.

    def _fill(self, tb: Tellback) -> None:
        for number in range(TURNS):
            self.turns.append(self.world.again(partial(self._open_turn, tb, f"c{number}", 2)))
        self.turns.append(self.world.again(partial(self._open_turn, tb, "answered", ANSWER_WITHIN)))
        for number in range(EVENTS):
            tb.context.publisher.publish(self._event(number))
        for number in range(BATCHES):
            self._signal(tb, f"filling.{number}")
        self._submit(tb, 0.5)

    def _work_while_full(self, tb: Tellback) -> None:
        """Do what passes: an answer; what is spooled; and what is refused: a new turn."""
        outcome = self.turns[-1].respond(OutgoingResponse.text_only("hello"))
        self.accepted = outcome == "accepted"
        assert self.accepted or self.world.network.fault, f"a full Redis refused an answer: {outcome}"
        tb.context.publisher.publish(self._event(EVENTS))
        self._signal(tb, "full")
        self._submit(tb, 0.6)
        try:
            self._open_turn(tb, "refused", 2)
        except Unavailable:
            return
        raise AssertionError("a full Redis opened a turn")

    def _open_turn(self, tb: Tellback, conversation: str, answer_within: float) -> Turn:
        return tb.open_turn(
            channel="chat", conversation=conversation, message_id="m", text="hi", answer_within=answer_within
        )

    def _event(self, number: int) -> Message:
        event_id, id_ = new_event_id(), SESSIONS[number % len(SESSIONS)]
        if number < len(SESSIONS):  # each session's first
            return EvaluationBegun(event_id=event_id, session=id_.session, evaluation=id_.evaluation, prompt=id_.prompt)
        self.calls[id_.session] += 1
        return ToolInvoked(
            event_id=event_id, session=id_.session, evaluation=id_.evaluation, prompt=id_.prompt, tool="t"
        )

    def _signal(self, tb: Tellback, name: str) -> None:
        facts = [f"{name}.{number}" for number in range(2)]
        query = self.world.random.choice(QUERIES)
        tb.bank(BANK).signal([SignalItem(fact_id=fact, signal_type="used", query=query) for fact in facts])
        self.facts |= set(facts)

    def _submit(self, tb: Tellback, seconds: float) -> None:
        job = tb.submit(["sleep", str(seconds)], session=SESSIONS[0].session, cwd=str(Path.cwd()), timeout=60)
        self.commands[job.command_id] = str(seconds)
        tb.flush()

    def _wake_runner(self) -> None:
        shard = self.world.layout.of(SESSIONS[0].session)
        self.fleet.broker.send_task(Task.RUN_JOB, (shard.team, shard.index, ANY_POOL), queue="commands")

    # What must hold.

    def _left(self) -> list[str]:
        """Return what waits for workers: entries, overdue turns, and the records of commands that run."""
        database, layout = self.world.database, self.world.layout
        lengths = self.world.intake.lengths()
        left = [f"{family} of {shard}: {length}" for (shard, family), length in lengths.items() if length]
        open_turns = [turn for shard in layout.all for turn in database.command("ZRANGE", shard.key("due"), 0, -1)]
        left += [f"turn {turn.decode()}" for turn in open_turns]
        running = self._running()
        return left + [f"command {id_}" for id_, length in self.commands.items() if length in running]

    def _recorded(self) -> dict[str, str]:
        records = Records(self.world.database, self.world.layout).last(SESSIONS[0].session)
        return {record.command_id: record.command[1] for record in records}

    def _running(self) -> set[str]:
        return {run.command[1] for run in self.fleet.executions} - set(self._recorded().values())

    def _unrecorded(self) -> list[str]:
        return sorted(self.commands.keys() - self._recorded().keys())

    def _check(self) -> None:
        database, layout = self.world.database, self.world.layout
        for id_ in SESSIONS:
            calls = Evaluations(database, layout.of(id_.session)).counts(id_).calls
            assert calls == self.calls[id_.session], f"{id_.session}: {calls} calls of {self.calls[id_.session]} count"
        counted = {fact: count for fact, (_, count) in stored_scores(self.world).items()}
        assert counted == dict.fromkeys(self.facts, 1), f"signals counted: {counted}"
        states = [turn.state for turn in self.turns]
        assert states[:-1] == ["fallback"] * TURNS, f"turns that nobody answered are {states[:-1]}"
        assert states[-1] == "responded" or not self.accepted, f"the turn whose answer was accepted is {states[-1]}"
        records = Records(database, layout).last(SESSIONS[0].session)
        assert sorted(record.command_id for record in records) == sorted(self.commands), "a record for each command"
        run = Counter(run.command[1] for run in self.fleet.executions)
        for record in records:
            assert run[record.command[1]] <= 1, f"{record.command_id} ran {run[record.command[1]]} times"
            succeeds = run[record.command[1]] and record.command[1] not in self.lost
            # A reply that does not come holds a renewal up for longer than a command may continue without one.
            unheard = self.faulty and "could not be renewed" in (record.error or "")
            assert record.exit_code == 0 or unheard or not succeeds, f"{record.command_id} ran: {record.error}"
