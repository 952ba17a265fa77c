"""Stand-ins for `threading`'s classes, whose waits are the scheduler's; put in place of the real ones during a run."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any

from tests.simulation.scheduler import Process, Scheduler, SimulatedTask

_running: list[Scheduler] = []


def scheduler() -> Scheduler:
    """Return the scheduler of the present run."""
    return _running[-1]


def current_scheduler() -> Scheduler | None:
    """Return the scheduler of the present run, if there is one."""
    return _running[-1] if _running else None


def _me() -> SimulatedTask | None:
    return scheduler().current if _running else None


def _seconds(timeout: float | None) -> float:
    return math.inf if timeout is None or timeout < 0 else timeout


class SimulatedLock:
    """`threading.Lock`, and with `reentrant` `RLock`."""

    reentrant = False

    def __init__(self) -> None:
        self._owner: SimulatedTask | None = None
        self._count = 0
        self._waiting: list[SimulatedTask] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:  # noqa: FBT001, FBT002 - as threading's
        me = _me()
        if me is None or scheduler().over:  # set-up, or the end of a run
            return True
        if self.reentrant and self._owner is me:
            self._count += 1
            return True
        end = scheduler().now + _seconds(timeout)
        while self._owner is not None:
            if not blocking or scheduler().now >= end:
                return False
            self._waiting.append(me)
            scheduler().park(end - scheduler().now)
            if me in self._waiting:
                self._waiting.remove(me)
        self._owner, self._count = me, 1
        return True

    def release(self) -> None:
        if _me() is None or scheduler().over:
            return
        if self._owner is None or (self.reentrant and self._owner is not _me()):
            raise RuntimeError("release unlocked lock")
        self._count -= 1
        if self._count == 0:
            self._owner = None
            if self._waiting:
                scheduler().wake(self._waiting.pop(0))

    def locked(self) -> bool:
        return self._owner is not None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def _is_owned(self) -> bool:
        return self._owner is not None and self._owner is _me()

    def release_all(self) -> int:
        """Release it however often it is held; return that number."""
        count, self._count = self._count, 1
        self.release()
        return count

    def acquire_again(self, count: int) -> None:
        """Acquire it as often as it was held."""
        self.acquire()
        self._count = count


class SimulatedRLock(SimulatedLock):
    """`threading.RLock`."""

    reentrant = True


class ModuleLock:
    """A lock of a module: each process has its own, which dies with it."""

    def __init__(self, kind: type[SimulatedLock]) -> None:
        self._kind = kind
        self._locks: dict[Process | None, SimulatedLock] = {}

    def _own(self) -> SimulatedLock:
        task = _me()
        return self._locks.setdefault(None if task is None else task.process, self._kind())

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:  # noqa: FBT001, FBT002 - as threading's
        return self._own().acquire(blocking, timeout)

    def release(self) -> None:
        self._own().release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class SimulatedCondition:
    """`threading.Condition`."""

    def __init__(self, lock: SimulatedLock | None = None) -> None:
        self._lock = lock or SimulatedRLock()
        self._waiting: list[SimulatedTask] = []
        self.acquire, self.release = self._lock.acquire, self._lock.release
        self._is_owned = self._lock._is_owned

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        me = _me()
        assert me is not None, "only tasks wait"
        if self._lock._owner is not me:
            raise RuntimeError("cannot wait on un-acquired lock")
        self._waiting.append(me)
        count = self._lock.release_all()
        woken = scheduler().park(_seconds(timeout))
        if me in self._waiting:
            self._waiting.remove(me)
        self._lock.acquire_again(count)
        return woken

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        end = scheduler().now + _seconds(timeout)
        while not (result := predicate()) and scheduler().now < end:
            self.wait(end - scheduler().now)
        return result

    def notify(self, n: int = 1) -> None:
        if _me() is not None and not scheduler().over and self._lock._owner is not _me():
            raise RuntimeError("cannot notify on un-acquired lock")
        for task in self._waiting[:n]:
            self._waiting.remove(task)
            scheduler().wake(task)

    def notify_all(self) -> None:
        self.notify(len(self._waiting))


class SimulatedEvent:
    """`threading.Event`."""

    def __init__(self) -> None:
        self._set = False
        self._waiting: list[SimulatedTask] = []

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        waiting, self._waiting = self._waiting, []
        for task in waiting:
            scheduler().wake(task)

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        me = _me()
        if not self._set and me is not None:
            self._waiting.append(me)
            scheduler().park(_seconds(timeout))
            if me in self._waiting:
                self._waiting.remove(me)
        return self._set


class SimulatedThread:
    """`threading.Thread`: a task of the process whose task starts it."""

    def __init__(
        self,
        group: None = None,
        target: Callable[..., object] | None = None,
        name: str | None = None,
        args: Iterable[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        daemon: bool | None = None,
    ) -> None:
        self._target, self._args, self._kwargs = target, tuple(args), dict(kwargs or {})
        self.name = name or "thread"
        self.daemon = bool(daemon)
        self._task: SimulatedTask | None = None

    def run(self) -> None:
        if self._target is not None:
            self._target(*self._args, **self._kwargs)

    def start(self) -> None:
        me = _me()
        assert me is not None, "only tasks start threads"
        self._task = scheduler().spawn(me.process, self.run, self.name)

    def is_alive(self) -> bool:
        return self._task is not None and not self._task.done and self._task.process.alive

    def join(self, timeout: float | None = None) -> None:
        end = scheduler().now + _seconds(timeout)
        while self.is_alive() and scheduler().now < end:
            scheduler().sleep(min(0.01, end - scheduler().now))


_STAND_INS: dict[str, Any] = {
    "Lock": SimulatedLock,
    "RLock": SimulatedRLock,
    "Condition": SimulatedCondition,
    "Event": SimulatedEvent,
    "Thread": SimulatedThread,
}
_REAL = {getattr(threading, name): name for name in _STAND_INS}
_LOCK_TYPES = (type(threading.Lock()), type(threading.RLock()))


@contextmanager
def simulated_threads(running: Scheduler) -> Generator[None]:
    """Replace the classes of `threading`, and the locks of Tellback's modules, until the run is over."""
    changed: list[tuple[Any, str, Any]] = []

    def put(owner: Any, name: str, value: Any) -> None:
        changed.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    for name, stand_in in _STAND_INS.items():
        put(threading, name, stand_in)
    for module in [module for name, module in sys.modules.items() if name.startswith("tellback")]:
        for name, value in list(vars(module).items()):
            if isinstance(value, _LOCK_TYPES):
                put(module, name, ModuleLock(SimulatedRLock if isinstance(value, _LOCK_TYPES[1]) else SimulatedLock))
            elif getattr(value, "__module__", None) in {"threading", "_thread"} and value in _REAL:
                put(module, name, _STAND_INS[_REAL[value]])
    _running.append(running)
    try:
        yield
    finally:
        _running.pop()
        for owner, name, value in reversed(changed):
            setattr(owner, name, value)
