"""Hosts, workers, beat and Redis die in the middle of turns: each user has exactly one first answer all the same."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tellback import Tellback, connect
from tellback.names import Task
from tellback.settings import Settings
from tellback.state.turn_view import TurnView
from tests.support.redis_server import RedisServer
from tests.support.stopping_worker import APP, standing_still, stopping_at
from tests.support.turns import HELLO, SENT, deadline_passes, delivered_now, opened, store
from tests.support.waiting import wait_until
from tests.support.workers import Workers, environment

PERIOD = 0.5
TIMEOUT = 60.0
BUSY = 30.0  # seconds that a busy machine may add to the two periods; `pytest -rP` shows how late it was

pytestmark = [pytest.mark.faults, pytest.mark.slow, pytest.mark.timeout(240)]

# An agent host: opens turns, does what its task says in the middle of each, says which turns it has, and waits.
HOST = """
import sys
import tellback
task, conversation, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with tellback.connect() as tb:
    turns = [tb.open_turn(channel="chat", conversation=conversation, message_id=str(number), text="hi",
                          answer_within=float(sys.argv[4])) for number in range(count)]
    if task == "finishing":
        for turn in turns:
            turn._store.mark_finishing(turn.ref, 500)
    print(*[turn.id for turn in turns], flush=True)
    if task == "respond":
        sys.stdin.readline()
        print(*[turn.respond(tellback.OutgoingResponse.text_only("from the disk")) for turn in turns], flush=True)
    sys.stdin.read()
"""


class KillableHost:
    """A real process with turns of its own."""

    def __init__(
        self, settings: Settings, task: str, conversation: str, count: int = 1, answer_within: float = 1.5
    ) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", HOST, task, conversation, str(count), str(answer_within)],
            env=environment(settings),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.turns = self._said()

    def goes_on(self) -> list[str]:
        """Let it do what it waited for; what it says then."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self._said()

    def kill(self) -> None:
        """SIGKILL, as the death of its machine would."""
        self._process.kill()
        self._process.communicate()

    def _said(self) -> list[str]:
        assert self._process.stdout is not None
        return self._process.stdout.readline().split()


class KillableFleet:
    """A Redis, workers and beat, each of which can be killed; nothing is shared with another test."""

    def __init__(self, folder: Path) -> None:
        self.redis = RedisServer.start(folder)
        self.settings = Settings(redis_url=self.redis.url, data_dir=str(folder / "host"), beat_period=PERIOD)
        self.folder = folder
        self.workers = Workers(self.settings, folder, queues="sweeps,turns")
        self._beat: subprocess.Popen[bytes] | None = None

    def with_settings(self, **changes: float) -> None:
        """Workers and beat that start from now on have these settings."""
        self.settings = msgspec.structs.replace(self.settings, **changes)
        self.workers = Workers(self.settings, self.folder, queues="sweeps,turns")

    def start_beat(self) -> None:
        """A real beat, which is heard."""
        command = [sys.executable, "-m", "celery", "-A", "tellback_beat.app", "beat", "--loglevel=INFO"]
        command += ["-s", str(self.folder / "due")]
        log = self.folder / "beat.log"
        with log.open("wb") as out:
            self._beat = subprocess.Popen(command, env=environment(self.settings), stdout=out, stderr=out)
        wait_until(lambda: Task.VISIT_TEAMS in log.read_text(), "beat sends ticks", timeout=TIMEOUT)

    def kill_beat(self) -> None:
        """Kill beat with SIGKILL."""
        if self._beat is not None:
            self._beat.kill()
            self._beat.wait()
            self._beat = None

    def end(self) -> None:
        """Stop everything."""
        self.kill_beat()
        self.workers.stop()
        self.redis.kill()


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[KillableFleet]:
    """A fleet of which only Redis runs; the test starts the rest."""
    fleet = KillableFleet(tmp_path)
    yield fleet
    fleet.end()


@pytest.fixture
def users(fleet: KillableFleet) -> Iterator[Tellback]:
    """A client that reads turns and the outbox, as a host of its own with a spool of its own."""
    with connect(settings=msgspec.structs.replace(fleet.settings, data_dir=str(fleet.folder / "users"))) as tb:
        yield tb


