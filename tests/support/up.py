"""A real `tellback up` for tests: started on free ports, its whole process tree known."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import psutil

from tests.support.forked import run_tellback
from tests.support.processes import run_program, tree_of
from tests.support.waiting import wait_until

START_SECONDS = 120.0


def command(*arguments: str) -> list[str]:
    """The command line of `tellback` in this interpreter's environment."""
    return [str(Path(sys.executable).with_name("tellback")), *arguments]


def environment(data_dir: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """No setting of the machine or of another test, and a data directory of one's own."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TELLBACK_")}
    # The model takes seconds of every core, and few tests need it.
    own = {"TELLBACK_DATA_DIR": str(data_dir), "TELLBACK_MODEL_PRELOAD": "false", "PYTHONUNBUFFERED": "1"}
    own["TMPDIR"] = str(data_dir.parent)  # as of `Workers`
    return {**clean, **own, **(extra or {})}


class RunningUp:
    """`tellback up --json` with any free ports, from its JSON line on; killed at the end if it still runs."""

    def __init__(self, data_dir: Path, *arguments: str, env: Mapping[str, str] | None = None) -> None:
        self.data_dir = data_dir
        self.environ = environment(data_dir, env)
        data_dir.mkdir(parents=True, exist_ok=True)
        self._errors = data_dir / "stderr"
        with self._errors.open("ab") as errors:
            self.process = subprocess.Popen(
                command("up", "--json", *arguments),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=self.environ,
            )
        line = self._first_line()
        self.redis_url: str = line["redis_url"]
        self.flower_url: str | None = line["flower_url"]
        self.pids: dict[str, int] = line["pids"]
        self.line = line
        self._begun = self.tree()

    @classmethod
    def start(cls, data_dir: Path, *arguments: str, env: Mapping[str, str] | None = None) -> Self:
        """With an embedded Redis and no Flower."""
        return cls(data_dir, "--port", "0", "--no-flower", *arguments, env=env)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        left = [*self._begun, *self.tree()]
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                self.process.kill()
        for member in left:
            try:
                member.kill()
            except psutil.NoSuchProcess:
                continue
        assert self.process.stdout is not None
        self.process.stdout.close()

    @property
    def errors(self) -> str:
        """Its output on standard error."""
        return self._errors.read_text()

    @property
    def supervisor(self) -> int:
        """The process that supervises: the one child of the guard that was started."""
        return int(psutil.Process(self.process.pid).children()[0].pid)

    def tree(self) -> list[psutil.Process]:
        """Every process of it that runs now, the guard first."""
        return tree_of(self.process)

    def further_output(self, seconds: float) -> bytes:
        """Read its next output on standard output, for at most so many seconds."""
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            return b""
        return os.read(self.process.stdout.fileno(), 65536)

    def _first_line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        readable = select.select([self.process.stdout], [], [], START_SECONDS)[0]
        text = self.process.stdout.readline() if readable else b""
        if not text:
            self.process.kill()
            raise AssertionError(f"`tellback up` printed no line:\n{self.errors}\n{self._logs()}")
        line: dict[str, Any] = json.loads(text)
        return line

    def _logs(self) -> str:
        logs = sorted((self.data_dir / "logs").glob("*.log"))
        return "\n".join(f"== {path.name}\n{path.read_text()[-2000:]}" for path in logs)


def gone(processes: list[psutil.Process]) -> None:
    """Fail unless each of these processes ends soon; a zombie has ended."""

    def ended() -> bool:
        return not running(processes)

    try:
        wait_until(ended, "every process has ended")
    except AssertionError as error:
        raise AssertionError(f"still running: {running(processes)}") from error


def running(processes: list[psutil.Process]) -> list[str]:
    """Return descriptions of the processes that still run."""
    found: list[str] = []
    for process in processes:
        try:
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(f"{process.pid} {' '.join(process.cmdline())[:120]}")
        except psutil.NoSuchProcess:
            continue
    return found


def refused(data_dir: Path, *arguments: str, env: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Exit code and standard error of an `up` that cannot start, but not for a Flower that runs already."""
    given, full = ["up", "--flower-port", "0", *arguments], environment(data_dir, env)
    # With a path of its own, what is imported there decides.
    done = run_program(command(*given), env=full) if "PYTHONPATH" in (env or {}) else run_tellback(given, full, None)
    assert not done.stdout, done.stdout
    return done.returncode, done.stderr
