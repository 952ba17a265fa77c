"""Commands whose worker cannot renew its lease for a while: a short absence costs none, a long one what was asked for.

Leases are shorter than the default, and an absence is longer than a lease. They are not as short as in other tests: a
worker has three tenths of one to renew it after an absence, which must suffice on a busy machine.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import psutil
import pytest

from tellback import Tellback
from tellback.client.commands import Job
from tellback.commands.runner import NOT_STARTED, OVERDUE
from tellback.contracts.commands import OnLost
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.records import Records
from tellback_workers.lease_heartbeat import DECLARED_LOST, NOT_RENEWED
from tests.support.busy_server import kept_busy
from tests.support.commands import brisk
from tests.support.link import Link
from tests.support.processes import tree_of
from tests.support.redis_server import RedisServer
from tests.support.standing_still import STOPPED
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers, Workers

LEASE = 4.0  # seconds
AWAY = 1.5 * LEASE
HANGS = 300.0  # seconds for a command that ends by itself or is ended: the usual 30 went by on a busy machine
# Writes "process id, nanoseconds" until a file says that it is enough.
BEATS = 'while [ ! -e enough ]; do echo "$$ $(date +%s%N)" >> beats; sleep 0.05; done; echo done'
# The first attempt continues for ever; a later one ends soon.
ATTEMPTS = f"if [ -e beats ]; then (sleep 0.5; touch enough) & fi; {BEATS}"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Short leases, and a wait that outlasts an absence."""
    return msgspec.structs.replace(brisk(settings), job_lease=LEASE, command_redis_wait=AWAY)


@pytest.fixture
def workers(start_workers: StartWorkers, tmp_path: Path) -> Workers:
    """One worker that may run commands below the test's folder."""
    return start_workers(env={"TELLBACK_COMMAND_ROOTS": str(tmp_path)}, concurrency=3)


@pytest.fixture
def patient(start_workers: StartWorkers, tmp_path: Path) -> Workers:
    """A worker whose wait outlasts any absence, however late the test ends it."""
    env = {"TELLBACK_COMMAND_ROOTS": str(tmp_path), "TELLBACK_COMMAND_REDIS_WAIT": "60"}
    return start_workers(env=env, concurrency=3)


def beats(folder: Path) -> dict[int, list[int]]:
    """Return the times at which each process wrote, in nanoseconds, in the order of their beginnings."""
    found: dict[int, list[int]] = {}
    path = folder / "beats"
    for line in path.read_text().splitlines() if path.exists() else ():
        pid, _, at = line.partition(" ")
        found.setdefault(int(pid), []).append(int(at))
    return found


def pass_time(seconds: float) -> None:
    """Let an absence last."""
    end = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= end, "the absence has lasted", timeout=seconds + 5)


def runs_tellback(process: psutil.Process) -> bool:
    """Find out if a process is ours: not the command, nor a `sleep` of its shell, which may end meanwhile."""
    try:
        return "tellback" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False


def hang(server: RedisServer, _: Database) -> None:
    """Stop the server with SIGSTOP, and resume it."""
    server.suspend()
    pass_time(AWAY)
    server.resume()


def suspend_clients(_: RedisServer, database: Database) -> None:
    """Pause all clients by `CLIENT PAUSE`: the server lives and answers nobody."""
    database.command("CLIENT", "PAUSE", round(AWAY * 1000), "ALL")
    pass_time(AWAY)


def crash(server: RedisServer, _: Database) -> None:
    """Kill the server with SIGKILL, and start a new process with the same data."""
    server.kill()
    pass_time(AWAY)
    server.launch()


def demote(_: RedisServer, database: Database) -> None:
    """The primary follows another server for a while, as in a planned failover: whoever blocks gets UNBLOCKED."""
    database.command("REPLICAOF", "127.0.0.1", 1)
    pass_time(AWAY)
    database.command("REPLICAOF", "NO", "ONE")