def now(tb: Tellback) -> int:
    """Server time: the moment from which everything that is needed is there again."""
    return tb.context.database.now_ms()


def closed(tb: Tellback, turns: list[str], since: int = 0) -> list[TurnView]:
    """These turns, once each has its first answer: two periods after its deadline, or after `since`."""

    def all_closed() -> list[TurnView]:
        found = [view for view in store(tb).load(turns) if view is not None]
        return found if len(found) == len(turns) and not any(view.is_open for view in found) else []

    found = wait_until(all_closed, "each turn has its first answer", timeout=TIMEOUT)
    late = max((view.closed_at or 0) - max(view.deadline or 0, since) for view in found) / 1000
    sys.stdout.write(f"answered {late / PERIOD:.2f} periods after the deadline, or the return, at the latest\n")
    assert late <= 2 * PERIOD + BUSY
    return found


def firsts(tb: Tellback) -> Counter[tuple[str, str]]:
    """Every first answer in the outbox, by turn and kind; taking them settles them."""
    return Counter((delivery.turn_id, delivery.kind) for delivery in delivered_now(tb) if delivery.kind != "late")


def fallbacks(turns: list[str]) -> Counter[tuple[str, str]]:
    """Return the expected deliveries: one fallback for each turn."""
    return Counter((turn, "fallback") for turn in turns)


def test_hosts_killed_before_they_answer_and_before_they_publish(fleet: KillableFleet, users: Tellback) -> None:
    """They die between opening and answering, and between marking a turn as finishing and publishing its answer."""
    fleet.workers.start(1)
    fleet.start_beat()
    tasks = [(task, f"{task}{number}") for task in ("wait", "finishing") for number in range(3)]
    hosts = [KillableHost(fleet.settings, task, conversation, 3, 600.0) for task, conversation in tasks]
    turns = [turn for host in hosts for turn in host.turns]
    assert Counter(view.state for view in store(users).load(turns) if view) == {"open": 9, "finishing": 9}
    for host in hosts:
        host.kill()
    for turn in turns:
        deadline_passes(users, users.turn(turn))
    assert {view.state for view in closed(users, turns, now(users))} == {"fallback"}
    assert firsts(users) == fallbacks(turns)


def test_beat_killed_while_turns_are_open(fleet: KillableFleet, users: Tellback) -> None:
    fleet.workers.start(2)
    fleet.start_beat()
    host = KillableHost(fleet.settings, "wait", "c1", 20)
    fleet.kill_beat()
    host.kill()
    assert {view.state for view in closed(users, host.turns)} == {"fallback"}
    later = KillableHost(fleet.settings, "wait", "c2", 20, 0.2)  # beat has been dead for as long as the first ones took
    closed(users, later.turns)
    later.kill()
    assert firsts(users) == fallbacks(host.turns + later.turns)


def test_a_worker_whose_processes_are_all_busy_still_sweeps(fleet: KillableFleet, users: Tellback) -> None:
    """It reads neither the queue of sweeps nor that of turns, its pool is stopped, and beat is not there."""
    fleet.workers = Workers(fleet.settings, fleet.folder, queues="signals", concurrency=1)
    fleet.workers.start(1)
    for process in fleet.workers.children():
        process.suspend()
    host = KillableHost(fleet.settings, "wait", "c1", 5, 0.2)
    closed(users, host.turns)
    for process in fleet.workers.children():
        process.resume()
    host.kill()
    assert firsts(users) == fallbacks(host.turns)


def test_a_worker_killed_in_the_middle_of_a_sweep(fleet: KillableFleet, users: Tellback) -> None:
    fleet.with_settings(sweep_batch=1)  # a round trip or two for each turn: there is a middle
    turns = [opened(users, conversation=f"c{number % 20}", answer_within=0.001).id for number in range(1_500)]
    env = stopping_at("tellback.state.turns:Turns.fall_back", 30, fleet.folder / "stopped")
    first = Workers(fleet.settings, fleet.folder, queues="sweeps,turns", env=env, app=APP)
    try:
        first.start()
        with standing_still(first):
            first.kill()
    finally:
        first.kill_all()
    assert 0 < _fallbacks(users, turns) < 1_500, "killed in the middle"
    fleet.workers.start(1)
    closed(users, turns, now(users))
    assert firsts(users) == fallbacks(turns)


