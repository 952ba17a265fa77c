"""The runner: one command from start to end, on this machine, with real processes."""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from tellback import clock
from tellback.commands import runner, supervision
from tellback.commands.control import CommandControl
from tellback.commands.follow import FollowTap
from tellback.commands.runner import NOT_STARTED, OVERDUE, CommandResult, ExecutionSpec, run
from tellback.commands.supervision import SupervisorProcess
from tellback.commands.truncation import StreamTruncator
from tellback.redaction import Redactor
from tests.support.commands import alive
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.programs,
    pytest.mark.skipif(sys.platform != "linux", reason="adopting and finding orphans needs Linux"),
]


def execute(
    *argv: str, control: CommandControl | None = None, redactor: Redactor | None = None, **options: Any
) -> CommandResult:
    """Run a command with short limits."""
    given: dict[str, Any] = {"cwd": "/", "env": dict(os.environ), "timeout": 10.0, "grace": 0.5} | options
    return run(ExecutionSpec(argv=argv, **given), control=control, redactor=redactor)


def test_a_command_sees_the_end_of_its_input() -> None:
    """Nothing can be read, and there is no terminal."""
    outcome = execute("sh", "-c", "cat; test -t 0 || echo no terminal; (: < /dev/tty) 2>/dev/null || echo really none")
    assert (outcome.exit_code, outcome.stdout.text) == (0, "no terminal\nreally none")


def test_a_command_leads_its_own_group_and_session() -> None:
    """Signals to the runner's group do not reach it."""
    script = "import os; print(os.getpgid(0) == os.getpid() == os.getsid(0), os.getsid(0))"
    own, session = execute(sys.executable, "-c", script).stdout.text.split()
    assert own == "True"
    assert int(session) != os.getsid(0)


def test_a_signal_without_a_name_of_its_own_ends_a_command_as_others_do() -> None:
    """Of the real-time signals the system names the first and the last; for the others the run raised ValueError."""
    outcome = execute("sh", "-c", "kill -40 $$")
    assert (outcome.exit_code, outcome.signal, outcome.error) == (-40, "SIGRTMIN+6", None)


def test_signals_are_not_inherited_as_ignored() -> None:
    """A command starts with the default handling of signals, whatever the runner's is."""
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        outcome = execute("sh", "-c", "kill -TERM $$; echo survived")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (outcome.exit_code, outcome.signal, outcome.error) == (-15, "SIGTERM", None)


def test_a_death_by_signal_is_reported_by_name() -> None:
    """The exit code is negative, the signal has its name, and nothing is an error of the runner's."""
    outcome = execute("sh", "-c", "kill -SEGV $$")
    assert (outcome.exit_code, outcome.signal, outcome.error) == (-11, "SIGSEGV", None)


def test_no_descriptor_of_the_runner_reaches_the_command(tmp_path: Path) -> None:
    """Only the three standard ones are open."""
    with (tmp_path / "secret").open("w") as secret:
        os.set_inheritable(secret.fileno(), True)  # noqa: FBT003 - its signature
        outcome = execute(sys.executable, "-c", "import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:4])")
    assert outcome.stdout.text in ("[0, 1, 2, 3]", "[0, 1, 2]"), "3 is the listing itself"


@pytest.mark.parametrize("argv", [[], ["a\0b"], [""], ["x", "a\0b"]])
def test_what_cannot_be_an_argv_is_an_error(argv: list[str]) -> None:
    """An empty argv, an empty program or a NUL byte is a null exit that says which."""
    outcome = execute(*argv)
    assert outcome.exit_code is None
    assert outcome.error is not None
    assert outcome.started_at is None


def test_an_argument_over_the_systems_limit_is_an_error() -> None:
    """The kernel's refusal becomes the error."""
    assert execute("echo", "x" * 200_000).error == "argument list too long for this system"


def test_a_host_without_descriptors_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal of the system to the runner itself is an outcome too, and the next command runs."""

    def exhausted() -> tuple[int, int]:
        raise OSError(24, "Too many open files")

    for idle in (0, 1):  # without an idle supervisor one cannot be started; the idle one of the last command can
        if not idle:
            supervision.close_idle()
        with monkeypatch.context() as patch:
            patch.setattr(os, "pipe", exhausted)
            outcome = execute("true")
        gc.collect()  # an end of a socket that was not closed is a warning, and so an error
        assert (outcome.exit_code, outcome.started_at) == (None, None)
        assert outcome.error == "could not be run on this host: [Errno 24] Too many open files"
        assert execute("true").exit_code == 0


def test_a_timeout_may_be_as_long_as_one_likes() -> None:
    """No number of seconds is too large for the system's call."""
    assert execute("true", timeout=float("inf")).exit_code == 0
    assert execute("true", timeout=1e12).exit_code == 0


