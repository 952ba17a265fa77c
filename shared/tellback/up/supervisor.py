"""The supervisor: start the system, wait until all services are ready, restart what crashes, and stop it in order.

Redis starts first and stops last. Everything runs in one loop in the main thread: signals, the guard's socket and the
children are polled every `TICK_SECONDS`, so no locks are needed.
"""

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
from tellback.commands.start_errors import signal_name
from tellback.connection_file import RunningSystem, find_running, remove_connection_file, write_connection_file
from tellback.errors import ConfigurationError, Timeout, Unavailable
from tellback.settings import load
from tellback.up.child import ChildProcess, last_line, rotate_log
from tellback.up.guard import STOP_SIGNALS, kill_descendants
from tellback.up.health import ReadinessProbe, flower_is_healthy, redis_answers
from tellback.up.system import SystemPlan

START_SECONDS: Final = 180.0  # with the embedding model, from a slow disk
STOP_SECONDS: Final = 7.0  # with the time for Redis, within the ten seconds that `_stop` promises
REDIS_STOP_SECONDS: Final = 1.5
ORPHANED_STOP_SECONDS: Final = 1.0  # without a guard nobody would clean up after this process
DEATHS_AT_START: Final = 3
TICK_SECONDS: Final = 0.1
TIDY_SECONDS: Final = 10.0


class UpReporter(Protocol):
    """Receives the system's progress."""

    def waiting(self, names: list[str]) -> None:
        """Report services that were started and are not ready yet."""
        ...

    def ready(self, pids: dict[str, int]) -> None:
        """Report that all services are ready."""
        ...

    def trouble(self, text: str) -> None:
        """Report that a service crashed and is restarted."""
        ...

    def stopping(self) -> None:
        """Report that the user asked to stop; running tasks may finish."""
        ...


class _StopRequested(Exception):
    """Raised to leave the loop after a signal, or after the guard's death."""