def _fallbacks(tb: Tellback, turns: list[str]) -> int:
    return sum(view is not None and view.state == "fallback" for view in store(tb).load(turns))


def test_redis_restarted_while_turns_are_open_and_deliveries_in_flight(fleet: KillableFleet, users: Tellback) -> None:
    """Claimed deliveries can be settled after the restart; waiting ones are still in order, and none is there twice."""
    fleet.workers.start(1)
    fleet.start_beat()
    answered = [opened(users, conversation=f"a{number}") for number in range(10)]
    for turn in answered:
        turn.respond(HELLO)
    host = KillableHost(fleet.settings, "wait", "c1", 10, 3.0)
    held = [delivery for _, delivery in zip(range(4), users.outbox("chat"), strict=False)]
    fleet.redis.restart()
    assert [delivery.settle(SENT) for delivery in held] == ["delivered"] * 4
    host.kill()
    closed(users, host.turns)
    found = firsts(users)
    found.update((delivery.turn_id, delivery.kind) for delivery in held)
    assert found == fallbacks(host.turns) + Counter((turn.id, "answer") for turn in answered)


def test_redis_stopped_for_longer_than_the_deadlines(fleet: KillableFleet, users: Tellback) -> None:
    fleet.workers.start(1)
    fleet.start_beat()
    host = KillableHost(fleet.settings, "wait", "c1", 20, 0.5)
    fleet.redis.kill()
    host.kill()
    end = time.monotonic() + 2.0
    wait_until(lambda: time.monotonic() > end, "all deadlines pass while Redis is away")
    fleet.redis.launch()
    assert {view.state for view in closed(users, host.turns, now(users))} == {"fallback"}
    assert firsts(users) == fallbacks(host.turns)


def test_an_answer_that_a_dead_host_left_on_its_disk_follows_the_fallback(
    fleet: KillableFleet, users: Tellback
) -> None:
    """Redis goes, the host spools its answers and is killed; Redis returns, the sweep answers; the host is back."""
    host = KillableHost(fleet.settings, "respond", "c1", 5, 0.5)
    fleet.redis.kill()
    assert host.goes_on() == ["spooled"] * 5
    host.kill()
    fleet.redis.launch()
    fleet.workers.start(1)
    closed(users, host.turns, now(users))
    assert firsts(users) == fallbacks(host.turns), "the users have heard something"
    with connect(settings=fleet.settings) as again:  # the same host: it finds the spool
        newer = opened(again, conversation="c2")
        wait_until(lambda: _late(users, host.turns) == 5, "the answers on disk are applied", timeout=TIMEOUT)
        newer.respond(HELLO)
    reported = [item for item in delivered_now(users) if item.turn_id != newer.id]
    assert Counter((item.turn_id, item.kind) for item in reported) == Counter((turn, "late") for turn in host.turns)
    assert {item.response.text for item in reported} == {"from the disk"}
    assert sorted(str(item.response.reply_to) for item in reported) == ["0", "1", "2", "3", "4"]


def _late(tb: Tellback, turns: list[str]) -> int:
    return sum(view is not None and view.late_at is not None for view in store(tb).load(turns))


def test_everything_dies_at_once(fleet: KillableFleet, users: Tellback) -> None:
    """Host, worker, beat and Redis are killed; only Redis and one worker come back."""
    fleet.workers.start(1)
    fleet.start_beat()
    host = KillableHost(fleet.settings, "wait", "c1", 20, 0.5)
    fleet.redis.kill()
    host.kill()
    fleet.kill_beat()
    fleet.workers.kill()
    fleet.redis.launch()
    fleet.workers.start(1)
    closed(users, host.turns, now(users))
    assert firsts(users) == fallbacks(host.turns)
