"""Clocks of a Redis server that step: for scripts and stores alone, or for the whole process of a server."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tellback import clock
from tellback.state.database import Database
from tellback.state.lua_text import script_text
from tellback.state.script_calls import Script
from tests.support.redis_server import PROGRAM, RedisServer, packaged_binary

DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS
HOUR = 3_600

steps = pytest.mark.parametrize("hours", [-1, 1])
"""A test with a step of an hour back, and with one forward; see `step`."""

_NOW = "return time[1] * 1000 + math.floor(time[2] / 1000)"


class ServerClock:
    """The server's time as scripts and stores of this process read it, moved by `offset_ms`, or standing still.

    The seam is the one line of `lua/lib/clock.lua`, and `Database.now_ms`. The server's own clock stays as it is: what
    it does by itself, expiring keys, continues by that.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.offset_ms = 0
        self._still: int | None = None
        self._patch = monkeypatch
        assert _NOW in script_text("lib/clock")
        monkeypatch.setattr(Script, "source", property(self._source))
        monkeypatch.setattr(Script, "sha", property(self._sha))
        original = Database.now_ms

        def now_ms(database: Database) -> int:
            return (original(database) if self._still is None else self._still) + self.offset_ms

        monkeypatch.setattr(Database, "now_ms", now_ms)

    def step(self, ms: float) -> None:
        """Step the clock, forward or back."""
        self.offset_ms += round(ms)

    def passes(self, seconds: float) -> None:
        """Let time pass, for the server and for this host, as it does where no clock steps."""
        self.step(1000 * seconds)
        before = clock.since_boot
        self._patch.setattr(clock, "since_boot", lambda: before() + seconds)

    def stand_still(self, at_ms: int) -> None:
        """Stay at this time but for steps, so that what is computed is exact."""
        self._still = at_ms

    def _source(self, script: Script) -> str:
        now = _NOW if self._still is None else f"return {self._still}"
        return script_text(script.name).replace(_NOW, f"{now} + ({self.offset_ms})")

    def _sha(self, script: Script) -> str:
        return hashlib.sha1(self._source(script).encode(), usedforsecurity=False).hexdigest()


def faketime_library() -> Path | None:
    """The library of the package `faketime` (Debian, Ubuntu), which moves the clock of one process."""
    return next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)


def step(clock: ServerClock, hours: int) -> None:
    clock.step(1_000 * HOUR * hours)


class SteppedServer(RedisServer):
    """A redis-server whose clock is stepped by a file, as that of its host would be; expiry follows it too."""

    def __init__(self, folder: Path, *extra: str) -> None:
        super().__init__(folder, *extra)
        # Debian's never answers: its allocator, a library of its own, asks libfaketime 0.9 for the time too early.
        self.program = os.environ.get(PROGRAM) or packaged_binary()
        library = faketime_library()
        assert library is not None
        self._offset = folder / "offset"
        self.step_to(0)
        self.environment = {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(self._offset),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def step_to(self, seconds: int) -> None:
        """Set the server's clock so far from the host's."""
        whole = self._offset.with_suffix(".new")  # renamed, since the server may read while the file is written
        whole.write_text(f"{seconds:+d}\n")
        whole.replace(self._offset)


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """From now on it is so much later for this process; its clock continues."""
    before = clock.monotonic
    monkeypatch.setattr(clock, "monotonic", lambda: before() + seconds)


def in_this_thread(monkeypatch: pytest.MonkeyPatch, name: str, function: Callable[..., Any]) -> None:
    """Replace a function of `clock` for this thread alone.

    Threads of clients that earlier tests closed may still run. Those that watch calls sleep 50 times a second.
    """
    here, original = threading.get_ident(), getattr(clock, name)

    def chosen(*arguments: Any) -> Any:
        return (function if threading.get_ident() == here else original)(*arguments)

    monkeypatch.setattr(clock, name, chosen)
