"""The intake store against a real Redis."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
from redis.exceptions import ResponseError

from tellback.errors import Unavailable
from tellback.names import Family
from tellback.state import intake as module
from tellback.state.database import Database
from tellback.state.intake import Intake, mark_pending
from tellback.state.intake_lease import Fenced, Lease, Read
from tellback.state.keys import Layout, Shard, stream_of
from tellback.state.script_calls import ScriptCall
from tellback.state.scripts import intake as scripts
from tests.support.intake_entries import idle_streams, lease_of, read_new
from tests.support.link import Link
from tests.support.redis_server import RedisServer
from tests.support.waiting import blocked, wait_until

FAMILY = Family.EVENTS


@pytest.fixture(params=["few", "many"])
def number_of_streams(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read as one does of few streams, or of many."""
    if request.param == "many":
        monkeypatch.setattr(module, "FEW_STREAMS", 0)


def append(database: Database, shard: Shard, *raws: bytes, family: Family = FAMILY) -> None:
    for raw in raws:
        database.command("XADD", stream_of(shard, family), "*", "m", raw)


def three_of(intake: Intake, shard: Shard) -> list[Lease]:
    """Leases of streams that are read together: on a cluster, those of one slot."""
    return [lease_of(intake, shard, family=family) for family in (Family.EVENTS, Family.TURNS, Family.COMMANDS)]


def test_one_consumer_holds_a_stream_and_the_next_has_a_higher_fence(layout: Layout, intake: Intake) -> None:
    shard = layout.shard(0)
    first = lease_of(intake, shard)
    assert intake.take_lease(shard, FAMILY, 5) is None
    intake.release(first)
    assert lease_of(intake, shard).fence > first.fence


def test_no_fence_comes_again_after_a_failover_that_lost_the_last_one(
    database: Database, layout: Layout, intake: Intake
) -> None:
    """The counter goes back by as much as was lost, and the consumer of before it is still there."""
    shard = layout.shard(0)
    append(database, shard, b"a")
    first = lease_of(intake, shard)
    database.command("DEL", first.key, shard.key("fence", FAMILY))
    assert lease_of(intake, shard).fence != first.fence
    with pytest.raises(Fenced):
        intake.read_pending(first, "0", 1)


def test_releasing_a_lease_that_passed_on_leaves_the_new_holder_alone(
    database: Database, layout: Layout, intake: Intake
) -> None:
    shard = layout.shard(0)
    first = lease_of(intake, shard)
    database.command("DEL", first.key)
    lease_of(intake, shard)
    intake.release(first)
    assert intake.take_lease(shard, FAMILY, 5) is None


def test_a_successor_reads_what_a_dead_consumer_left_with_its_deliveries(
    database: Database, layout: Layout, intake: Intake
) -> None:
    shard = layout.shard(0)
    append(database, shard, b"a", b"b")
    lease = lease_of(intake, shard)
    assert [entry.deliveries for entry in read_new(intake, lease, 10)] == [1, 1]
    assert [(entry.raw, entry.deliveries) for entry in intake.read_pending(lease, "0", 1)] == [(b"a", 2)]
    assert [(entry.raw, entry.deliveries) for entry in intake.read_pending(lease, "0", 2)] == [(b"a", 3), (b"b", 2)]


def test_large_entries_are_read_a_few_at_a_time(database: Database, layout: Layout, intake: Intake) -> None:
    shard = layout.shard(0)
    append(database, shard, *[b"x" * (2 << 20)] * 30)
    assert 1 <= len(read_new(intake, lease_of(intake, shard), 500)) <= 10


@pytest.mark.usefixtures("number_of_streams")
def test_what_waits_in_several_streams_is_read_at_once_and_bounded(
    database: Database, layout: Layout, intake: Intake
) -> None:
    shard = layout.shard(0)
    first, second, third = leases = three_of(intake, shard)
    append(database, shard, *[b"x" * (1 << 20)] * 30)
    append(database, shard, b"a", b"b", b"c", family=third.family)
    after = intake.last_read(leases)
    read = intake.read_next(after, 2, 60_000).entries
    assert [(entry.raw, entry.deliveries) for entry in read[third]] == [(b"a", 1), (b"b", 1)]
    assert read.keys() == {first, third}
    sizes = {len(intake.read_next(after, 500, 60_000).entries[first]) for _ in range(2)}
    most = 6 if module.FEW_STREAMS else 9
    assert all(1 <= size <= most for size in sizes), "a share of the bytes of one read, each"
    assert intake.read_next(intake.last_read([second]), 500, 10) == Read()


