"""The scenario of publishing: threads of hosts that fork and die, a Redis that goes away, full disks, resends."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import msgspec

from tellback.contracts.guidance import EvaluationBegun
from tellback.contracts.message import new_event_id
from tellback.errors import SpoolFull
from tellback.messaging import publisher as publisher_module
from tellback.messaging.spool_file import SpoolFile
from tellback.messaging.team_cache import SpoolLocation
from tellback.names import Family
from tellback.state.intake_lease import FIELD
from tellback.state.keys import stream_of
from tests.simulation.preempt import preemptible
from tests.simulation.scheduler import Process
from tests.simulation.world import World


class Host:
    """A process of the agents' host: one publisher, used by several threads."""

    def __init__(self, scenario: PublishingScenario, process: Process) -> None:
        self.world = scenario.world
        self.scenario = scenario
        self.process = process
        self.accepted: list[str] = []
        self.flushed = 0  # how many of them a flush has brought to Redis or to the disk
        self.begin()

    def begin(self) -> None:
        """Make the publisher."""
        settings = self.world.settings
        place = SpoolLocation(str(settings.data_path / "spool" / settings.team), "here")
        database = self.world.open(self.process)
        self.publisher = self.scenario.module.Publisher(database, self.world.layout, settings, place)

    def publish(self, events: int) -> None:
        """Publish some events of several sessions; retry what was not accepted."""
        random, scheduler = self.world.random, self.world.scheduler
        for _ in range(events):
            message = EvaluationBegun(
                event_id=new_event_id(), session=f"s{random.randrange(3)}", evaluation="e", prompt="p"
            )
            while True:
                try:
                    self.publisher.publish(message)
                    break
                except SpoolFull:
                    scheduler.sleep(0.3)
            self.accepted.append(message.event_id)
            if random.random() < 0.1:
                self.flush()
            elif random.random() < 0.3:
                scheduler.sleep(random.random())

    def flush(self) -> None:
        """Flush, and note what is safe since then."""
        safe = len(self.accepted)
        try:
            self.publisher.flush()
        except SpoolFull:
            return
        self.flushed = max(self.flushed, safe)

    def leave(self) -> None:
        """Close the files, as the system does when the process dies."""
        for lane in self.publisher._lanes.values():  # what the kernel knows
            lane.abandon()
            orphan = lane._spool._orphan
            if orphan is not None:
                orphan.abandon()


class PublishingScenario:
    """Each accepted event is in its stream once; after a death at most once, and once if it was flushed before."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.disk_full = False
        self.hosts: list[Host] = []
        world.scheduler.switch_chance = world.random.choice((0.0, 0.0, 0.05))
        self.module: Any = preemptible(publisher_module.__name__) if world.scheduler.switch_chance else publisher_module

    def play(self) -> None:
        """Run the scenario."""
        with self._disk():
            self.world.run(self.run)

    def run(self) -> None:
        """Publish under faults, then without; count what the streams hold."""
        world, scheduler, random = self.world, self.world.scheduler, self.world.random
        hosts = [self._start() for _ in range(random.randrange(1, 3))]
        for _ in range(random.randrange(5)):
            scheduler.sleep(world.choices.between(0.0, 3.0, "until a fault"))
            self._harm(hosts)
        world.network.away = self.disk_full = False
        world.network.fault = 0.0
        self._wait_for(hosts)
        last = self._start(threads=1)  # sends what the dead have left
        self._wait_for([last])
        end = scheduler.now + 60
        while scheduler.now < end and (self._missing() or any(host.publisher.spooled for host in [*hosts, last])):
            scheduler.sleep(1)
        self._check()

    def _wait_for(self, hosts: list[Host]) -> None:
        while any(not task.done for host in hosts for task in host.process.tasks if task.name == "publishing"):
            self.world.scheduler.sleep(0.5)

    def _harm(self, hosts: list[Host]) -> None:
        world, scheduler = self.world, self.world.scheduler
        kind = world.choices.pick(6, "harm")
        number = world.choices.pick(len(hosts), "host")
        host = hosts[number]
        if kind == 1:
            scheduler.kill(host.process)
            host.leave()
            hosts[number] = self._start()
        elif kind == 2:
            self._fork(hosts, number)
        elif kind == 3:
            world.network.away = not world.network.away
        elif kind == 4:
            self.disk_full = not self.disk_full
        elif kind == 5:
            scheduler.freeze(host.process, world.choices.between(0.0, 20.0, "freeze"))

    def _start(self, threads: int | None = None) -> Host:
        scheduler, random = self.world.scheduler, self.world.random
        host = Host(self, scheduler.process(f"host{len(self.hosts)}"))
        self.hosts.append(host)
        for _ in range(threads or random.randrange(1, 5)):
            scheduler.spawn(host.process, lambda: host.publish(random.randrange(1, 12)), "publishing")
        return host

    def _fork(self, hosts: list[Host], number: int) -> None:
        """Let a child of a host continue in its place, with the parent's memory and none of its threads."""
        scheduler, parent = self.world.scheduler, hosts[number]
        scheduler.kill(parent.process)
        child = Host.__new__(Host)
        process = scheduler.process(f"{parent.process.name}'")
        child.__dict__.update(parent.__dict__, process=process, accepted=[], flushed=0)
        child.publisher._db._process = process  # the child has its copy of the connection
        at_fork = getattr(child.publisher, "_begin_in_child", None)
        if at_fork is not None:
            at_fork()
        self.hosts.append(child)
        hosts[number] = child
        for _ in range(4):
            scheduler.spawn(process, lambda: child.publish(5), "publishing")

    def _streams(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for shard in self.world.layout.all:
            for _, fields in self.world.database.command("XRANGE", stream_of(shard, Family.EVENTS), "-", "+"):
                pairs = dict(zip(fields[::2], fields[1::2], strict=True))
                found[msgspec.json.decode(pairs[FIELD.encode()])["event_id"]] += 1
        return found

    def _missing(self) -> list[str]:
        found = self._streams()
        return [id_ for host in self.hosts for id_ in self._safe(host) if id_ not in found]

    def _safe(self, host: Host) -> list[str]:
        return host.accepted if host.process.alive else host.accepted[: host.flushed]

    def _check(self) -> None:
        found = self._streams()
        twice = [id_ for id_, times in found.items() if times > 1]
        assert not twice, f"{len(twice)} events twice: {twice[:5]}"
        assert not self._missing(), f"{len(self._missing())} events lost: {self._missing()[:5]}"

    @contextmanager
    def _disk(self) -> Generator[None]:
        """Let files take nothing more while the disk is full."""
        append, create = SpoolFile.append, SpoolFile.create

        def checked() -> None:
            if self.disk_full:
                raise OSError(errno.ENOSPC, "simulated: no space left on device")

        def appended(file: SpoolFile, block: bytes) -> None:
            checked()
            append(file, block)

        def created(folder: str) -> SpoolFile:
            checked()
            return create(folder)

        with mock.patch.object(SpoolFile, "append", appended), mock.patch.object(SpoolFile, "create", created):
            yield
