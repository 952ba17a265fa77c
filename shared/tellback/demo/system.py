"""The system that the demo runs on: a `tellback up` of its own, with free ports and a data directory of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tellback import clock
from tellback.demo.host import Host, Lines, bound_to_this
from tellback.errors import ConfigurationError, TellbackError
from tellback.settings import PREFIX

UP: Final = "from tellback.cli.app import main; main()"
STOP_SECONDS: Final = 15.0
LOOK_EVERY: Final = 0.1


class SystemFailed(TellbackError):
    """`tellback up` did not start; the text is its own."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """What `tellback up --json` prints."""

    redis_url: str
    flower_url: str
    pids: dict[str, int]


class DemoSystem:
    """A folder with the system's data and the project, and the processes that the demo has started."""

    def __init__(self, *, keep: bool) -> None:
        """Make the folder; nothing runs yet. `keep`: the system outlives this process.

        Raises:
            ConfigurationError: no temporary folder can be written.
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
        self._hosts: list[Host] = []
        self.addresses: Addresses | None = None

    @property
    def environ(self) -> dict[str, str]:
        """The environment of every process of the demo: no setting of the user's, so that nothing of theirs is touched.

        The data directory is all that a host needs: `tellback.connect()` finds the system there.
        """
        clean = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
        return clean | {f"{PREFIX}DATA_DIR": str(self.data), "PYTHONUNBUFFERED": "1"}

    @property
    def supervisor(self) -> int:
        """The process to end when the system was kept."""
        assert self._up is not None
        return self._up.pid

    def start(self) -> Addresses:
        """Start the system and wait until all of it answers.

        Raises:
            SystemFailed: it did not start.
        """
        errors = self.data / "up.stderr"
        argv = [sys.executable, "-P", "-c", UP, "up", "--json", "--port", "0", "--flower-port", "0"]
        if not self._keep:
            argv = bound_to_this(argv)
        with errors.open("w") as stderr:
            self._up = subprocess.Popen(  # noqa: S603 - our own program
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                env=self.environ | {f"{PREFIX}COMMAND_ROOTS": str(self.project)},
                start_new_session=True,  # Ctrl-C is for this process, which stops the system in good order
            )
        lines = Lines(self._up.stdout)
        while (line := lines.next(LOOK_EVERY)) is None:
            pass  # `up` bounds its start itself
        if not line:
            raise SystemFailed(self.troubles() or f"`tellback up` ended: {self._up.wait()}")
        self.addresses = Addresses(**json.loads(line))
        return self.addresses

    def host(self, module: str, given: Mapping[str, Any]) -> Host:
        """Start an agent host: a Python process that runs `module`."""
        host = Host([sys.executable, "-P", "-m", module, json.dumps(given)], self.environ)
        self._hosts.append(host)
        return host

    def troubles(self) -> str:
        """What the supervisor has said of parts that died."""
        try:
            return (self.data / "up.stderr").read_text().strip()
        except OSError:
            return ""

    def stop(self) -> list[str]:
        """End every process and remove the folder; names of those that still run, which is a fault."""
        for host in self._hosts:
            host.kill()
        if self._up is not None:
            self._up.terminate()
            try:
                self._up.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._up.kill()  # its supervisor notices and ends the rest
                self._up.wait()
        left = self._running()
        shutil.rmtree(self.folder, ignore_errors=True)
        return left

    def _running(self) -> list[str]:
        end = clock.monotonic() + 2
        while True:
            pids = {} if self.addresses is None else self.addresses.pids
            left = [name for name, pid in pids.items() if _runs(pid)]
            if not left or clock.monotonic() > end:
                return left
            clock.sleep(LOOK_EVERY)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # another user's: not ours, and not gone either
    return True
