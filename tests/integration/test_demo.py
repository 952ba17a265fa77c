"""`tellback demo` as a user runs it: true effects, a true exit code, and nothing left behind."""

from __future__ import annotations

import http.client
import os
import pty
import re
import select
import signal
import subprocess
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from tests.support.up import command
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.model, pytest.mark.timeout(300)]

LOOPS = ("commands", "guidance", "turns", "signals")
FLOWER = re.compile(r"http://\S+@127\.0\.0\.1:\d+/")


class Demo:
    """A running `tellback demo`, its output so far, and every process that belongs to it."""

    def __init__(self, folder: Path, *arguments: str, terminal: bool = False, path: str | None = None) -> None:
        self.folder = folder
        misleading = {"TELLBACK_REDIS_URL": "redis://127.0.0.1:1/0", "TELLBACK_TEAM": "another"}
        environment = {**os.environ, **misleading, "TMPDIR": str(folder), "TERM": "xterm", "COLUMNS": "200"}
        if path is not None:
            environment["PATH"] = path + os.pathsep + environment["PATH"]
        self._out, theirs = pty.openpty() if terminal else os.pipe()
        self.process = subprocess.Popen(
            command("demo", *arguments),
            stdin=theirs if terminal else subprocess.DEVNULL,
            stdout=theirs,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        os.close(theirs)
        self.output = ""

    def read(self, timeout: float = 0.1) -> bool:
        """Append its output so far; return true once it has ended."""
        try:
            while select.select([self._out], [], [], timeout)[0]:
                chunk = os.read(self._out, 65536)
                if not chunk:
                    return True
                self.output += chunk.decode(errors="replace")
        except OSError:  # how a pseudo-terminal says end of file
            return True
        return False

    def wait_for(self, text: str, timeout: float = 150) -> None:
        wait_until(lambda: self.read() or text in self.output, f"the demo says {text!r}", timeout=timeout)
        assert text in self.output, self.output

    def end(self, timeout: float = 200) -> int:
        wait_until(self.read, "the demo ends", timeout=timeout)
        return self.process.wait(timeout=60)

    def members(self) -> list[psutil.Process]:
        """Processes that know the folder of this demo: its system, its hosts, their commands."""
        found: list[psutil.Process] = []
        for process in psutil.process_iter():
            try:
                here = str(self.folder) in " ".join([*process.cmdline(), *process.environ().values()])
                if here and process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except (psutil.NoSuchProcess, psutil.AccessDenied):  # race: it may end at any of these calls
                continue
        return found

    def press_enter(self) -> None:
        os.write(self._out, b"\n")

    def close(self) -> None:
        os.close(self._out)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Demo]]:
    started: list[Demo] = []

    def run(*arguments: str, terminal: bool = False, path: str | None = None) -> Demo:
        started.append(Demo(tmp_path, *arguments, terminal=terminal, path=path))
        return started[-1]

    yield run
    for demo in started:
        for process in demo.members():
            process.kill()
        demo.process.wait(timeout=60)
        demo.close()


def nothing_left(demo: Demo) -> None:
    wait_until(lambda: not demo.members(), "every process of the demo has ended")


def loops_read_back(output: str) -> dict[str, str]:
    """The mark of each loop's line at the end."""
    return {loop: mark for mark, loop in re.findall(rf"(?m)^  ([✓✗]) ({'|'.join(LOOPS)}) ", output)}


