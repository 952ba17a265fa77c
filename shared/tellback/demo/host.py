"""Child processes of the demo that tell what they do, line by line, and die with it."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import IO, Any

from tellback.up import launch


class Host:
    """One agent host, and what it tells: JSON lines."""

    def __init__(self, argv: list[str], environ: Mapping[str, str]) -> None:
        """Start it; it dies with this process."""
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            bound_to_this(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=dict(environ),
            start_new_session=True,
        )
        self._lines = Lines(self._process.stdout)
        self._errors = Lines(self._process.stderr)

    def next(self, seconds: float) -> dict[str, Any] | None:
        """What it tells next; empty at its end, None if nothing came in time."""
        line = self._lines.next(seconds)
        return line if line is None else json.loads(line or "{}")

    def kill(self) -> int:
        """SIGKILL, as a crash would; the exit code."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        return self._process.wait()

    def ended(self) -> str:
        """How it ended, with the last line of its standard error."""
        code = self._process.wait()
        last = ""
        while line := self._errors.next(1.0):
            last = line.strip() or last
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return f"{how}: {last}" if last else how


class Lines:
    """Lines of a pipe, with a time limit for each."""

    def __init__(self, pipe: IO[str] | None) -> None:
        assert pipe is not None
        self._queue: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, args=(pipe,), daemon=True).start()

    def next(self, seconds: float) -> str | None:
        """The next line; empty at the end, None if there was none in time."""
        try:
            return self._queue.get(timeout=seconds)
        except queue.Empty:
            return None

    def _read(self, pipe: IO[str]) -> None:
        with pipe:
            for line in pipe:
                self._queue.put(line)
        self._queue.put("")


def bound_to_this(argv: list[str]) -> list[str]:
    """The command, to be killed by the kernel should this process die without ending it (Linux)."""
    return [sys.executable, "-I", "-S", launch.__file__, str(os.getpid()), *argv]