def test_a_timeout_keeps_what_was_printed() -> None:
    """The output until then stands in the outcome; the exit is null."""
    outcome = execute("sh", "-c", "echo before; echo problem >&2; sleep 30", timeout=1)
    assert (outcome.exit_code, outcome.error, outcome.signal) == (None, "timed out after 1 s", "SIGTERM")
    assert (outcome.stdout.text, outcome.stderr.text) == ("before", "problem")
    assert 990 <= outcome.duration_ms < 30_000, "the command would have taken half a minute"


def test_a_command_that_ended_in_time_did_not_time_out_however_long_its_output_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a million short lines took eight seconds on busy cores, and a command of 34 ms "timed out after 5 s"."""
    go, end = tmp_path / "go", tmp_path / "end"
    os.mkfifo(go)
    os.mkfifo(end)
    borrowed: list[SupervisorProcess] = []

    @contextmanager
    def borrow() -> Generator[SupervisorProcess]:
        with supervision.borrow_supervisor() as supervisor:
            borrowed.append(supervisor)
            yield supervisor

    def begin() -> datetime:
        go.write_text("go")  # once the runner knows that the command has begun
        return clock.utc_now()

    class SlowTap(FollowTap):
        def take_chunk(self, number: int, chunk: bytes, stream: StreamTruncator) -> None:
            del number, chunk, stream
            end.write_text("end\n")  # not before: the runner may hear of the end first
            peek = partial(borrowed[0].socket.recv, 1_000, socket.MSG_PEEK)
            wait_until(lambda: b"status" in peek(), "the command has ended")
            after = clock.monotonic() + 60
            monkeypatch.setattr(clock, "monotonic", lambda: after)

    monkeypatch.setattr(runner, "borrow_supervisor", borrow)
    spec = ExecutionSpec(
        argv=["sh", "-c", f"read go < {go}; echo done; read end < {end}"], cwd="/", env=os.environ, timeout=30.0
    )
    outcome = run(spec, now=begin, tap=SlowTap(Redactor()))
    assert (outcome.exit_code, outcome.error, outcome.stdout.text) == (0, None, "done")


def test_a_command_that_ignores_term_is_killed_after_the_grace() -> None:
    """KILL follows, and a command that cleans up within the grace may do so."""
    start = time.monotonic()
    outcome = execute("sh", "-c", "trap '' TERM; while :; do sleep 0.05; done", timeout=1, grace=0.4)
    assert outcome.signal == "SIGKILL"
    assert time.monotonic() - start >= 1.4
    outcome = execute("sh", "-c", "trap 'echo cleaned; exit 0' TERM; while :; do sleep 0.05; done", timeout=1)
    assert (outcome.stdout.text, outcome.exit_code, outcome.error) == ("cleaned", None, "timed out after 1 s")


def test_nothing_of_a_timed_out_command_is_alive() -> None:
    """That includes what is in its group, behind setsid, forked twice, or ignores TERM."""
    tag = f"41.{os.getpid()}"
    script = (
        f"trap '' TERM; sleep {tag} & setsid sleep {tag} & (setsid sh -c 'sleep {tag} & sleep {tag}' &); sleep {tag}"
    )
    outcome = execute("sh", "-c", script, timeout=0.4, grace=0.3)
    assert outcome.error == "timed out after 0.4 s"
    assert not alive(tag)


def test_a_background_child_does_not_hold_the_record() -> None:
    """It has the grace to finish its output, and is dead when the record is there."""
    tag = f"42.{os.getpid()}"
    outcome = execute("sh", "-c", f"(while kill -0 $$; do sleep 0.01; done 2>&-; echo late; sleep {tag}) & echo done")
    assert outcome.duration_ms < 42_000, "the child would have held it for so long"
    assert (outcome.exit_code, outcome.stdout.text) == (0, "done\nlate")
    assert not alive(tag)


def test_a_daemon_that_closed_its_output_is_ended_too() -> None:
    """Processes that a command leaves behind without holding its pipes do not stay either."""
    tag = f"43.{os.getpid()}"
    outcome = execute("sh", "-c", f"setsid sleep {tag} >/dev/null 2>&1 </dev/null & echo done")
    assert outcome.exit_code == 0
    assert not alive(tag)


def test_a_command_that_closes_its_output_is_waited_for() -> None:
    """The end of the streams is not the end of the command."""
    outcome = execute("sh", "-c", "exec >&- 2>&-; sleep 0.3; exit 7")
    assert outcome.exit_code == 7
    assert outcome.duration_ms >= 290


def test_a_stop_from_another_thread_ends_the_command() -> None:
    """The reason becomes the error."""
    control = CommandControl()
    threading.Timer(0.3, lambda: control.request_stop("because")).start()
    outcome = execute("sleep", "30", control=control)
    assert (outcome.exit_code, outcome.error, outcome.signal) == (None, "because", "SIGTERM")
    control.close()


def test_a_lease_that_is_not_renewed_kills_the_command() -> None:
    """The supervisor acts by itself, since the runner's process may hang; renewals keep the command alive."""
    outcome = execute("sleep", "30", alive_until=clock.since_boot() + 0.5)
    assert (outcome.exit_code, outcome.error) == (None, "killed: its lease was not renewed")
    following = execute("sh", "-c", "kill -9 $$")  # by the same supervisor
    assert (following.exit_code, following.error) == (-9, None)
    control = CommandControl()
    control.lease_renewed(clock.since_boot() + 600)
    assert execute("sleep", "2.2", alive_until=clock.since_boot() + 2, control=control).exit_code == 0
    control.close()