def keep_busy(server: RedisServer, _: Database) -> None:
    """Keep the server busy with a long script, so that it answers BUSY."""
    with kept_busy(server.url):
        pass_time(AWAY)


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.usefixtures("beat", "patient")
@pytest.mark.parametrize(
    ("absence", "on_lost"),
    [
        (hang, "record"),
        (suspend_clients, "record"),
        (crash, "record"),
        (crash, "retry"),
        (demote, "record"),
        (demote, "retry"),
        (keep_busy, "record"),
    ],
)
def test_a_redis_that_is_away_for_less_than_the_wait_costs_no_command(
    tb: Tellback,
    redis_server: RedisServer,
    database: Database,
    tmp_path: Path,
    absence: Callable[[RedisServer, Database], None],
    on_lost: OnLost,
) -> None:
    """The lease is over in Redis, is renewed late before a sweep decides, and the command ends by itself."""
    jobs = [tb.submit(["sh", "-c", BEATS], session=f"s{n}", on_lost=on_lost, timeout=HANGS) for n in range(2)]
    wait_until(lambda: len(beats(tmp_path)) == len(jobs), "the commands run")
    absence(redis_server, database)
    pass_time(LEASE)  # in which sweeps find leases that are over, if they were not renewed
    (tmp_path / "enough").touch()
    for number, job in enumerate(jobs):
        record = job.wait(timeout=60)
        assert (record.exit_code, record.stdout_tail, record.attempt) == (0, "done", 1), record
        assert tb.records(f"s{number}") == [record]


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.usefixtures("beat")
def test_a_host_that_sleeps_asks_for_its_lease_before_it_kills(tb: Tellback, workers: Workers, tmp_path: Path) -> None:
    """Everything of the worker stands still for longer than lease, wait and grace together, and continues."""
    job = tb.submit(["sh", "-c", BEATS], session="s1", timeout=HANGS)
    wait_until(lambda: beats(tmp_path), "the command runs")
    asleep = tree_of(workers.processes[0])
    for process in asleep:
        with suppress(psutil.NoSuchProcess):  # the shell's `sleep` may have ended
            process.suspend()
    pass_time(LEASE + AWAY + 2)
    for process in reversed(asleep):
        with suppress(psutil.NoSuchProcess):
            process.resume()
    pass_time(LEASE)
    (tmp_path / "enough").touch()
    record = job.wait(timeout=60)
    assert (record.exit_code, record.stdout_tail) == (0, "done"), workers.log()
    assert tb.records("s1") == [record]


