"""The isolated instance that the demo runs on: its own `tellback up`, with free ports and its own data directory.

Every child process is killed by the kernel if the demo dies, except an instance that you asked to keep. Settings of
yours are removed from the environment, so the demo can't touch your own Redis.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from tellback import clock
from tellback.commands.start_errors import signal_name
from tellback.errors import ConfigurationError, TellbackError
from tellback.settings import PREFIX
from tellback.up.launch import dying_with_parent


class HostProcess:
    """One agent host as a child process, and the steps that it prints as JSON lines."""

    def __init__(self, argv: list[str], environ: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            dying_with_parent(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=dict(environ),
            start_new_session=True,
        )
        self._lines = PipeLines(self._process.stdout)
        self._errors = PipeLines(self._process.stderr)

    def next_event(self, seconds: float) -> dict[str, Any] | None:
        """Return the next step, an empty one at the host's end, or None after `seconds` without one."""
        line = self._lines.next_line(seconds)
        return line if line is None else json.loads(line or "{}")

    def kill(self) -> int:
        """Kill the host with SIGKILL, as a crash would, and return its exit code."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        return self._process.wait()

    def ended(self) -> str:
        """Wait for the end and describe it: the exit code or signal, and the last line of standard error."""
        code = self._process.wait()
        last = ""
        while line := self._errors.next_line(1.0):
            last = line.strip() or last
        how = signal_name(code) or f"exit code {code}"
        return f"{how}: {last}" if last else how


class PipeLines:
    """The lines of a pipe, read in a thread, since reading a pipe has no time limit of its own."""

    def __init__(self, pipe: IO[str] | None) -> None:
        assert pipe is not None
        self._queue: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, args=(pipe,), daemon=True).start()

    def next_line(self, seconds: float) -> str | None:
        """Return the next line, "" at the end, or None after `seconds` without one."""
        try:
            return self._queue.get(timeout=seconds)
        except queue.Empty:
            return None

    def _read(self, pipe: IO[str]) -> None:
        with pipe:
            for line in pipe:
                self._queue.put(line)
        self._queue.put("")


UP: Final = "from tellback.cli.app import main; main()"

STOP_SECONDS: Final = 15.0

POLL_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses and process ids that `tellback up --json` prints."""

    redis_url: str
    flower_url: str
    pids: dict[str, int]


class DemoSystem:
    """The demo's folder, with the instance's data and the project, and the processes that the demo started.

    With `keep` the instance outlives this process.
    """

    def __init__(self, *, keep: bool) -> None:
        """Create the folder; nothing is started yet.

        Raises:
            ConfigurationError: no temporary folder can be created.
        """
        try:
            self.folder = Path(tempfile.mkdtemp(prefix="tellback-demo-"))
        except OSError as error:
            raise ConfigurationError(f"cannot write a temporary folder: {error.strerror}; see TMPDIR") from error
        self.data = self.folder / "data"
        self.project = self.folder / "project"
        self.data.mkdir(mode=0o700)
        self._keep = keep
        self._up: subprocess.Popen[str] | None = None
        self._hosts: list[HostProcess] = []
        self.addresses: Addresses | None = None

    @property
    def environ(self) -> dict[str, str]:
        """The environment of every process of the demo, without any of your Tellback settings.

        A host needs only the data directory: `tellback.connect()` finds the instance there.
        """
        clean = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
        return clean | {f"{PREFIX}DATA_DIR": str(self.data), "PYTHONUNBUFFERED": "1"}

    @property
    def supervisor(self) -> int:
        """The id of the process that you end to stop a kept instance."""
        assert self._up is not None
        return self._up.pid

    def start(self) -> Addresses:
        """Start the instance and wait until all services are ready.

        Raises:
            TellbackError: the instance didn't start.
        """
        errors = self.data / "up.stderr"
        argv = [sys.executable, "-P", "-c", UP, "up", "--json", "--port", "0", "--flower-port", "0"]
        if not self._keep:
            argv = dying_with_parent(argv)
        with errors.open("w") as stderr:
            self._up = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                env=self.environ | {f"{PREFIX}COMMAND_ROOTS": str(self.project)},
                start_new_session=True,  # Ctrl-C reaches only this process, which then stops the instance in order
            )
        lines = PipeLines(self._up.stdout)
        while (line := lines.next_line(POLL_SECONDS)) is None:
            pass  # `tellback up` has a time limit for its start
        if not line:
            raise TellbackError(self.supervisor_errors() or f"`tellback up` ended: {self._up.wait()}")
        self.addresses = Addresses(**json.loads(line))
        return self.addresses

    def host(self, module: str, given: Mapping[str, Any]) -> HostProcess:
        """Start an agent host: a Python process that runs `module`."""
        host = HostProcess([sys.executable, "-P", "-m", module, json.dumps(given)], self.environ)
        self._hosts.append(host)
        return host

    def supervisor_errors(self) -> str:
        """Return the supervisor's standard error, which names services that crashed."""
        try:
            return (self.data / "up.stderr").read_text().strip()
        except OSError:
            return ""

    def stop(self) -> list[str]:
        """Stop every process and remove the folder; return the names of processes that still run, normally none."""
        for host in self._hosts:
            host.kill()
        if self._up is not None:
            self._up.terminate()
            try:
                self._up.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._up.kill()  # the services were started to die with it
                self._up.wait()
        left = self._running_processes()
        shutil.rmtree(self.folder, ignore_errors=True)
        return left

    def _running_processes(self) -> list[str]:
        end = clock.monotonic() + 2
        while True:
            pids = {} if self.addresses is None else self.addresses.pids
            left = [name for name, pid in pids.items() if _is_running(pid)]
            if not left or clock.monotonic() > end:
                return left
            clock.sleep(POLL_SECONDS)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # it runs, though another user owns it
    return True
