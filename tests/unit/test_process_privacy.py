"""Commands can read nothing of the processes that run them. Real processes of one user."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from tests.support.privacy import without_powers
from tests.support.processes import run_program
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.programs,
    pytest.mark.skipif(sys.platform != "linux", reason="other systems have no /proc"),
]

RUNNER = """
    import os, sys
    from tellback.commands.runner import ExecutionSpec, run
    from tellback.process_privacy import forbid_dumps
    {forbid}
    spy = '''
    import os, sys
    pid = os.getppid()
    while pid > 1:
        for file in ("environ", "maps", "io"):
            try:
                text = open(f"/proc/{{pid}}/{{file}}").read()
                print(file, "SECRET" if "pw-of-redis" in text else "read")
            except OSError as error:
                print(file, error.strerror)
        if pid == int(sys.argv[1]):
            break
        pid = int(open(f"/proc/{{pid}}/stat").read().rpartition(")")[2].split()[1])
    print("own", "MINE" in open("/proc/self/environ").read())
    '''
    import textwrap
    argv = [sys.executable, "-S", "-c", textwrap.dedent(spy), str(os.getpid())]
    print(run(ExecutionSpec(argv=argv, cwd="/", env={{"MINE": "MINE"}}, timeout=10)).stdout.text)
"""


def _seen(forbid: str) -> list[str]:
    script = textwrap.dedent(RUNNER.format(forbid=forbid))
    env = {**os.environ, "TELLBACK_REDIS_URL": "redis://:pw-of-redis@localhost"}
    done = run_program([*without_powers(), sys.executable, "-c", script], env=env, check=True)
    return done.stdout.splitlines()


def test_a_command_reads_nothing_of_those_who_run_it() -> None:
    """Neither supervisor, guardian nor runner shows environment or memory; the command itself is open again."""
    *of_others, own = _seen("forbid_dumps()")
    assert len(of_others) == 9, "three files of three processes"
    assert set(of_others) <= {"environ Permission denied", "maps Permission denied", "io Permission denied"}
    assert own == "own True"


def test_a_runner_that_does_not_forbid_it_is_read() -> None:
    """The test above therefore proves something; the supervisor and its guardian are closed all the same."""
    seen = _seen("")
    assert seen[:6] == ["environ Permission denied", "maps Permission denied", "io Permission denied"] * 2
    assert seen[6] == "environ SECRET"


@pytest.mark.parametrize("arguments", [["hook", "post-tool-use"], ["redact"]], ids=["a hook", "a command of ours"])
def test_what_has_a_login_cannot_be_read(arguments: list[str]) -> None:
    """Its environment has the password of Redis, until it begins to read its input."""
    env = {**os.environ, "TELLBACK_REDIS_URL": "redis://:pw-of-redis@localhost"}
    command = [sys.executable, "-c", "from tellback.cli.entry import main; main()", *arguments]
    with subprocess.Popen([*without_powers(), *command], stdin=subprocess.PIPE, env=env) as hook:
        spy = [*without_powers(), "cat", f"/proc/{hook.pid}/environ"]

        def refused() -> bool:
            return subprocess.run(spy, capture_output=True, check=False).returncode != 0

        wait_until(refused, "the hook is closed")
        assert hook.poll() is None
        assert hook.stdin is not None
        hook.stdin.close()
