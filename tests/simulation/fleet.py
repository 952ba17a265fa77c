"""Worker hosts of the simulation: pool processes that run the real tasks, with their dispatcher, sweeper and beat."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar
from unittest import mock

from kombu.exceptions import KombuError

from tellback.commands.control import CommandControl
from tellback.commands.runner import NOT_STARTED, OVERDUE, CommandResult, ExecutionSpec
from tellback.commands.survivors import MARK
from tellback.commands.truncation import StreamTruncator
from tellback.embedding.embedder import _batched_encoders
from tellback.names import Family, Task
from tellback.redaction import Redactor
from tellback.state.job_keys import ANY_POOL, queue_of
from tellback_workers import decay, dispatcher, due_timers, jobs, scheduler, tasks, team_search, wakeups
from tellback_workers.loops import clusters, guidance_of, loop_of
from tellback_workers.runtime import Runtime
from tests.simulation.broker import Broker
from tests.simulation.leases import Leases
from tests.simulation.scheduler import Process
from tests.simulation.world import World

QUEUES = ("turns", "commands", "events", queue_of(ANY_POOL), "sweeps", "signals", "recalls")
SLICE = 0.05  # seconds between two reads of a running command's control

TASKS: dict[str, Callable[..., Any]] = {
    Task.CONSUME: tasks.consume.run,
    Task.RUN_JOB: jobs.run_job.run,
    Task.FIRE_TIMERS: due_timers.fire_due_timers.run,
    Task.VISIT_TEAMS: scheduler.visit_teams.run,
    Task.DECAY: decay.decay.run,
}


@dataclass
class Execution:
    """One attempt of a command that ran, and when, in seconds since the start of the run."""

    command: tuple[str, ...]
    mark: str | None
    process: Process
    began: float
    ended: float | None = None
    killed: bool = False

    def is_running(self) -> bool:
        """Return True while the command runs. It dies with its process."""
        return self.ended is None and self.process.alive


class SimulatedPoolLocks:
    """Stands in for the kernel's locks on a file, which end with their holder."""

    is_closing = False

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._holder: Process | None = None

    @contextmanager
    def acquire_linger(self) -> Generator[bool]:
        """Yield True if this process is the one that lingers, until the block ends."""
        task = self._fleet.world.scheduler.current
        assert task is not None, "only tasks linger"
        free = self._fleet.lingers and (self._holder is None or not self._holder.alive)
        if free:
            self._holder = task.process
        try:
            yield free
        finally:
            if free and self._holder is task.process:
                self._holder = None

    def all_others_busy(self) -> bool:
        """Return True: a process leaves whenever messages wait."""
        return True


