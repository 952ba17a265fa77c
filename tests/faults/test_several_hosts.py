"""Redis, workers, beats and agent hosts on hosts of their own, whose cables are pulled while everything is at work.

Two agent hosts make tool calls, commands and turns. Then each call must count once, each command have one record and
have begun at most once, and each user one first answer, which a transport delivered once.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from tellback import CommandRecord, Settings, Tellback, connect
from tellback.state.database import Database
from tellback.state.evaluation_codec import EvaluationId
from tellback.state.evaluations import Evaluations
from tellback.state.intake import Intake
from tests.support.commands import alive
from tests.support.namespaces import HostNetwork, network
from tests.support.redis_server import server_binary
from tests.support.remote_host import CHANNEL, EVALUATION, FIRE_EVERY, RUNS
from tests.support.turns import SENT
from tests.support.waiting import answers, wait_until
from tests.support.workers import environment

pytestmark = pytest.mark.faults

ROOT: Final = Path(__file__).resolve().parents[2]
PORT: Final = 6379
WORKERS: Final = ("worker-1", "worker-2")
BEATS: Final = ("beat-1", "beat-2")
AGENTS: Final = ("agent-1", "agent-2")
BRISK: Final = {
    "beat_period": 1.0,
    "consumer_lease": 2.0,
    "job_lease": 8.0,
    "command_redis_wait": 2.0,
    "command_grace": 0.5,
    "outbox_lease": 6.0,
}
CUT: Final = 12.0
"""Seconds of a fault: longer than a command's lease and wait for Redis together, so that others take over."""


def _is_ready(log: Path) -> bool:
    return "ready." in log.read_text()


@dataclass
class Hosts:
    """The processes on their hosts, and the means to make load in a team of the test's own."""

    net: HostNetwork
    folder: Path
    stack: ExitStack
    numbers: Iterator[int] = field(default_factory=itertools.count)
    """Numbers that make the names of the tests' teams unique."""

    def settings(self, host: str, team: str = "default") -> Settings:
        """Settings of a process on this host, or of the test if it is none of the hosts."""
        address = self.net.address("redis") if host in self.net.hosts else self.net.observed
        given = {**BRISK, "data_dir": str(self.folder / host / team), "command_roots": str(self.folder), "host": host}
        return msgspec.structs.replace(Settings(redis_url=f"redis://{address}:{PORT}/0", team=team), **given)

    def start(self, host: str, name: str, *words: str, settings: Settings | None = None) -> subprocess.Popen[bytes]:
        """Start a program of Python on a host; it is killed with the host."""
        env = environment(settings or self.settings(host), {"PYTHONPATH": str(ROOT)})
        with (self.folder / f"{name}.log").open("wb") as log:
            command = [*self.net.on(host), sys.executable, "-m", *words]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=env, cwd=ROOT)
        self.stack.enter_context(process)  # waits for its end
        self.stack.callback(process.kill)
        return process

    def start_redis(self) -> None:
        """Start Redis with its append-only file, for all who reach it."""
        stored = ("--appendonly", "yes", "--appendfsync", "no", "--save", "", "--dir", str(self.folder))
        reached = ("--port", str(PORT), "--bind", "0.0.0.0", "--protected-mode", "no")
        with (self.folder / "redis.log").open("wb") as log:
            process = subprocess.Popen(
                [*self.net.on("redis"), server_binary(), *stored, *reached], stdout=log, stderr=log
            )
        self.stack.enter_context(process)  # waits for its end
        self.stack.callback(process.kill)
        database = Database(self.settings("test").redis_url)
        self.stack.callback(database.close)
        wait_until(partial(answers, database), "redis-server answers")

    def start_services(self) -> None:
        """Start workers and beats, and wait until the workers are ready."""
        queues = "commands,events,turns,sweeps"
        for host in WORKERS:
            words = ["celery", "-A", "tellback_workers.app", "worker", "-n", f"{host}@test", "--loglevel=INFO"]
            pool = ["--without-gossip", "--without-mingle", "--pool=prefork", "--concurrency=2"]
            self.start(host, host, *words, *pool, f"-Q{queues},commands.{host}")
        for host in BEATS:
            schedule = str(self.folder / f"{host}.schedule")
            self.start(host, host, "celery", "-A", "tellback_beat.app", "beat", "-s", schedule)
        for host in WORKERS:
            log = self.folder / f"{host}.log"
            wait_until(partial(_is_ready, log), f"a worker is ready, see {log}", timeout=120)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """All hosts, with Redis, workers and beats at work."""
    with network("redis", *WORKERS, *BEATS, *AGENTS) as net, ExitStack() as stack:
        made = Hosts(net, tmp_path_factory.mktemp("hosts"), stack)
        made.start_redis()
        made.start_services()
        yield made


