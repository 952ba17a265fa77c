"""Applies the faults of a plan to the system, one after the other, and ends each after its time."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import psutil

from tests.chaos.plan import Fault
from tests.chaos.system import CHILDREN, Member, System
from tests.support.disks import fill

FILLER: Final = "filler"
SWALLOWED: Final = 0.15
"""The share of replies that a link loses while it swallows."""


class Injector:
    """The faults of one run; `applied` counts them by kind."""

    def __init__(self, system: System, faults: list[Fault]) -> None:
        self._system = system
        self._faults = faults
        self._ends: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self.applied: Counter[str] = Counter()
        self.left_out: Counter[str] = Counter()
        self.victims = 0
        """Commands that may have lost their worker."""

    def advance(self, elapsed: float) -> None:
        """Begin and end what is due `elapsed` seconds after the start, and start dead members again."""
        while self._ends and self._ends[0][0] <= elapsed:
            heapq.heappop(self._ends)[2]()
        while self._faults and self._faults[0].at <= elapsed:
            fault = self._faults.pop(0)
            done = self._begin(fault, elapsed)
            (self.applied if done else self.left_out)[fault.kind] += 1
        self._system.revive(elapsed)

    def end_all(self) -> None:
        """End every fault that lasts, at once."""
        while self._ends:
            heapq.heappop(self._ends)[2]()
        for link in self._system.links:
            link.heal()
        self._system.revive(float("inf"))

    def _begin(self, fault: Fault, elapsed: float) -> bool:
        by_kind: dict[str, Callable[[Fault], bool]] = {
            **dict.fromkeys(
                ("swallow replies", "delay", "cut connections", "forget connections", "hold the link"), self._disturb
            ),
            **dict.fromkeys(("kill redis", "stop redis"), self._redis),
            **dict.fromkeys(("kill pool child", "stop pool child"), self._child),
            "limit memory": self._limit_memory,
            "fill disk": self._fill_disk,
            "step clock": lambda fault: self._system.step_clock(fault.amount),
        }
        if fault.kind in by_kind:
            return by_kind[fault.kind](fault)
        verb, _, what = fault.kind.partition(" ")
        members = self._system.of(what)
        member = members[fault.target % len(members)]
        return self._kill(member, fault, elapsed) if verb == "kill" else self._stop(member, fault)

    def _later(self, fault: Fault, end: Callable[[], None]) -> None:
        heapq.heappush(self._ends, (fault.at + fault.seconds, next(self._numbers), end))

    def _disturb(self, fault: Fault) -> bool:
        link = self._system.links[fault.target % 2]
        if fault.kind in ("cut connections", "forget connections"):
            (link.end_connections if fault.kind == "cut connections" else link.forget)()
            return True
        if fault.kind == "swallow replies":
            link.losing = SWALLOWED
        elif fault.kind == "delay":
            link.delay = 0.02 + 0.02 * fault.target
        else:
            link.cut()
        self._later(fault, link.heal)
        return True

    def _redis(self, fault: Fault) -> bool:
        redis = self._system.redis
        if not redis.running:  # an earlier fault killed it
            return False
        if fault.kind == "kill redis":
            redis.kill()
            self._later(fault, redis.launch)
        else:
            redis.suspend()
            self._later(fault, lambda: redis.resume() if redis.running else None)
        return True

    def _limit_memory(self, fault: Fault) -> bool:
        """Leave Redis no free byte, as where others fill it; the broker is in the same one."""
        self._system.set_maxmemory("1mb")
        self._later(fault, lambda: self._system.set_maxmemory("0"))
        return True

    def _fill_disk(self, fault: Fault) -> bool:
        """Fill the disk of a host while its link is held, so that it must spool; else the cap of its spool is small."""
        link = self._system.links[0]
        link.cut()
        disks = self._system.disks
        if disks:
            fill(disks[fault.target % len(disks)])

        def free() -> None:
            link.heal()
            for disk in disks:
                (disk / FILLER).unlink(missing_ok=True)

        self._later(fault, free)
        return True

    def _kill(self, member: Member, fault: Fault, elapsed: float) -> bool:
        if not member.is_alive:
            return False
        if member.kind == "worker":
            self.victims += CHILDREN
        self._system.kill(member)
        member.down_until = elapsed + fault.seconds
        return True

    def _stop(self, member: Member, fault: Fault) -> bool:
        if not member.is_alive or member.process is None:
            return False
        if member.kind == "worker":
            self.victims += CHILDREN
        return self._freeze(psutil.Process(member.process.pid), fault)

    def _child(self, fault: Fault) -> bool:
        workers = [member for member in self._system.of("worker") if "prefork" in " ".join(member.command)]
        member = workers[fault.target % len(workers)]
        children = _pool_children(member)
        if not children:
            return False
        child = children[fault.target // len(workers) % len(children)]
        self.victims += 1
        if fault.kind == "stop pool child":
            return self._freeze(child, fault)
        with suppress(psutil.NoSuchProcess):
            child.kill()
        return True

    def _freeze(self, process: psutil.Process, fault: Fault) -> bool:
        with suppress(psutil.NoSuchProcess):
            process.suspend()

        def thaw() -> None:
            with suppress(psutil.NoSuchProcess):
                process.resume()

        self._later(fault, thaw)
        return True


def _pool_children(member: Member) -> list[psutil.Process]:
    """Return the processes of a worker's pool: its children that are Celery's too."""
    if member.process is None or not member.is_alive:
        return []
    try:
        children = psutil.Process(member.process.pid).children()
        return [child for child in children if "celery" in " ".join(child.cmdline())]
    except psutil.NoSuchProcess:
        return []