@dataclass
class Fleet:
    """The workers and beat of a run, over one broker. With `lingers`, one pool process at a time may linger."""

    supervised: ClassVar[bool] = True

    world: World
    lingers: bool = False
    encoder: Callable[[], Any] = mock.Mock  # makes the model of each process
    broker: Broker = field(init=False)
    runtimes: dict[Process, Runtime] = field(default_factory=dict[Process, Runtime])
    executions: list[Execution] = field(default_factory=list[Execution])

    def __post_init__(self) -> None:
        self.broker = Broker(self.world.scheduler, fault=self.world.random.choice((0.0, 0.02, 0.2)))

    def _runtime(self, process: Process) -> Runtime:
        made = Runtime(self.world.settings)
        made.database, made.short_database = self.world.open(process), self.world.open(process, call_deadline=1.0)
        self.runtimes[process] = made
        return made

    def runtime(self) -> Runtime:
        """Return the runtime of the process that asks."""
        task = self.world.scheduler.current
        assert task is not None, "only tasks ask"
        return self.runtimes.get(task.process) or self._runtime(task.process)

    def add_pool_process(self, name: str, queues: Sequence[str] = QUEUES) -> Process:
        """Start a process that runs the tasks of these queues."""
        process = self.world.scheduler.process(name)
        self.world.scheduler.spawn(process, lambda: self._serve(queues), "tasks")
        return process

    def add_main_process(self, name: str, families: Collection[Family] = ()) -> Process:
        """Start a worker's main process: dispatcher, which rescues these families, and scheduler."""
        spawn = self.world.scheduler.spawn
        process = self.world.scheduler.process(name)
        made = self._runtime(process)
        listening = dispatcher.Dispatcher(made, families)
        spawn(process, listening.run, "dispatcher")
        standing_in = scheduler.StandIn(made, listening.rescue.wake_or_offer)
        spawn(process, standing_in.run, "scheduler")
        return process

    def add_beat(self) -> Process:
        """Start beat: it publishes a tick once in a period."""
        process = self.world.scheduler.process("beat")
        self.world.scheduler.spawn(process, self._beat, "beat")
        return process

    def _beat(self) -> None:
        while True:
            self.world.scheduler.sleep(self.world.settings.beat_period)
            with suppress(KombuError):  # Celery's beat logs it and continues
                self.broker.send_task(Task.VISIT_TEAMS, [], queue="sweeps")

    def harm(self, pool: list[Process]) -> None:
        """Kill one of these processes, freeze it, or take Redis away for a while, as the seed decides."""
        world, scheduler = self.world, self.world.scheduler
        kind, victim = world.choices.pick(4, "fault"), world.choices.pick(len(pool), "process")
        if kind == 1:
            scheduler.kill(pool[victim])
            pool[victim] = self.add_pool_process(f"{pool[victim].name}+")
        elif kind == 2:
            scheduler.freeze(pool[victim], world.choices.between(0.0, 40.0, "freeze"))
        elif kind == 3:
            world.network.away = True
            scheduler.sleep(world.choices.between(0.0, 8.0, "away"))
            world.network.away = False

    def _serve(self, queues: Sequence[str]) -> None:
        while True:
            self._run_task(self.broker.take(queues))

    def _run_task(self, message: Any) -> None:
        # As Celery: a task that raises is logged, and the process continues.
        self.world.tolerate(lambda: TASKS[message.task](*message.args), f"{message.task}{message.args}")

    def run_command(
        self,
        execution: ExecutionSpec,
        *,
        redactor: Redactor,
        control: CommandControl,
        now: Callable[[], datetime],
        tap: object = None,
    ) -> CommandResult:
        """Stand in for `tellback.commands.runner.run`: the command `["sleep", seconds]` on the scheduler's clock."""
        scheduler = self.world.scheduler
        task = scheduler.current
        assert task is not None, "a pool process runs it"
        run = Execution(tuple(execution.argv), execution.env.get(MARK), task.process, scheduler.now)
        streams = (StreamTruncator(redactor), StreamTruncator(redactor))
        if scheduler.now >= (execution.start_until or 1e9):
            return CommandResult(
                stdout=streams[0].finish(), stderr=streams[1].finish(), exit_code=None, error=NOT_STARTED
            )
        self.executions.append(run)
        started, error = now(), None
        end, dies = scheduler.now + float(execution.argv[1]), execution.alive_until or 1e9
        begins = scheduler.now + control.after
        while scheduler.now < end and error is None:
            scheduler.sleep(min(SLICE, end - scheduler.now))
            if scheduler.now >= begins and control.begin is not None:
                begins = 1e9
                control.begin()
            reason, renewed = control.take_requests()
            dies = dies if renewed is None else renewed
            error = OVERDUE if scheduler.now >= dies else reason
            if run.killed:
                error = "killed by a later attempt"
        # A worker that stands still is overtaken by its supervisor.
        run.ended = min(scheduler.now, dies) if self.supervised else scheduler.now
        return CommandResult(
            stdout=streams[0].finish(), stderr=streams[1].finish(), exit_code=None if error else 0, error=error,
            started_at=started, duration_ms=round((run.ended - run.began) * 1000),
        )  # fmt: skip

    def _encoder_for(self, _: object) -> Any:
        return self.encoder()

    def _forget(self) -> None:
        """Drop what the modules cached for the processes of a run."""
        loop_of.cache_clear()
        guidance_of.cache_clear()
        clusters.clusters_of.cache_clear()
        scheduler._scheduler_of.cache_clear()
        _batched_encoders.clear()

    @contextmanager
    def in_place(self) -> Generator[None]:
        """Put the stand-ins where the workers' modules find them."""
        self._forget()
        stand_ins: list[tuple[Any, str, Any]] = [
            *((module, "current_runtime", self.runtime) for module in (tasks, jobs, scheduler, decay, due_timers)),
            (team_search, "SCAN_COUNT", 1_000_000),  # all keys at once: their order differs between two servers
            (wakeups, "default_app", self.broker),
            (jobs, "run", self.run_command),
            (jobs, "output_tap", mock.Mock(return_value=nullcontext())),
            (jobs, "end_survivors", mock.Mock(return_value=0)),
            (clusters, "encoder_for", self._encoder_for),
            (tasks, "pool_locks", SimulatedPoolLocks(self)),
            (tasks, "has_messages", self.broker.has_messages),
        ]
        with ExitStack() as stack:
            stack.callback(self._forget)
            for owner, name, stand_in in stand_ins:
                stack.enter_context(mock.patch.object(owner, name, stand_in))
            yield


class FleetScenario:
    """A scenario that a fleet plays while its leases are watched."""

    world: World
    fleet: Fleet

    def play(self) -> None:
        """Run the scenario."""
        with self.fleet.in_place(), Leases(self.world).watched():
            self.world.run(self.run)

    def run(self) -> None:
        """Harm the fleet while it works, and check what became of the work."""
        raise NotImplementedError