def running_behind(
    link: Link,
    tb: Tellback,
    start_workers: StartWorkers,
    folder: Path,
    command: str = BEATS,
    on_lost: OnLost = "record",
) -> Job:
    """Run a command on a worker behind the link, and start another worker, which is not."""
    env = {"TELLBACK_COMMAND_ROOTS": str(folder)}
    start_workers(env={**env, "TELLBACK_REDIS_URL": link.url}, concurrency=1)
    job = tb.submit(["sh", "-c", command], session="s1", on_lost=on_lost, timeout=HANGS)
    wait_until(lambda: beats(folder), "the command runs")
    start_workers(env=env)
    return job


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.usefixtures("beat")
def test_a_worker_that_is_cut_off_alone_has_stopped_before_the_retry_begins(
    tb: Tellback, start_workers: StartWorkers, settings: Settings, redis_server: RedisServer, tmp_path: Path
) -> None:
    """Two attempts never overlap, each has one record, and what the cut-off worker says later is superseded."""
    with Link(redis_server.port) as link:
        job = running_behind(link, tb, start_workers, tmp_path, ATTEMPTS, "retry")
        link.cut()
        record = job.wait(timeout=settings.job_lease + AWAY + 30)
        assert (record.exit_code, record.attempt) == (0, 2)
        first, second = beats(tmp_path).values()
        assert first[-1] < second[0], "the attempts overlap"
        link.heal()
        records = Records(tb.context.database, tb.context.layout)
        (late,) = wait_until(lambda: records.superseded("s1"), "the late record is kept")
    assert (late.command_id, late.exit_code) == (job.command_id, None)
    assert late.error in {NOT_RENEWED, OVERDUE}
    assert [each.attempt for each in tb.records("s1")] == [1, 2]


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.usefixtures("beat")
def test_a_worker_that_is_cut_off_alone_learns_of_the_loss(
    tb: Tellback, start_workers: StartWorkers, redis_server: RedisServer, tmp_path: Path
) -> None:
    """With `on_lost="record"` the loss has its record soon; the command continues, and ends when the link is whole."""
    with Link(redis_server.port) as link:
        job = running_behind(link, tb, start_workers, tmp_path)
        link.cut()
        record = job.wait(timeout=60)
        assert (record.error or "").startswith("lost: ")
        link.heal()
        records = Records(tb.context.database, tb.context.layout)
        (late,) = wait_until(lambda: records.superseded("s1"), "the late record is kept")
    assert late.error == DECLARED_LOST
    assert tb.records("s1") == [record]


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.usefixtures("beat")
def test_connections_that_fall_silent_cost_no_healthy_command(
    tb: Tellback, start_workers: StartWorkers, redis_server: RedisServer, tmp_path: Path
) -> None:
    """The read that waits for a cancellation held up the renewals for the general deadline, longer than a lease."""
    with Link(redis_server.port) as link:
        job = running_behind(link, tb, start_workers, tmp_path)
        link.forget()
        with pytest.raises(TimeoutError):
            job.wait(timeout=3 * LEASE)
        (tmp_path / "enough").touch()
        record = job.wait(timeout=60)
    assert (record.exit_code, record.error, record.stdout_tail) == (0, None, "done")
    assert tb.records("s1") == [record]


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.usefixtures("beat", "workers")
def test_a_wait_that_is_over_leads_to_the_next_attempt(tb: Tellback, redis_server: RedisServer, tmp_path: Path) -> None:
    """Redis is away for long: the worker stops its command, and `on_lost` decides as after a worker's death."""
    job = tb.submit(["sh", "-c", ATTEMPTS], session="s1", on_lost="retry", timeout=HANGS)
    wait_until(lambda: beats(tmp_path), "the first attempt runs")
    (first,) = beats(tmp_path)
    redis_server.suspend()
    wait_until(lambda: not psutil.pid_exists(first), "the first attempt is stopped", timeout=LEASE + AWAY + 15)
    redis_server.resume()
    record = job.wait(timeout=60)
    assert (record.exit_code, record.attempt) == (0, 2)
    lost, again = tb.records("s1")
    assert lost.error in {NOT_RENEWED, OVERDUE}
    assert again == record
    assert beats(tmp_path)[first][-1] < beats(tmp_path).popitem()[1][0], "the attempts overlap"


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.usefixtures("beat")
def test_a_retry_never_meets_what_a_worker_killed_with_all_its_watchers_left(
    tb: Tellback, start_workers: StartWorkers, tmp_path: Path
) -> None:
    """SIGKILL of worker, pool child, guardian and supervisor at one moment: nothing of the first attempt overlaps.

    The command's own process dies with its supervisor; what left its session is ended by the next attempt.
    """
    env = {"TELLBACK_COMMAND_ROOTS": str(tmp_path)}
    workers = start_workers(env=env, concurrency=1)
    away = f"trap '' HUP TERM; {BEATS}"
    script = f'if [ ! -e beats ]; then setsid sh -c "$AWAY" & fi; {ATTEMPTS}'
    job = tb.submit(["sh", "-c", script], session="s1", on_lost="retry", timeout=HANGS, env={"AWAY": away})
    wait_until(lambda: len(beats(tmp_path)) == 2, "the command and what left it run")
    process = workers.processes.pop()
    watchers = [each for each in tree_of(process) if runs_tellback(each)]
    assert len(watchers) >= 4, watchers
    for action in (psutil.Process.suspend, psutil.Process.kill):  # none sees another die
        for each in watchers:
            action(each)
    process.wait()
    firsts = set(beats(tmp_path))
    start_workers(env=env)
    record = job.wait(timeout=LEASE + AWAY + 30)
    assert (record.exit_code, record.attempt) == (0, 2)
    written = beats(tmp_path)
    begun = min(at[0] for pid, at in written.items() if pid not in firsts)
    assert [pid for pid in firsts if written[pid][-1] >= begun] == [], "the attempts overlap"
    assert [each.attempt for each in tb.records("s1")] == [1, 2]


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.usefixtures("beat", "database")
def test_a_worker_that_stood_still_before_its_order_starts_nothing(
    tb: Tellback, settings: Settings, tmp_path: Path
) -> None:
    """SIGSTOP between the last look at the lease and the order: it once started its attempt beside the next one."""
    stopped = tmp_path / "stopped"
    env = {"TELLBACK_COMMAND_ROOTS": str(tmp_path), STOPPED: str(stopped)}
    workers = Workers(settings, tmp_path, concurrency=2, env=env, app="tests.support.standing_still")
    try:
        workers.start()
        job = tb.submit(["sh", "-c", BEATS], session="s1", on_lost="retry", timeout=HANGS)
        wait_until(lambda: len(beats(tmp_path)) == 1, "the next attempt runs", timeout=LEASE + AWAY + 30)
        os.kill(int(stopped.read_text()), signal.SIGCONT)
        records = Records(tb.context.database, tb.context.layout)
        late = wait_until(lambda: records.superseded("s1"), "the first attempt has its end")
        (tmp_path / "enough").touch()
        record = job.wait(timeout=60)
    finally:
        workers.kill_all()
    assert [(each.attempt, each.error) for each in late] == [(1, NOT_STARTED)]
    assert (record.exit_code, record.attempt) == (0, 2)
    assert len(beats(tmp_path)) == 1, "both attempts ran"
