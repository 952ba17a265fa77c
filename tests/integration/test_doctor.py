"""`tellback doctor`: each thing that can be wrong is found, with what to do about it."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
import pytest

from tellback import Tellback
from tellback.connection_file import RunningSystem, write_connection_file
from tellback.contracts.guidance import ToolInvoked
from tellback.doctor import infrastructure
from tellback.doctor.examination import run_checks
from tellback.embedding import weights
from tellback.errors import ConfigurationError, Unavailable
from tellback.names import Family
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.keys import FLEET, Layout, stream_of
from tellback.state.presence import Presence, Worker
from tellback.state.unavailable import CHECK_LOGIN
from tellback.up.health import check_redis
from tests.support.doctor import found
from tests.support.processes import run_program
from tests.support.redis_server import RedisServer, free_port
from tests.support.up import command, environment


@contextmanager
def configured(database: Database, name: str, value: str) -> Generator[None]:
    """Run the block with another setting of Redis."""
    before = database.command("CONFIG", "GET", name)[1]
    database.command("CONFIG", "SET", name, value)
    try:
        yield
    finally:
        database.command("CONFIG", "SET", name, before)


def worker(name: str, *queues: str, version: str = "0.1.0", policy: str = "") -> Worker:
    return Worker(name=name, host="h", pid=1, queues=queues, version=version, policy=policy)


@pytest.fixture
def presence(database: Database, layout: Layout) -> Presence:
    return Presence(database, layout.team)


def test_a_redis_that_is_away_is_the_first_finding_and_the_exit_code_is_1(tmp_path: Path) -> None:
    """The host is still examined."""
    url = f"redis://:geheim@127.0.0.1:{free_port()}/0"
    done = run_program(command("doctor", "--json", "--redis-url", url), env=environment(tmp_path))
    assert done.returncode == 1
    said: dict[str, Any] = json.loads(done.stdout)
    assert said["ok"] is False
    first = said["findings"][0]
    assert (first["check"], first["state"]) == ("redis", "wrong")
    assert "`tellback up`" in first["advice"]
    assert "geheim" not in done.stdout + done.stderr
    assert {"model", "spool", "data directory"} <= {finding["check"] for finding in said["findings"]}


@pytest.mark.parametrize("login", [":wrong@", "nobody:wrong@"])
def test_a_refused_login_says_what_to_check(redis_server: RedisServer, settings: Settings, login: str) -> None:
    """Redis runs, so advice to start it would mislead."""
    url = f"redis://{login}127.0.0.1:{redis_server.port}/0"
    refused = found(msgspec.structs.replace(settings, redis_url=url))["redis"]
    assert (refused.state, refused.advice) == ("wrong", CHECK_LOGIN)
    with closing(Database(url)) as nobody, pytest.raises(Unavailable, match=re.escape(CHECK_LOGIN)):
        nobody.command("PING")


def test_a_replica_is_wrong_although_it_answers(settings: Settings) -> None:
    """`tellback up` waited for ever on one, and everything else that doctor said was that there are no workers."""
    with closing(Database(settings.redis_url)) as database:
        database.command("REPLICAOF", "127.0.0.1", free_port())
        try:
            replica = found(settings)["redis"]
            with pytest.raises(ConfigurationError, match="read-only replica"):
                check_redis(settings.redis_url)
        finally:
            database.command("REPLICAOF", "NO", "ONE")
    assert (replica.state, "name its primary" in replica.found) == ("wrong", True)


def test_an_address_without_such_a_database_says_so(redis_server: RedisServer) -> None:
    url = f"redis://127.0.0.1:{redis_server.port}/9999"
    with closing(Database(url)) as database, pytest.raises(ConfigurationError, match="use a lower one"):
        database.command("PING")
    assert infrastructure.check_reachable(url, "--redis-url").advice.startswith("correct TELLBACK_REDIS_URL, or "), (
        "Redis runs"
    )


def test_another_program_at_the_address_is_named_as_that() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        Thread(target=_answer_as_web_server, args=[server], daemon=True).start()
        url = f"redis://127.0.0.1:{server.getsockname()[1]}/0"
        with closing(Database(url)) as database, pytest.raises(Unavailable, match="another program"):
            database.command("PING")


def _answer_as_web_server(server: socket.socket) -> None:
    with suppress(OSError):
        while True:
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


@pytest.mark.usefixtures("database")
def test_every_finding_that_is_not_well_says_what_to_do(settings: Settings) -> None:
    findings = run_checks(settings, url_given=False)
    assert [finding for finding in findings if finding.state != "ok" and not finding.advice] == []
    assert [finding for finding in findings if not finding.found] == []


def test_nothing_is_written(settings: Settings, database: Database) -> None:
    run_checks(settings, url_given=False)
    assert database.command("DBSIZE") == 0


@pytest.mark.parametrize(
    "name", ["in:commands", *(pytest.param(name, marks=pytest.mark.slow) for name in ("due", "channels"))]
)
def test_a_key_of_another_type_is_named_and_ends_no_command_with_a_traceback(
    settings: Settings,
    database: Database,
    layout: Layout,
    tmp_path: Path,
    name: str,
) -> None:
    key = f"tb:{{{layout.team}.0}}:{name}"
    database.command("SET", key, "by hand")
    assert found(settings)["keys"].found == f"{key} is a string, not a {'stream' if ':' in name else 'zset'}"
    for what in ("doctor", "team", "metrics", "outbox"):
        done = run_program(command(what, "--redis-url", settings.redis_url), env=environment(tmp_path))
        assert "Traceback" not in done.stderr
        assert done.returncode == 0 or key in done.stdout + done.stderr
    database.command("DEL", key)


@pytest.mark.parametrize("shards", ["many", "0", "-1", "5000"])
def test_a_number_of_shards_that_no_team_can_have_is_wrong(
    settings: Settings, database: Database, layout: Layout, shards: str
) -> None:
    """The other checks are made with the number of the settings."""
    key = f"tb:{{{layout.team}.0}}:team"
    database.command("HSET", key, "shards", shards)
    findings = found(settings)
    assert findings["team"].state == "wrong"
    assert shards in findings["team"].found
    assert key in findings["team"].advice
    assert findings["dead letters"].state == "ok"
    database.command("DEL", key)


def test_a_redis_without_persistence_is_wrong(settings: Settings, database: Database) -> None:
    assert found(settings)["persistence"].state == "ok"
    with configured(database, "appendonly", "no"):
        assert found(settings)["persistence"].state == "wrong"


def test_a_redis_that_evicts_is_wrong(settings: Settings, database: Database) -> None:
    assert found(settings)["eviction"].state == "ok"
    with configured(database, "maxmemory-policy", "allkeys-lru"):
        finding = found(settings)["eviction"]
    assert (finding.state, finding.found) == ("wrong", "allkeys-lru")


def test_a_redis_that_is_nearly_full_is_wrong(settings: Settings, database: Database) -> None:
    used = re.search(rb"used_memory:(\d+)", database.command("INFO", "memory"))
    assert used is not None
    with configured(database, "maxmemory", used[1].decode()):  # a server that just began has less than any fixed number
        assert found(settings)["memory"].state == "wrong"


def test_workers_are_named_with_their_queues(settings: Settings, presence: Presence) -> None:
    assert found(settings)["workers"].state == "wrong"
    presence.announce(worker("w1@h", "events", "turns"))
    assert found(settings)["workers"].found == "w1@h (pid 1: events turns)"


def test_a_worker_that_fell_silent_is_named(settings: Settings, database: Database, presence: Presence) -> None:
    presence.announce(worker("w1@h", "events"))
    presence.announce(worker("w2@h", "events"))
    database.command("DEL", FLEET.key("worker", "w2@h"))
    finding = found(settings)["workers"]
    assert finding.state == "note"
    assert "w2@h went silent 0 s ago" in finding.found
    presence.withdraw("w2@h")
    assert found(settings)["workers"].state == "ok"


def test_a_worker_of_another_release_is_noted(settings: Settings, presence: Presence) -> None:
    presence.announce(worker("w1@h", "events", version="0.0.1"))
    assert "w1@h runs 0.0.1" in found(settings)["versions"].found


def test_beat_that_is_not_heard_is_wrong(settings: Settings, presence: Presence) -> None:
    assert found(settings)["beat"].state == "wrong"
    presence.note_beat()
    assert found(settings)["beat"].state == "ok"
    impatient = msgspec.structs.replace(settings, beat_period=0.0001)
    assert found(impatient)["beat"].state == "wrong"


def test_events_that_nobody_reads_are_wrong(settings: Settings, tb: Tellback, presence: Presence) -> None:
    """With a worker of their queue the same events are what is waiting for a moment."""
    assert found(settings)["intake events"].state == "note"
    for number in range(3):
        tb.context.publisher.publish(
            ToolInvoked(event_id=f"e{number}", session="s", prompt="p", evaluation="v", tool="t", status="success")
        )
    tb.flush()
    finding = found(settings)["intake events"]
    assert finding.state == "wrong"
    assert finding.found.startswith("3 events waiting, the oldest for ")
    presence.announce(worker("w1@h", "events"))
    assert found(settings)["intake events"].state == "ok"


def test_events_that_wait_for_long_or_are_too_many_are_wrong(
    settings: Settings, database: Database, layout: Layout, presence: Presence
) -> None:
    presence.announce(worker("w1@h", "events", "turns"))
    stream = stream_of(layout.shard(0), Family.EVENTS)
    database.command("XADD", stream, database.now_ms() - 60_000, "m", "{}")
    assert "oldest for 60." in found(settings)["intake events"].found
    assert found(settings)["intake events"].state == "wrong"
    stream = stream_of(layout.shard(1), Family.TURNS)
    for _ in range(2):
        database.command("XADD", stream, "*", "m", "{}")
    assert found(settings)["intake turns"].state == "ok"
    for bound in ("intake_max", "intake_max_bytes"):
        at = found(msgspec.structs.replace(settings, **{bound: 2}))["intake turns"]
        assert at.state == "wrong"
        assert at.advice.startswith(f"{bound} is reached, ")


def test_celery_s_queues_are_counted(settings: Settings, database: Database) -> None:
    database.command("RPUSH", "tbq:events", "a", "b")
    database.command("RPUSH", "tbq:turns\x06\x163", "c")
    assert found(settings)["queues"].found == "events 2, turns 1"


def test_a_queue_or_a_key_of_the_fleet_with_another_type_is_named(settings: Settings, database: Database) -> None:
    """The doctor blamed a key of the team, without its name, and left out all checks after that of the queues."""
    database.command("SET", "tbq:turns", "by hand")
    said = found(settings)
    assert (said["queues"].state, "tbq:turns is not a list" in said["queues"].found) == ("wrong", True)
    assert "keys" not in said
    assert "dead letters" in said
    database.command("DEL", "tbq:turns")
    database.command("SET", FLEET.key("workers"), "by hand")
    assert found(settings)["keys"].found.startswith(f"{FLEET.key('workers')} cannot be read")
    database.command("DEL", FLEET.key("workers"))


@pytest.mark.usefixtures("database")
def test_a_file_of_the_brokers_url_that_is_missing_ends_no_check(settings: Settings) -> None:
    """The doctor ended with a line that did not say whose file it is."""
    elsewhere = msgspec.structs.replace(settings, broker_url="rediss://:geheim@127.0.0.1/0?ssl_ca_certs=/none.pem")
    findings = found(elsewhere)
    assert "***@127.0.0.1/0?ssl_ca_certs=/none.pem: ssl_ca_certs: can't read /none.pem" in findings["queues"].found
    assert findings["dead letters"].state == "ok"


@pytest.mark.usefixtures("database")
def test_a_broker_that_is_away_is_wrong(settings: Settings) -> None:
    elsewhere = msgspec.structs.replace(settings, broker_url=f"redis://:geheim@127.0.0.1:{free_port()}/0")
    finding = found(elsewhere)["queues"]
    assert finding.state == "wrong"
    assert "redis://:***@" in finding.found
    assert ("TELLBACK_BROKER_URL" in finding.found, "TELLBACK_REDIS_URL" in finding.found) == (True, False)
    assert found(elsewhere)["eviction"].state == "ok"


def test_dead_letters_are_noted(settings: Settings, database: Database, layout: Layout) -> None:
    database.command("XADD", layout.shard(2).key("dead"), "*", "reason", "r")
    database.command("PEXPIRE", layout.shard(2).key("dead"), 60_000)
    assert (found(settings)["dead letters"].state, found(settings)["dead letters"].found) == ("note", "1")


@pytest.mark.usefixtures("database")
def test_a_spool_with_events_is_noted_and_a_full_one_is_wrong(settings: Settings) -> None:
    assert found(settings)["spool"].state == "ok"
    folder = settings.data_path / "spool" / settings.team
    folder.mkdir(parents=True)
    (folder / "1.spool").write_bytes(b"x" * 5000)
    assert found(settings)["spool"].state == "note"
    assert "mistyped" not in found(settings)["spool"].advice
    (folder / "url-1" / "events.0").mkdir(parents=True)
    (folder / "url-1" / "events.0" / "shared.spool").touch()
    assert "mistyped" in found(settings)["spool"].advice
    (folder / "2.spool").symlink_to(folder / "deleted")  # as if a host had sent its file since we listed it
    assert found(msgspec.structs.replace(settings, spool_max_bytes=5100))["spool"].state == "wrong"


def test_a_flower_that_does_not_answer_is_wrong(settings: Settings, redis_server: RedisServer) -> None:
    import os

    assert found(settings)["flower"].state == "ok"
    address = f"http://tellback:geheim@127.0.0.1:{free_port()}/"
    running = RunningSystem(pid=os.getpid(), redis_url=redis_server.url, flower_url=address, data_dir="d")
    write_connection_file(settings.data_path, running)
    finding = found(settings)["flower"]
    assert finding.state == "wrong"
    assert "geheim" not in finding.found


def test_a_model_that_is_not_the_original_is_wrong(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    assert infrastructure.check_model(settings).state == "ok"
    monkeypatch.setattr(weights, "PACKAGED_SHA256", "0" * 64)
    assert infrastructure.check_model(settings).state == "wrong"
    assert infrastructure.check_model(msgspec.structs.replace(settings, model="/no/such/folder")).state == "wrong"


@pytest.mark.parametrize("name", ["", "all-MiniLM-L6-v2"])
def test_a_missing_package_of_the_model_is_wrong_whatever_names_it(
    name: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(infrastructure, "find_spec", {"celery": object()}.get)
    finding = infrastructure.check_model(msgspec.structs.replace(settings, model=name))
    assert (finding.state, finding.found) == ("wrong", "not installed")


def test_a_data_directory_that_cannot_be_written_is_wrong(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert (
        infrastructure.check_data_dir(msgspec.structs.replace(settings, data_dir=str(tmp_path / "file" / "data"))).state
        == "wrong"
    )


def test_a_full_disk_is_wrong(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It said that all is well, while nothing could be spooled."""
    assert infrastructure.check_data_dir(settings).state == "ok"
    full = shutil.disk_usage(tmp_path)._replace(free=4096)

    def usage(_path: Path) -> object:
        return full

    monkeypatch.setattr(shutil, "disk_usage", usage)
    finding = infrastructure.check_data_dir(settings)
    assert (finding.state, finding.found) == ("wrong", f"the disk of {settings.data_dir} is full")


