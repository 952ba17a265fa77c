"""Many entries of a stream, which their consumer reads itself, and what a dead one leaves of them."""

from __future__ import annotations

from contextlib import closing

import pytest

from tellback.errors import Unavailable
from tellback.names import Family
from tellback.state.database import Database
from tellback.state.intake import Intake
from tellback.state.intake_lease import Fenced, Read
from tellback.state.keys import Layout, Shard, stream_of
from tests.support.intake_entries import lease_of, read_new
from tests.support.interleaving import Interrupted
from tests.support.link import Link
from tests.support.redis_server import RedisServer

FAMILY = Family.EVENTS
MANY = 600  # more than a script delivers
LAST_ID = f"{(1 << 64) - 1}-{(1 << 64) - 1}"


@pytest.fixture
def shard(database: Database, layout: Layout) -> Shard:
    """A shard in whose stream many entries wait."""
    shard = layout.shard(0)
    database.pipeline([("XADD", stream_of(shard, FAMILY), "*", "m", number) for number in range(MANY)])
    return shard


def numbers(*expected: int) -> list[bytes | None]:
    return [str(number).encode() for number in range(*expected)]


def test_many_entries_are_read_once_and_in_order(database: Database, intake: Intake, shard: Shard) -> None:
    (taken,) = intake.take_each([shard], FAMILY, 60, 200)
    read = [*taken.entries, *read_new(intake, taken.lease, 300), *read_new(intake, taken.lease, 300)]
    assert [entry.raw for entry in read] == numbers(MANY)
    assert {entry.deliveries for entry in read} == {1}
    assert intake.read_or_release([taken.lease], 300) == Read(released=[taken.lease])


def test_a_successor_recovers_many_entries_before_new_ones(database: Database, intake: Intake, shard: Shard) -> None:
    """Each counts as delivered twice then, and one that was read again as often as it was."""
    dead = lease_of(intake, shard)
    assert len(read_new(intake, dead, MANY - 1)) == MANY - 1
    intake.release(dead)
    (taken,) = intake.take_each([shard], FAMILY, 60, MANY)
    assert (taken.pending, taken.entries) == (True, [])
    assert [(entry.raw, entry.deliveries) for entry in intake.read_pending(taken.lease, "0", 1)] == [(b"0", 2)]
    left = intake.read_pending(taken.lease, "0", MANY)
    assert [entry.raw for entry in left] == numbers(MANY - 1)
    assert [entry.deliveries for entry in left] == [3] + [2] * (MANY - 2)
    assert [entry.raw for entry in read_new(intake, taken.lease, MANY)] == numbers(MANY - 1, MANY)


def test_recovery_lists_no_more_than_it_reads(database: Database, intake: Intake, shard: Shard) -> None:
    """However many entries stand up to the group's last id, such as after an operator's XGROUP SETID."""
    read_new(intake, lease := lease_of(intake, shard), MANY)
    for _ in range(2):
        assert [entry.raw for entry in intake.read_pending(lease, "0", 1)] == [b"0"]
    assert database.command("XPENDING", lease.stream, "consumer")[0] == 1


def test_recovery_ends_at_the_last_possible_id(database: Database, intake: Intake, shard: Shard) -> None:
    """A host may choose it, and Redis refuses a range that begins after it."""
    lease = lease_of(intake, shard)
    database.command("XADD", lease.stream, LAST_ID, "m", "last")
    assert read_new(intake, lease, MANY + 1)[-1].id == LAST_ID
    assert intake.read_pending(lease, LAST_ID, 1) == []


@pytest.mark.parametrize("taking", [True, False])
def test_a_consumer_whose_lease_passes_on_while_it_reads_gets_none_of_them(
    database: Database, layout: Layout, intake: Intake, shard: Shard, *, taking: bool
) -> None:
    """They are new to the holder: else it would apply later ones first."""
    past = None if taking else lease_of(intake, shard)
    with closing(
        Interrupted(database.url, "XRANGE", lambda: database.command("DEL", shard.key("lease", FAMILY)))
    ) as far:
        if past is None:
            assert Intake(far, layout).take_each([shard], FAMILY, 60, 200) == []
        else:
            assert Intake(far, layout).read_or_release([past], 200) == Read(fenced=[past])
        assert far.interrupted
    (holder,) = intake.take_each([shard], FAMILY, 60, MANY)
    assert (holder.pending, [entry.raw for entry in holder.entries]) == (False, numbers(MANY))
    if past is not None:
        with pytest.raises(Fenced):
            intake.read_pending(past, "0", 1)


@pytest.mark.parametrize(("last_heard", "delivered"), [("EVALSHA", False), ("XRANGE", True)])
@pytest.mark.parametrize("once", [True, False])
def test_a_lost_reply_costs_no_entry(
    redis_server: RedisServer,
    layout: Layout,
    intake: Intake,
    shard: Shard,
    last_heard: str,
    *,
    delivered: bool,
    once: bool,
) -> None:
    """Each round trip after the first may be repeated. If the last one's replies are lost, a dead consumer left all."""
    lease = lease_of(intake, shard)
    read_new(intake, lease, 1)  # Redis has the script from here on
    with Link(redis_server.port) as link:

        def lose() -> None:
            link.once, link.losing = once, 1.0

        with closing(Interrupted(link.url, last_heard, lose)) as far:
            if once:
                assert [entry.raw for entry in read_new(Intake(far, layout), lease, 200)] == numbers(1, 201)
                return
            with pytest.raises(Unavailable):
                read_new(Intake(far, layout), lease, 200)
    intake.release(lease)
    (taken,) = intake.take_each([shard], FAMILY, 60, 100)
    left = intake.read_pending(taken.lease, "0", MANY)
    assert taken.pending
    assert [entry.raw for entry in left] == (numbers(201) if delivered else numbers(1))


def test_a_stream_that_is_gone_when_it_is_read_gives_nothing(
    database: Database, layout: Layout, intake: Intake, shard: Shard
) -> None:
    """Its team was removed."""
    lease = lease_of(intake, shard)
    assert len(read_new(intake, lease, 1)) == 1, "Redis has the script by now"
    with closing(Interrupted(database.url, "EVALSHA", lambda: database.command("DEL", lease.stream))) as far:
        assert Intake(far, layout).read_or_release([lease], 200) == Read()
        assert far.interrupted
    assert database.command("EXISTS", lease.stream) == 0