@pytest.mark.usefixtures("number_of_streams")
def test_a_read_waits_for_the_next_entry_of_any_stream(database: Database, layout: Layout, intake: Intake) -> None:
    shard = layout.shard(0)
    leases = three_of(intake, shard)
    append(database, shard, b"read before, never applied", family=leases[1].family)
    assert len(read_new(intake, leases[1], 10)) == 1
    after = intake.last_read(leases)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(intake.read_next, after, 10, 3_000)
        wait_until(lambda: blocked(database) == 1, "the read waits")
        append(database, shard, b"a", family=leases[2].family)
        read = reading.result(timeout=60)
    assert {lease: [entry.raw for entry in raws] for lease, raws in read.entries.items()} == {leases[2]: [b"a"]}
    assert (read.fenced, read.released) == ([], [])


def test_of_many_streams_only_those_with_new_entries_are_asked(
    database: Database, layout: Layout, intake: Intake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script for each of the many that one lingers on would take longer than the entry that one of them has."""
    monkeypatch.setattr(module, "FEW_STREAMS", 2)
    asked, build = list[str](), scripts.read_stream

    def note(**parts: Any) -> ScriptCall:
        asked.append(parts["intake"])
        return build(**parts)

    monkeypatch.setattr(scripts, "read_stream", note)
    leases = three_of(intake, layout.shard(0))
    append(database, leases[1].shard, b"a", family=leases[1].family)
    read = intake.read_next(dict.fromkeys(leases, b"0-0"), 10, 60_000)
    assert [entry.raw for entry in read.entries[leases[1]]] == [b"a"]
    assert asked == [leases[1].stream]


@pytest.mark.usefixtures("number_of_streams")
def test_what_waits_is_found_again_in_a_database_that_was_emptied(
    database: Database, layout: Layout, intake: Intake
) -> None:
    lease = lease_of(intake, layout.shard(0))
    after = intake.last_read([lease])
    database.command("DEL", lease.stream)
    append(database, lease.shard, b"a")
    assert [entry.raw for entry in intake.read_next(after, 10, 60_000).entries[lease]] == [b"a"]


def test_new_entries_are_distinguished_from_read_ones(database: Database, layout: Layout, intake: Intake) -> None:
    shard = layout.shard(0)
    lease = lease_of(intake, shard)
    assert intake.with_new([lease]) == []
    append(database, shard, b"a")
    assert intake.with_new([lease]) == [lease]
    read_new(intake, lease, 10)
    assert intake.with_new([lease]) == []


def test_a_stream_is_leased_and_read_in_one_call_unless_entries_are_pending(
    database: Database, layout: Layout, intake: Intake
) -> None:
    """Entries that a dead consumer left are applied first."""
    shard = layout.shard(0)
    append(database, shard, b"a", b"b")
    (taken,) = intake.take_each([shard], FAMILY, 5, 1)
    assert (taken.pending, [entry.raw for entry in taken.entries]) == (False, [b"a"])
    assert intake.take_each([shard], FAMILY, 5, 1) == []
    intake.release(taken.lease)
    (again,) = intake.take_each([shard], FAMILY, 5, 1)
    assert (again.pending, again.entries) == (True, [])
    assert again.lease.fence > taken.lease.fence


def test_a_stream_without_new_entries_is_released_at_the_read(
    database: Database, layout: Layout, intake: Intake
) -> None:
    """An entry that comes after it has a wake-up of its own; one that came before it is read."""
    shard = layout.shard(0)
    ((lease, *_),) = intake.take_each([shard], FAMILY, 5, 0, linger=True)
    append(database, shard, b"a")
    assert [entry.raw for entry in read_new(intake, lease, 10)] == [b"a"]
    assert mark_pending(database, [(shard, FAMILY)]) == ["lingering"]
    assert intake.read_or_release([lease], 10) == Read(released=[lease])
    assert mark_pending(database, [(shard, FAMILY)]) == ["due"]
    assert intake.take_lease(shard, FAMILY, 5) is not None


def test_a_lease_on_a_stream_without_a_group_can_be_used(database: Database, layout: Layout, intake: Intake) -> None:
    """A host that knows only XADD appended to a database that was emptied."""
    database.command("FLUSHALL")
    append(database, layout.shard(0), b"a")
    (taken,) = intake.take_each([layout.shard(0)], FAMILY, 5, 10)
    assert (taken.pending, [entry.raw for entry in taken.entries]) == (False, [b"a"])
    database.command("XGROUP", "DESTROY", taken.lease.stream, "consumer")
    assert [entry.raw for entry in read_new(intake, taken.lease, 10)] == [b"a"], "the group is created"
    assert intake.read_or_release([taken.lease], 10) == Read(released=[taken.lease])


def test_an_idle_stream_is_one_with_entries_and_neither_consumer_nor_wakeup(
    database: Database, layout: Layout, intake: Intake
) -> None:
    shard = layout.shard(2)
    append(database, shard, b"a")
    assert idle_streams(database, layout) == [(shard, FAMILY)]
    assert mark_pending(database, [(shard, FAMILY)]) == ["due"]
    assert mark_pending(database, [(shard, FAMILY)]) == ["pending"]
    assert idle_streams(database, layout) == []
    lease = lease_of(intake, shard)  # takes the wake-up with it
    assert idle_streams(database, layout) == []
    intake.release(lease)
    assert idle_streams(database, layout) == [(shard, FAMILY)]


@pytest.mark.usefixtures("number_of_streams")
def test_a_consumer_past_its_lease_gets_no_entry(database: Database, layout: Layout, intake: Intake) -> None:
    """Its commits are fenced, so what it read would be applied after later entries, and only by the next consumer."""
    shard = layout.shard(0)
    past = lease_of(intake, shard)
    after = intake.last_read([past])
    append(database, shard, b"pending")
    assert len(read_new(intake, past, 1)) == 1
    database.command("DEL", past.key)  # it expired while its holder stood still
    holder = lease_of(intake, shard)
    append(database, shard, b"first", b"second")
    assert intake.read_or_release([past], 1) == Read(fenced=[past])
    assert intake.read_next(after, 1, 60_000) == Read(fenced=[past])
    with pytest.raises(Fenced):
        intake.read_pending(past, "0", 1)
    assert [(entry.raw, entry.deliveries) for entry in intake.read_pending(holder, "0", 1)] == [(b"pending", 2)]
    assert [entry.raw for entry in read_new(intake, holder, 2)] == [b"first", b"second"]


def test_a_read_whose_reply_was_lost_is_not_repeated(
    redis_server: RedisServer, database: Database, layout: Layout, intake: Intake
) -> None:
    """A second read would get later entries, and they would be applied before those of the first."""
    shard = layout.shard(0)
    lease = lease_of(intake, shard)
    append(database, shard, b"a", b"b", b"c", b"d")
    with Link(redis_server.port) as link, closing(Database(link.url)) as far:
        reader = Intake(far, layout)
        assert [entry.raw for entry in read_new(reader, lease, 1)] == [b"a"]
        for blocks in (False, True):
            link.losing = link.once = True
            with pytest.raises(Unavailable):
                _ = reader.read_next({lease: b"0-0"}, 1, 10) if blocks else reader.read_or_release([lease], 1)
            reader.last_read([lease])  # connects again
    assert [entry.raw for entry in intake.read_pending(lease, "0", 10)] == [b"a", b"b", b"c"]


@pytest.mark.usefixtures("number_of_streams")
def test_a_wait_that_redis_refuses_is_an_error(layout: Layout, intake: Intake) -> None:
    """A read that did not wait would be made again at once, and again."""
    lease = lease_of(intake, layout.shard(0))
    with pytest.raises(ResponseError, match="Invalid stream ID"):
        intake.read_next({lease: b"no id"}, 10, 10)


@pytest.mark.usefixtures("number_of_streams")
def test_clocks_are_read_in_the_round_trip_of_the_entries(
    database: Database, layout: Layout, intake: Intake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer that lingers asked for a shard's clock when the first call after a second had come."""
    shard = layout.shard(1)
    lease = lease_of(intake, shard)
    database.command("HSET", shard.key("clock"), "most", 5_000)  # set back by five seconds
    database.command("XADD", lease.stream, "*", "m", "x")
    reader = Intake(database, layout)  # knows no clock yet
    notified_after = None if database.is_cluster() else "0-0"  # which has another slot
    assert list(reader.read_next({lease: b"0-0"}, 10, 10, notified_after).entries) == [lease]
    monkeypatch.setattr(module, "set_back", asked_again)
    assert reader.read_at(shard) > 1_000 * (database.now_ms() + 4_000)


def asked_again(_: Database, shards: Sequence[Shard]) -> list[int]:
    pytest.fail(f"a round trip for {shards}")


def no_steps(_: Database, shards: Sequence[Shard]) -> list[int]:
    return [0] * len(shards)


def test_threads_share_what_is_known_of_clocks(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The threads of a pool removed the same outdated answers at once, and from then on each call raised KeyError."""
    monkeypatch.setattr(module, "SET_BACK_SECONDS", 0.0001)
    monkeypatch.setattr(module, "set_back", no_steps)  # as quick as threads can meet
    layout = Layout("default", 64)
    intake = Intake(database, layout)
    interval = sys.getswitchinterval()

    def ask(shards: Sequence[Shard]) -> int:
        return sum(intake.read_at(shard) for _ in range(300) for shard in shards)

    try:
        sys.setswitchinterval(1e-6)
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(ask, [layout.all] * 4)) == [0] * 4
    finally:
        sys.setswitchinterval(interval)
