"""`tellback watch` on a real terminal: a session, a file, and standard input beside the keyboard."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pytest

from tellback import Settings, Tellback
from tellback.commands.record import RecordFile
from tellback.contracts.commands import CommandRecord
from tellback.state.database import Database
from tellback.state.team import open_layout
from tests.support.jobs import CommandQueue
from tests.support.processes import run_program
from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers, environment

CODE = "from tellback.cli.app import main; main()"
# As a shell does: a session of its own, whose terminal is the one on descriptor 3.
LEADER = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(3, termios.TIOCSCTTY, 0)
os.dup2(3, 2)
os.dup2(3, 1)
if sys.argv[1] == "keyboard":
    os.dup2(3, 0)
os.close(3)
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""


class Terminal:
    """A terminal of 80×24 with `tellback watch` on it."""

    def __init__(self, descriptor: int, process: subprocess.Popen[bytes]) -> None:
        self._descriptor, self.process = descriptor, process
        self._out = b""

    def shows(self, text: str) -> bool:
        """Check that each word of the text has been drawn; unchanged ones are not drawn again."""
        while select.select([self._descriptor], [], [], 0)[0]:
            try:
                self._out += os.read(self._descriptor, 65_536)
            except OSError:
                break
        plain = re.sub(rb"\x1b\[[0-?]*[ -/]*[@-~]", b"", self._out).decode("utf-8", "replace")
        return text in plain

    def press(self, keys: str) -> None:
        self._out = b""
        os.write(self._descriptor, keys.encode())

    def ends(self) -> int:
        wait_until(lambda: self.shows("") and self.process.poll() is not None, "it ends")
        assert self.process.returncode is not None
        return self.process.returncode


@contextmanager
def terminal(settings: Settings, *args: str, stdin: int | None = None) -> Generator[Terminal]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    beside = fcntl.fcntl(theirs, fcntl.F_DUPFD, 64)  # far from 3, which the child makes of it
    launcher = ["-c", f"import os; os.dup2({beside}, 3)\n{LEADER}", "keyboard" if stdin is None else "lines"]
    process = subprocess.Popen(
        [sys.executable, *launcher, "-c", CODE, "watch", *args],
        stdin=stdin,
        pass_fds=[beside],
        env={**environment(settings), "TERM": "xterm-256color"},
    )
    os.close(theirs)
    os.close(beside)
    try:
        yield Terminal(ours, process)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait(60)
        os.close(ours)


def record(id_: str, exit_code: int, argv: str) -> CommandRecord:
    return CommandRecord(command_id=id_, session="s", command=argv.split(), exit_code=exit_code)


def test_a_session_is_watched_live(tb: Tellback, settings: Settings, start_workers: StartWorkers) -> None:
    start_workers(1, queues="commands")
    failed = tb.submit([sys.executable, "-c", "raise SystemExit(7)"], session="s1", note="zero").wait(timeout=60)
    with terminal(settings, "s1") as seen:
        wait_until(lambda: seen.shows("Latest failure") and seen.shows("exit 7"), "the record is shown")
        tb.submit(["echo", "live-output"], session="s1").wait(timeout=60)
        wait_until(lambda: seen.shows("live-output"), "the next one comes by itself")
        tb.waive("s1", failed.command_id, reason="known", by="ada")
        wait_until(lambda: seen.shows("waived"), "so does a waiver")
        seen.press("q")
        assert seen.ends() == 0


@pytest.mark.slow
@pytest.mark.parametrize("away", ["kill", "suspend"])
def test_a_redis_that_stops_while_it_is_open_is_shown_and_asked_again(tmp_path: Path, away: str) -> None:
    """It is gone or only silent; the records stay in sight, keys are answered, and what comes afterwards is shown."""
    with RedisServer.start(tmp_path) as server, closing(Database(server.url)) as database:
        settings = Settings(redis_url=server.url, shards=1)
        layout = open_layout(database, settings.team, settings.shards)
        queue = CommandQueue(database, layout)
        queue.put("s1", refusal="first-reason")
        with terminal(settings, "s1") as seen:
            wait_until(lambda: seen.shows("first-reason"), "the record is shown")
            server.kill() if away == "kill" else server.suspend()
            wait_until(lambda: seen.shows("Redis is away"), "the outage is shown")
            seen.press("?")
            wait_until(lambda: seen.shows("clears all"), "a key is answered while Redis is away")
            seen.press("?")
            wait_until(lambda: seen.shows("first-reason"), "the record is still there")
            server.launch() if away == "kill" else server.resume()
            queue.put("s1", refusal="second-reason")
            wait_until(lambda: seen.shows("second-reason"), "the next record comes by itself")
            seen.press("q")
            assert seen.ends() == 0


@pytest.mark.slow
def test_it_ends_while_redis_is_away(tmp_path: Path) -> None:
    """It ends at once: who closes it does not wait for a Redis that hangs."""
    with RedisServer.start(tmp_path) as server, closing(Database(server.url)) as database:
        settings = Settings(redis_url=server.url, shards=1)
        layout = open_layout(database, settings.team, settings.shards)
        CommandQueue(database, layout).put("s1", refusal="first-reason")
        with terminal(settings, "s1") as seen:
            wait_until(lambda: seen.shows("first-reason"), "the record is shown")
            server.suspend()
            wait_until(lambda: seen.shows("Redis is away"), "the outage is shown")
            seen.press("q")
            assert seen.ends() == 0
        server.resume()


def test_a_file_needs_no_redis(tmp_path: Path) -> None:
    file = RecordFile(tmp_path / "feedback_record.jsonl")
    file.append(record("a", 1, "first-command"))
    with terminal(Settings(redis_url="redis://127.0.0.1:1"), "--file", str(file.path)) as seen:
        wait_until(lambda: seen.shows("first-command"), "the record is shown")
        file.append(record("b", 0, "second-command"))
        wait_until(lambda: seen.shows("second-command"), "the next one comes by itself")
        seen.press("q")
        assert seen.ends() == 0


def test_lines_on_standard_input_leave_the_keyboard_to_the_reader() -> None:
    reading, writing = os.pipe()
    with terminal(Settings(), "-", stdin=reading) as seen:
        os.close(reading)
        os.write(writing, msgspec.json.encode(record("a", 3, "piped-command")) + b"\n")
        wait_until(lambda: seen.shows("piped-command"), "the record is shown")
        seen.press("?")
        wait_until(lambda: seen.shows("clears all"), "a key is answered")
        os.close(writing)
        seen.press("qq")
        assert seen.ends() == 0


@pytest.mark.parametrize(
    ("args", "reported"),
    [
        (["s1"], "needs a terminal"),
        (["-", "--file", "f"], "use either --file or standard input"),
        (["-"], "/dev/tty"),
    ],
)
def test_where_it_cannot_run_one_line_says_why(settings: Settings, args: list[str], reported: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", CODE, "watch", *args],
        stdin=subprocess.PIPE if args == ["-"] else subprocess.DEVNULL,
        capture_output=True,
        env=environment(settings),
        start_new_session=True,  # without a terminal, whatever runs this test
        text=True,
        timeout=30,
        check=False,
    )
    assert ran.returncode == 2
    assert reported in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


def test_without_the_extra_one_line_says_what_to_install(settings: Settings) -> None:
    ran = run_program(
        [sys.executable, "-c", f"import sys; sys.modules['textual'] = None\n{CODE}", "watch", "s1"],
        env=environment(settings),
    )
    assert ran.returncode == 2
    assert ran.stderr == "tellback: `tellback watch` requires Textual: pip install 'tellback[tui]'\n"


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    with terminal(Settings(), "--file", str(tmp_path)) as seen:
        wait_until(lambda: seen.shows("can't read"), "the reason is shown")
        assert seen.ends() == 2


def test_a_session_that_cannot_be_read_is_one_line(tb: Tellback, settings: Settings) -> None:
    """The list stayed empty for ever, and the terminal got a traceback. Requirement A-441."""
    key = tb.context.layout.of("s1").key("records", "s1")
    tb.context.database.command("SET", key, "x")
    with terminal(settings, "s1") as seen:
        wait_until(lambda: seen.shows("holds another type"), "the reason is shown")
        assert seen.ends() == 1
    tb.context.database.command("DEL", key)


def test_a_redis_that_is_away_is_one_line() -> None:
    with terminal(Settings(redis_url="redis://127.0.0.1:1"), "s1") as seen:
        assert seen.ends() == 1