def test_an_order_that_comes_after_its_time_starts_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The runner stands still between its last look at the lease and the order; the next command starts as usual."""
    start_until = clock.since_boot() + 0.2

    def stand_still(supervisor: SupervisorProcess, message: dict[str, object], ends: Sequence[int] = ()) -> None:
        wait_until(lambda: clock.since_boot() >= start_until, "the time is over")
        send(supervisor, message, ends)

    send = SupervisorProcess.send
    with monkeypatch.context() as patch:
        patch.setattr(SupervisorProcess, "send", stand_still)
        outcome = execute("touch", str(tmp_path / "ran"), start_until=start_until, alive_until=start_until + 60)
    assert (outcome.error, outcome.exit_code, outcome.started_at) == (NOT_STARTED, None, None)
    assert not (tmp_path / "ran").exists()
    assert execute("true", start_until=clock.since_boot() + 60).exit_code == 0


def test_a_renewal_that_is_passed_on_late_gives_no_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command is killed at the time that the renewal named, however late the supervisor hears of it."""
    until = clock.since_boot() + 0.5

    def stand_still(supervisor: SupervisorProcess, message: dict[str, object], ends: Sequence[int] = ()) -> None:
        if message["op"] == "alive":
            wait_until(lambda: clock.since_boot() >= until, "the time is over")
        send(supervisor, message, ends)

    send = SupervisorProcess.send
    monkeypatch.setattr(SupervisorProcess, "send", stand_still)
    control = CommandControl()
    control.lease_renewed(until)
    outcome = execute("sleep", "5", alive_until=until - 0.1, control=control)
    assert outcome.error == OVERDUE
    control.close()


def test_two_streams_stay_apart_and_lose_nothing() -> None:
    """Megabytes on both, interleaved, are counted to the byte."""
    script = "import sys\nfor i in range(20000):\n print('o' * 50)\n print('e' * 50, file=sys.stderr)"
    outcome = execute(sys.executable, "-c", script, timeout=60)
    assert (outcome.stdout.size, outcome.stderr.size) == (20000 * 51, 20000 * 51)
    assert outcome.stdout.text.count("truncated 19965 lines") == 1
    assert "e" * 50 not in outcome.stdout.text


def supervisor_of(tag: str) -> psutil.Process:
    """The parent of the one process with this tag that leads a session: of the command itself."""
    found: list[psutil.Process] = []

    def find_session() -> bool:
        pids = alive(tag)
        found[:] = [psutil.Process(pid) for pid in pids if os.getsid(pid) == pid][:1]
        return len(pids) == PROCESSES and bool(found)

    wait_until(find_session, "the command runs")
    parents = found[0].parents()
    return parents[0]


