"""Going from one command to the next: the record and the next lease in one round trip, by what was seen just before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from tellback import clock
from tellback.errors import Unavailable
from tellback.names import Family
from tellback.state import job_claims
from tellback.state.database import Database
from tellback.state.job_claims import Claim, JobClaimant, JobLease
from tellback.state.job_keys import ANY_POOL
from tellback.state.jobs import Jobs
from tellback.state.keys import Layout, Shard, stream_of
from tellback.state.records import Records
from tellback.state.script_calls import Arg, Command, ScriptCall
from tests.support.jobs import CommandQueue, ended


@pytest.fixture
def layout(_emptied: None) -> Layout:
    """One shard, so that the order is that of one queue."""
    return Layout("default", 1)


@pytest.fixture(autouse=True)
def lately(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow this machine is, what was seen at the last command is acted on."""
    monkeypatch.setattr(job_claims, "FRESH_SECONDS", 60.0)


def claimant(seconds: float = 60.0) -> JobClaimant:
    return JobClaimant(ANY_POOL, seconds=seconds, worker="w@test", host="h")


def first(jobs: Jobs, who: JobClaimant) -> JobLease:
    lease = jobs.lease(who)
    assert lease is not None
    return lease


class CountedTrips(Database):
    """Counts round trips."""

    trips = 0

    def run_each(
        self,
        calls: Sequence[ScriptCall],
        also: Sequence[Command] = (),
        *,
        first: Sequence[Command] = (),
        repeat: bool = True,
    ) -> list[object]:
        self.trips += 1
        return super().run_each(calls, also, first=first, repeat=repeat)

    def command(self, *parts: Arg) -> object:
        self.trips += 1
        return super().command(*parts)


def test_a_record_and_the_next_lease_are_one_round_trip(
    database: Database, layout: Layout, queue: CommandQueue
) -> None:
    """Each of many queued commands costs one, and the last one costs another that finds nothing."""
    ids = [queue.put("s") for _ in range(30)]
    counted = CountedTrips(database.url)
    jobs, who = Jobs(counted, layout), claimant()
    lease: JobLease | None = first(jobs, who)
    taken: list[str] = []
    before = counted.trips
    while lease is not None:
        taken.append(lease.command_id)
        stored, lease = jobs.finish_and_lease(lease, ended(lease), who)
        assert stored
    assert taken == ids
    assert counted.trips - before <= len(ids) + 1
    assert len(Records(counted, layout).last("s")) == 30
    counted.close()


def test_a_record_is_stored_whether_or_not_a_next_command_can_be_leased(
    database: Database, layout: Layout, queue: CommandQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failover just after it made the worker's log say that the record was lost."""
    queue.put("s")
    jobs, who = Jobs(database, layout), claimant()
    lease = first(jobs, who)

    def away(_claimant: JobClaimant) -> JobLease | None:
        raise Unavailable("the primary is gone")

    monkeypatch.setattr(jobs, "lease", away)
    assert jobs.finish_and_lease(lease, ended(lease), who) == (True, None)


def test_each_command_is_leased_once_however_many_go_on(
    database: Database, layout: Layout, queue: CommandQueue
) -> None:
    """Workers that saw the same queue take different commands of it, and none is left."""
    ids = {queue.put(f"s{number % 7}") for number in range(300)}

    def work(_worker: int) -> list[str]:
        own, who = Jobs(database, layout), claimant()
        found: list[str] = []
        lease = own.lease(who)
        while lease is not None:
            found.append(lease.command_id)
            stored, lease = own.finish_and_lease(lease, ended(lease), who)
            assert stored
        return found

    with ThreadPoolExecutor(8) as pool:
        taken = Counter(id_ for found in pool.map(work, range(8)) for id_ in found)
    assert set(taken) == ids
    assert set(taken.values()) == {1}
    assert sum(len(Records(database, layout).last(f"s{number}")) for number in range(7)) == 300


def test_an_urgent_command_waits_for_one_other_at_most(jobs: Jobs, queue: CommandQueue) -> None:
    """A command that is submitted while another runs is claimed after the next one at the latest."""
    for _ in range(10):
        queue.put("s", priority="batch")
    who = claimant()
    lease = first(jobs, who)
    queue.put("s", "urgent", priority="interactive")
    order: list[str] = []
    for _ in range(2):
        _, following = jobs.finish_and_lease(lease, ended(lease), who)
        assert following is not None
        lease = following
        order.append(lease.command_id)
    assert "urgent" in order


def test_what_was_seen_long_ago_is_checked_again(
    jobs: Jobs, queue: CommandQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a command that took its time, what is urgent now comes first."""
    for _ in range(3):
        queue.put("s", priority="batch")
    who = claimant()
    lease = first(jobs, who)
    queue.put("s", "urgent", priority="interactive")
    monkeypatch.setattr(who, "heads_at", clock.monotonic() - 61)
    _, following = jobs.finish_and_lease(lease, ended(lease), who)
    assert following is not None
    assert following.command_id == "urgent"


def test_a_lease_whose_reply_was_lost_is_given_again(database: Database, jobs: Jobs, queue: CommandQueue) -> None:
    """It has the same token and its whole length, and nobody else gets it."""
    queue.put("s", "c1")
    queue.put("s", "c2")
    who = claimant(seconds=30.0)
    jobs.finish(running := first(jobs, who), ended(running))  # it has looked, and saw both
    claim = Claim(who)
    given = claim.lease(database.run(claim.call), 0.0)
    again = claim.lease(database.run(claim.call), 0.0)
    assert given is not None
    assert again is not None
    assert (given.command_id, given.token) == (again.command_id, again.token)
    assert database.run(Claim(who).call) is None
    assert jobs.finish(again, ended(again))
    assert database.run(claim.call) is None, "it has its record"


def test_waiting_submissions_are_applied_between_commands(
    database: Database, layout: Layout, jobs: Jobs, queue: CommandQueue
) -> None:
    """Whoever continues lets none stand in the intake behind what is queued."""
    applied: list[Shard] = []
    for _ in range(4):
        queue.put("s")
    who = claimant()
    who.apply_intake = applied.extend
    lease = first(jobs, who)
    assert applied == []
    database.command("XADD", stream_of(layout.shard(0), Family.COMMANDS), "*", "m", "{}")
    for _ in range(2):
        _, following = jobs.finish_and_lease(lease, ended(lease), who)
        lease = following or lease
    assert applied == [layout.shard(0)]
