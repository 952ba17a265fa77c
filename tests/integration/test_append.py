"""The script that appends events: exact under any resends, and bounded in entries and bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tellback import Settings
from tellback.contracts.guidance import ToolInvoked
from tellback.contracts.message import new_event_id
from tellback.messaging.append_call import Bounds, StreamFull, append_call, end_of_call
from tellback.messaging.lane import AppendOutcome, append_all
from tellback.messaging.publisher import Publisher
from tellback.messaging.spool import SpooledEvent
from tellback.names import Family
from tellback.state.database import Database
from tellback.state.keys import Layout, mark_of, stream_of
from tellback.state.lua_text import script_text
from tellback.state.script_calls import Command
from tests.support.examples import examples
from tests.support.waiting import wait_until

STREAM = stream_of(Layout("default", 4).shard(0), Family.EVENTS)
WIDE = Bounds(100_000, 1 << 30)


def event(number: int, writer: str = "w", stream: str = STREAM, raw: bytes = b"") -> SpooledEvent:
    return SpooledEvent(stream, raw or f"{writer}{number}".encode(), writer, number)


def append(database: Database, events: list[SpooledEvent], bounds: Bounds = WIDE) -> None:
    bounds.check(STREAM, database.run(append_call(events, bounds)))


def contents(database: Database, stream: str = STREAM) -> list[bytes]:
    return [fields[1] for _, fields in database.command("XRANGE", stream, "-", "+")]


@pytest.mark.parametrize("events", [1, 4_000, 4_001, 9_000])
def test_one_call_appends_as_many_events_as_a_host_may_send(database: Database, events: int) -> None:
    """Lua takes at most 8,000 values off a table at once; `TELLBACK_PUBLISH_BATCH` may be 10,000."""
    sent = [event(number) for number in range(1, events + 1)]
    append(database, sent)
    assert contents(database) == [one.raw for one in sent]


# One writer's attempts: each sends some events of what is not yet acknowledged, its reply may be lost, and an attempt
# whose reply was lost may run once more at any later time, as a delayed packet does.
ATTEMPTS = st.lists(
    st.tuples(st.integers(1, 5), st.integers(0, 2), st.booleans(), st.integers(0, 3)), min_size=1, max_size=30
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(60))
@given(writers=st.lists(ATTEMPTS, min_size=1, max_size=3))
def test_lost_replies_resends_and_late_originals_append_each_event_once_in_order(
    database: Database, writers: list[list[tuple[int, int, bool, int]]]
) -> None:
    """Gaps are events that were dropped as too old: they are never sent, and harm nothing."""
    database.command("FLUSHALL")
    for name, attempts in zip("abc", writers, strict=False):
        acknowledged, late, expected = 0, list[list[SpooledEvent]](), list[bytes]()
        for size, dropped, lost, again in attempts:
            acknowledged += dropped if not late else 0
            first = acknowledged + 1
            chunk = [event(number, name) for number in range(first, first + size)]
            append(database, chunk)
            expected += [one.raw for one in chunk if one.raw not in expected]
            if lost:
                late.append(chunk)
            else:
                acknowledged += size
            if late and again:
                append(database, late[again % len(late)])
        for chunk in late:
            append(database, chunk)
        own = [raw for raw in contents(database) if raw.startswith(name.encode())]
        assert own == sorted(expected, key=lambda raw: int(raw[1:]))


@pytest.mark.parametrize("mark", ["inf", "-inf", "nan", "1e300", "many"])
def test_a_mark_that_is_the_number_of_no_event_drops_none(database: Database, mark: str) -> None:
    """By hand somebody set one to "inf": each event of that writer was acknowledged, and none was appended."""
    database.command("SET", mark_of(STREAM, "w"), mark, "PX", 60_000)
    append(database, [event(1), event(2)])
    append(database, [event(2), event(3)])
    assert contents(database) == [b"w1", b"w2", b"w3"]


def test_events_without_a_writer_are_appended_each_time(database: Database) -> None:
    for _ in range(2):
        append(database, [SpooledEvent(STREAM, b"x"), SpooledEvent(STREAM, b"y")])
    assert contents(database) == [b"x", b"y", b"x", b"y"]
    assert database.command("KEYS", "*writer*") == []


def test_a_call_ends_before_a_gap_another_writer_and_too_many_bytes() -> None:
    events = [event(1), event(2), event(4), event(5, "v"), event(6, "v", raw=b"x" * (600 << 10)), event(7, "v")]
    ends = [end_of_call(events, start, 100) for start in range(len(events))]
    assert ends == [2, 2, 3, 4, 5, 6]
    assert end_of_call([event(n) for n in range(1, 10)], 0, 4) == 4


def test_a_refusal_names_the_bound_what_the_stream_holds_and_the_setting(database: Database) -> None:
    append(database, [event(1), event(2)])
    with pytest.raises(StreamFull, match=r"holds 2 entries in \d+ bytes, and its bound is 2 entries.*INTAKE_MAX$"):
        append(database, [event(3)], Bounds(2, 1 << 30))
    with pytest.raises(StreamFull, match=r"its bound is 100 bytes.*TELLBACK_INTAKE_MAX_BYTES$"):
        append(database, [event(3)], Bounds(10, 100))
    append(database, [event(1), event(2)], Bounds(1, 1))  # it is there: nothing to refuse
    assert contents(database) == [b"w1", b"w2"]
    assert database.command("GET", mark_of(STREAM, "w")) == b"2"


def test_one_stream_of_another_type_costs_the_others_nothing(database: Database, layout: Layout) -> None:
    good = stream_of(layout.shard(1), Family.EVENTS)
    database.command("SET", STREAM, "no stream")
    outcomes = [AppendOutcome(), AppendOutcome()]
    waiting = [[event(n) for n in range(1, 8)], [event(n, stream=good) for n in range(1, 8)]]
    append_all(database, WIDE, 3, waiting, outcomes)
    assert outcomes[0].sent == 0
    assert "WRONGTYPE" in str(outcomes[0].trouble)
    assert (outcomes[1].sent, outcomes[1].trouble) == (7, None)
    assert len(contents(database, good)) == 7
    database.command("DEL", STREAM)


def sessions_of_two_shards(layout: Layout) -> tuple[str, str]:
    first = "s0"
    second = next(f"s{n}" for n in range(1, 100) if layout.of(f"s{n}") != layout.of(first))
    return first, second


def call(session: str, tool: str, result: str = "") -> ToolInvoked:
    return ToolInvoked(event_id=new_event_id(), session=session, evaluation="e", tool=tool, result=result)


@pytest.fixture
def small(database: Database, layout: Layout, settings: Settings) -> Iterator[Publisher]:
    publisher = Publisher(database, layout, msgspec.structs.replace(settings, intake_max=5, publish_batch=5))
    yield publisher
    publisher.close()


def tools(database: Database, layout: Layout, session: str) -> list[str]:
    stream = stream_of(layout.of(session), Family.EVENTS)
    return [msgspec.json.decode(raw)["tool"] for raw in contents(database, stream)]


def take_all(publisher: Publisher, database: Database, layout: Layout, session: str) -> list[str]:
    """Make room in a session's stream until nothing is spooled; the tools of all that came through it."""
    arrived: list[str] = []
    while True:
        arrived += tools(database, layout, session)
        database.command("DEL", stream_of(layout.of(session), Family.EVENTS))
        if not publisher.spooled:
            return arrived
        publisher.flush()


