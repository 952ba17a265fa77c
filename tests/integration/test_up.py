"""`tellback up`: the whole system under one supervisor, with an embedded Redis."""

from __future__ import annotations

import http.client
import os
import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlsplit

import psutil
import pytest
import redis
from celery import Celery
from redis import exceptions

from tellback.broker import broker_config
from tellback.connection_file import find_running
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.keys import FLEET
from tellback.state.presence import Presence
from tests.support.processes import run_program
from tests.support.up import RunningUp, command, gone, running
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningUp]:
    """One system for the tests that leave it as it is."""
    with RunningUp(tmp_path_factory.mktemp("up"), "--port", "0", "--flower-port", "0") as system:
        yield system


class State:
    """Redis, asked one command at a time."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            with closing(cast("Any", redis.Redis).from_url(self._url, decode_responses=True)) as client:
                return getattr(client, name)(*arguments, **options)

        return call


def client(url: str) -> State:
    return State(url)


def ask_workers(url: str, method: str) -> list[dict[str, Any]]:
    """The replies of all workers to a remote control command of Celery."""
    with Celery("test") as app:
        app.conf.update(broker_config(Settings(redis_url=url)))
        with app.connection() as connection:
            return app.control.broadcast(method, reply=True, timeout=3, connection=connection) or []


def flower(up: RunningUp, path: str, *, auth: bool = True) -> tuple[int, str]:
    """Status and body of one of Flower's pages."""
    assert up.flower_url is not None
    parts = urlsplit(up.flower_url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    token = b64encode(f"{parts.username}:{parts.password}".encode()).decode()
    with closing(connection):
        connection.request("GET", path, headers={"Authorization": f"Basic {token}"} if auth else {})
        response = connection.getresponse()
        return response.status, response.read().decode()


def test_one_json_line_says_where_everything_is(up: RunningUp) -> None:
    assert set(up.line) == {"redis_url", "flower_url", "pids"}
    assert set(up.pids) == {"redis", "model", "loops-1", "commands-1", "beat", "flower"}
    assert len(running([psutil.Process(pid) for pid in up.pids.values()])) == len(up.pids)


def test_after_the_json_line_there_is_silence(up: RunningUp) -> None:
    assert up.further_output(1.0) == b""
    assert up.errors == ""


def test_redis_answers_at_the_printed_address(up: RunningUp) -> None:
    assert client(up.redis_url).ping()


def test_every_worker_answers_when_the_line_is_printed(up: RunningUp) -> None:
    replies = ask_workers(up.redis_url, "ping")
    names = {name.partition("@")[0] for reply in replies for name in reply}
    assert names == {"model", "loops-1", "commands-1"}


def test_workers_read_every_queue_and_this_host_s_own(up: RunningUp) -> None:
    replies = ask_workers(up.redis_url, "active_queues")
    queues = {queue["name"] for reply in replies for read in reply.values() for queue in read}
    host = Settings().host_name
    assert queues == {"commands", f"commands.{host}", "events", "turns", "signals", "recalls", "sweeps"}


def test_beat_s_messages_are_carried_out(up: RunningUp) -> None:
    state = client(up.redis_url)
    before = state.get(FLEET.key("beat"))
    assert before is not None
    wait_until(lambda: state.get(FLEET.key("beat")) != before, "beat is heard again")


def test_flower_answers_with_the_printed_password_and_to_nobody_else(up: RunningUp) -> None:
    assert flower(up, "/workers")[0] == 200
    assert flower(up, "/workers", auth=False)[0] == 401
    assert flower(up, "/api/tasks", auth=False)[0] == 401


def test_redis_and_flower_listen_on_loopback_only(up: RunningUp) -> None:
    for name in ("redis", "flower"):
        process = psutil.Process(up.pids[name])
        places = {listened.laddr.ip for listened in process.net_connections() if listened.status == psutil.CONN_LISTEN}
        assert places == {"127.0.0.1"}, name


def test_redis_is_persistent_never_evicts_and_asks_for_the_password(up: RunningUp) -> None:
    state = client(up.redis_url)
    wanted = {
        "appendonly": "yes",
        "appendfsync": "everysec",
        "maxmemory-policy": "noeviction",
        "auto-aof-rewrite-min-size": str(256 << 20),
    }
    assert {name: state.config_get(name)[name] for name in wanted} == wanted
    parts = urlsplit(up.redis_url)
    with pytest.raises(exceptions.AuthenticationError):
        client(f"redis://127.0.0.1:{parts.port}/0").ping()


def test_no_password_shows_in_the_arguments_of_a_process_or_to_other_users(up: RunningUp) -> None:
    assert up.flower_url is not None
    passwords = [unquote(urlsplit(url).password or "") for url in (up.redis_url, up.flower_url)]
    for process in up.tree():
        shown = " ".join(process.cmdline())
        assert not [password for password in passwords if password in shown], shown
    for path in up.data_dir.rglob("*"):
        if path.is_file() and any(password in path.read_text(errors="replace") for password in passwords):
            assert path.stat().st_mode & 0o077 == 0, path
    log = "".join(path.read_text() for path in (up.data_dir / "logs").glob("*.log"))
    assert not [password for password in passwords if password in log]


def test_workers_hold_no_password_in_their_environment(up: RunningUp) -> None:
    """A command that prints its environment must not put it into a record."""
    password = urlsplit(up.redis_url).password or ""
    for name in ("loops-1", "commands-1", "model"):
        assert password not in str(psutil.Process(up.pids[name]).environ())


def test_a_client_that_names_no_redis_finds_it(up: RunningUp) -> None:
    code = "import tellback\nwith tellback.connect() as tb: print(tb.context.settings.redis_url)"
    done = run_program([sys.executable, "-c", code], env=up.environ, check=True)
    assert done.stdout.strip() == up.redis_url


def test_the_environment_s_redis_goes_before_a_running_up(up: RunningUp) -> None:
    from tellback.settings import load

    folder = {"TELLBACK_DATA_DIR": str(up.data_dir)}
    assert load(folder).redis_url == up.redis_url
    assert load({**folder, "TELLBACK_REDIS_URL": "redis://elsewhere/0"}).redis_url == "redis://elsewhere/0"


def test_doctor_finds_all_well(up: RunningUp) -> None:
    done = run_program(command("doctor"), env=up.environ, check=True)
    assert "wrong" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("worker", f"loops-1@{Settings().host_name}"), 0),
        (("worker", "nobody@nowhere"), 1),
        (("beat",), 0),
        (("flower", "FLOWER"), 0),
        (("flower", "http://127.0.0.1:1"), 1),
        (("worker",), 2),
        ((), 2),
    ],
)
def test_health_checks_of_containers_find_the_living(up: RunningUp, arguments: tuple[str, ...], code: int) -> None:
    given = [str(up.flower_url) if argument == "FLOWER" else argument for argument in arguments]
    done = run_program([sys.executable, "-m", "tellback.doctor.alive", *given], env=up.environ)
    assert done.returncode == code, done.stderr
    assert bool(done.stderr) == (code != 0)


