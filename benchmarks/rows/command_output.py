"""A command that prints 1 GiB, as a job, against the same command into `cat > /dev/null`; and the worker's memory."""

from __future__ import annotations

import subprocess
import threading
import time
from typing import Self

import psutil

from benchmarks.measure import RowResult, spread
from benchmarks.system import BenchmarkSystem
from tellback import connect

RUNS = 3
SIZE = 1 << 30
MEMORY = 8 << 20
# Lines of 71 bytes, as a chatty build prints them.
FLOOD = ["sh", "-c", f"yes 'compiling module 0123 of 4567: warning: unused variable in function foo' | head -c {SIZE}"]


def measure(system: BenchmarkSystem) -> RowResult:
    system.worker("tellback_workers.app", "commands", "-E")
    ours: list[float] = []
    theirs: list[float] = []
    grown: list[int] = []
    with connect(settings=system.settings) as tb:
        tb.submit(["true"], session="bench").wait(timeout=30)
        for _ in range(RUNS):
            theirs.append(_piped())
            with _Memory() as memory:
                record = tb.submit(FLOOD, session="bench", timeout=600).wait(timeout=600)
            assert record.succeeded, record.error
            assert record.output_bytes == SIZE
            ours.append(record.duration_ms / 1000)
            grown.append(memory.grown)
    assert max(grown) <= MEMORY, f"a worker's process grew by {max(grown)} bytes"
    return RowResult(
        name="command_output",
        what="time of a command that prints 1 GiB, as a job, against the same command into `cat > /dev/null`",
        ratios=[our / their for our, their in zip(ours, theirs, strict=True)],
        budget=1.3,
        sense="at most",
        details=[
            f"milliseconds: job {spread([1000 * s for s in ours])};  cat {spread([1000 * s for s in theirs])}",
            f"most that one process of the worker grew by: {max(grown) >> 10:,} KiB, budget {MEMORY >> 10:,} KiB",
        ],
    )


def _piped() -> float:
    start = time.perf_counter()
    subprocess.run(["sh", "-c", f"{FLOOD[2]} | cat > /dev/null"], check=True)
    return time.perf_counter() - start


class _Memory:
    """Looks at all processes below this one, and keeps by how much one of them grew at most."""

    def __init__(self) -> None:
        self.grown = 0
        self._done = threading.Event()
        self._before = self._sizes()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.05):
            sizes = self._sizes()
            grown = [size - self._before[pid] for pid, size in sizes.items() if pid in self._before]
            self.grown = max(self.grown, *grown)

    def _sizes(self) -> dict[int, int]:
        sizes: dict[int, int] = {}
        for process in psutil.Process().children(recursive=True):
            try:
                if "celery" in " ".join(process.cmdline()):
                    sizes[process.pid] = process.memory_info().rss
            except psutil.NoSuchProcess:
                continue
        return sizes
