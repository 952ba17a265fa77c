"""A real redis-server whose clock is a number in shared memory: it stands still between the steps of a run."""

from __future__ import annotations

import mmap
import struct
import subprocess
from pathlib import Path

from tests.support.redis_server import RedisServer

START_US = 1_750_000_000_000_000  # any time will do; stream ids and records begin with it
SOURCE = Path(__file__).with_name("virtual_clock.c")


class VirtualServer(RedisServer):
    """A redis-server with `time_us`, microseconds since the epoch, for its clock; expiry follows it."""

    def __init__(self, folder: Path, *extra: str) -> None:
        # The allocator's threads wait until a time of day, which has always passed on this clock: they would spin.
        quiet = ("--jemalloc-bg-thread", "no")
        super().__init__(folder, "--appendonly", "no", "--enable-debug-command", "local", *quiet, *extra)
        cell = folder / "clock"
        cell.write_bytes(struct.pack("<q", START_US))
        with cell.open("r+b") as file:
            self._cell = mmap.mmap(file.fileno(), 8)
        library = folder / "virtual_clock.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, SOURCE], check=True)
        self.environment = {"LD_PRELOAD": str(library), "TELLBACK_SIMULATED_CLOCK": str(cell)}

    @property
    def time_us(self) -> int:
        """The server's time."""
        return int(struct.unpack("<q", self._cell[:8])[0])

    @time_us.setter
    def time_us(self, value: int) -> None:
        self._cell[:8] = struct.pack("<q", value)
