"""The supervisor: starts the system, waits until all of it answers, keeps it running, stops it in good order."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from tellback import clock
from tellback.connection_file import RunningSystem, announce, find_running, withdraw
from tellback.errors import ConfigurationError, Timeout, Unavailable
from tellback.settings import load
from tellback.up.answers import Roll, http_answers, redis_answers
from tellback.up.child import Child
from tellback.up.guard import STOP_SIGNALS, kill_descendants
from tellback.up.system import System

START_SECONDS: Final = 120.0
STOP_SECONDS: Final = 7.0
REDIS_STOP_SECONDS: Final = 1.5
ORPHANED_STOP_SECONDS: Final = 1.0
DEATHS_AT_START: Final = 3
LOOK_EVERY: Final = 0.1
TIDY_EVERY: Final = 10.0


class Reporter(Protocol):
    """Hears how the system is doing."""

    def waiting(self, names: list[str]) -> None:
        """These parts were started and have not answered yet."""
        ...

    def ready(self, pids: dict[str, int]) -> None:
        """Everything answers."""
        ...

    def trouble(self, text: str) -> None:
        """A part has died and is started again."""
        ...

    def stopping(self) -> None:
        """The user asked for the end; what runs may finish."""
        ...


class _Stop(Exception):
    """Leave whatever is going on: a signal has come, or the guard has died."""


class Supervisor:
    """Runs one system, in the main thread of a process of its own. See `guard.run_guarded` for `guard`."""

    def __init__(self, system: System, guard: socket.socket, reporter: Reporter) -> None:
        """Take what to run."""
        self._system = system
        self._guard = guard
        self._reporter = reporter
        self._children: dict[str, Child] = {}
        self._announced: list[Path] = []
        self._signals = 0
        self._guard_died = False
        self._ready = False
        self._next_tidying = 0.0
        self._running = RunningSystem(
            pid=os.getpid(),
            redis_url=system.settings.redis_url,
            flower_url=system.flower_url,
            data_dir=str(system.data_dir.path),
        )

    def run(self) -> None:
        """Return when the system was asked to stop and has stopped.

        Raises:
            ConfigurationError: Redis cannot run as it was asked to.
            Unavailable, Timeout: a part keeps dying at the start, or does not answer in two minutes.
        """
        for number in STOP_SIGNALS:
            signal.signal(number, self._on_signal)
        self._guard.setblocking(False)  # noqa: FBT003 - its signature
        try:
            self._start()
            while True:
                self._look()
        except _Stop:
            pass
        finally:
            self._stop()

    def _start(self) -> None:
        deadline = clock.monotonic() + START_SECONDS
        if self._system.redis is not None:
            self._spawn("redis")
            url = self._system.settings.redis_url
            self._wait({"redis": lambda: redis_answers(url)}, deadline)
        self._announce()
        roll = Roll(self._system.settings)
        with contextlib.closing(roll):
            for program in self._system.after_redis:
                self._spawn(program.name)
            self._wait(self._questions(roll), deadline)
        self._ready = True
        self._reporter.ready({name: child.pid for name, child in self._children.items() if child.pid is not None})

    def _spawn(self, name: str) -> None:
        system = self._system
        programs = {program.name: program for program in (system.redis, *system.after_redis) if program is not None}
        self._children[name] = Child(programs[name], tell=self._tell)
        self._children[name].start()

    def _questions(self, roll: Roll) -> dict[str, Callable[[], bool]]:
        """By name of the part, what tells that it answers."""

        def worker(node: str, name: str) -> Callable[[], bool]:
            return lambda: (node, self._children[name].pid or 0) in roll.workers()

        system = self._system
        questions = {program.name: worker(node, program.name) for node, program in system.workers.items()}
        if system.flower_url is not None:
            url = system.flower_url
            questions["flower"] = lambda: http_answers(url)
        questions["beat"] = roll.beat_heard
        return questions

    def _wait(self, questions: dict[str, Callable[[], bool]], deadline: float) -> None:
        silent = dict(questions)
        while silent:
            self._reporter.waiting(list(silent))
            self._look()
            for name in list(silent):
                if self._children[name].process is not None and silent[name]():
                    del silent[name]
            if silent and clock.monotonic() > deadline:
                name = next(iter(silent))
                child = self._children[name]
                raise Timeout(f"{name} does not answer after {START_SECONDS:.0f} s; its log is {child.program.log}")

    def _look(self) -> None:
        """Wait a moment, then see to what has happened."""
        if self._signals:
            raise _Stop
        if select.select([self._guard], [], [], LOOK_EVERY)[0]:
            self._guard_died = True
            raise _Stop
        if self._signals:
            raise _Stop
        for child in self._children.values():
            self._see_to(child)
        self._reap_strangers()
        if clock.monotonic() >= self._next_tidying:
            self._next_tidying = clock.monotonic() + TIDY_EVERY
            self._tidy()

    def _tidy(self) -> None:
        for child in self._children.values():
            child.trim_log()
        for folder in self._announced:
            if find_running(folder) is None:  # a cleaner of old files, say; workers that start need it
                with contextlib.suppress(OSError):
                    announce(folder, self._running)

    def _see_to(self, child: Child) -> None:
        code = child.ended()
        if code is not None:
            if not self._ready:
                self._check_start(child)
            pause = child.put_off()
            name, log = child.program.name, child.program.log
            self._reporter.trouble(f"{name} {_ending(code)}; starting it again in {pause:g} s; its log is {log}")
        elif child.process is None and clock.monotonic() >= child.next_start:
            child.start()

    def _check_start(self, child: Child) -> None:
        """Give up on a part that cannot start: its last line says why."""
        words = f"{child.last_words()} (log: {child.program.log})"
        if child.program is self._system.redis:
            raise ConfigurationError(f"Redis ended at its start: {words}")
        if child.starts >= DEATHS_AT_START:
            raise Unavailable(f"{child.program.name} ended {child.starts} times at its start: {words}")

    def _reap_strangers(self) -> None:
        """Reap orphans of dead children, which come to this process as the subreaper; Popen reaps its own."""
        if sys.platform != "linux":  # there orphans go to init
            return
        ours = {child.pid for child in self._children.values()}
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
                if found.si_pid in ours:
                    return
                os.waitpid(found.si_pid, 0)

    def _announce(self) -> None:
        """Write the connection file: in the data directory, for the children, and where the user's clients look."""
        own = self._system.data_dir.path
        folders = [own]
        usual = load().data_path.absolute()
        if usual not in folders and find_running(usual) is None:  # another system keeps its place
            folders.append(usual)
        for folder in folders:
            try:
                announce(folder, self._running)
            except OSError as error:
                if folder == own:
                    raise ConfigurationError(f"cannot write {folder}: {error.strerror}") from error
            else:
                self._announced.append(folder)

    def _stop(self) -> None:
        """End all within ten seconds: first what uses Redis, finishing what runs, then Redis."""
        seconds = ORPHANED_STOP_SECONDS if self._guard_died else STOP_SECONDS
        if self._signals:
            self._reporter.stopping()
        redis = self._children.pop("redis", None)
        self._end(list(self._children.values()), seconds)
        if redis is not None:
            self._end([redis], REDIS_STOP_SECONDS)
        for folder in self._announced:
            with contextlib.suppress(OSError):
                withdraw(folder, os.getpid())
        kill_descendants()
        self._system.data_dir.close()

    def _end(self, children: list[Child], seconds: float) -> None:
        """Ask, wait, kill; a second signal of the user skips the waiting."""
        asked, deadline = self._signals, clock.monotonic() + seconds
        for child in children:
            child.terminate()
        while clock.monotonic() < deadline and self._signals < max(asked + 1, 2):
            running = [child for child in children if child.process is not None and child.ended() is None]
            if not running:
                return
            clock.sleep(0.05)
        for child in children:
            child.kill()

    def _on_signal(self, _number: int, _frame: object) -> None:
        self._signals += 1

    def _tell(self, line: str) -> None:
        with contextlib.suppress(OSError):  # a guard that is gone, or has more unread than it will need
            self._guard.send(line.encode())


def _ending(code: int) -> str:
    """An exit code in words."""
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"was ended by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