def test_a_second_up_in_the_same_data_directory_is_refused(up: RunningUp) -> None:
    done = run_program(command("up", "--port", "0", "--no-flower"), env=up.environ)
    assert done.returncode == 2
    wanted = f"tellback: another `tellback up` uses the data directory {up.data_dir}; choose another with --data-dir\n"
    assert done.stderr == wanted


def test_flower_shows_no_password(up: RunningUp) -> None:
    password = urlsplit(up.redis_url).password or ""
    for page in ("/broker", "/workers", f"/worker/loops-1@{Settings().host_name}"):
        assert password not in flower(up, page)[1], page


def test_a_dead_child_is_started_again_and_said_so(tmp_path: Path) -> None:
    """Redis and a worker are killed; both come back, the data with them, and the new worker takes tasks.

    Meanwhile something deletes the connection file, then the logs, so that the start fails at first, which ended the
    whole system; and another application's broker stands in the environment. Requirement A-447.
    """
    with RunningUp.start(tmp_path / "here", env={"CELERY_BROKER_URL": "redis://127.0.0.1:1/0"}) as up:
        (up.data_dir / "up.json").unlink()
        wait_until((up.data_dir / "up.json").exists, "the connection file is there again")
        with closing(cast("Any", redis.Redis).from_url(up.redis_url)) as state:
            state.set("tb:{default.0}:probe", "kept", ex=300)
            # `everysec` may hold an answered write back while it syncs; the kill is to find this one on the disk.
            assert state.waitaof(1, 0, 20_000) == [1, 0]
        logs = (up.data_dir / "logs").rename(up.data_dir / "moved")
        for name in ("redis", "loops-1"):
            os.kill(up.pids[name], 9)
        wait_until(lambda: up.errors.count("can't be started") >= 2, "neither can be started")
        logs.rename(up.data_dir / "logs")
        wait_until(lambda: up.errors.count("restarting it in") >= 2, "both deaths are reported")
        assert "redis was killed by SIGKILL; restarting it in 0.5 s" in up.errors
        assert "loops-1 was killed by SIGKILL; restarting it in 0.5 s" in up.errors
        before = wait_until(lambda: _beat(up), "Redis answers again")
        wait_until(lambda: (_beat(up) or before) != before, "the new worker does what beat sends")
        assert client(up.redis_url).get("tb:{default.0}:probe") == "kept"
        assert up.further_output(0.2) == b""


