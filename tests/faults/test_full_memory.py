"""Redis at its `maxmemory`, with the broker in it: workers continue to apply, to answer users and to keep records."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tellback import OutgoingResponse, Settings, Tellback, connect
from tellback.contracts.codec import encode
from tellback.contracts.guidance import ToolInvoked
from tellback.contracts.message import new_event_id
from tellback.errors import Unavailable
from tellback.names import Family
from tellback.state.evaluation_codec import EvaluationId
from tellback.state.evaluations import Evaluations
from tellback.state.keys import stream_of
from tellback.state.records import Records
from tellback.state.unavailable import RedisFull
from tests.support.keyleaks import undeclared
from tests.support.redis_server import RedisServer
from tests.support.turns import delivered_now, opened, state
from tests.support.waiting import wait_until
from tests.support.workers import Workers, stopped

pytestmark = [pytest.mark.faults, pytest.mark.slow]

ROOM = 8 << 20  # of memory for the backlog: two batches of events, which a busy machine applies within the waits
RESULT = "what a tool said, at some length. " * 240  # 8 KB
SESSIONS = [f"s{number}" for number in range(8)]
SILENT = 5
LEASE = 2.0  # of the running command: it must be renewed while Redis is full


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    """State and broker in one Redis of this test."""
    with RedisServer.start(tmp_path) as server:
        yield Settings(
            redis_url=server.url, data_dir=str(tmp_path / "data"), job_lease=LEASE, host="alpha", beat_period=0.5
        )


@pytest.fixture
def tb(settings: Settings) -> Iterator[Tellback]:
    with connect(settings=settings) as client:
        yield client


@contextmanager
def running(settings: Settings, folder: Path, queues: str) -> Generator[Workers]:
    workers = Workers(settings, folder, queues=queues)
    try:
        workers.start()
        yield workers
    finally:
        workers.stop()


def event(number: int, result: str = RESULT) -> ToolInvoked:
    session = SESSIONS[number % len(SESSIONS)]
    return ToolInvoked(event_id=new_event_id(), session=session, prompt="p", evaluation="e", tool="t", result=result)


def fill(tb: Tellback) -> int:
    """Append events until Redis refuses even a small one; how many it took."""
    database, layout = tb.context.database, tb.context.layout
    used = int(database.command("INFO", "memory").partition(b"used_memory:")[2].split()[0])
    database.command("CONFIG", "SET", "maxmemory", used + ROOM)
    count = refused = 0
    while refused < 50:  # in a row: the buffers of clients come and go
        made = event(count, RESULT if refused == 0 else "small")
        try:
            database.command("XADD", stream_of(layout.of(made.session), Family.EVENTS), "*", "m", encode(made))
        except RedisFull:
            refused += 1
        else:
            count, refused = count + 1, 0
    return count


def calls(tb: Tellback) -> int:
    shards = tb.context.layout
    return sum(
        Evaluations(tb.context.database, shards.of(session)).counts(EvaluationId(session, "p", "e")).calls
        for session in SESSIONS
    )


def waiting(tb: Tellback) -> int:
    streams = [stream_of(shard, Family.EVENTS) for shard in tb.context.layout.all]
    return sum(tb.context.database.pipeline([("XLEN", stream) for stream in streams]))


@pytest.mark.parametrize("for_good", [False, True], ids=["full of the backlog", "full for good"])
def test_a_full_redis_is_emptied_and_users_are_answered(
    tb: Tellback, settings: Settings, tmp_path: Path, *, for_good: bool
) -> None:
    """Workers do it all by themselves if it is full for good: nothing that they free lets a wake-up pass."""
    flag = tmp_path / "flag"
    with (
        running(settings, tmp_path, "commands,commands.alpha") as runner,
        running(settings, tmp_path, "events,turns,sweeps") as loops,
    ):
        job = tb.submit(
            ["sh", "-c", f"while [ ! -e {flag} ]; do sleep 0.05; done; echo done"], session="job", timeout=100
        )
        tb.flush()
        running_jobs = tb.context.layout.of("job").key("running")
        wait_until(lambda: tb.context.database.command("ZCARD", running_jobs), "the command runs")
        silent = [opened(tb, conversation=f"c{number}", answer_within=3.0) for number in range(SILENT)]
        answered = opened(tb, conversation="answered", answer_within=60.0)
        with stopped(loops):
            filled = fill(tb)
            bound = tb.context.database.command("CONFIG", "GET", "maxmemory")[1]
            tb.context.database.command("CONFIG", "SET", "maxmemory", 1)  # at the bound buffers make room now and then
            with pytest.raises(Unavailable, match=r"Redis at .* is full"):
                opened(tb, conversation="refused")
            answered.respond(OutgoingResponse.text_only("all is well"))
            assert state(answered) == "responded"
            late = [event(number, "small") for number in range(8)]
            for made in late:
                tb.context.publisher.publish(made)
            tb.flush()
            assert tb.context.publisher.spooled, "what Redis refuses waits on this host's disk"
            wait_until(lambda: {state(turn) for turn in silent} == {"fallback"}, "fallbacks are written")
            assert {delivery.kind for delivery in delivered_now(tb)} == {"answer", "fallback"}
            if not for_good:
                tb.context.database.command("CONFIG", "SET", "maxmemory", bound)
        wait_until(lambda: waiting(tb) == 0 or calls(tb) >= filled, f"{loops.logs[0]}: the backlog is applied")
        wait_until(lambda: waiting(tb) == 0, "no entry is left")
        flag.touch()
        record = job.wait(timeout=60)
        assert (record.exit_code, record.error) == (0, None), "its lease was renewed all the while"
        if for_good:
            assert calls(tb) == filled
            tb.context.database.command("CONFIG", "SET", "maxmemory", 0)
        wait_until(lambda: calls(tb) == filled + len(late), "also what was kept on disk, once each")
        assert [workers.processes[0].poll() for workers in (runner, loops)] == [None, None]
        after = tb.submit(["true"], session="job")
        assert after.wait(timeout=60).exit_code == 0, "and all continues as before"
        queues = ("tbq:events", "tbq:commands")
        wait_until(lambda: tb.context.database.pipeline([("LLEN", q) for q in queues]) == [0, 0], "wake-ups are taken")
        assert not undeclared(tb.context.database)


def test_a_worker_that_begins_in_a_full_redis_empties_it(tb: Tellback, settings: Settings, tmp_path: Path) -> None:
    silent = opened(tb, answer_within=1.0)
    filled = fill(tb)
    tb.context.database.command("CONFIG", "SET", "maxmemory", 1)
    workers = Workers(settings, tmp_path, queues="events,turns,sweeps")
    try:
        workers.launch()  # its consumer is not ready before the broker takes something
        wait_until(lambda: waiting(tb) == 0, f"the backlog is applied, see {workers.logs[0]}")
        assert calls(tb) == filled
        wait_until(lambda: state(silent) == "fallback", "the user is answered")
        assert workers.processes[0].poll() is None
        tb.context.database.command("CONFIG", "SET", "maxmemory", 0)
        workers.wait_ready()
    finally:
        workers.stop()


def test_the_record_of_a_dead_worker_needs_no_broker(tb: Tellback, settings: Settings, tmp_path: Path) -> None:
    """The message of the sweep that writes it is refused; what is to run again does so when there is room."""
    flag = tmp_path / "flag"
    waits = ["sh", "-c", f"while [ ! -e {flag} ]; do sleep 0.05; done; echo done"]
    with (
        running(settings, tmp_path, "commands,commands.alpha") as runner,
        running(settings, tmp_path, "events,turns,sweeps") as loops,
    ):
        once = tb.submit(waits, session="job", timeout=100)
        again = tb.submit(waits, session="job", timeout=100, on_lost="retry")
        tb.flush()
        running_jobs = tb.context.layout.of("job").key("running")
        wait_until(lambda: tb.context.database.command("ZCARD", running_jobs) == 2, "the commands run")
        tb.context.database.command("CONFIG", "SET", "maxmemory", 1)
        runner.kill()
        record = once.wait(timeout=60)
        assert (record.exit_code, record.error is None) == (None, False)
        kept = Records(tb.context.database, tb.context.layout)
        wait_until(lambda: len(kept.last("job")) == 2, "the other one has its record too")
        assert int(tb.context.database.command("CONFIG", "GET", "maxmemory")[1]) == 1, "Redis is full all the while"
        assert loops.processes[0].poll() is None
        flag.touch()
        tb.context.database.command("CONFIG", "SET", "maxmemory", 0)
        runner.start()
        tb.submit(
            ["true"], session="job"
        )  # its wake-up serves both; beat, of which there is none, repeats refused ones
        last = again.wait(timeout=60)
        assert (last.exit_code, last.attempt, last.parent_command_id) == (0, 2, again.command_id)
        wait_until(lambda: len(kept.last("job")) == 4, "one record each")


def test_a_broker_that_is_away_keeps_nothing_waiting(tmp_path: Path) -> None:
    """The broker has a Redis of its own: the state is there, but no wake-up can be published."""
    folders = [tmp_path / name for name in ("state", "broker")]
    for folder in folders:
        folder.mkdir()
    with RedisServer.start(folders[0]) as redis, RedisServer.start(folders[1]) as broker:
        settings = Settings(redis_url=redis.url, broker_url=broker.url, data_dir=str(tmp_path / "data"))
        with connect(settings=settings) as tb, running(settings, tmp_path, "events,turns") as workers:
            broker.kill()
            for number in range(100):
                tb.context.publisher.publish(event(number, "small"))
            silent = opened(tb, answer_within=1.0)
            tb.flush()
            wait_until(lambda: calls(tb) == 100, f"the events are applied, see {workers.logs[0]}")
            wait_until(lambda: state(silent) == "fallback", "the user is answered")
            broker.launch()
            tb.context.publisher.publish(event(0, "small"))
            tb.flush()
            wait_until(lambda: calls(tb) == 101, "and all continues")
            wait_until(lambda: "rescue.wakeup_failed" in workers.log(), "the log says why")
            assert workers.processes[0].poll() is None