def test_a_shard_at_its_bound_holds_up_no_other_of_its_family(
    database: Database, layout: Layout, small: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tellback.messaging.publisher.RETRY_SECONDS", 3_600.0)
    full, free = sessions_of_two_shards(layout)
    for number in range(20):
        small.publish(call(full, f"t{number}"))
    small.flush()
    assert small.spooled
    small.publish(call(full, "behind"))
    small.publish(call(free, "at once"))
    wait_until(lambda: tools(database, layout, free) == ["at once"], "the other shard's event is sent by itself")
    assert take_all(small, database, layout, full) == [*(f"t{number}" for number in range(20)), "behind"]


def test_healthy_streams_of_one_flush_share_a_round_trip(
    database: Database, layout: Layout, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = Publisher(database, layout, msgspec.structs.replace(settings, publish_delay=60.0))
    database.command("SCRIPT", "LOAD", script_text("intake/append_events"))
    trips: list[int] = []
    pipeline = database.pipeline

    def counted(commands: Sequence[Command], **options: bool) -> list[Any]:
        trips.append(len(commands))
        return pipeline(commands, **options)

    monkeypatch.setattr(database, "pipeline", counted)
    for number in range(100):
        publisher.publish(call(f"s{number}", "t"))
    publisher.flush()
    assert trips == [4, 4], "the events, and a notification of each stream that nobody consumes"
    publisher.close()


def test_the_bound_in_bytes_holds_within_one_flush(database: Database, layout: Layout, settings: Settings) -> None:
    """40 MB are buffered for a stream that may hold 2 MiB: it is passed by one call at most."""
    limits = msgspec.structs.replace(settings, intake_max_bytes=8 << 20, publish_delay=60.0)
    publisher = Publisher(database, layout, limits)
    for number in range(800):
        publisher.publish(call("s0", f"t{number}", "x" * 50_000))
    publisher.flush()
    assert publisher.spooled
    stream = stream_of(layout.of("s0"), Family.EVENTS)
    assert 2 << 20 <= database.command("MEMORY", "USAGE", stream, "SAMPLES", 0) < (2 << 20) + (600 << 10)
    assert take_all(publisher, database, layout, "s0") == [f"t{number}" for number in range(800)]
    publisher.close()
