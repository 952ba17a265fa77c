"""Limits of a command by a control group of its own, on a real system; each command bounds itself, too.

`TELLBACK_TEST_CGROUP` names a directory of cgroup v2 that may be used, with memory and pids in its `subtree_control`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tellback.commands.resource_limits import CommandLimits, command_cgroup, sweep_orphaned_cgroups
from tests.support.processes import run_program
from tests.support.waiting import wait_until
from tests.unit.test_limits import DISK_FILLER, FORK_BOMB, MEMORY_HOG, alive, limited

GIVEN = os.environ.get("TELLBACK_TEST_CGROUP", "")
pytestmark = [
    pytest.mark.programs,
    pytest.mark.skipif(not GIVEN, reason="TELLBACK_TEST_CGROUP names no cgroup v2 directory with controllers"),
]
MIB = 1 << 20


@pytest.fixture
def parent() -> Iterator[Path]:
    """A directory for groups, empty before and after."""
    path = Path(GIVEN) / f"test-{uuid.uuid4().hex}"
    path.mkdir()
    (path / "cgroup.subtree_control").write_text("+memory +pids")
    yield path
    assert groups(path) == []
    path.rmdir()


def groups(parent: Path) -> list[str]:
    return sorted(path.name for path in parent.iterdir() if path.is_dir())


def test_the_command_is_in_its_group_before_it_runs(parent: Path) -> None:
    """All that it starts is in it too; the group has the limits, and is gone afterwards."""
    script = """
        import os
        group = "/sys/fs/cgroup" + open("/proc/self/cgroup").read().strip().rpartition("::")[2]
        for name in ("memory.max", "memory.oom.group", "pids.max"):
            print(open(f"{group}/{name}").read().strip(), flush=True)
        os.fork() or print(open("/proc/self/cgroup").read().strip().rpartition("::")[2] in group)
    """
    outcome = limited(script, groups=parent, memory=64 * MIB, processes=8)
    assert (outcome.exit_code, outcome.error) == (0, None)
    assert outcome.stdout.text.split() == [str(64 * MIB), "1", "8", "True"]


def test_a_memory_hog_of_many_processes_is_killed_as_a_whole(parent: Path) -> None:
    tag = uuid.uuid4().hex
    outcome = limited(MEMORY_HOG, tag, groups=parent, memory=100 * MIB)
    assert outcome.exit_code is None
    assert outcome.error == f"killed by this host's policy, rule memory: over {100 * MIB}"
    assert alive(tag) == 0


def test_one_process_that_uses_too_much_is_killed_and_its_record_says_so(parent: Path) -> None:
    """Memory that is reserved and not used does not count."""
    outcome = limited("bytearray(b'x') * (256 << 20)", groups=parent, memory=64 * MIB)
    assert outcome.error == f"killed by this host's policy, rule memory: over {64 * MIB}"
    assert outcome.signal == "SIGKILL"
    reserved = "import mmap; kept = mmap.mmap(-1, 1 << 29); print(len(kept))"
    assert limited(reserved, groups=parent, memory=64 * MIB).exit_code == 0


def test_files_that_are_written_are_no_memory_hog(parent: Path, tmp_path: Path) -> None:
    """The system gives their pages back first."""
    script = "import sys\nfor _ in range(8): open('f', 'wb').write(bytes(32 << 20))"
    assert limited(script, groups=parent, cwd=tmp_path, memory=96 * MIB).error is None


def test_a_fork_bomb_stays_inside(parent: Path) -> None:
    """The system starts no process more; the command is ended, and its record names the rule."""
    tag = uuid.uuid4().hex
    outcome = limited(FORK_BOMB, tag, groups=parent, processes=16)
    assert outcome.exit_code is None
    assert outcome.error == "killed by this host's policy, rule processes: over 16"
    assert alive(tag) == 0


def test_as_many_processes_as_allowed_may_live(parent: Path) -> None:
    outcome = limited("import os, time; [os.fork() for _ in range(2)]; time.sleep(0.3)", groups=parent, processes=4)
    assert (outcome.exit_code, outcome.error) == (0, None)


def test_a_limit_without_a_group_of_its_own_holds_beside_it(parent: Path, tmp_path: Path) -> None:
    """The total written is still checked, which no control group limits."""
    outcome = limited(DISK_FILLER, "f", groups=parent, cwd=tmp_path, written=4 * MIB, processes=64)
    assert outcome.error == f"killed by this host's policy, rule written: over {4 * MIB}"


def test_nothing_outlives_a_timeout(parent: Path) -> None:
    """That includes what left the session, forked twice, ignores TERM, or made a group below the command's."""
    tag = uuid.uuid4().hex
    script = """
        import os, signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        group = "/sys/fs/cgroup" + open("/proc/self/cgroup").read().strip().rpartition("::")[2]
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.mkdir(group + "/own")
                open(group + "/own/cgroup.procs", "w").write("0")
        time.sleep(30)
    """
    outcome = limited(script, tag, groups=parent, timeout=1.0, processes=8)
    assert outcome.error == "timed out after 1 s"
    assert alive(tag) == 0


