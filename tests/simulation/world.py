"""One simulated system: its Redis, its processes, and the stand-ins of clocks and random numbers."""

from __future__ import annotations

import atexit
import math
import os
import random
import secrets
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

from tellback import clock
from tellback.client.client_context import ClientContext
from tellback.client.connection import Tellback
from tellback.contracts.message import new_event_id
from tellback.errors import Unavailable
from tellback.messaging.publisher import Publisher
from tellback.messaging.team_cache import SpoolLocation
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.intake import Intake
from tellback.state.keys import Layout
from tellback.state.team import open_layout
from tests.simulation.choices import Choices
from tests.simulation.network import Network, SimulatedDatabase
from tests.simulation.scheduler import Process, Scheduler
from tests.simulation.server import START_US, VirtualServer
from tests.simulation.threads import simulated_threads
from tests.support.keyleaks import undeclared

T = TypeVar("T")

UNOBSERVED = 10.0  # seconds: a step forward by no more than this may look like time that has passed


class World:
    """The parts that every scenario needs. `database` is for checks: no fault and no switch happens in its calls."""

    def __init__(self, server: VirtualServer, choices: Choices, seed: int, folder: Path, **settings: Any) -> None:
        self.server = server
        self.choices = choices
        self._seed = seed
        self.random = random.Random(seed)  # of what is no decision: ids, and the shape of the run
        self.trace: list[str] = []
        choices.on_taken = self._note_decision
        self.server_step = 0.0  # seconds by which the server's wall clock has stepped
        self.stepped_at = -math.inf
        self.unnoticed_at = -math.inf  # when a step was made, or the last of several, that may look like passed time
        self._steps: list[float] = []
        self.checks: list[Callable[[float], None]] = []  # called as time passes
        self.scheduler = Scheduler(choices, preempt=self.random.choice((0.02, 0.1, 0.4)), on_time=self._on_time)
        self.network = Network(
            self.scheduler, fault=self.random.choice((0.0, 0.01, 0.05)), stall=self.random.choice((0.0, 0.1, 0.4))
        )
        self.settings = Settings(redis_url=server.url, data_dir=str(folder), **settings)
        self.database = Database(server.url)
        server.time_us = self._latest_us = START_US
        # Redis' own cycle of expiry runs by real time, and ends a key a millisecond before commands see it expired.
        no_cycle = ("DEBUG", "SET-ACTIVE-EXPIRE", 0)
        self.database.pipeline([("FLUSHALL",), ("SCRIPT", "FLUSH"), ("CONFIG", "SET", "maxmemory", 0), no_cycle])
        self.layout: Layout = open_layout(self.database, self.settings.team, self.settings.shards)
        self.intake = Intake(self.database, self.layout)

    def step_clock(self, seconds: float) -> None:
        """Step the server's wall clock."""
        self.server_step += seconds
        self.stepped_at = self.scheduler.now
        self._steps.append(seconds)
        if any(0 < sum(self._steps[first:]) <= UNOBSERVED for first in range(len(self._steps))):
            self.unnoticed_at = self.scheduler.now
        self._on_time(self.scheduler.now)

    def _on_time(self, now: float) -> None:
        self.server.time_us = START_US + round((now + self.server_step) * 1_000_000)
        self._latest_us = max(self._latest_us, self.server.time_us)
        for check in self.checks:
            check(now)

    def open(self, process: Process, *, call_deadline: float | None = None) -> SimulatedDatabase:
        """Return a process's connection to Redis."""
        return SimulatedDatabase(self.server.url, self.network, process, call_deadline=call_deadline)

    def client(self, process: Process) -> Tellback:
        """Return a process's client."""
        database, settings = self.open(process), self.settings
        quick = self.open(process, call_deadline=settings.feedback_deadline)
        place = SpoolLocation(str(settings.data_path / process.name / "spool" / settings.team), "here")
        publisher = Publisher(database, self.layout, settings, place)
        return Tellback(ClientContext(settings, database, quick, self.layout, publisher))

    def run(self, director: Callable[[], object]) -> None:
        """Run a scenario to its end, then raise what failed."""
        with self._in_place():
            self.scheduler.run(director)

    def note(self, event: str) -> None:
        """Add a line to the trace of the run."""
        self.trace.append(f"{self.scheduler.now:9.3f} s  {event}")

    def _note_decision(self, label: str) -> None:
        task = self.scheduler.current
        self.note(f"{task.process.name}/{task.name}: {label}" if task is not None else label)

    def check_keys(self) -> None:
        """Check that each key of Redis is declared, within its lifetime and cap."""
        # A step back lengthens what is left of a lifetime; the latest time of the run undoes that.
        self.server.time_us = self._latest_us
        problems = undeclared(self.database)
        assert not problems, f"keys beside their declaration: {problems}"

    def waiting(self) -> list[str]:
        """Return the intake streams that have entries, with how many."""
        lengths = self.intake.lengths()
        return [f"{family} of {shard}: {length}" for (shard, family), length in lengths.items() if length]

    def again(self, call: Callable[[], T]) -> T:
        """Return what a call returns, repeated as long as Redis is away."""
        while True:
            try:
                return call()
            except Unavailable:
                self.scheduler.sleep(0.1)

    def tolerate(self, call: Callable[[], object], what: str) -> None:
        """Run what a process survives if it raises; the error is noted."""
        try:
            call()
        except Exception as error:  # noqa: BLE001 - as in Celery, a task that raises ends alone
            self.note(f"{what}: {type(error).__name__}: {error}")

    def close(self) -> None:
        """Close the connection of checks."""
        self.database.close()

    @contextmanager
    def _in_place(self) -> Generator[None]:
        scheduler, drawn = self.scheduler, random.Random(self.random.random())
        wall = START_US / 1e6
        stand_ins: list[tuple[Any, str, Any]] = [
            (clock, "monotonic", lambda: scheduler.now),
            (clock, "since_boot", lambda: scheduler.now),
            (clock, "wall", lambda: wall + scheduler.now),
            (clock, "utc_now", lambda: datetime.fromtimestamp(wall + scheduler.now, UTC)),
            (clock, "sleep", scheduler.sleep),
            (os, "urandom", drawn.randbytes),
            (secrets, "token_hex", lambda size=16: drawn.randbytes(size).hex()),
            (secrets, "randbits", drawn.getrandbits),
            (random, "random", drawn.random),
            (random, "uniform", drawn.uniform),
            (random, "shuffle", drawn.shuffle),
            (atexit, "register", mock.Mock()),
            (os, "getpid", lambda: scheduler.current.process.pid if scheduler.current else 999),
        ]
        with simulated_threads(scheduler), ExitStack() as stack:
            for owner, name, stand_in in stand_ins:
                stack.enter_context(mock.patch.object(owner, name, stand_in))
            # The ids of this run must not depend on the runs before it.
            new_event_id._prefix, new_event_id._count = f"{self._seed:016x}", count()
            yield