@dataclass
class TeamLoad:
    """The load of one test in a team of its own, with a transport that the test runs, and the count in the end."""

    hosts: Hosts
    tb: Tellback
    folder: Path
    agents: list[subprocess.Popen[bytes]] = field(default_factory=list[subprocess.Popen[bytes]])
    delivered: list[tuple[str, str, str | None]] = field(default_factory=list[tuple[str, str, str | None]])
    """Turn, kind and text of each delivery."""
    _over: threading.Event = field(default_factory=threading.Event)

    def begin(self) -> None:
        """Start the hosts and the transport, and wait until something was done in each loop."""
        for agent in AGENTS:
            settings = self.hosts.settings(agent, self.tb.context.settings.team)
            name = f"{self.folder.name}-{agent}"
            words = ("tests.support.remote_host", agent, str(self.folder))
            self.agents.append(self.hosts.start(agent, name, *words, settings=settings))
        self._transport = threading.Thread(target=self._deliver)
        self._transport.start()
        self.wait_for_progress()

    def wait_for_progress(self) -> None:
        """Return when calls have been counted, a command has run and a user has an answer since now."""
        calls, runs, answers = self.calls, len(self.runs()), len(self.delivered)

        def progress() -> bool:
            return self.calls > calls and len(self.runs()) > runs and len(self.delivered) > answers

        wait_until(progress, "all loops continue", timeout=120)

    def end(self) -> list[dict[str, Any]]:
        """Let it be enough, wait until everything has had its effect, and return what each host has made."""
        (self.folder / "enough").touch()
        reports = [self.folder / f"{agent}.json" for agent in AGENTS]
        wait_until(lambda: all(report.exists() for report in reports), "the hosts end", timeout=120)
        made = [json.loads(report.read_text()) for report in reports]
        calls = sum(each["calls"] for each in made)
        turns = {turn for each in made for turn in each["turns"]}
        wait_until(lambda: self.calls >= calls, f"{calls} calls are counted", timeout=120)
        wait_until(lambda: len(self.records(made)) >= len(_labels(made)), "each command has a record", timeout=120)
        wait_until(lambda: {each[0] for each in self.delivered} >= turns, "each user has an answer", timeout=120)
        intake = Intake(self.tb.context.database, self.tb.context.layout)
        wait_until(lambda: not any(intake.lengths().values()), "the intake is empty")
        for agent in self.agents:
            agent.communicate(timeout=60)
        self.close()
        return made

    def close(self) -> None:
        """End the transport."""
        self._over.set()
        self._transport.join()

    @property
    def counts(self) -> tuple[int, int]:
        """Calls and fires that the evaluation has counted."""
        session, prompt, name = EVALUATION
        store = Evaluations(self.tb.context.database, self.tb.context.layout.of(session))
        found = store.counts(EvaluationId(session, prompt, name))
        return found.calls, found.fires

    @property
    def calls(self) -> int:
        return self.counts[0]

    def runs(self) -> list[str]:
        """Return the label of each command that has begun, as often as it has."""
        path = self.folder / RUNS
        return path.read_text().split() if path.exists() else []

    def records(self, made: list[dict[str, Any]]) -> list[CommandRecord]:
        """Return the records of all commands that hosts have made."""
        sessions = {session for each in made for session in each["commands"].values()}
        return [record for session in sorted(sessions) for record in self.tb.records(session, last=200)]

    def _deliver(self) -> None:
        while not self._over.is_set():
            for delivery in self.tb.outbox(CHANNEL, wait=0.5):
                if delivery.settle(SENT) == "delivered":
                    self.delivered.append((delivery.turn_id, delivery.kind, delivery.response.text))


