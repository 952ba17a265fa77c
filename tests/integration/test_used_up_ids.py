"""Streams whose ids somebody has used up: with the highest one appended by hand, nothing can follow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import pytest
from redis.exceptions import ResponseError

from tellback import Tellback
from tellback.contracts.codec import encode
from tellback.errors import StateConflict
from tellback.messaging.append_call import Bounds, append_call
from tellback.messaging.spool import SpooledEvent
from tellback.names import Family
from tellback.state.database import Database
from tellback.state.dead_letters import DeadLetter, DeadLetters
from tellback.state.intake import Intake
from tellback.state.keys import Layout, stream_of
from tests.support.tool_calls import call, calls, publish
from tests.support.waiting import wait_until

LAST: Final = 2**64 - 1
HIGHEST: Final = f"{LAST}-{LAST}"


def test_a_stream_whose_ids_are_used_up_begins_again_once_it_is_empty(
    tb: Tellback, consume: Callable[[], None], database: Database
) -> None:
    """Somebody appended with the highest id by hand: nothing could follow, and hosts spooled until they dropped it."""
    publish(tb, 1)
    stream = stream_of(tb.context.layout.of("s"), Family.EVENTS)
    database.command("XADD", stream, HIGHEST, "m", "no JSON")
    publish(tb, 2)
    assert tb.context.publisher.spooled
    assert database.command("XLEN", stream) == 2
    consume()

    def sent() -> bool:
        tb.flush()
        return not tb.context.publisher.spooled

    wait_until(sent, "the spool is sent")
    consume()
    publish(tb, 1)
    consume()
    assert calls(tb) == 4
    assert tb.dead.count() == 1


def test_a_plain_append_finds_a_stream_begun_again_once_it_was_consumed(
    tb: Tellback, consume: Callable[[], None], database: Database, layout: Layout
) -> None:
    """Only our own hosts could begin it again, and a team may have none."""
    stream = stream_of(layout.of("s1"), Family.EVENTS)
    for number in range(2):
        database.command("XADD", stream, HIGHEST, "m", "no JSON")
        with pytest.raises(ResponseError, match="last possible ID"):
            database.command("XADD", stream, "*", "m", "{}")
        consume()
        assert tb.dead.count() == number + 1
    database.command("XADD", stream, "*", "m", encode(call()))
    consume()
    assert len(list(tb.history("s1"))) == 1
    assert tb.dead.count() == 2


def dead_letter(consume: Callable[[], None], database: Database, stream: str, dead: DeadLetters) -> DeadLetter:
    """The only one: it came by the stream."""
    database.command("XADD", stream, "*", "m", "no JSON")
    consume()
    [letter] = dead.newest()
    return letter


def test_a_dead_letter_waits_until_its_stream_takes_entries_again(
    consume: Callable[[], None], database: Database, layout: Layout
) -> None:
    """Its replay raised an error of redis-py."""
    stream, dead = stream_of(layout.of("s"), Family.EVENTS), DeadLetters(database, layout)
    letter = dead_letter(consume, database, stream, dead)
    database.command("XADD", stream, HIGHEST, "m", "by hand")
    with pytest.raises(StateConflict, match="highest id"):
        dead.replay(letter.id)
    assert [each.id for each in dead.newest()] == [letter.id]
    consume()
    dead.replay(letter.id)
    consume()
    assert sorted(each.raw for each in dead.newest()) == ["by hand", "no JSON"]


def test_a_dead_letter_stays_while_its_stream_has_another_type(
    consume: Callable[[], None], database: Database, layout: Layout
) -> None:
    """Somebody has set the key by hand."""
    stream, dead = stream_of(layout.of("s"), Family.EVENTS), DeadLetters(database, layout)
    letter = dead_letter(consume, database, stream, dead)
    database.command("DEL", stream)
    database.command("SET", stream, "by hand")
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        dead.replay(letter.id)
    assert [each.id for each in dead.newest()] == [letter.id]
    database.command("DEL", stream)


def test_a_lease_is_released_whatever_type_its_stream_has(database: Database, layout: Layout) -> None:
    """Its key would stay for the rest of the lease, and nobody could consume the stream that is made again."""
    shard, intake = layout.shard(0), Intake(database, layout)
    lease = intake.take_lease(shard, Family.EVENTS, 60)
    assert lease is not None
    database.command("SET", lease.stream, "by hand")
    intake.release(lease)
    database.command("DEL", lease.stream)
    assert intake.take_lease(shard, Family.EVENTS, 60) is not None


def test_a_call_for_which_too_few_ids_are_left_appends_none(database: Database, layout: Layout) -> None:
    """The first ones stayed, without a mark, and were there twice once the call was sent again."""
    stream = stream_of(layout.shard(0), Family.EVENTS)
    events = [SpooledEvent(stream, b"%d" % number, "writer", number) for number in range(1, 6)]
    append = append_call(events, Bounds(100, 1 << 20))

    def raws() -> Sequence[bytes]:
        return [fields[1] for _, fields in database.command("XRANGE", stream, "-", "+")]

    database.command("XADD", stream, f"{LAST}-{LAST - 3}", "m", "by hand")
    with pytest.raises(ResponseError, match="last possible ID"):
        database.run(append)
    assert raws() == [b"by hand"]
    database.command("XTRIM", stream, "MAXLEN", 0)
    database.run(append)
    assert raws() == [b"1", b"2", b"3", b"4", b"5"]