def test_the_demo_runs_in_an_isolated_instance(start: Callable[..., Demo]) -> None:
    demo = start()
    code = demo.end()
    output = demo.output

    assert code == 0, output
    assert "✗" not in output
    runs = re.findall(r"✓ .*: exit (\d) after \d+ ms on commands-1@", output)
    assert runs == ["1", "1", "0"]
    assert len(re.findall(r"✓ retry of \[\S+\]: exit", output)) == 2
    assert "2 failed, 1 passed" in output
    assert "3 passed" in output
    assert "has earned feedback, from loops-1@" in output
    assert "[Feedback - Deadline]" in output
    assert re.search(r"percentage .* 0\.500 → 0\.750 .* 0\.650 → 0\.725 .* 2 → 1", output)
    assert re.search(r"old-tenths .* 0\.500 → 0\.350 .* 0\.750 → 0\.705 .* 1 → 2", output)
    assert "signals applied by model@" in output
    assert "chat to ada: Repaired" in output
    assert "by SIGKILL; his turn is open" in output
    assert "chat to ben: Sorry" in output
    assert loops_read_back(output) == dict.fromkeys(LOOPS, "✓")
    assert "3 records: 2 failures, 1 success; 2 linked retries" in output
    assert "8 tool calls, 2 of them failed; 2 feedback earned, 2 delivered" in output
    assert "2 opened, 1 answered, 1 by fallback, 2 delivered" in output
    assert "7 applied, 4 facts, query clusters: 1," in output
    assert FLOWER.search(output)
    assert "\x1b" not in output, "in a pipe there are no colours and no moving line"
    nothing_left(demo)
    assert list(demo.folder.glob("tellback-demo-*")) == []


def test_on_a_terminal_flower_stays_until_enter_is_pressed(start: Callable[..., Demo]) -> None:
    demo = start(terminal=True)
    demo.wait_for("Press Enter")
    assert "starting Redis, workers, beat and Flower" in demo.output
    assert "loads the embedding model" in demo.output
    found = FLOWER.search(demo.output)
    assert found is not None
    place = urlsplit(found[0])
    token = b64encode(f"{place.username}:{place.password}".encode()).decode()
    connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=60)
    connection.request("GET", "/workers", headers={"Authorization": f"Basic {token}"})
    assert connection.getresponse().status == 200
    connection.close()
    demo.press_enter()
    assert demo.end() == 0, demo.output
    nothing_left(demo)


def test_an_effect_that_does_not_happen_is_exit_code_1(start: Callable[..., Demo]) -> None:
    """Beat and workers are stopped, so that nobody sweeps: Ben hears nothing. `--keep` leaves all of it running."""
    demo = start("--keep", "--timeout", "30")
    demo.wait_for("Ben asks too")  # his turn is not open yet
    sweepers = [one for one in demo.members() if {"tellback_beat.app", "tellback_workers.app"} & {*one.cmdline()}]
    for sweeper in sweepers:
        sweeper.suspend()
    code = demo.end()

    assert code == 1, demo.output
    assert re.search(r"(?m)^  ✗ the sweep, on loops-1@\S+, has answered him$", demo.output)
    assert loops_read_back(demo.output) == {"commands": "✓", "guidance": "✓", "turns": "✗", "signals": "✓"}
    assert re.search(r"\d of \d+ expected effects did not happen", demo.output)
    for sweeper in sweepers:
        sweeper.resume()
    kept = re.search(r"kill (\d+)", demo.output)
    assert kept is not None
    assert demo.members(), "--keep leaves the system running"
    os.kill(int(kept[1]), signal.SIGTERM)
    nothing_left(demo)


def test_a_system_that_does_not_start_is_said_so_and_exit_code_1(start: Callable[..., Demo], tmp_path: Path) -> None:
    broken = tmp_path / "bin" / "redis-server"
    broken.parent.mkdir()
    broken.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Redis server v=7.2.0" && exit\necho no luck\nexit 1\n')
    broken.chmod(0o755)
    demo = start(path=str(broken.parent))
    assert demo.end() == 1
    assert "✗ the demo runs without errors: tellback: Redis failed to start: no luck" in demo.output
    assert "Traceback" not in demo.output
    nothing_left(demo)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_all_of_it(start: Callable[..., Demo], number: signal.Signals) -> None:
    demo = start()
    demo.wait_for("ada:")
    demo.process.send_signal(number)
    assert demo.end(timeout=30) == 130
    assert "Traceback" not in demo.output
    nothing_left(demo)
    assert list(demo.folder.glob("tellback-demo-*")) == []


@pytest.mark.faults
def test_a_demo_that_is_killed_leaves_no_process(start: Callable[..., Demo]) -> None:
    demo = start()
    demo.wait_for("ada:")
    demo.process.kill()
    nothing_left(demo)
