"""The scenario of commands: submitted, run, cut off, killed; each ends in exactly one record."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Literal

from tellback.state.records import Records
from tests.simulation.fleet import Fleet, FleetScenario
from tests.simulation.world import World

COMMANDS = 6
SESSIONS = 2
SETTLED = 15.0  # seconds in which a worker that continues notices its loss, and records what it ran
ON_LOST: tuple[Literal["record", "retry"], ...] = ("record", "retry")


class CommandsScenario(FleetScenario):
    """Each command has one record; two attempts of one that may be retried never overlap."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.fleet = Fleet(world)
        self.submitted: list[tuple[str, str]] = []

    def run(self) -> None:
        """Harm the workers while a host submits commands; then wait for the records."""
        world, scheduler, fleet = self.world, self.world.scheduler, self.fleet
        fleet.add_beat()
        fleet.add_main_process("main0")
        pool = [fleet.add_pool_process(f"pool{number}") for number in range(3)]
        host = scheduler.process("host")
        submitting = scheduler.spawn(host, self._submit, "host")
        for _ in range(world.random.randrange(4)):
            scheduler.sleep(world.choices.between(0.0, 10.0, "until a fault"))
            kind = world.choices.pick(5, "fault")
            victim = world.choices.pick(len(pool), "process")
            if kind == 1:
                scheduler.kill(pool[victim])
                pool[victim] = fleet.add_pool_process(f"{pool[victim].name}+")
            elif kind == 2:
                scheduler.freeze(pool[victim], world.choices.between(0.0, 80.0, "freeze"))
            elif kind == 3:
                world.network.away = True
                scheduler.sleep(world.choices.between(0.0, 20.0, "away"))
                world.network.away = False
            elif kind == 4:
                world.step_clock(world.choices.between(-3600, 3600, "step"))
        while not submitting.done:
            scheduler.sleep(1)
        world.network.fault = fleet.broker.fault = 0.0
        end = scheduler.now + 600
        while self._unrecorded() and scheduler.now < end:
            scheduler.sleep(5)
        # What was frozen continues once more: it must not record what others have recorded meanwhile.
        scheduler.sleep(max(0.0, *(process.frozen_until - scheduler.now for process in pool)) + SETTLED)
        while self._unrecorded() and scheduler.now < end:
            scheduler.sleep(5)
        assert not self._unrecorded(), f"without a record: {self._unrecorded()}"
        self._check()

    def _records(self) -> dict[str, list[str]]:
        records = Records(self.world.database, self.world.layout)
        found: dict[str, list[str]] = {}
        for session in {session for session, _ in self.submitted}:
            for record in records.last(session):
                found.setdefault(record.command_id, []).append(str(record.error))
        return found

    def _unrecorded(self) -> list[str]:
        """Return the commands without a record, further attempts included, and those that are queued or leased."""
        records, database = self._records(), self.world.database
        names = [name.decode() for name in database.command("KEYS", "tb:*:job:*")]
        known = {name.partition(":job:")[2] for name in names} | {id_ for _, id_ in self.submitted}
        left = [
            f"{member.decode()} in {shard.key(name)}"
            for shard in self.world.layout.all
            for name in ("running", "pools")
            for member in database.command("ZRANGE", shard.key(name), 0, -1)
        ]
        return sorted(known - records.keys()) + left

    def _check(self) -> None:
        for id_, found in self._records().items():
            assert len(found) == 1, f"{id_} has {len(found)} records: {found}"
            assert not found[0].startswith("refused"), found[0]  # a policy that runs nothing would pass every check
        by_mark: dict[str, list[tuple[float, float]]] = {}
        for run in self.fleet.executions:
            if run.mark is not None and run.ended is not None:
                by_mark.setdefault(run.mark, []).append((run.began, run.ended))
        for mark, spans in by_mark.items():
            spans.sort()
            for (_, ended), (began, _) in pairwise(spans):
                assert ended <= began, f"two attempts of {mark} overlap: {spans}"

    def _submit(self) -> None:
        task = self.world.scheduler.current
        assert task is not None, "a task"
        tb = self.world.client(task.process)
        for number in range(COMMANDS):
            session = f"s{number % SESSIONS}"
            length = self.world.random.choice((0.01, 0.5, 5.0, 20.0))
            on_lost = self.world.random.choice(ON_LOST)
            job = tb.submit(["sleep", str(length)], session=session, cwd=str(Path.cwd()), timeout=60, on_lost=on_lost)
            self.submitted.append((session, job.command_id))
            self.world.scheduler.sleep(self.world.choices.between(0.0, 2.0, "between commands"))
        tb.flush()
        while tb.context.publisher.spooled:
            self.world.scheduler.sleep(0.5)