def _beat(up: RunningUp) -> str | None:
    try:
        return cast("str | None", client(up.redis_url).get(FLEET.key("beat")))
    except exceptions.RedisError:
        return None


def test_data_and_password_survive_a_restart_and_the_tree_is_gone_between(tmp_path: Path) -> None:
    with RunningUp.start(tmp_path / "here") as first:
        client(first.redis_url).set("tb:{default.0}:probe", "kept", ex=300)
        tree = first.tree()
        assert len(tree) > len(first.pids)
        first.process.terminate()
        assert first.process.wait(timeout=60) == 0
        assert running(tree) == []
        assert not (first.data_dir / "up.json").exists()
    with RunningUp.start(tmp_path / "usual", "--data-dir", str(tmp_path / "here")) as second:
        for folder in ("here", "usual"):
            found = find_running(tmp_path / folder)
            assert found is not None
            assert found.redis_url == second.redis_url
        assert client(second.redis_url).get("tb:{default.0}:probe") == "kept"
        assert urlsplit(second.redis_url).password == urlsplit(first.redis_url).password
        tree = second.tree()
        second.process.send_signal(2)
        assert second.process.wait(timeout=60) == 0
        gone(tree)
        assert not list(tmp_path.rglob("up.json"))


@pytest.mark.slow  # torch is loaded
@pytest.mark.timeout(240)
@pytest.mark.parametrize(("model", "state"), [("", "loaded"), ("/nowhere", "failed")])
def test_up_is_ready_when_the_model_is_or_says_that_it_does_not_load(tmp_path: Path, model: str, state: str) -> None:
    with RunningUp.start(tmp_path, env={"TELLBACK_MODEL_PRELOAD": "true", "TELLBACK_MODEL": model}) as up:
        with closing(Database(up.redis_url)) as database:
            found = {worker.pid: worker.preload for worker in Presence(database, "default").all_workers()}
        assert found.pop(up.pids["model"]) == state
        assert set(found.values()) == {""}, "no other kind of worker loads it"
        if state == "failed":
            wait_until(lambda: "the embedding model does not load" in up.errors, "the line about it")
        else:
            assert up.errors == ""