@pytest.fixture
def load(hosts: Hosts) -> Iterator[TeamLoad]:
    """The load of this test, begun."""
    for host in hosts.net.hosts:
        hosts.net.heal(host)  # an earlier test may have failed while one was cut off
    team = f"team-{next(hosts.numbers)}"
    folder = hosts.folder / team
    folder.mkdir()
    with connect(settings=hosts.settings("test", team)) as tb:
        load = TeamLoad(hosts, tb, folder)
        try:
            load.begin()
            yield load
        finally:
            (folder / "enough").touch()
            load.close()


def assert_exact(load: TeamLoad, made: list[dict[str, Any]]) -> Counter[bool]:
    """Check every count; return how many commands have an exit code, and how many were lost with their worker."""
    calls = sum(each["calls"] for each in made)
    assert load.counts == (calls, calls // FIRE_EVERY)
    records = load.records(made)
    assert Counter(record.command[3] for record in records) == Counter(_labels(made))
    begun = Counter(load.runs())
    assert max(begun.values()) == 1
    assert {record.command[3] for record in records if record.exit_code is not None} <= set(begun)
    assert {record.exit_code for record in records} <= {0, None}
    first = Counter(turn for turn, kind, _ in load.delivered if kind != "late")
    answers = {turn: text for each in made for turn, text in each["turns"].items()}
    assert first == Counter(answers.keys())
    assert max(Counter((turn, kind) for turn, kind, _ in load.delivered).values()) == 1
    for turn, kind, text in load.delivered:
        assert kind == "fallback" or text == answers[turn], (turn, kind, text)
    assert load.tb.dead.count() == 0
    return Counter(record.exit_code is None for record in records)


def _labels(made: list[dict[str, Any]]) -> set[str]:
    return {label for each in made for label in each["commands"]}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_worker_host_that_is_cut_off_and_comes_back_loses_nothing(hosts: Hosts, load: TeamLoad) -> None:
    """Its long command has a record and is dead before it comes back; others run on the other host meanwhile."""
    tb, seconds = load.tb, f"300.{next(hosts.numbers)}{os.getpid()}"
    script = ["sh", "-c", "touch long; exec sleep $0", seconds]
    lost = tb.submit(script, session="long", cwd=load.folder, host="worker-1", timeout=600)
    wait_until((load.folder / "long").exists, "the long command runs")
    hosts.net.cut("worker-1")
    assert lost.wait(timeout=60).exit_code is None
    wait_until(lambda: not alive(seconds), "the long command is dead, though nobody reaches its worker")
    load.wait_for_progress()
    hosts.net.heal("worker-1")
    back = tb.submit(["true"], session="long", cwd=load.folder, host="worker-1", timeout=60)
    assert back.wait(timeout=120).exit_code == 0
    assert_exact(load, load.end())


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seconds", [8.0, 60.0])
def test_redis_cut_off_for_a_while_loses_nothing(hosts: Hosts, load: TeamLoad, seconds: float) -> None:
    hosts.net.cut("redis")
    time.sleep(seconds)
    hosts.net.heal("redis")
    load.wait_for_progress()
    assert_exact(load, load.end())


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_agent_host_that_is_cut_off_while_it_publishes_loses_nothing(hosts: Hosts, load: TeamLoad) -> None:
    hosts.net.cut("agent-1")
    time.sleep(CUT)
    load.wait_for_progress()
    hosts.net.heal("agent-1")
    load.wait_for_progress()
    lost = assert_exact(load, load.end())
    assert not lost[True], "no worker was cut off, so no command is lost"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_links_that_lose_and_delay_packets_lose_nothing(hosts: Hosts, load: TeamLoad) -> None:
    with ExitStack() as stack:
        counts = [stack.enter_context(hosts.net.lossy(host, 0.03, 10.0)) for host in ("worker-1", "agent-1")]
        time.sleep(CUT)
        load.wait_for_progress()
    assert_exact(load, load.end())
    assert all(lost > 10 for lost, _ in counts), "packets were lost"