RUNNER = """
    import sys
    from pathlib import Path
    from tellback.commands.resource_limits import CommandLimits
    from tellback.commands.runner import ExecutionSpec, run
    run(ExecutionSpec(argv=["sleep", sys.argv[2]], cwd="/", env={}, timeout=60, limits=CommandLimits(processes=4),
                  groups=Path(sys.argv[1])))
"""


def start_runner(parent: Path, seconds: str) -> subprocess.Popen[bytes]:
    runner = subprocess.Popen([sys.executable, "-c", textwrap.dedent(RUNNER), str(parent), seconds])
    wait_until(lambda: alive(seconds) == 2, "the command runs")
    return runner


def test_the_command_of_a_killed_runner_ends_and_its_group_is_removed(parent: Path) -> None:
    """The supervisor removes it, or the next worker's sweep if the supervisor did not come to it."""
    runner = start_runner(parent, "31.25")
    runner.kill()
    runner.wait()
    wait_until(lambda: alive("31.25") == 0, "the command has ended")
    sweep_orphaned_cgroups(parent)
    assert groups(parent) == []


def test_what_a_dead_worker_and_its_supervisor_left_is_swept(parent: Path) -> None:
    """Processes in its group end too; the groups of a living worker stay."""
    living = start_runner(parent, "33.25")
    before = groups(parent)
    dead = start_runner(parent, "32.25")
    (left,) = set(groups(parent)) - set(before)
    child = subprocess.Popen(["sleep", "32.5"])  # stands for a process whose supervisor could not kill it any more
    (parent / left / "cgroup.procs").write_text(str(child.pid))
    (parent / "command-other").mkdir()
    (parent / "command-1-1-1-1").mkdir()  # of another process namespace
    for pid in (dead.pid, supervisor_of(dead.pid)):
        os.kill(pid, signal.SIGKILL)
    dead.wait()
    assert sweep_orphaned_cgroups(parent) == 1
    assert child.wait() == -signal.SIGKILL
    assert groups(parent) == sorted(["command-1-1-1-1", "command-other", *before])
    living.terminate()
    living.wait()
    (parent / "command-other").rmdir()
    (parent / "command-1-1-1-1").rmdir()
    wait_until(lambda: alive("33.25") == 0, "the living one's command has ended with it")
    sweep_orphaned_cgroups(parent)


def supervisor_of(pid: int) -> int:
    children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, check=True).stdout
    return int(children.split()[0])


CLAIM = """
    import os, sys
    from pathlib import Path
    from tellback_workers.cgroup_parent import NotDelegated, claim_group, own_group
    try:
        print(claim_group(sys.argv[1]))
    except NotDelegated as reason:
        print(reason)
    print(own_group(Path("/proc")).name)
"""


def test_a_worker_steps_aside_where_the_directory_is_its_own(parent: Path) -> None:
    """A group that shares out controllers must have no process; a second claim finds it ready."""
    own = parent / "service"
    own.mkdir()
    for _ in range(2):
        said = claimed_in(own)
        assert said == [str(own), "tellback-worker"]
    assert {"memory", "pids"} <= set((own / "cgroup.subtree_control").read_text().split())
    with command_cgroup(own, CommandLimits(memory=64 * MIB)) as group:
        assert group is not None
        assert (group / "memory.max").read_text().strip() == str(64 * MIB)
    (own / "tellback-worker").rmdir()
    own.rmdir()


def test_a_worker_leaves_strangers_where_they_are(parent: Path) -> None:
    """If the setting names the directory, it is the worker's to use."""
    own = parent / "session"
    own.mkdir()
    stranger = subprocess.Popen(["sleep", "34"])
    (own / "cgroup.procs").write_text(str(stranger.pid))
    said = claimed_in(own)
    assert said[0] == f"{own} holds processes of others, such as {stranger.pid}, and nothing says it is ours"
    assert said[1] == "session"
    assert claimed_in(own, str(own)) == [str(own), "tellback-worker"]
    stranger.kill()
    stranger.wait()
    (own / "tellback-worker").rmdir()
    own.rmdir()


def claimed_in(group: Path, named: str = "") -> list[str]:
    """Return the claim of a process that runs in `group`, and the group that it is in then."""
    where = group / "tellback-worker" if (group / "tellback-worker").is_dir() else group
    enter = f'echo 0 > {where}/cgroup.procs && exec "$@"'
    argv = ["sh", "-c", enter, "sh", sys.executable, "-c", textwrap.dedent(CLAIM), named]
    return run_program(argv, check=True).stdout.splitlines()
