"""Looks at a running system from beside: what its scripts touch, and whether a secret gets anywhere.

Redis' MONITOR shows each script with its keys and each command inside it. The log of Redis holds every write in plain
text; it is searched as it grows, since Redis rewrites it.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tellback import clock
from tellback.state.keys import Layout
from tests.chaos.loads import SECRET
from tests.chaos.plain import ask
from tests.chaos.system import System

WHOLE: Final = re.compile(SECRET.encode() + rb"[0-9A-F]{8}X")
"""A secret that was cut within what makes it unique is as harmless as its name."""
MONITOR_SECONDS: Final = 1.0
MONITOR_EVERY: Final = 8.0
SEARCH_EVERY: Final = 15.0
DECAY_EVERY: Final = 10.0
_KEY: Final = re.compile(rb'"(tb:\{[^"\\]*)"')
_TAG: Final = re.compile(rb"\{([^}]*)\}")
_SCRIPT: Final = re.compile(rb'"EVALSHA(?:_RO)?" "[0-9a-f]{40}" "(\d+)"', re.IGNORECASE)


@dataclass
class Seen:
    """The findings; `strays` are commands in scripts that touched a key which was not passed, or of another shard."""

    scripts: int = 0
    script_commands: int = 0
    strays: list[str] = field(default_factory=list[str])
    bytes_searched: int = 0
    secrets: list[str] = field(default_factory=list[str])


class Watch:
    """Checks now and then; `advance` is called all the time."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._offsets: dict[tuple[Path, int], int] = {}
        self._next = {"monitor": 5.0, "search": 10.0, "decay": 5.0}
        self.seen = Seen()

    def advance(self, elapsed: float) -> None:
        """Examine what is due by now."""
        for what, examine, every in (
            ("monitor", self._monitor, MONITOR_EVERY),
            ("search", self.search, SEARCH_EVERY),
            ("decay", self._forget_week, DECAY_EVERY),
        ):
            if elapsed >= self._next[what]:
                self._next[what] = elapsed + every
                examine()

    def search(self) -> None:
        """Search what has been written since the last time."""
        for part in ("redis", "data", "disks", "logs", "commands", "history"):
            for path in (self._system.folder / part).rglob("*"):
                with suppress(OSError):
                    if path.is_file() and path.name != "filler":
                        self._search(path)

    def _search(self, path: Path) -> None:
        with path.open("rb") as file:
            place = path, path.stat().st_ino
            file.seek(max(0, self._offsets.get(place, 0) - 64))
            while data := file.read(1 << 22):
                self.seen.bytes_searched += len(data)
                if (match := WHOLE.search(data)) and len(self.seen.secrets) < 20:
                    self.seen.secrets.append(f"{path}: {match[0].decode()}")
                self._offsets[place] = file.tell()
                if len(data) == 1 << 22:
                    file.seek(-64, 1)

    def _forget_week(self) -> None:
        """Forget that this week's decay was done, so that it runs again and again while signals come in."""
        with suppress(OSError):
            for shard in Layout("default", 4).all:
                ask(self._system.redis.port, "HDEL", shard.key("decay"), "done", timeout=1.0)

    def _monitor(self) -> None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._system.redis.port), 0.5) as line:
            line.sendall(b"MONITOR\r\n")
            end, received = clock.monotonic() + MONITOR_SECONDS, b""
            with suppress(TimeoutError):
                while clock.monotonic() < end and (data := line.recv(1 << 20)):
                    received += data
            scan_monitor(received.split(b"\r\n")[:-1], self.seen)


def scan_monitor(lines: Iterable[bytes], seen: Seen) -> None:
    """Note each script of these lines of MONITOR, and each of its commands that touched another key."""
    passed: set[bytes] | None = None
    for line in lines:
        if b" lua] " in line:
            if passed is not None:
                seen.script_commands += 1
                stray = [key for key in _KEY.findall(line) if key not in passed]
                if stray:
                    seen.strays.append(line.decode(errors="replace")[:300])
            continue
        script = _SCRIPT.search(line)
        keys = _KEY.findall(line) if script else []
        passed = set(keys) if script and keys else None
        if script and keys:
            seen.scripts += 1
            if len({tag[1] for key in keys[: int(script[1])] if (tag := _TAG.search(key))}) != 1:
                seen.strays.append(line.decode(errors="replace")[:300])
