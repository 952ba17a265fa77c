"""A real Redis that speaks TLS, to clients with a certificate only: wherever a URL is taken, `rediss://` serves."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.request import urlopen

import pytest

from tellback import Settings, aio, connect
from tellback.broker import KEY_PREFIX
from tellback.contracts.turns import OutgoingResponse
from tellback.errors import Unavailable
from tellback.state.database import Database
from tellback.state.presence import Presence
from tellback.up.health import check_redis
from tests.support.hooks import run_hook, tool_event, troubles
from tests.support.processes import run_program
from tests.support.redis_server import RedisServer, free_port
from tests.support.sentinels import NAME
from tests.support.tls import Certificate, make_certificate, tls_program
from tests.support.waiting import answers, wait_until
from tests.support.workers import Workers, environment

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    found = tls_program(tmp_path_factory.mktemp("program"))
    if found is None:
        assert not os.environ.get("CI"), "Debian's redis-tools is missing"
        pytest.skip("no redis-server with TLS: install Debian's redis-tools")
    return found


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


SLOW = pytest.mark.slow


@pytest.fixture(params=["rediss", pytest.param("rediss+cluster", marks=SLOW), pytest.param("sentinel", marks=SLOW)])
def url(request: pytest.FixtureRequest, program: str, certificate: Certificate, tmp_path: Path) -> Iterator[str]:
    """The URL of a server, of a cluster of one node, or of a primary behind a Sentinel, all with TLS."""
    form, port = str(request.param), free_port()
    # Without tls-cluster, a node names the plain ports of the others, to clients with TLS too.
    cluster = ("--cluster-enabled", "yes", "--cluster-port", str(free_port()), "--tls-cluster", "yes")
    bus = cluster if "cluster" in form else ()
    (tmp_path / "data").mkdir()
    with RedisServer.start(tmp_path / "data", *certificate.server(port), *bus, program=program) as server:
        if bus:
            with closing(Database(server.url)) as plain:
                plain.command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
                wait_until(lambda: b"cluster_state:ok" in plain.command("CLUSTER", "INFO"), "the cluster serves")
        if form != "sentinel":
            yield f"{form}://127.0.0.1:{port}/0?{certificate.options}"
            return
        (tmp_path / "sentinel").mkdir()
        path, own = tmp_path / "sentinel" / "sentinel.conf", free_port()
        path.write_text(f"tls-replication yes\nsentinel monitor {NAME} 127.0.0.1 {port} 1\n")
        with RedisServer.start(
            tmp_path / "sentinel", str(path), "--sentinel", *certificate.server(own), program=program
        ):
            yield f"sentinel://127.0.0.1:{own}/0?master_name={NAME}&{certificate.options}"


def test_clients_hooks_and_checks_reach_a_redis_that_asks_for_their_certificate(url: str, tmp_path: Path) -> None:
    with closing(Database(url, call_deadline=5.0)) as database:
        wait_until(lambda: answers(database), "it answers")
        assert check_redis(url).startswith("7.")
        settings = Settings(redis_url=url, data_dir=str(tmp_path / "host"))
        with connect(settings=settings) as tb:
            turn = tb.open_turn(channel="web", conversation="c", message_id="m", text="?")
            assert turn.respond(OutgoingResponse.text_only("yes"))
            run_hook(settings, tool_event("toolu_1"), "--wait=2")
            stream = tb.context.layout.of("s1").key("in", "events")
            assert database.command("XLEN", stream) == 2, troubles(settings)


def test_a_client_without_a_certificate_is_refused(url: str) -> None:
    bare = url.replace("ssl_certfile", "ssl_unknown_1").replace("ssl_keyfile", "ssl_unknown_2")
    bare = "&".join(part for part in bare.split("&") if not part.startswith("ssl_unknown"))
    with closing(Database(bare)) as database, pytest.raises(Unavailable):
        database.command("PING")


def test_a_planned_failover_is_heard_over_tls(program: str, certificate: Certificate, tmp_path: Path) -> None:
    """The threads that listen show the client's certificate too (A-637)."""
    first, second, own = (free_port() for _ in range(3))
    config = tmp_path / "sentinel.conf"
    config.write_text(f"tls-replication yes\nsentinel monitor {NAME} 127.0.0.1 {first} 1\n")
    replica = ("--tls-replication", "yes", "--replicaof", "127.0.0.1", str(first))
    with ExitStack() as stack:
        for folder, port, arguments, end in (
            ("first", first, (), ("--tls-replication", "yes", "--repl-diskless-sync-delay", "0")),
            ("second", second, (), replica),
            ("sentinel", own, (str(config), "--sentinel"), ()),
        ):
            (tmp_path / folder).mkdir()
            extra = (*arguments, *certificate.server(port), *end)
            stack.enter_context(RedisServer.start(tmp_path / folder, *extra, program=program))

        def client(port: int) -> Database:
            return stack.enter_context(closing(Database(f"rediss://127.0.0.1:{port}/0?{certificate.options}")))

        former, new, watcher = map(client, (first, second, own))
        wait_until(lambda: b"master_link_status:up" in new.command("INFO", "replication"), "it replicates")
        wait_until(lambda: watcher.command("SENTINEL", "REPLICAS", NAME), "the Sentinel knows the replica")
        former.command("ACL", "SETUSER", "default", "-replicaof", "-slaveof")  # nobody is able to demote it
        url = f"sentinel://127.0.0.1:{own}/0?master_name={NAME}&{certificate.options}"
        database = stack.enter_context(closing(Database(url, call_deadline=5.0)))
        database.command("SET", "written", "before")
        wait_until(lambda: watcher.command("CLIENT", "LIST", "TYPE", "pubsub"), "the client listens")
        assert watcher.command("SENTINEL", "FAILOVER", NAME) == b"OK"
        wait_until(lambda: answers(new) and b"role:master" in new.command("INFO", "replication"), "it is promoted")
        database.command("SET", "written", "after")
        assert new.command("GET", "written") == b"after"
        assert former.command("GET", "written") == b"before", "which lives on as a primary"


