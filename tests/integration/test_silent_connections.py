"""A firewall forgets the connections that exist: what is sent on them vanishes, and new ones are served."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import msgspec
import pytest

from tellback import Tellback, Unavailable, aio, connect
from tellback.client.outbox import open_outbox_store
from tellback.contracts.commands import CommandRecord
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.job_claims import JobClaimant, JobLease
from tellback.state.job_keys import ANY_POOL
from tellback.state.jobs import Jobs
from tellback.state.keys import Layout
from tellback.state.records import Records
from tellback.state.script_calls import ScriptCall
from tellback_workers.jobs import JobWorker
from tellback_workers.lease_heartbeat import LeaseHeartbeat
from tellback_workers.runtime import Runtime
from tellback_workers.sweep_jobs import WATCH
from tests.support.jobs import CommandQueue, ended
from tests.support.link import Link
from tests.support.redis_server import RedisServer
from tests.support.turns import HELLO, SENT, opened, state

SHORT_LEASE = 3.0  # seconds; a reply is waited for five
THREADS = 4
CALLS = 3  # one after the other, after the silence


@pytest.fixture
def link(_emptied: None, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Link]:
    """The link of a client that waits half a second for each reply."""
    monkeypatch.setattr("tellback.state.redis_py.SOCKET_TIMEOUT", 0.5)
    with Link(redis_server.port) as link:
        yield link


@pytest.fixture
def beyond(settings: Settings, link: Link) -> Settings:
    """Settings of a client beyond the link."""
    return msgspec.structs.replace(settings, redis_url=link.url)


class FallingSilent(Database):
    """A client whose connections fall silent when it calls a script: the server runs it, and the reply is lost."""

    def __init__(self, link: Link, script: str) -> None:
        super().__init__(link.url)
        self._link = link
        self._script = script
        self.calls = 0

    def run(self, call: ScriptCall) -> Any:
        """Run a script."""
        if call.script.name == self._script:
            self.calls += 1
            if self.calls == 1:
                self._link.forget(requests=True)
        return super().run(call)


def use_at_once(database: Database) -> list[bool]:
    """Use as many connections at once as there are threads, and return which of the calls got no reply."""
    together = threading.Barrier(THREADS)

    def use() -> bool:
        together.wait()
        try:
            database.blocking(0.2, "BLPOP", "tb:{default.0}:nothing")
        except Unavailable:
            return True
        return False

    with ThreadPoolExecutor(THREADS) as pool:
        return [each.result() for each in [pool.submit(use) for _ in range(THREADS)]]


def test_of_many_silent_connections_one_costs_a_call(link: Link) -> None:
    """Each that was idle then cost a call of its own, if as many threads used them."""
    with closing(Database(link.url)) as far:
        assert not any(use_at_once(far))
        link.forget()
        with pytest.raises(Unavailable):
            far.command("PING")
        assert not any(use_at_once(far))


def test_a_silent_connection_that_was_idle_for_long_costs_no_call(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tellback.state.redis_py.IDLE_SECONDS", 0.0)
    with closing(Database(link.url)) as far:
        assert not any(use_at_once(far))
        link.forget()
        assert not any(use_at_once(far))


def test_events_on_a_silent_connection_count_once(link: Link, beyond: Settings, database: Database) -> None:
    """They are in the stream, as after any lost reply, and the host sends them again."""
    with connect(settings=beyond) as tb:
        prompt = tb.prompt("s1", "p")
        prompt.tool_invoked("t")
        tb.flush()
        link.forget(requests=True)
        prompt.tool_invoked("t")
        tb.flush()
        assert tb.context.publisher.spooled
        tb.flush()
        stream = tb.context.layout.of("s1").key("in", "events")
        assert database.command("XLEN", stream) == 3, "the beginning of the evaluation, and two calls"


def test_a_command_whose_lease_was_given_on_a_silent_connection_runs(link: Link, database: Database) -> None:
    """Nobody would have renewed that lease, and the command would have ended as lost."""
    layout = Layout("default", 1)
    id_ = CommandQueue(database, layout).put("s1")
    with closing(FallingSilent(link, "commands/lease_job")) as far:
        lease = Jobs(far, layout).lease(JobClaimant(ANY_POOL, seconds=60, worker="w@test", host="h"))
    assert far.calls == 2
    assert lease is not None
    assert lease.command_id == id_


def test_a_quick_command_under_a_short_lease_whose_record_is_sent_on_a_silent_connection_is_not_lost(
    redis_server: RedisServer, database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sending the record again takes longer than the lease, and commands of under 0.2 s had no heartbeat."""
    layout = Layout("default", 1)
    jobs, records = Jobs(database, layout), Records(database, layout)
    with Link(redis_server.port) as link:
        runtime = Runtime(msgspec.structs.replace(settings, redis_url=link.url, shards=1, job_lease=SHORT_LEASE))
        CommandQueue(database, layout).put("s1")

        def ends_in_silence(_worker: JobWorker, lease: JobLease, _heartbeat: LeaseHeartbeat) -> CommandRecord:
            link.forget()
            return ended(lease)

        monkeypatch.setattr(JobWorker, "_run", ends_in_silence)
        running = threading.Thread(target=JobWorker(runtime, "default", "w@test", ANY_POOL).run, args=(once(),))
        running.start()
        while running.is_alive():  # the sweep of another worker
            for lost in jobs.overdue():
                jobs.mark_lost(lost, SHORT_LEASE * WATCH)
            running.join(0.1)
        for used in (runtime.database, runtime.short_database):
            used.close()
    assert [record.exit_code for record in records.last("s1")] == [0]
    assert records.superseded("s1") == []


def once() -> Callable[[], bool]:
    """A worker's question if it may lease a job: one."""
    answers = iter([True])
    return lambda: next(answers, False)


def test_a_delivery_that_was_claimed_on_a_silent_connection_is_sent(
    link: Link, tb: Tellback, settings: Settings
) -> None:
    """It would have waited for the end of its lease, and then been ambiguous."""
    turn = opened(tb)
    turn.respond(HELLO)
    with closing(FallingSilent(link, "turns/claim_delivery")) as far:
        store = open_outbox_store(far, tb.context.layout, settings)
        [(place, expected)] = store.ready("chat", 10)
        taken = store.claim(place, expected)
        assert far.calls == 2
        assert taken is not None
        assert (taken.attempt, taken.ambiguous) == (1, False)
        assert store.settle(place, taken, SENT) == "delivered"
    assert state(turn) == "responded"


def test_a_client_of_asyncio_goes_on(link: Link, beyond: Settings) -> None:
    async def use() -> list[bool]:
        found: list[bool] = []
        async with aio.connect(settings=beyond) as tb:
            await tb.records("s1")
            link.forget()
            for _ in range(CALLS):
                try:
                    await tb.records("s1")
                except Unavailable:
                    found.append(True)
                else:
                    found.append(False)
        return found

    assert asyncio.run(use()) == [True, False, False]
