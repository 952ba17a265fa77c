"""Fixtures of every test: a Redis of one's own, clients, real workers, and the check of what a test leaves behind."""

from __future__ import annotations

import functools
import gc
import itertools
import logging
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen

import hypothesis
import pytest
import structlog
import typer.main

from tellback import Tellback, connect
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.keys import Layout, Shard
from tellback.state.team import open_layout
from tests.support.commands import running_beat
from tests.support.keyleaks import undeclared
from tests.support.redis_server import PROGRAM, RedisServer
from tests.support.vector_sets import KINDS
from tests.support.workers import StartWorkers, Workers

# Typer builds the 50 commands from their signatures at each call of the command line, 50 ms, and one process of tests
# calls it hundreds of times. They are the same each time: the environment is read when arguments are parsed.
typer.main.get_command = functools.cache(typer.main.get_command)

# jsonschema builds the grammar of IRIs as it is imported, which takes each process of tests over a second; no schema of
# ours has one.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]  # as Python marks a module that cannot be imported

CI = os.environ.get("CI") == "true"

# A time that one example takes proves nothing here. `make unit` and `make test` load "quick", `make slow` runs in full.
hypothesis.settings.register_profile("full", deadline=None)
hypothesis.settings.register_profile("quick", deadline=None, max_examples=20)
hypothesis.settings.load_profile("full")


ON_CLUSTER = bool(os.environ.get("TELLBACK_TEST_CLUSTER"))
"""Set by `tests/faults/test_deployments.py`, which runs other tests with the state on a cluster of three nodes."""

PROGRAM_GIVEN = os.environ.get(PROGRAM, "")

_unused = itertools.count()


def pytest_collection_finish() -> None:
    """Keep the garbage collector from going through all collected tests again and again, a twentieth of all work."""
    gc.collect()
    gc.freeze()


def pytest_configure() -> None:
    """Have programs that tests interrupt heed it: a run in a shell's background starts with SIGINT ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def plain_tracebacks() -> None:
    """Print tracebacks as workers do. structlog's own have local variables, and took longer than a lease of 5 s."""
    renderer = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*structlog.get_config()["processors"][:-1], renderer])


@pytest.fixture(autouse=True)
def _log_level() -> Iterator[None]:
    """Keep the level of the library's log lines, which the command line raises for good."""
    logger = logging.getLogger("tellback")
    level = logger.level
    yield
    if logger.level != level:
        logger.setLevel(level)


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A redis-server of this test process, with AOF."""
    with RedisServer.start(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(scope="session")
def state_url(redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the state, which is on the test process's server, or on a cluster beside it."""
    if not ON_CLUSTER:
        yield redis_server.url
        return
    from tests.support.redis_cluster import RedisCluster

    with RedisCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster.url


@pytest.fixture(autouse=True)
def _clean_environment(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """No setting of the machine reaches a test, and no test writes outside its folder."""
    for name in list(os.environ):
        if name.startswith("TELLBACK_"):
            monkeypatch.delenv(name)
    if PROGRAM_GIVEN:
        monkeypatch.setenv(PROGRAM, PROGRAM_GIVEN)
    # Most unit tests write nothing. pytest takes a millisecond to make the folder of a test, as long as most of them.
    if "tmp_path" in request.fixturenames:
        folder: Path = request.getfixturevalue("tmp_path")
    else:
        folder = tmp_path_factory.getbasetemp() / f"unused-{next(_unused)}"
    monkeypatch.setenv("XDG_DATA_HOME", str(folder / "xdg"))
    monkeypatch.setenv("TELLBACK_DATA_DIR", str(folder / "data"))


@pytest.fixture
def settings(state_url: str, redis_server: RedisServer, tmp_path: Path) -> Settings:
    """Settings of a client or store of this test."""
    broker_url = redis_server.url if ON_CLUSTER else ""
    return Settings(
        redis_url=state_url,
        broker_url=broker_url,
        data_dir=str(tmp_path / "data"),
        feedback_deadline=5.0,  # the default of 0.1 s passes on a busy machine; tests of the deadline set their own
    )


@pytest.fixture
def database(state_url: str) -> Iterator[Database]:
    """An empty Redis; at the end every key must be one that is declared, within its lifetime and cap."""
    database = Database(state_url)
    database.command("FLUSHALL")
    yield database
    problems = undeclared(database)
    database.command("FLUSHALL")
    database.close()
    assert not problems, "keys without their declared lifetime, or over their cap:\n" + "\n".join(problems)


@pytest.fixture
def _emptied(database: Database) -> None:
    """An empty Redis, for fixtures that reach it by its URL; it is checked after they have ended."""


@pytest.fixture
def layout(database: Database, settings: Settings) -> Layout:
    """The default team's shards."""
    return open_layout(database, settings.team, settings.shards)


@pytest.fixture
def shard(layout: Layout) -> Shard:
    """The default team's first shard."""
    return layout.shard(0)


@pytest.fixture
def tb(_emptied: None, settings: Settings) -> Iterator[Tellback]:
    """A client of the default team."""
    with connect(settings=settings) as client:
        yield client


@pytest.fixture
def start_workers(
    _emptied: None, settings: Settings, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[StartWorkers]:
    """Starts real Celery workers: see `StartWorkers`. Slow tests start the program itself, as users do."""
    start = StartWorkers(settings, tmp_path, forked=request.node.get_closest_marker("slow") is None)
    yield start
    start.kill_all()


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisServer]:
    """A server that this test may stop; the shared one would take others with it."""
    with RedisServer.start(tmp_path) as server:
        yield server


@pytest.fixture(params=list(KINDS))
def vector_sets(request: pytest.FixtureRequest) -> str:
    """The kind of vector sets that the server has: with none, workers keep copies of stored facts too."""
    return str(request.param)


@pytest.fixture
def beat(settings: Settings, _emptied: None, tmp_path: Path) -> Iterator[Popen[bytes]]:
    """A real beat, which sends the sweeps."""
    with running_beat(settings, tmp_path) as process:
        yield process


@pytest.fixture
def workers(start_workers: StartWorkers, tmp_path: Path) -> Workers:
    """One worker that may run commands below the test's folder."""
    return start_workers(env={"TELLBACK_COMMAND_ROOTS": str(tmp_path)})
