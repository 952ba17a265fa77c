"""Fixtures of every test: a Redis of one's own, clients, real workers, and the check of what a test leaves behind."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tellback import Tellback, connect
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.keys import Layout
from tellback.state.team import open_layout
from tests.support.keyleaks import undeclared
from tests.support.redis_server import RedisServer
from tests.support.workers import StartWorkers, Workers

CI = os.environ.get("CI") == "true"


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A redis-server of this test process, with AOF."""
    with RedisServer.start(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting of the machine reaches a test, and no test writes outside its folder."""
    for name in list(os.environ):
        if name.startswith("TELLBACK_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("TELLBACK_DATA_DIR", str(tmp_path / "data"))


@pytest.fixture
def settings(redis_server: RedisServer, tmp_path: Path) -> Settings:
    """Settings of a client or store of this test."""
    return Settings(redis_url=redis_server.url, data_dir=str(tmp_path / "data"))


@pytest.fixture
def database(redis_server: RedisServer) -> Iterator[Database]:
    """An empty Redis; at the end every key must be one that is declared, within its lifetime and cap."""
    database = Database(redis_server.url)
    database.command("FLUSHALL")
    yield database
    problems = undeclared(database)
    database.command("FLUSHALL")
    database.close()
    assert not problems, "keys without their declared lifetime, or over their cap:\n" + "\n".join(problems)


@pytest.fixture
def layout(database: Database, settings: Settings) -> Layout:
    """The default team's shards."""
    return open_layout(database, settings.team, settings.shards)


@pytest.fixture
def tb(database: Database, settings: Settings) -> Iterator[Tellback]:  # noqa: ARG001 - an emptied Redis
    """A client of the default team."""
    with connect(settings=settings) as client:
        yield client


@pytest.fixture
def start_workers(
    database: Database,  # noqa: ARG001 - checked and emptied after the workers have stopped
    settings: Settings,
    tmp_path: Path,
) -> Iterator[StartWorkers]:
    """Starts real Celery workers: see `StartWorkers`."""
    started: list[Workers] = []

    def start(
        n: int = 1,
        *,
        queues: str | None = None,
        pool: str = "prefork",
        concurrency: int = 2,
        env: Mapping[str, str] | None = None,
    ) -> Workers:
        workers = Workers(settings, tmp_path, queues=queues, pool=pool, concurrency=concurrency, env=env)
        started.append(workers)
        workers.start(n)
        return workers

    yield start
    for workers in started:
        workers.stop()
