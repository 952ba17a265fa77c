"""Limits of a command, against commands that want more. Each bounds itself too, in case the limit does not hold."""

from __future__ import annotations

import os
import sys
import textwrap
import uuid
from pathlib import Path

import psutil
import pytest

from tellback.commands.resource_limits import CommandLimits
from tellback.commands.runner import CommandResult, ExecutionSpec, run

pytestmark = [
    pytest.mark.programs,
    pytest.mark.skipif(sys.platform != "linux", reason="looking at a tree of processes needs Linux"),
]
MIB = 1 << 20


def limited(
    script: str,
    *argv: str,
    cwd: Path = Path("/"),
    timeout: float = 30.0,
    groups: Path | None = None,
    **limits: int,
) -> CommandResult:
    """Run a Python script under these limits, in a group below `groups`."""
    command = [sys.executable, "-S", "-c", textwrap.dedent(script), *argv]
    environment = {"PATH": os.environ["PATH"]}
    return run(
        ExecutionSpec(
            argv=command,
            cwd=str(cwd),
            env=environment,
            timeout=timeout,
            grace=0.5,
            limits=CommandLimits(**limits),
            groups=groups,
        )
    )


def alive(tag: str) -> int:
    return sum(tag in (process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"]))


FORK_BOMB = """
    import os, time
    for depth in range(9):  # every process doubles itself: 512 at most
        os.fork()
    time.sleep(15)
"""


def test_a_fork_bomb_stays_inside() -> None:
    """It is stopped before it is killed, so that none of it gets away."""
    tag = uuid.uuid4().hex
    outcome = limited(FORK_BOMB, tag, processes=16)
    assert outcome.exit_code is None
    assert outcome.error == "killed by this host's policy, rule processes: over 16"
    assert alive(tag) == 0


def test_as_many_processes_as_allowed_may_live() -> None:
    """The limit is the most that is allowed, not one less."""
    outcome = limited("import os, time; [os.fork() for _ in range(2)]; time.sleep(0.3)", processes=4)
    assert (outcome.exit_code, outcome.error) == (0, None)


def test_a_process_that_wants_too_much_memory_does_not_get_it() -> None:
    """The program is told by the system, and its record shows what it made of that."""
    outcome = limited("bytearray(256 << 20)", memory=64 * MIB)
    assert outcome.exit_code == 1
    assert outcome.stderr.text.endswith("MemoryError")


MEMORY_HOG = """
    import os, time
    for _ in range(4):
        if os.fork() == 0:
            kept = bytearray(os.urandom(1)) * (40 << 20)
            time.sleep(15)
            os._exit(0)
    time.sleep(15)
"""


def test_a_memory_hog_of_many_processes_stays_inside() -> None:
    """Each process stays below the limit; only their sum exceeds it."""
    tag = uuid.uuid4().hex
    outcome = limited(MEMORY_HOG, tag, memory=100 * MIB)
    assert outcome.exit_code is None
    assert outcome.error == f"killed by this host's policy, rule memory: over {100 * MIB}"
    assert alive(tag) == 0


DISK_FILLER = """
    import sys, time
    for number in range(300):  # in 15 seconds, so that it ends long before on any machine
        with open(f"{sys.argv[1]}-{number}", "wb") as file:
            file.write(bytes(1 << 20))
        time.sleep(0.05)
"""


def test_a_disk_filler_stays_inside(tmp_path: Path) -> None:
    """Many files, each small; some more are written between two looks."""
    outcome = limited(DISK_FILLER, "f", cwd=tmp_path, written=4 * MIB)
    assert outcome.error == f"killed by this host's policy, rule written: over {4 * MIB}"
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 200 * MIB


def test_what_children_wrote_counts_when_they_are_gone(tmp_path: Path) -> None:
    """Each child writes little and ends."""
    script = """
        import os, sys, time
        for number in range(100):
            if os.fork() == 0:
                open(f"{sys.argv[1]}-{number}", "wb").write(bytes(1 << 20))
                os._exit(0)
            os.wait()
            time.sleep(0.1)
    """
    outcome = limited(script, "f", cwd=tmp_path, written=4 * MIB)
    assert outcome.error == f"killed by this host's policy, rule written: over {4 * MIB}"
    assert len(list(tmp_path.iterdir())) < 90


def test_a_file_has_a_largest_size(tmp_path: Path) -> None:
    """The system refuses to make it longer."""
    outcome = limited("open('f', 'wb').write(bytes(8 << 20))", cwd=tmp_path, file=MIB)
    assert outcome.error is None
    assert outcome.exit_code != 0
    assert (tmp_path / "f").stat().st_size <= MIB


def test_processor_time_is_limited() -> None:
    """A busy loop is ended by the system's signal."""
    outcome = limited("import time; end = time.monotonic() + 15\nwhile time.monotonic() < end: pass", cpu=1)
    assert outcome.signal in {"SIGXCPU", "SIGKILL"}
    assert outcome.exit_code is not None
    assert outcome.exit_code < 0


def test_output_is_limited() -> None:
    """A command that prints for ever is ended; what it printed is shown as always."""
    outcome = limited("for _ in range(10_000_000): print('x' * 60)", output=MIB)
    assert outcome.exit_code is None
    assert outcome.error == f"killed by this host's policy, rule output: over {MIB}"
    assert outcome.stdout.text.startswith("x" * 60)
    assert outcome.stdout.size < 16 * MIB


def test_a_limit_binds_its_own_command_alone(tmp_path: Path) -> None:
    """The next command of the same supervisor has its own, counted from zero."""
    assert limited(DISK_FILLER, "f", cwd=tmp_path, written=4 * MIB).error is not None
    assert limited("open('g', 'wb').write(bytes(1 << 20))", cwd=tmp_path, written=4 * MIB).exit_code == 0
    assert limited(FORK_BOMB, processes=4).error is not None
    assert limited("import os; [os.fork() for _ in range(3)]").exit_code == 0


def test_a_program_that_needs_little_starts_under_the_least_limit() -> None:
    """The limit is set in a copy of this host's own process, which is larger than that."""
    execution = ExecutionSpec(
        argv=["true"], cwd="/", env={}, timeout=5.0, limits=CommandLimits(memory=8 * MIB, cpu=1, file=1)
    )
    assert (run(execution).exit_code, run(execution).error) == (0, None)


def test_a_limited_command_that_times_out_leaves_nothing_alive() -> None:
    """The end by time and the looks at what it uses do not disturb each other."""
    tag = uuid.uuid4().hex
    script = "import os, signal, time; os.fork(); signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(15)"
    outcome = limited(script, tag, timeout=0.5, processes=8)
    assert outcome.error == "timed out after 0.5 s"
    assert alive(tag) == 0