def test_a_server_without_tls_is_named_to_a_client_with_it(own_redis: RedisServer) -> None:
    url = own_redis.url.replace("redis://", "rediss://")
    with closing(Database(url, call_deadline=0.5)) as database, pytest.raises(Unavailable) as silent:
        database.command("PING")
    assert str(silent.value).endswith("TLS handshake in time. If it speaks no TLS, write redis for rediss in its URL")


def test_tls_is_named_to_a_client_without_it(program: str, certificate: Certificate, tmp_path: Path) -> None:
    port = free_port()
    with (
        RedisServer.start(tmp_path, *certificate.server(port), program=program),
        closing(Database(f"redis://127.0.0.1:{port}/0")) as database,
        pytest.raises(Unavailable, match="If it speaks TLS, write rediss for redis in its URL"),
    ):
        database.command("PING")


def test_a_certificate_that_is_not_trusted_is_named(program: str, certificate: Certificate, tmp_path: Path) -> None:
    port = free_port()
    with (
        RedisServer.start(tmp_path, *certificate.server(port), program=program),
        closing(Database(f"rediss://127.0.0.1:{port}/0")) as database,
        pytest.raises(
            Unavailable, match=r"\(certificate verify failed: self-signed certificate\).* check ssl_\.\.\. in"
        ),
    ):
        database.command("PING")


@pytest.fixture
def settings(url: str, program: str, certificate: Certificate, tmp_path: Path) -> Iterator[Settings]:
    """State at the URL; the broker behind the same Sentinel, or on a server of its own."""
    port, folder = free_port(), tmp_path / "broker"
    folder.mkdir()
    with RedisServer.start(folder, *certificate.server(port), program=program):
        own = f"rediss://127.0.0.1:{port}/0?{certificate.options}"
        broker_url = url if url.startswith("sentinel") else own
        yield Settings(redis_url=url, broker_url=broker_url, data_dir=str(tmp_path / "host"), beat_period=0.5)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_asyncio_beat_flower_and_the_command_line_reach_it(settings: Settings, tmp_path: Path) -> None:
    """Flower got no certificate for the queues of a broker with `rediss://`."""
    env, port = environment(settings, {"FLOWER_UNAUTHENTICATED_API": "true"}), free_port()
    beat = ("tellback_beat.app", "beat", f"--schedule={tmp_path / 'schedule'}")
    workers = Workers(settings, tmp_path, queues="events,sweeps")
    with ExitStack() as stack:
        stack.callback(workers.kill_all)
        for words in (beat, ("tellback_workers.app", "flower", "--address=127.0.0.1", f"--port={port}")):
            command = [sys.executable, "-m", "celery", "-A", *words]
            process = stack.enter_context(subprocess.Popen(command, env=env, cwd=tmp_path, stderr=subprocess.DEVNULL))
            stack.callback(process.kill)
        workers.start()
        with connect(settings=settings) as tb:
            wait_until(lambda: Presence(tb.context.database, tb.context.layout.team).last_beat(), "beat ticks")

        async def answer() -> bool:
            async with aio.connect(settings=settings) as client:
                turn = await client.open_turn(channel="web", conversation="c", message_id="m", text="?")
                return bool(await turn.respond(OutgoingResponse.text_only("yes")))

        assert asyncio.run(answer())
        for line in ("doctor", "teams list", "metrics", "alerts"):
            done = run_program([sys.executable, "-m", "tellback", *line.split()], env=env)
            assert done.returncode == 0, (line, done.stdout, done.stderr)
        wait_until(lambda: "events" in queues_in_flower(port), "Flower shows the broker's queues")


def queues_in_flower(port: int) -> str:
    try:
        with urlopen(f"http://127.0.0.1:{port}/api/queues/length", timeout=10) as response:
            return str(response.read())
    except OSError as error:  # it begins, or answers with an error
        return str(error)


@pytest.mark.slow
def test_a_worker_takes_its_wakeups_from_a_broker_with_tls(settings: Settings, tmp_path: Path) -> None:
    workers = Workers(settings, tmp_path)
    try:
        workers.start()
        run_hook(settings, tool_event("toolu_1"), "--wait=2")
        with connect(settings=settings) as tb:
            wait_until(lambda: tb.history("s1"), f"applied, see {workers.logs[0]}")
    finally:
        workers.kill_all()
    with closing(Database(settings.broker)) as database:
        assert database.command("KEYS", f"{KEY_PREFIX}_kombu.*"), "the broker's keys are there"
