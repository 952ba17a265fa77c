"""Fixtures of what many files here need; what they import is loaded by the tests that use them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING
from unittest import mock

import msgspec
import pytest

from tellback import Tellback, connect
from tellback.names import Family
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.dead_letters import DeadLetters
from tellback.state.fleet import TeamVisits
from tellback.state.intake import Intake
from tellback.state.jobs import Jobs
from tellback.state.keys import FAMILIES, Layout
from tellback.state.tool_health import ToolHealth
from tests.conftest import CI
from tests.support.redis_server import RedisServer

if TYPE_CHECKING:
    from celery import Celery
    from playwright.sync_api import Browser

    from tellback_workers.runtime import Runtime
    from tests.support.busy_shards import BusyShard, SchedulerVisits
    from tests.support.clocks import ServerClock
    from tests.support.jobs import CommandQueue
    from tests.support.signals import Angles, Bench

QUIET = (  # Chromium's own traffic would be refused, or wait for hosts that are not there
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """This machine's Chromium, which takes a second to start; it ends with the file, since its driver keeps a loop."""
    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        (pytest.fail if CI else pytest.skip)("no Chromium on this machine: apt-get install chromium")
    root = ("--no-sandbox",) if os.geteuid() == 0 else ()  # Chromium refuses to sandbox itself as root
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=found, args=[*QUIET, *root])
        yield running
        running.close()


@pytest.fixture
def encoder() -> Angles:
    """The model of `bench`; a file that needs another one overrides this."""
    from tests.support.signals import Angles

    return Angles()


@pytest.fixture
def bench(settings: Settings, layout: Layout, encoder: Angles) -> Iterator[Bench]:
    """The loops of signals and recalls, run by hand."""
    from tests.support.signals import Bench

    bench = Bench(settings, layout, encoder)
    yield bench
    bench.close()


@pytest.fixture
def worker_settings(settings: Settings) -> Settings:
    """The settings of `consume`; a module that needs others has a fixture of this name."""
    return settings


@pytest.fixture
def consume(worker_settings: Settings, layout: Layout, tb: Tellback) -> Callable[[], None]:
    """Publish the tool calls that are buffered and apply them, here."""
    from tellback_workers.loops import consumer_of
    from tellback_workers.runtime import Runtime

    runtime = Runtime(worker_settings)

    def run() -> None:
        tb.flush()
        for shard in layout.all:
            while consumer_of(runtime, "default", Family.EVENTS).consume(shard, Family.EVENTS):
                continue  # a consumer ends with half its lease

    return run


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ServerClock:
    """Steps Redis' clock as Tellback's scripts read it."""
    from tests.support.clocks import ServerClock

    return ServerClock(monkeypatch)


@pytest.fixture
def one_day(database: Database) -> None:
    """Begins no test in the last half minute of a day (UTC): what is counted by day or week might be on two."""
    from tests.support.clocks import DAY_MS
    from tests.support.waiting import wait_until

    wait_until(lambda: database.now_ms() % DAY_MS < DAY_MS - 30_000, "the next day begins")


@pytest.fixture
def on_another_host(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Moves this process to a host that has never compared its clock with the server's."""
    return lambda name: monkeypatch.setattr("tellback.clock.boot_id", lambda: name)


@pytest.fixture
def fleet(database: Database) -> TeamVisits:
    """The visits of teams: which are due, and whose they are."""
    return TeamVisits(database)


@pytest.fixture
def health(database: Database, layout: Layout) -> ToolHealth:
    """The team's knowledge of its tools."""
    return ToolHealth(database, layout)


@pytest.fixture
def now(database: Database) -> int:
    """Redis' time, in milliseconds."""
    return database.now_ms()


@pytest.fixture
def runtime(tb: Tellback, settings: Settings) -> Iterator[Runtime]:
    """The objects that a worker's tasks share, in this process."""
    from tellback_workers.runtime import Runtime

    del tb
    runtime = Runtime(settings)
    yield runtime
    runtime.database.close()


@pytest.fixture
def app(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Celery]:
    """A Celery app that has no tasks. Wake-ups are published by it to the broker of this test."""
    from celery import Celery

    from tellback_workers import wakeups
    from tellback_workers.app import config

    with Celery("test", set_as_current=False) as app:
        app.conf.update(config(settings))
        monkeypatch.setattr(wakeups, "default_app", app)
        yield app


@pytest.fixture
def broker_away(app: Celery) -> None:
    """Nothing listens where wake-ups are published to."""
    from tests.support.redis_server import free_port

    app.conf.update(broker_url=f"redis://127.0.0.1:{free_port()}/0")


@pytest.fixture
def break_type(database: Database) -> Iterator[Callable[[str], None]]:
    """Have a key hold another type than Tellback gives it, until the test ends."""
    broken: list[str] = []

    def overwrite(key: str) -> None:
        kind = FAMILIES[key.split(":")[2]].type
        database.command("DEL", key)
        database.command(*(("RPUSH", key, "by hand") if kind == "string" else ("SET", key, "by hand")))
        broken.append(key)

    yield overwrite
    database.command("DEL", *broken, "none")


@pytest.fixture
def one(_emptied: None) -> Layout:
    """One shard, so that there is one index."""
    return Layout("default", 1)


@pytest.fixture
def intake(database: Database, layout: Layout) -> Intake:
    """The intake streams of the team."""
    return Intake(database, layout)


@pytest.fixture
def dead(database: Database, layout: Layout) -> DeadLetters:
    """The dead letters of the team."""
    return DeadLetters(database, layout)


@pytest.fixture
def quick(redis_server: RedisServer) -> Iterator[Database]:
    """A connection whose calls have a deadline, far above what a reply takes on a busy machine."""
    client = Database(redis_server.url, call_deadline=1.0)
    yield client
    client.close()


@pytest.fixture
def jobs(database: Database, layout: Layout) -> Jobs:
    """The queues of commands."""
    return Jobs(database, layout)


@pytest.fixture
def queue(database: Database, layout: Layout) -> CommandQueue:
    """Queues commands of the first shard."""
    from tests.support.jobs import CommandQueue

    return CommandQueue(database, layout)


@pytest.fixture
def new(settings: Settings, layout: Layout) -> Iterator[Bench]:
    """A worker with the new model."""
    from tests.support.signals import Bench, Wider

    bench = Bench(settings, layout, Wider())
    yield bench
    bench.close()


@pytest.fixture
def visits(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[SchedulerVisits]:
    """Visits of a worker's scheduler, with a broker that notes the wake-ups."""
    from tellback_workers import scheduler, sweep_jobs, wakeups
    from tests.support.busy_shards import SchedulerVisits

    visits = SchedulerVisits(settings)
    for module in (wakeups, scheduler):
        monkeypatch.setattr(module, "publish", visits.publish)
    monkeypatch.setattr(wakeups, "is_long", mock.Mock(return_value=False))
    for module in (wakeups, sweep_jobs):
        monkeypatch.setattr(module, "queue_length", mock.Mock(return_value=0))
    monkeypatch.setattr(sweep_jobs, "WATCH", 0.0)  # a loss is decided at first sight
    yield visits
    visits.runtime.database.close()


@pytest.fixture
def places(settings: Settings, _emptied: None) -> Iterator[list[BusyShard]]:
    """Two shards of a team, and one of another; the first is the one in which a key is broken."""
    from tests.support.busy_shards import busy

    with ExitStack() as stack:
        ours, others = (
            stack.enter_context(connect(settings=msgspec.structs.replace(settings, team=team))) for team in ("a", "b")
        )
        yield [busy(ours, 0), busy(ours, 1), busy(others, 0)]