def guardian_of(tag: str) -> psutil.Process:
    """The parent of the command's supervisor."""
    return supervisor_of(tag).parents()[0]


# The shell itself, a child in its group, and one that has left it.
LEAVES = "setsid sleep $TAG & sleep $TAG & : $TAG; wait"
PROCESSES = 3


@pytest.mark.faults
@pytest.mark.parametrize("victim", [supervisor_of, guardian_of])
def test_a_dead_supervisor_is_an_outcome(victim: Callable[[str], psutil.Process]) -> None:
    """All that it started dies with it or with its guardian, and the record says that nothing is known."""
    tag = f"44.{os.getpid()}"
    supervision.close_idle()
    killer = threading.Thread(target=lambda: victim(tag).kill())
    killer.start()
    outcome = execute("sh", "-c", LEAVES.replace("$TAG", tag))
    killer.join()
    assert outcome.exit_code is None
    assert outcome.error == "the process that watched the command died"
    wait_until(lambda: not alive(tag), "everything is dead")
    assert execute("echo", "next").stdout.text == "next"


@pytest.fixture
def runner_of() -> Iterator[Callable[[str], subprocess.Popen[bytes]]]:
    """Starts a process that runs a command with this tag."""
    started: list[subprocess.Popen[bytes]] = []

    def start(tag: str) -> subprocess.Popen[bytes]:
        script = (
            "import os; from tellback.commands.runner import *; "
            "run(ExecutionSpec(argv=['sh', '-c', os.environ['LEAVES']], cwd='/', env=dict(os.environ), timeout=60))"
        )
        environ = {**os.environ, "LEAVES": LEAVES.replace("$TAG", tag)}
        started.append(subprocess.Popen([sys.executable, "-c", script], env=environ))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.faults
@pytest.mark.parametrize("victim", [supervisor_of, guardian_of])
def test_a_command_dies_with_two_of_those_who_watch_it(
    victim: Callable[[str], psutil.Process], runner_of: Callable[[str], subprocess.Popen[bytes]]
) -> None:
    """SIGKILL of the runner and, at once, of the supervisor or its guardian: the third ends everything."""
    tag = f"46.{os.getpid()}"
    runner = runner_of(tag)
    other = victim(tag)
    runner.send_signal(signal.SIGSTOP)
    other.kill()
    runner.kill()
    runner.wait()
    wait_until(lambda: not alive(tag), "everything is dead")


@pytest.mark.faults
def test_a_supervisor_that_hangs_is_ended_with_its_runner(
    runner_of: Callable[[str], subprocess.Popen[bytes]],
) -> None:
    """It cannot see that the runner is gone; its guardian does."""
    tag = f"47.{os.getpid()}"
    runner = runner_of(tag)
    supervisor = supervisor_of(tag)
    supervisor.suspend()
    runner.kill()
    runner.wait()
    wait_until(lambda: not alive(tag), "everything is dead")
    wait_until(lambda: not supervisor.is_running(), "the supervisor is gone too")


@pytest.mark.faults
def test_a_killed_runner_leaves_nothing_alive() -> None:
    """SIGKILL of the process that runs a command: the supervisor ends everything that the command started."""
    tag = f"45.{os.getpid()}"
    script = (
        "import os; from tellback.commands.runner import *; "
        "run(ExecutionSpec(argv=['sh', '-c', 'setsid sleep $TAG & sleep $TAG'], cwd='/', env=dict(os.environ), "
        "timeout=60))"
    )
    runner = subprocess.Popen([sys.executable, "-c", script], env={**os.environ, "TAG": tag})
    wait_until(lambda: len(alive(tag)) == 2, "the command runs")
    runner.kill()
    runner.wait()
    wait_until(lambda: not alive(tag), "everything is dead")


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # Python 3.12 warns of forks beside threads
def test_a_forked_child_starts_a_supervisor_of_its_own() -> None:
    """The parent's supervisor is not shared across a fork, and both processes continue running commands."""
    assert execute("true").exit_code == 0
    pid = os.fork()
    if pid == 0:
        os._exit(0 if execute("echo", "child").stdout.text == "child" else 1)
    assert execute("echo", "parent").stdout.text == "parent"
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
