"""Figures of capacity: processor time by role, calls and bytes of Redis, and memory, for one unit of each load."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Final, Self

import msgspec
import psutil

from benchmarks.capacity.loads import OWN_CALLS, CapacityLoad
from benchmarks.system import BenchmarkSystem
from tellback import Tellback, connect

FIGURES: Final = Path(__file__).with_name("figures.json")
RUNS: Final = 3
LONGEST: Final = 300.0


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one unit of a load. Times are microseconds of processor time."""

    name: str
    unit: str
    rate: float
    """Units a second that were applied, by as many processes as there were."""
    host_us: float
    worker_us: float
    redis_us: float
    redis_calls: float
    redis_bytes: float
    """Received and sent."""
    stored_bytes: float
    """By which the memory of Redis has grown for each unit."""

    @property
    def of_a_process(self) -> float:
        """Units a second that keep one worker process busy on a core of its own."""
        return 1e6 / self.worker_us

    @property
    def of_redis(self) -> float:
        """Units a second that keep one Redis busy."""
        return 1e6 / self.redis_us


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """Events with a number of worker processes, or of Redis nodes."""

    of: str
    count: int
    rate: float
    worker_us: float
    redis_us: float


class CapacityFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the page says and the simulation of a fleet reads."""

    date: str
    machine: str
    load_average: float
    runs: int
    units: list[Unit]
    growth: list[Growth]

    @classmethod
    def read(cls, path: Path = FIGURES) -> Self:
        return msgspec.json.decode(path.read_bytes(), type=cls)

    def write(self, path: Path = FIGURES) -> None:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")

    def unit(self, name: str) -> Unit:
        return next(unit for unit in self.units if unit.name == name)


class Meter:
    """Processor time of the hosts' process, the worker and all servers, and the counters of Redis."""

    def __init__(self, system: BenchmarkSystem, worker: psutil.Process) -> None:
        self._db = system.database
        self._worker = worker
        children = psutil.Process().children()
        self._servers = [child for child in children if child.name().startswith(("redis-server", "valkey-server"))]

    def read(self) -> dict[str, float]:
        """Return what each has used since its start."""
        info = self._info()
        return {
            "at": time.perf_counter(),
            "host_us": _cpu_us([psutil.Process()]),
            "worker_us": _cpu_us([self._worker, *self._worker.children(recursive=True)], with_dead=True),
            "redis_us": _cpu_us(self._servers),
            "redis_calls": info["total_commands_processed"] - OWN_CALLS[0],
            "redis_bytes": info["total_net_input_bytes"] + info["total_net_output_bytes"],
            "stored_bytes": info["used_memory"],
        }

    def _info(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for line in self._db.command("INFO").decode().splitlines():
            name, _, value = line.partition(":")
            if name in {"total_commands_processed", "total_net_input_bytes", "total_net_output_bytes", "used_memory"}:
                found[name] = float(value)
        return found


def _cpu_us(processes: Sequence[psutil.Process], *, with_dead: bool = False) -> float:
    times = [process.cpu_times() for process in processes]
    dead = sum(each.children_user + each.children_system for each in times) if with_dead else 0.0
    return (sum(each.user + each.system for each in times) + dead) * 1e6


def held_back(worker: psutil.Process, work: Callable[[], None]) -> None:
    """Do the work while the worker is stopped, so that what it then does is measured alone."""
    members = [worker, *worker.children(recursive=True)]
    for member in members:
        member.send_signal(signal.SIGSTOP)
    try:
        work()
    finally:
        for member in members:
            member.send_signal(signal.SIGCONT)


def measure_load(load: CapacityLoad, system: BenchmarkSystem, *, processes: int = 1, runs: int) -> Unit:
    """Return the medians of some runs on a system of their own, after a smaller one that is not counted."""
    options = ("-E", f"--pool={load.pool}", f"--concurrency={processes}")
    worker = psutil.Process(system.worker("tellback_workers.app", load.family.value, *options).pid)
    with connect(settings=system.settings) as tb:
        run = _alone if load.alone else _together
        run(load, tb, Meter(system, worker), worker, load.amount // 4)
        found = [run(load, tb, Meter(system, worker), worker, load.amount) for _ in range(runs)]
    middle = {name: median(each[name] for each in found) for name in found[0]}
    return Unit(name=load.name, unit=load.unit, **middle)


def _together(load: CapacityLoad, tb: Tellback, meter: Meter, worker: psutil.Process, amount: int) -> dict[str, float]:
    """Publish all while the worker stands still, then let it apply them; its rate is that from a tenth on."""
    start = meter.read()
    published: dict[str, float] = {}

    def publish() -> None:
        load.publish(tb, amount)
        published.update(meter.read())

    held_back(worker, publish)
    units = load.remaining(tb, amount)
    left, began = _left_at_most(load, tb, amount, units * 0.9), time.perf_counter()
    _left_at_most(load, tb, amount, 0)
    took = time.perf_counter() - began
    end = meter.read()
    each = {name: (end[name] - start[name]) / amount for name in end}
    each["host_us"] = (published["host_us"] - start["host_us"]) / amount  # not that of waiting
    each["rate"] = left / units * amount / took
    del each["at"]
    return each


def _left_at_most(load: CapacityLoad, tb: Tellback, amount: int, most: float, delay: float = 0.05) -> int:
    """Wait until no more is left, and return what is; each look takes of Redis what is measured."""
    end = time.monotonic() + LONGEST
    while (left := load.remaining(tb, amount)) > most:
        if time.monotonic() > end:
            raise SystemExit(f"{left} of {load.name} were not applied within {LONGEST} s")
        time.sleep(delay)
    return left


def _alone(load: CapacityLoad, tb: Tellback, meter: Meter, worker: psutil.Process, amount: int) -> dict[str, float]:
    """Publish one unit after the other, each when the one before has had its effect."""
    del worker
    start = meter.read()
    if load.name == "recall":
        load.publish(tb, amount)
    else:
        for _ in range(amount):
            load.publish(tb, 1)
            _left_at_most(load, tb, 1, 0, delay=0.01)
    end = meter.read()
    each = {name: (end[name] - start[name]) / amount for name in end}
    each["rate"] = 1 / each.pop("at")
    return each
