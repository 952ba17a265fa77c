"""Supervisors that runners keep or have closed, and the end of what an earlier attempt of a command left alive."""

from __future__ import annotations

import gc
import os
import subprocess
import sys

import psutil
import pytest

from tellback.commands.supervision import borrow_supervisor, close_idle
from tellback.commands.survivors import MARK, end_survivors
from tests.support.commands import alive
from tests.support.waiting import wait_until


@pytest.mark.programs
def test_a_supervisor_that_exits_late_is_waited_for_when_the_next_command_begins() -> None:
    """On a busy machine it takes longer than the second for which its runner waits: a zombie stayed, and a warning."""
    with borrow_supervisor() as supervisor:
        process = psutil.Process(supervisor._process.pid)
    process.suspend()
    close_idle()
    del supervisor
    gc.collect()  # a process that nobody waits for is a warning, and so an error
    process.resume()
    wait_until(lambda: process.status() == psutil.STATUS_ZOMBIE, "it has exited")
    with borrow_supervisor():
        pass
    assert not psutil.pid_exists(process.pid)


STARTED = """
import json, socket, time
from tellback.commands.supervisor import CommandSupervisor, OwnWrites
from tellback.commands.supervision import _HEADER

runner, theirs = socket.socketpair()
supervisor = CommandSupervisor(theirs, OwnWrites())
out, err = socket.socketpair()

def send(message, descriptors=()):
    body = json.dumps(message).encode()
    socket.send_fds(runner, [_HEADER.pack(len(body)) + body], descriptors)
    supervisor._handle_request()

order = {"op": "start", "argv": ["sleep", "60"], "cwd": "/", "env": {}, "limits": {}, "real_cwd": False}
ends = [out.fileno(), err.fileno()]
send(order | {"executable": None, "start_until": None, "alive_until": 0.0, "exclusive": False}, ends)
"""

REAPED = """
while supervisor.group:
    supervisor._tick()
print(runner.recv(4096).decode("latin-1"))
"""

RENEWED_TOO_LATE = """
supervisor._tick()
send({"op": "alive", "until": time.monotonic() + 1e6})
"""

STOPPED_TOO_LATE = """
supervisor._signal = lambda number: None  # it has not died yet
supervisor._tick()
send({"op": "stop", "grace": 0.0})
supervisor._tick()
del supervisor._signal
"""

ANOTHER_STARTED = """
ends = [out.fileno(), err.fileno()]
order |= {"argv": ["true"], "executable": None, "start_until": None, "alive_until": 1e18, "exclusive": False}
send(order, ends)
"""

LEASE_ENDS_AFTER_THE_KILL = """
supervisor.alive_until, supervisor.kill_at = time.monotonic() + 1e6, 0.0
supervisor._signal = lambda number: None  # it has not died yet
supervisor._tick()
supervisor.alive_until = 0.0
supervisor._tick()
del supervisor._signal
"""


@pytest.mark.skipif(sys.platform != "linux", reason="its supervisor adopts orphans")
@pytest.mark.programs
@pytest.mark.parametrize(
    ("late", "overdue"), [(RENEWED_TOO_LATE, "true"), (STOPPED_TOO_LATE, "true"), (LEASE_ENDS_AFTER_THE_KILL, "false")]
)
def test_what_comes_between_a_kill_and_the_end_does_not_change_its_reason(late: str, overdue: str) -> None:
    """The lease was named, or not, by the time of the end: a kill had no error, and one for a limit was retried."""
    printed = subprocess.check_output([sys.executable, "-c", STARTED + late + REAPED], text=True)
    assert '"status": -9' in printed
    assert f'"overdue": {overdue}' in printed


@pytest.mark.skipif(sys.platform != "linux", reason="its supervisor adopts orphans")
@pytest.mark.programs
def test_the_command_after_one_that_its_lease_ended_is_not_overdue() -> None:
    printed = subprocess.check_output([sys.executable, "-c", STARTED + REAPED + ANOTHER_STARTED + REAPED], text=True)
    assert '"overdue": true' in printed
    assert printed.count('"overdue": false') == 1


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
@pytest.mark.programs
def test_only_what_carries_the_mark_is_ended() -> None:
    """A grandchild that leads a session of its own is ended too; a mark that begins alike is another."""
    ours, others = f"51.{os.getpid()}", f"52.{os.getpid()}"
    script = "setsid sleep $0 & sleep $0"
    left = [
        subprocess.Popen(["sh", "-c", script, tag], env={**os.environ, MARK: mark})
        for tag, mark in ((ours, "team/c1"), (others, "team/c12"))
    ]
    wait_until(lambda: len(alive(ours)) == len(alive(others)) == 3, "all run")
    try:
        assert end_survivors("team/c1") >= 3
        assert not alive(ours)
        assert len(alive(others)) == 3
        assert end_survivors("team/c1") == 0
    finally:
        end_survivors("team/c12")
        for process in left:
            process.wait()
