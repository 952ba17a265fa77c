"""One child process of the supervisor: start it, watch it, restart it with backoff, and end it with its descendants."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tellback import clock
from tellback.backoff import Backoff
from tellback.up.launch import dying_with_parent

BACKOFF: Final = Backoff(first=0.5, longest=30.0)
HEALTHY_AFTER: Final = 60.0  # seconds that a process must live for the backoff to start over
LOG_BYTES: Final = 10 << 20

_TAIL_BYTES: Final = 4096  # of a log, in which its last line is looked for


@dataclass(frozen=True, slots=True)
class ChildProgram:
    """The command of a child. `stdin` is written to it at each start; its output is appended to `log`."""

    name: str
    argv: Sequence[str]
    log: Path
    environ: Mapping[str, str]
    stdin: bytes | None = None
    cwd: Path | None = None


@dataclass(slots=True)
class ChildProcess:
    """A program and the process that currently runs it, if any."""

    program: ChildProgram
    report: Callable[[str], None]  # the guard, of process groups that begin and end
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0
    next_start: float = 0.0
    delay: float = 0.0
    """The backoff before the next start, in seconds."""
    _delays: Iterator[float] = field(default_factory=BACKOFF.delays)
    _started: float = field(default=0.0)

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return None if self.process is None else self.process.pid

    def start(self) -> None:
        """Start the program in a session of its own, so that a terminal's Ctrl-C reaches the supervisor alone."""
        program = self.program
        rotate_log(program.log)
        with os.fdopen(os.open(program.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as log:
            self.process = subprocess.Popen(
                dying_with_parent(program.argv),
                stdin=subprocess.DEVNULL if program.stdin is None else subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=dict(program.environ),
                cwd=program.cwd,
                start_new_session=True,
            )
        self.starts += 1
        self._started = clock.monotonic()
        self.report(f"{self.process.pid}\n")
        if self.process.stdin is not None:
            with contextlib.suppress(BrokenPipeError), self.process.stdin as pipe:  # it died: `exit_code` reports it
                pipe.write(program.stdin or b"")

    def exit_code(self) -> int | None:
        """Return the exit code if the process has ended (negative: a signal), after killing its process group."""
        if self.process is None:
            return None
        if not _has_ended(self.process):
            return None
        self.kill()
        code = self.process.wait()
        self.report(f"-{self.process.pid}\n")
        self.process = None
        if clock.monotonic() - self._started >= HEALTHY_AFTER:
            self._delays = BACKOFF.delays()
        self.postpone()
        return code

    def postpone(self) -> None:
        """Choose when to start it again: later each time."""
        self.delay = next(self._delays)
        self.next_start = clock.monotonic() + self.delay

    def terminate(self) -> None:
        """Ask the process to end."""
        if self.process is not None:
            self.process.terminate()

    def kill(self) -> None:
        """Kill the process and its whole process group."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: EPERM for a group of zombies
                os.killpg(self.process.pid, signal.SIGKILL)


def last_line(log: Path) -> str:
    """Return the last line of a file that is not blank, or an empty string."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Return True if a process has ended; on Linux without reaping it, so that its group's number isn't reused yet."""
    if sys.platform == "linux" and process.returncode is None:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return process.poll() is not None


def rotate_log(log: Path) -> None:
    """Rotate a log at `LOG_BYTES`; the child appends, so it needn't reopen the truncated file."""
    with contextlib.suppress(OSError):
        if log.stat().st_size > LOG_BYTES:
            shutil.copyfile(log, log.with_suffix(".log.1"))
            os.truncate(log, 0)