def test_neither_celery_nor_torch_is_imported(redis_server: RedisServer) -> None:
    code = (
        "import sys; from tellback.doctor.examination import run_checks; from tellback.settings import load\n"
        f"run_checks(load(redis_url={redis_server.url!r}), url_given=True)\n"
        "assert not {'celery', 'kombu', 'torch', 'numpy'} & set(sys.modules), sorted(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_policy_in_force_is_reported_by_those_who_take_commands(settings: Settings, presence: Presence) -> None:
    """The report says how its limits are held; a worker of an older release says nothing of it."""
    watched = "/etc/p.toml; limits of memory and processes: held by looking at processes: no cgroup v2"
    presence.announce(worker("w1@h", "commands", policy="/etc/p.toml; limits of memory and processes: none"))
    presence.announce(worker("w2@h", "commands.h", policy=watched))
    presence.announce(worker("w3@h", "events", policy="no policy file"))
    presence.announce(worker("w4@h", "commands"))
    findings = {check: finding for check, finding in found(settings).items() if check.startswith("policy of ")}
    assert sorted(findings) == ["policy of w1@h", "policy of w2@h"]
    assert findings["policy of w1@h"].state == "ok"
    assert (findings["policy of w2@h"].state, findings["policy of w2@h"].found) == ("note", watched)
    assert "Delegate=yes" in findings["policy of w2@h"].advice


def test_several_copies_of_the_model_in_one_worker_are_noted(settings: Settings, presence: Presence) -> None:
    """One copy, or a release that does not say how many, is not noted."""
    pooled = msgspec.structs.replace(worker("pooled@h", "signals"), model_copies=8)
    for each in (pooled, msgspec.structs.replace(worker("threads@h", "signals"), model_copies=1), worker("old@h")):
        presence.announce(each)
    checks = found(settings)
    reported = checks["copies of the model in pooled@h"]
    assert reported.state == "note"
    assert reported.found.startswith("8, one in each")
    assert "5600 MB" in reported.found
    assert "--pool threads" in reported.advice
    assert [name for name in checks if name.startswith("copies")] == ["copies of the model in pooled@h"]
