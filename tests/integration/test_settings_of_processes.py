"""Workers and beat say what is wrong with their settings, and serve with each form of URL."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tellback import connect
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.unknown_variables import log_mistyped_variables
from tests.support.processes import run_program
from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until
from tests.support.workers import Workers, environment

WORKER = ("tellback_workers.app", "worker", "--pool=solo")
BEAT = ("tellback_beat.app", "beat", "--pidfile=")


@pytest.mark.parametrize("program", [WORKER, BEAT], ids=["worker", "beat"])
@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"TELLBACK_BROKER_URL": "redis://:s3cr#et@h:6379/0"}, "TELLBACK_BROKER_URL"),
        ({"TELLBACK_SHARDS": "many"}, "TELLBACK_SHARDS"),
    ],
    ids=["broker", "setting"],
)
def test_a_wrong_setting_ends_a_process_with_one_line(
    program: tuple[str, ...], given: dict[str, str], named: str, tmp_path: Path
) -> None:
    app, *rest = program
    ended = run_program(
        [sys.executable, "-m", "celery", "-A", app, *rest], env=environment(Settings(data_dir=str(tmp_path)), given)
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"tellback: {named}: "), ended.stderr
    assert ended.stderr.count("\n") == 1, ended.stderr
    assert "s3cr" not in ended.stdout + ended.stderr


def test_a_worker_whose_state_is_no_redis_ends_with_one_line(tmp_path: Path) -> None:
    """The broker is fine, so the error came from a thread of the running worker and named no variable."""
    settings = Settings(
        redis_url="redis://:s3cr#et@h:6379/0", broker_url="redis://127.0.0.1:1/0", data_dir=str(tmp_path)
    )
    app, *rest = WORKER
    ended = run_program([sys.executable, "-m", "celery", "-A", app, *rest], env=environment(settings))
    assert ended.returncode == 1
    assert ended.stderr.startswith("tellback: TELLBACK_REDIS_URL: not the URL of a Redis"), ended.stderr
    assert "s3cr" not in ended.stdout + ended.stderr


def test_state_and_broker_may_be_behind_a_socket_file(tmp_path: Path) -> None:
    """Celery calls such a URL `redis+socket://`, and a worker with ours ended with "No such transport: unix"."""
    with (
        tempfile.TemporaryDirectory(dir="/tmp") as folder,  # a socket's path has at most 108 bytes
        RedisServer.start(tmp_path, "--unixsocket", f"{folder}/s"),
    ):
        settings = Settings(redis_url=f"unix://{folder}/s?db=2", data_dir=str(tmp_path / "data"))
        workers = Workers(settings, tmp_path)
        try:
            workers.start()
            with connect(settings=settings) as tb:
                assert tb.submit([sys.executable, "-c", "pass"], session="s1").wait(timeout=60).exit_code == 0
        finally:
            workers.kill_all()


@pytest.mark.parametrize("program", [WORKER, BEAT], ids=["worker", "beat"])
def test_a_process_logs_unknown_variables_at_its_start(program: tuple[str, ...], tmp_path: Path) -> None:
    settings = Settings(redis_url="redis://127.0.0.1:1/0", data_dir=str(tmp_path))
    app, *rest = program
    log = tmp_path / "log"
    with RedisServer.start(tmp_path) as server, log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", app, *rest],
            env=environment(settings, {"TELLBACK_REDIS_URL": server.url, "TELLBACK_TAEM": "acme", "TELLBACK_OWN": "x"}),
            cwd=tmp_path,
            stdout=out,
            stderr=out,
        )
        try:
            wait_until(lambda: "TELLBACK_TAEM" in log.read_text(), f"both are logged in {log}")
        finally:
            process.kill()
            process.wait()
    lines = [line for line in log.read_text().splitlines() if "setting.unknown" in line]
    assert len(lines) == 2
    assert "TELLBACK_TAEM" in lines[1]
    assert "TELLBACK_TEAM" in lines[1]


def test_a_host_logs_once_what_resembles_a_setting(
    database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TELLBACK_TAEM", "acme")
    monkeypatch.setenv("TELLBACK_OWN", "x")
    log_mistyped_variables.cache_clear()
    for _ in range(2):
        connect(database.url).close()
    lines = [record.message for record in caplog.records if "setting.unknown" in record.message]
    assert lines == ["setting.unknown nearest='TELLBACK_TEAM' variable='TELLBACK_TAEM'"]
