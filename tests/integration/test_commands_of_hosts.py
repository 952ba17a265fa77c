"""Commands of a named host, what its policy lets it run, and commands for a host that nobody serves."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import tellback
from tellback import Tellback
from tellback.broker import KEY_PREFIX
from tellback.settings import Settings
from tellback.state.database import Database
from tellback_workers.wakeups import MAX_WAKEUPS
from tests.support.commands import brisk, job_state
from tests.support.privacy import without_powers
from tests.support.processes import run_program
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers, environment


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Sweeps that run often, and killed commands that end soon."""
    return brisk(settings)


@pytest.mark.usefixtures("workers")
def test_a_hosts_commands_run_on_that_host(tb: Tellback, start_workers: StartWorkers, tmp_path: Path) -> None:
    """`host` is served by that host's own workers."""
    start_workers(env={"TELLBACK_HOST": "beta", "TELLBACK_COMMAND_ROOTS": str(tmp_path)})
    jobs = [tb.submit(["true"], session=f"s{n}", host=host) for n in range(4) for host in ("alpha", "beta")]
    assert [job.wait(timeout=60).host for job in jobs] == ["alpha", "beta"] * 4


# Prints for each process between the command and the worker, which leads its group, whether its environment is open.
SPY = """
p=$PPID
while :; do
  if cat /proc/$p/environ > /dev/null 2>&1; then echo open; else echo closed; fi
  tr '\\0' ' ' < /proc/$p/cmdline | grep -q ' worker ' && workers=$((workers + 1))
  [ "$workers" = 2 ] && exit
  p=$(sed 's/.*) . //' /proc/$p/stat | cut -d' ' -f1)
done
"""


def test_a_hosts_policy_refuses_and_limits(tb: Tellback, start_workers: StartWorkers, tmp_path: Path) -> None:
    """Both are records that name the rule; what the policy allows runs."""
    file = tmp_path / "policy.toml"
    file.write_text(f'directories = ["{tmp_path}"]\nprograms = ["sh"]\ntimeout = 20\n[limits]\noutput = 1000\n')
    start_workers(env={"TELLBACK_COMMAND_POLICY": str(file)}, prefix=without_powers())
    scripts = ["echo fine", "while :; do echo flood; done", SPY]
    jobs = [tb.submit(["true"], session="s1"), *(tb.submit(["sh", "-c", script], session="s1") for script in scripts)]
    refused, fine, flood, spy = (job.wait(timeout=60) for job in jobs)
    reason = "refused by this host's policy, rule programs: true is not among the programs that commands may run here"
    assert (refused.exit_code, refused.error, refused.host) == (None, reason, "alpha")
    assert (fine.exit_code, fine.stdout_tail) == (0, "fine")
    assert (flood.exit_code, flood.error) == (None, "killed by this host's policy, rule output: over 1000")
    ancestors = spy.stdout_tail.splitlines()
    assert len(ancestors) == 4, "supervisor, guardian, pool process and worker"
    assert set(ancestors) == {"closed"}


def test_a_worker_whose_policy_is_wrong_does_not_start(settings: Settings, tmp_path: Path) -> None:
    """Such a worker would not know which commands to refuse."""
    file = tmp_path / "policy.toml"
    file.write_text('program = ["sh"]')
    env = environment(settings, {"TELLBACK_COMMAND_POLICY": str(file)})
    argv = [sys.executable, "-m", "celery", "-A", "tellback_workers.app", "worker", "-n", "wrong@test"]
    worker = run_program(argv, env=env)
    assert worker.returncode != 0
    wrong = f"tellback: TELLBACK_COMMAND_POLICY: {file}: Object contains unknown field `program`"
    assert wrong in worker.stderr.splitlines()


@pytest.mark.slow
@pytest.mark.usefixtures("beat")
def test_an_unknown_host_is_a_clear_answer(
    tb: Tellback, start_workers: StartWorkers, database: Database, tmp_path: Path
) -> None:
    """Nobody serves it, so a record says so, and its wake-ups go; those of a host that is served run."""
    start_workers(env={"TELLBACK_HOST_WAIT": "1", "TELLBACK_COMMAND_ROOTS": str(tmp_path)})
    jobs = [tb.submit(["true"], session=f"s{n}", host="nobody", on_lost="retry") for n in range(3)]
    here = tb.submit(["true"], session="s1", host="alpha")
    for job in jobs:
        record = job.wait(timeout=60)
        assert (record.exit_code, record.may_advance, record.started_at, record.host) == (None, False, None, None)
        assert record.error == "never started: no worker of host nobody has been at work for 1 s"
    assert here.wait(timeout=60).exit_code == 0
    assert not tb.gate("s0").passed
    wait_until(lambda: not database.command("EXISTS", f"{KEY_PREFIX}commands.nobody"), "its queue is emptied")


@pytest.mark.slow
@pytest.mark.usefixtures("beat", "workers")
def test_wake_ups_for_an_absent_host_do_not_pile_up(tb: Tellback, database: Database) -> None:
    """The sweep repeats lost wake-ups, and adds none to those that nobody takes."""
    job = tb.submit(["true"], session="s1", host="nobody")
    queue, wakeup = f"{KEY_PREFIX}commands.nobody", tb.context.layout.of("s1").key("jobwakeup", "nobody")
    wait_until(lambda: database.command("LLEN", queue) == 1, "its own wake-up stands in the queue")
    database.command("DEL", queue)
    wait_until(lambda: database.command("LLEN", queue) == 1, "the lost wake-up is repeated")
    for _ in range(8):
        database.command("DEL", wakeup)
        wait_until(lambda: database.command("EXISTS", wakeup), "swept again")
    assert database.command("LLEN", queue) <= 4
    assert job.cancel()


@pytest.mark.usefixtures("workers")
def test_many_commands_for_an_absent_host_leave_few_wake_ups(tb: Tellback, database: Database) -> None:
    """Nobody takes them: as many as could be of use at once stay, and not one for each command."""
    jobs: list[tellback.Job] = []
    for n in range(100):  # one by one: of those that are applied together, few are woken anyway
        jobs.append(tb.submit(["true"], session=f"s{n % 3}", host="nobody"))
        wait_until(lambda: job_state(tb, jobs[-1]) == b"queued", "it is queued")
    assert (
        1 <= database.command("LLEN", f"{KEY_PREFIX}commands.nobody") <= MAX_WAKEUPS + 1
    )  # two processes apply at a time
    for job in jobs:
        assert job.cancel()
