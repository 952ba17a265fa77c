"""A command's path from submission to record: the messages and round trips that it takes, and what else it touches."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence

import msgspec
import pytest
from celery import Celery

from tellback import OutgoingResponse, Settings, SignalItem, Tellback
from tellback.broker import KEY_PREFIX
from tellback.names import Family
from tellback.state.database import Database
from tellback.state.intake import mark_pending
from tellback.state.job_keys import ANY_POOL
from tellback.state.keys import stream_of
from tellback.state.redis_py import RedisConnections
from tellback.state.script_calls import Command
from tellback_workers import jobs
from tellback_workers.runtime import Runtime
from tests.support.tool_calls import publish
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers

SESSION = "s"


@pytest.fixture
def in_worker(settings: Settings, app: Celery, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    """Tasks run here, as in a process of a worker."""
    del app
    runtime = Runtime(settings)
    monkeypatch.setattr(jobs, "current_runtime", lambda: runtime)
    yield runtime
    runtime.database.close()
    runtime.short_database.close()


def run_job(tb: Tellback) -> None:
    """Do what a wake-up for the shard of the session asks for."""
    shard = tb.context.layout.of(SESSION)
    jobs.run_job.run(shard.team, shard.index, ANY_POOL)


def submit(tb: Tellback, commands: int) -> None:
    for _ in range(commands):
        tb.submit(["true"], session=SESSION)
    tb.flush()


def queued(database: Database) -> list[list[object]]:
    """The arguments of the messages in the queue of commands."""
    messages = [msgspec.json.decode(raw) for raw in database.command("LRANGE", f"{KEY_PREFIX}commands", 0, -1)]
    return [msgspec.json.decode(base64.b64decode(message["body"]))[0] for message in messages]


def pushed(database: Database) -> int:
    """The messages that the broker was given since its counts were reset."""
    lines = database.command("INFO", "commandstats").decode().splitlines()
    counts = [line.partition("calls=")[2].partition(",")[0] for line in lines if line.startswith("cmdstat_lpush:")]
    return int(counts[0]) if counts else 0


def test_a_command_takes_one_message_from_submission_to_record(
    tb: Tellback, start_workers: StartWorkers, database: Database
) -> None:
    start_workers(queues="commands")
    assert tb.submit(["true"], session=SESSION).wait(timeout=60).succeeded, "and then all is connected"
    for _ in range(3):
        database.command("CONFIG", "RESETSTAT")
        assert tb.submit(["true"], session=SESSION).wait(timeout=60).succeeded
        assert pushed(database) == 1


def test_running_a_command_consumes_nothing_else(tb: Tellback, start_workers: StartWorkers, database: Database) -> None:
    """Events of the other families wait for workers of their own queues, in streams that nobody has read."""
    publish(tb, 3)
    tb.bank("b").signal([SignalItem(fact_id="f", signal_type="used", query="q")])
    tb.open_turn(channel="c", conversation="c", message_id="m", text="hi").finish(OutgoingResponse.text_only("hello"))
    tb.flush()
    others = [family for family in Family if family is not Family.COMMANDS]
    waiting = [("XLEN", stream_of(shard, family)) for shard in tb.context.layout.all for family in others]
    before = database.pipeline(waiting)
    assert sum(before) == 5
    start_workers(queues="commands")
    assert tb.submit(["true"], session=SESSION).wait(timeout=60).succeeded
    assert database.pipeline(waiting) == before


@pytest.mark.usefixtures("in_worker")
def test_a_command_by_itself_takes_six_round_trips(tb: Tellback, monkeypatch: pytest.MonkeyPatch) -> None:
    """They take its stream, queue it, find nothing more, look at the queues, lease it, and store its record."""
    trips: list[list[object]] = []
    run_all = RedisConnections.run_all

    def counted(self: RedisConnections, commands: Sequence[Command], **options: bool) -> list[object]:
        trips.append([command[0] for command in commands])
        return run_all(self, commands, **options)

    submit(tb, 1)
    run_job(tb)  # loads the scripts
    submit(tb, 1)
    monkeypatch.setattr(RedisConnections, "run_all", counted)
    run_job(tb)
    monkeypatch.undo()
    assert len(tb.records(SESSION)) == 2
    assert len(trips) == 6, trips


def test_the_jobs_that_a_task_queues_wake_one_more_worker(tb: Tellback, in_worker: Runtime) -> None:
    submit(tb, 5)
    run_job(tb)
    assert len(tb.records(SESSION)) == 5
    shard = tb.context.layout.of(SESSION)
    assert queued(in_worker.database) == [[shard.team, shard.index, ANY_POOL]]


def test_a_task_that_must_end_wakes_another_for_the_jobs_that_it_queued(
    tb: Tellback, in_worker: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "shutting_down", lambda: True)
    submit(tb, 2)
    run_job(tb)
    assert not tb.records(SESSION)
    assert len(queued(in_worker.database)) == 1
    monkeypatch.undo()


def test_a_task_that_finds_nothing_ends_the_pending_marker(tb: Tellback, in_worker: Runtime) -> None:
    """The next submission, within three seconds, would otherwise wake nobody."""
    place = (tb.context.layout.of(SESSION), Family.COMMANDS)
    assert mark_pending(in_worker.database, [place]) == ["due"]
    run_job(tb)
    assert mark_pending(in_worker.database, [place]) == ["due"]


def test_commands_of_a_burst_are_run_by_all_processes(tb: Tellback, start_workers: StartWorkers) -> None:
    """Each woken process wakes one more while jobs wait; no sweep helps within the minute."""
    running = [tb.submit(["sleep", "600"], session=SESSION) for _ in range(3)]
    tb.flush()
    start_workers(queues="commands", concurrency=3, env={"TELLBACK_BEAT_PERIOD": "60"})
    key = tb.context.layout.of(SESSION).key("running")
    wait_until(lambda: tb.context.database.command("ZCARD", key) == 3, "all three run")
    for job in running:
        job.cancel()
    assert all((job.wait(timeout=60).error or "").startswith("cancelled") for job in running)
