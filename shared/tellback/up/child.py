"""One child of the supervisor: started, watched, started again with growing pauses, ended with all that it started."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tellback import clock
from tellback.up import launch

FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 30.0
HEALTHY_AFTER: Final = 60.0
LOG_BYTES: Final = 10 << 20

_TAIL_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Program:
    """What a child runs. `stdin` is written to it at each start; its output is appended to `log`."""

    name: str
    argv: Sequence[str]
    log: Path
    environ: Mapping[str, str]
    stdin: bytes | None = None
    cwd: Path | None = None


@dataclass(slots=True)
class Child:
    """A program and the process that runs it at the moment."""

    program: Program
    tell: Callable[[str], None]  # the guard, of process groups that begin and end
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0
    next_start: float = 0.0
    _pause: float = FIRST_PAUSE
    _started: float = field(default=0.0)

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return None if self.process is None else self.process.pid

    def start(self) -> None:
        """Start the program in a session of its own, so that a terminal's Ctrl-C reaches the supervisor alone."""
        program = self.program
        _cut(program.log)
        with os.fdopen(os.open(program.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as log:
            self.process = subprocess.Popen(  # noqa: S603 - the system's own programs
                [sys.executable, "-I", "-S", launch.__file__, str(os.getpid()), *program.argv],
                stdin=subprocess.DEVNULL if program.stdin is None else subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=dict(program.environ),
                cwd=program.cwd,
                start_new_session=True,
            )
        self.starts += 1
        self._started = clock.monotonic()
        self.tell(f"{self.process.pid}\n")
        if self.process.stdin is not None:
            with contextlib.suppress(BrokenPipeError), self.process.stdin as pipe:  # it died: `ended` will tell
                pipe.write(program.stdin or b"")

    def ended(self) -> int | None:
        """The exit code if the process has ended (negative: the signal); what it left in its session is killed."""
        if self.process is None:
            return None
        if not _has_ended(self.process):
            return None
        self.kill()
        code = self.process.wait()
        self.tell(f"-{self.process.pid}\n")
        self.process = None
        if clock.monotonic() - self._started >= HEALTHY_AFTER:
            self._pause = FIRST_PAUSE
        self.next_start = clock.monotonic() + self._pause
        return code

    def put_off(self) -> float:
        """The pause before the next start, in seconds; the one after it will be twice as long."""
        pause, self._pause = self._pause, min(self._pause * 2, LONGEST_PAUSE)
        return pause

    def terminate(self) -> None:
        """Ask the process to end."""
        if self.process is not None:
            self.process.terminate()

    def kill(self) -> None:
        """Kill the process and all of its process group."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: EPERM for a group of zombies
                os.killpg(self.process.pid, signal.SIGKILL)

    def trim_log(self) -> None:
        """Keep the log and its predecessor to a few megabytes each; the child appends, so it need not know."""
        _cut(self.program.log)

    def last_words(self) -> str:
        """The last line of the log that is not blank."""
        return last_line(self.program.log)


def last_line(log: Path) -> str:
    """The last line of a file that is not blank; empty where there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether it has ended, on Linux without reaping it: until then no other process group can have its number."""
    if sys.platform == "linux" and process.returncode is None:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return process.poll() is not None


def _cut(log: Path) -> None:
    with contextlib.suppress(OSError):
        if log.stat().st_size > LOG_BYTES:
            shutil.copyfile(log, log.with_suffix(".log.1"))
            os.truncate(log, 0)