class SystemSupervisor:
    """Runs one system in the main thread of its own process. For `guard`, see `guard.run_guarded`."""

    def __init__(self, system: SystemPlan, guard: socket.socket, reporter: UpReporter) -> None:
        self._system = system
        self._guard = guard
        self._reporter = reporter
        self._children: dict[str, ChildProcess] = {}
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
        """Run the system until it is asked to stop; return once it has stopped.

        Raises:
            ConfigurationError: Redis can't run with its configuration.
            Unavailable: a service keeps crashing at the start.
            Timeout: a service is not ready after three minutes.
        """
        for number in STOP_SIGNALS:
            signal.signal(number, self._on_signal)
        self._guard.settimeout(0)
        try:
            self._start()
            while True:
                self._tick()
        except _StopRequested:
            pass
        finally:
            self._stop()

    def _start(self) -> None:
        deadline = clock.monotonic() + START_SECONDS
        if self._system.redis is not None:
            self._spawn("redis")
            url = self._system.settings.redis_url
            self._wait_until_ready({"redis": lambda: redis_answers(url)}, deadline)
        self._write_connection_file()
        probe = ReadinessProbe(self._system.settings)
        with contextlib.closing(probe):
            for program in self._system.after_redis:
                self._spawn(program.name)
            self._wait_until_ready(self._readiness_checks(probe), deadline)
            without_model = probe.without_model()
        self._ready = True
        self._reporter.ready({name: child.pid for name, child in self._children.items() if child.pid is not None})
        for node, program in self._system.workers.items():
            if (node, self._children[program.name].pid or 0) in without_model:
                self._reporter.trouble(f"the embedding model does not load, so signals wait; see the log {program.log}")

    def _spawn(self, name: str) -> None:
        system = self._system
        programs = {program.name: program for program in (system.redis, *system.after_redis) if program is not None}
        self._children[name] = ChildProcess(programs[name], report=self._report_to_guard)
        self._start_child(self._children[name])

    def _readiness_checks(self, probe: ReadinessProbe) -> dict[str, Callable[[], bool]]:
        """Return, by service name, the function that checks whether the service is ready."""

        def worker_is_ready(node: str, name: str) -> Callable[[], bool]:
            return lambda: (node, self._children[name].pid or 0) in probe.ready_workers()

        system = self._system
        checks = {program.name: worker_is_ready(node, program.name) for node, program in system.workers.items()}
        if system.flower_url is not None:
            url = system.flower_url
            checks["flower"] = lambda: flower_is_healthy(url)
        checks["beat"] = probe.beat_ran
        return checks

    def _wait_until_ready(self, checks: dict[str, Callable[[], bool]], deadline: float) -> None:
        unready = dict(checks)
        while unready:
            self._reporter.waiting(list(unready))
            self._tick()
            for name in list(unready):
                if self._children[name].process is not None and unready[name]():
                    del unready[name]
            if unready and clock.monotonic() > deadline:
                name = next(iter(unready))
                child = self._children[name]
                raise Timeout(f"{name} is not ready after {START_SECONDS:.0f} s; see its log {child.program.log}")

    def _tick(self) -> None:
        """Wait for one tick, then restart children that ended, reap orphans and tidy up."""
        self._guard_died = bool(select.select([self._guard], [], [], TICK_SECONDS)[0])
        if self._guard_died or self._signals:
            raise _StopRequested
        for child in self._children.values():
            self._restart_if_ended(child)
        self._reap_orphans()
        if clock.monotonic() >= self._next_tidying:
            self._next_tidying = clock.monotonic() + TIDY_SECONDS
            self._tidy()

    def _tidy(self) -> None:
        """Rotate long logs, and write connection files again that something deleted, such as a temp cleaner."""
        for child in self._children.values():
            rotate_log(child.program.log)
        for folder in self._announced:
            if find_running(folder) is None:  # restarted workers need it
                with contextlib.suppress(OSError):
                    write_connection_file(folder, self._running)

    def _restart_if_ended(self, child: ChildProcess) -> None:
        code = child.exit_code()
        if code is not None:
            if not self._ready:
                self._give_up_if_unstartable(child)
            delay = child.delay
            name, log = child.program.name, child.program.log
            self._reporter.trouble(f"{name} {_exit_text(code)}; restarting it in {delay:g} s; see its log {log}")
        elif child.process is None and clock.monotonic() >= child.next_start:
            self._start_child(child)

    def _start_child(self, child: ChildProcess) -> None:
        """Start a child, or try again later: without memory or a file for its log, all others must go on.

        Raises:
            Unavailable: the system is not ready yet, so nothing would be lost.
        """
        try:
            child.start()
        except OSError as error:
            said = f"{child.program.name} can't be started, with the log {child.program.log}: {error.strerror}"
            if not self._ready:
                raise Unavailable(said) from error
            child.postpone()
            self._reporter.trouble(f"{said}; trying again in {child.delay:g} s")

    def _give_up_if_unstartable(self, child: ChildProcess) -> None:
        """Raise if a service can't start, with the last line of its log as the reason."""
        words = f"{last_line(child.program.log)} (log: {child.program.log})"
        if child.program is self._system.redis:
            raise ConfigurationError(f"Redis failed to start: {words}")
        if child.starts >= DEATHS_AT_START:
            raise Unavailable(f"{child.program.name} failed to start {child.starts} times: {words}")

    def _reap_orphans(self) -> None:
        """Reap orphans of dead children, which this subreaper adopts; Popen reaps the children themselves."""
        if sys.platform != "linux":  # elsewhere, init adopts orphans
            return
        ours = {child.pid for child in self._children.values()}
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
                if found.si_pid in ours:
                    return
                os.waitpid(found.si_pid, 0)

    def _write_connection_file(self) -> None:
        """Write the connection file to the data directory (for children) and where the user's clients look for it."""
        own = self._system.data_dir.path
        folders = [own]
        usual = load().data_path.absolute()
        if usual not in folders and find_running(usual) is None:  # don't replace the file of another running system
            folders.append(usual)
        for folder in folders:
            try:
                write_connection_file(folder, self._running)
            except OSError as error:
                if folder == own:
                    raise ConfigurationError(f"can't write {folder}: {error.strerror}") from error
            else:
                self._announced.append(folder)

    def _stop(self) -> None:
        """Stop everything within ten seconds: first what uses Redis, so that running tasks can finish, then Redis."""
        seconds = ORPHANED_STOP_SECONDS if self._guard_died else STOP_SECONDS
        heard = max(1, self._signals)  # systemd signals the guard too, which passes it on
        if self._signals:
            self._reporter.stopping()
        redis = self._children.pop("redis", None)
        self._end_children(list(self._children.values()), seconds, heard)
        if redis is not None:
            self._end_children([redis], REDIS_STOP_SECONDS, max(heard, self._signals))
        for folder in self._announced:
            with contextlib.suppress(OSError):
                remove_connection_file(folder, os.getpid())
        kill_descendants()
        self._system.data_dir.close()

    def _end_children(self, children: list[ChildProcess], seconds: float, heard: int) -> None:
        """Terminate children, wait, then kill them; more signals from the user than were `heard` skip the wait."""
        deadline = clock.monotonic() + seconds
        for child in children:
            child.terminate()
        while clock.monotonic() < deadline and self._signals <= heard:
            running = [child for child in children if child.process is not None and child.exit_code() is None]
            if not running:
                return
            clock.sleep(0.05)
        for child in children:
            child.kill()

    def _on_signal(self, _number: int, _frame: object) -> None:
        self._signals += 1

    def _report_to_guard(self, line: str) -> None:
        with contextlib.suppress(OSError):  # the guard is gone, or its buffer is full; it reads only if we are killed
            self._guard.send(line.encode())


def _exit_text(code: int) -> str:
    name = signal_name(code)
    return f"was killed by {name}" if name else f"exited with code {code}"
