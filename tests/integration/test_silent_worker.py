"""A worker that hangs is ended by its container's check, so that the container is started again."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil
import pytest

from tellback import clock
from tellback.doctor.alive import main
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.keys import Layout
from tellback.state.presence import Presence, Worker
from tests.support.namespaces import require_namespaces
from tests.support.redis_server import free_port
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers, Workers

KILL = ["--kill-after", "0", "worker", "w@test"]


@contextmanager
def _started(
    command: Sequence[str | Path], environment: dict[str, str] | None = None
) -> Generator[subprocess.Popen[str]]:
    """Start a program that prints "up" when it is ready, and yield its process then."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        yield process


def _node(workers: Workers) -> str:
    return f"{workers.logs[0].stem}@test"


def _fails(arguments: list[str]) -> bool:
    return main(arguments) == 1


@pytest.fixture(autouse=True)
def _environ(settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("TELLBACK_REDIS_URL", settings.redis_url)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@pytest.mark.slow
def test_a_hung_worker_is_killed_and_a_healthy_one_is_not(
    start_workers: StartWorkers, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its whole pool is killed with it, once it was silent for as long as the check allows."""
    workers = start_workers(2, queues="turns")
    node = _node(workers)
    # On a busy machine a healthy worker may be silent for longer than the second after which the hung one is killed.
    wait_until(lambda: main(["--kill-after", "60", "worker", node]) == 0, "the worker answers")
    check = ["--kill-after", "1", "worker", node]
    children = workers.children()
    workers.processes[0].send_signal(signal.SIGSTOP)
    wait_until(partial(_fails, check), "the worker counts as silent")
    wait_until(lambda: _fails(check) and workers.processes[0].poll() is not None, "it is killed")
    assert not psutil.wait_procs(children, timeout=60)[1]
    assert f"killing process {workers.processes[0].pid}" in capfd.readouterr().err
    assert workers.processes[1].poll() is None


def test_no_worker_is_killed_while_redis_is_away(start_workers: StartWorkers, monkeypatch: pytest.MonkeyPatch) -> None:
    workers = start_workers(1, queues="turns", forked=False)  # the check knows a worker by its arguments
    monkeypatch.setenv("TELLBACK_REDIS_URL", f"redis://127.0.0.1:{free_port()}/0")
    assert [main(["--kill-after", "0", "worker", _node(workers)]) for _ in range(3)] == [1, 1, 1]
    assert workers.processes[0].poll() is None


def test_a_worker_is_healthy_whatever_somebody_wrote_into_its_team_s_key(database: Database, layout: Layout) -> None:
    key = layout.shard(0).key("team")
    Presence(database, layout.team).announce(Worker(name="w@h", host="h", pid=1, queues=("turns",), version="1"))
    database.command("SET", key, "by hand")
    assert main(["worker", "w@h"]) == 0
    database.command("DEL", key)


def _long_ago(_: psutil.Process) -> float:
    return 0.0


def test_only_a_worker_that_was_silent_for_all_that_time_is_killed(
    database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An outage of Redis begins the time again, and so does a start of the worker. Requirement A-442."""
    del database
    redis_url = os.environ["TELLBACK_REDIS_URL"]
    check = ["--kill-after", "60", "worker", "w@test"]

    def silent() -> None:
        assert main(check) == 1
        [since] = tmp_path.glob("tellback-silent-*")
        past = clock.wall() - 90
        os.utime(since, (past, past))

    with subprocess.Popen([sys.executable, "-c", "input()", "worker", "-n", "w@test"], stdin=subprocess.PIPE) as worker:
        silent()
        assert main(check) == 1, "this worker was started since"
        silent()
        monkeypatch.setenv("TELLBACK_REDIS_URL", f"redis://127.0.0.1:{free_port()}/0")
        assert main(check) == 1
        monkeypatch.setenv("TELLBACK_REDIS_URL", redis_url)
        monkeypatch.setattr(psutil.Process, "create_time", _long_ago)
        assert main(check) == 1
        assert worker.poll() is None, "it was silent while Redis was away"
        silent()
        assert main(check) == 1
        assert worker.wait(60) == -signal.SIGKILL


def test_the_worker_is_killed_and_not_what_started_it(database: Database) -> None:
    """`timeout`, `sudo` or an init has the worker's arguments in its own, and its death ends no worker."""
    del database
    worker = [sys.executable, "-c", "print('up', flush=True); input()", "worker", "-n", "w@test"]
    starter = ["sh", "-c", '"$@"; echo "ended with $?"; :', "sh", *worker]
    with _started(starter) as started:
        assert started.stdout is not None
        assert main(KILL) == 1
        assert started.stdout.readline() == f"ended with {128 + signal.SIGKILL}\n"


def test_a_client_that_starts_a_worker_elsewhere_is_left_alone(database: Database) -> None:
    """Requirement C-168. `docker run IMAGE celery worker -n w@test` has the worker's arguments."""
    del database
    client = ["sh", "-c", 'echo up; read line; echo "ended"', "docker", "run", "worker", "-n", "w@test"]
    with _started(client) as started:
        assert main(KILL) == 1
        assert started.communicate("\n", timeout=60)[0] == "ended\n"
        assert started.returncode == 0


@pytest.mark.parametrize(
    "client",
    [
        ["podman-compose", "run", "--rm", "loops"],
        ["podman-compose", "run", "loops", "python", "-m"],
        ["podman-compose", "run", "loops", "coverage", "run", "-m"],
        ["compose", "exec", "celery"],
    ],
)
def test_a_client_in_python_that_starts_a_worker_elsewhere_is_left_alone(
    database: Database, tmp_path: Path, client: list[str]
) -> None:
    """Requirement A-662."""
    del database
    script = tmp_path / client[0]
    script.write_text("print('up', flush=True); input()")
    command = [sys.executable, "-X", "dev", str(script), *client[1:], "celery", "-A", "app", "worker", "-n", "w@test"]
    with _started(command) as started:
        assert main(KILL) == 1
        started.communicate("\n", timeout=60)
        assert started.returncode == 0


@pytest.mark.parametrize("before", [["-m"], ["-P", "-X", "dev", "-m"], ["-Pm"], ["-I"]])
def test_a_worker_is_found_however_celery_is_started(database: Database, tmp_path: Path, before: list[str]) -> None:
    del database
    (tmp_path / "celery").mkdir()
    (tmp_path / "celery" / "__init__.py").touch()
    (tmp_path / "celery" / "__main__.py").write_text("print('up', flush=True); input()")
    program = "celery" if before[-1].endswith("m") else str(tmp_path / "celery")
    command = [sys.executable, *before, program, "-A", "app", "worker", "-n", "w@test"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with _started(command, environment) as worker:
        assert main(KILL) == 1
        assert worker.wait(60) == -signal.SIGKILL


@pytest.mark.parametrize(
    "started_by",
    [
        ["coverage", "run", "bin/celery"],
        ["coverage", "run", "--parallel-mode", "-m", "celery"],
        ["debugpy", "--listen", "5678", "bin/celery"],
        ["launcher", "51234", "--", "-m", "celery"],
        ["run.py", "celery"],
    ],
    ids=" ".join,
)
def test_a_worker_is_found_within_a_program_that_runs_it(
    database: Database, tmp_path: Path, started_by: list[str]
) -> None:
    """Requirement C-173. A debugger and a measurement of coverage are no clients: the worker is their own process."""
    del database
    program = tmp_path / started_by[0]
    program.write_text("print('up', flush=True); input()")
    command: list[str | Path] = [sys.executable, program, *started_by[1:], "-A", "app", "worker", "-n", "w@test"]
    with _started(command) as worker:
        assert main(KILL) == 1
        assert worker.wait(60) == -signal.SIGKILL


@pytest.mark.parametrize("name", [["-n", "w@test"], ["-nw@test"], ["--hostname=w@test"]])
def test_a_worker_is_found_whatever_its_interpreter_is_called(
    database: Database, tmp_path: Path, name: list[str]
) -> None:
    """Requirement C-172. A check that runs on the same interpreter ends it."""
    del database
    snake = shutil.copy(os.path.realpath(sys.executable), tmp_path / "snake")
    environment = {**os.environ, "PYTHONHOME": sys.base_prefix, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    check = "from tellback.doctor import alive; alive._kill_silent('w@test', 0, alive.wrong('worker', '', ''))"
    waiting = [snake, "-c", "print('up', flush=True); input()", "worker", *name]
    with _started(waiting, environment) as worker:
        subprocess.run([snake, "-c", check], env=environment, check=True, timeout=60)
        assert worker.wait(60) == -signal.SIGKILL


def test_a_worker_without_a_name_is_found_by_the_one_that_celery_gives_it(database: Database) -> None:
    """Requirement A-652."""
    del database
    with subprocess.Popen([sys.executable, "-c", "input()", "worker", "-E"], stdin=subprocess.PIPE) as worker:
        assert main(["--kill-after", "0", "worker", f"celery@{socket.gethostname()}"]) == 1
        assert worker.wait(60) == -signal.SIGKILL


def test_a_worker_of_that_name_in_a_container_is_left_alone(database: Database) -> None:
    """Requirement A-652. Root sees the processes of containers, which have a system of their own."""
    del database
    require_namespaces()
    script = "import os; print(os.getpid(), flush=True); input()"
    worker = ["unshare", "--pid", "--fork", sys.executable, "-c", script, "worker", "-n", "w@test"]
    with subprocess.Popen(worker, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == "1\n"
        assert main(KILL) == 1
        assert started.communicate("\n", timeout=60) is not None
        assert started.returncode == 0
