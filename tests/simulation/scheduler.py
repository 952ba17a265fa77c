"""The scheduler: tasks that take turns on one thread, on a clock that moves only when all of them wait.

A task is a greenlet, so the real code may block anywhere: in a lock, a sleep, or a round trip to Redis. At each of
these the seed decides who continues. A process is a group of tasks that dies, freezes and forks as one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import greenlet

from tests.simulation.choices import Choices

MAX_STEPS = 400_000  # a run takes some thousands; a task that never waits would run for ever


class Stuck(AssertionError):
    """Raised when no task can ever continue, or none ever waits."""


@dataclass(eq=False)
class Process:
    """A process of the simulation.

    `frozen_until` is the time at which a stopped one continues, `heard_until` the one at which the last of its requests
    that are on their way arrives, which may be after its death.
    """

    name: str
    pid: int
    alive: bool = True
    died_at: float = 0.0
    frozen_until: float = 0.0
    heard_until: float = 0.0
    tasks: list[SimulatedTask] = field(default_factory=list["SimulatedTask"])


@dataclass(eq=False)
class SimulatedTask:
    """A thread of a process. It can continue from `wake_at`, or when another task wakes it."""

    name: str
    process: Process
    body: Callable[[], object]
    wake_at: float = 0.0
    woken: bool = False
    done: bool = False
    glet: greenlet.greenlet = field(init=False)


class Scheduler:
    """Runs the tasks of one simulated run. `now` is the time since its start, in seconds."""

    def __init__(self, choices: Choices, *, preempt: float, on_time: Callable[[float], None]) -> None:
        self.choices = choices
        self.now = 0.0
        self.steps = 0
        self.over = False
        self.switch_chance = 0.0
        self.current: SimulatedTask | None = None
        self.errors: list[tuple[SimulatedTask, BaseException]] = []
        self.processes: list[Process] = []
        self._preempt = preempt
        self._on_time = on_time
        self._tasks: list[SimulatedTask] = []
        self._hub = greenlet.getcurrent()

    def process(self, name: str) -> Process:
        """Add a process."""
        process = Process(name, 1000 + len(self.processes))
        self.processes.append(process)
        return process

    def spawn(self, process: Process, body: Callable[[], object], name: str) -> SimulatedTask:
        """Add a task to a process; it starts when the scheduler picks it."""
        task = SimulatedTask(name, process, body)
        task.glet = greenlet.greenlet(lambda: self._run_body(task), self._hub)
        process.tasks.append(task)
        self._tasks.append(task)
        return task

    def _run_body(self, task: SimulatedTask) -> None:
        try:
            task.body()
        except greenlet.GreenletExit:
            raise
        except BaseException as error:  # noqa: BLE001 - reported as the run's failure
            self.errors.append((task, error))
        finally:
            task.done = True

    def run(self, director: Callable[[], object]) -> None:
        """Run `director`, and whatever it starts, until it returns.

        Raises:
            Stuck: it can never return.
            Exception: what a task raised.
        """
        task = self.spawn(self.process("director"), director, "director")
        try:
            while not task.done and not self.errors:
                self._step()
        finally:
            self._end()
        if self.errors:
            failed, error = self.errors[0]
            error.add_note(f"in {failed.process.name}/{failed.name} at {self.now:.3f} s")
            raise error

    def _step(self) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise Stuck(f"no end after {MAX_STEPS} steps, at {self.now:.3f} s")
        ready = [task for task in self._tasks if self._ready_at(task) <= self.now]
        if not ready:
            at = min(map(self._ready_at, self._tasks), default=math.inf)
            if at == math.inf:
                raise Stuck("every task waits for another")
            self.advance(at - self.now)
            return
        last = self.current
        if last in ready and not self.choices.chance(self._preempt, "preempt"):
            task = last
        else:
            task = ready[self.choices.pick(len(ready), "run")]
        assert task is not None, "one of the ready tasks"
        self.current = task
        task.glet.switch()
        if task.done:
            self._tasks.remove(task)

    def _ready_at(self, task: SimulatedTask) -> float:
        if not task.process.alive:
            return math.inf
        return max(self.now if task.woken else task.wake_at, task.process.frozen_until)

    def _end(self) -> None:
        """End the tasks that are left. What their `finally` blocks do then has no effect."""
        self.over = True
        for process in self.processes:
            for task in process.tasks:
                if not task.done and task.glet:
                    task.glet.throw(greenlet.GreenletExit)
        self.current = None

    # What tasks call.

    def advance(self, seconds: float) -> None:
        """Let time pass for everybody."""
        self.now += max(0.0, seconds)
        self._on_time(self.now)

    def maybe_switch(self) -> None:
        """Let the seed decide whether a task is preempted between two statements."""
        if self.current is not None and not self.over and self.choices.chance(self.switch_chance, "switch"):
            self.yield_turn()

    def yield_turn(self) -> None:
        """Let the seed decide whether another task continues first."""
        self.park(0.0)

    def sleep(self, seconds: float) -> None:
        """Wait for some time."""
        self.park(max(0.0, seconds))

    def park(self, seconds: float = math.inf) -> bool:
        """Wait until another task calls `wake`, at most for `seconds`; return True if one did."""
        if self.over:
            raise greenlet.GreenletExit
        task = self.current
        assert task is not None, "only tasks wait"
        assert task.glet is greenlet.getcurrent(), "a task waits for itself"
        task.wake_at, task.woken = self.now + seconds, False
        self._hub.switch()
        task.wake_at = self.now
        return task.woken

    def wake(self, task: SimulatedTask) -> None:
        """Let a waiting task continue."""
        task.woken = True

    def kill(self, process: Process) -> None:
        """End a process as SIGKILL does: nothing of it runs again, not even a `finally`. Locks and leases stay held."""
        process.alive, process.died_at = False, self.now
        if self.current is not None and self.current.process is process:
            self.park()

    def freeze(self, process: Process, seconds: float) -> None:
        """Stop a process for some time, as SIGSTOP or a suspended host does."""
        process.frozen_until = max(process.frozen_until, self.now + seconds)
