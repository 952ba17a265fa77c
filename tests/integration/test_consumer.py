"""The consumer against a real Redis: order, poison, dead letters, fencing. The loop records, and commits for real."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from tellback.contracts.codec import encode
from tellback.contracts.guidance import ToolInvoked
from tellback.contracts.message import new_event_id
from tellback.errors import InvalidInput, NotFound, StateConflict, Unavailable
from tellback.names import Family
from tellback.state import dead_letters as dead_module
from tellback.state.database import Database
from tellback.state.dead_letters import DeadLetters
from tellback.state.intake import Intake
from tellback.state.intake_lease import Fenced, IntakeEntry, Lease, committed
from tellback.state.keys import Shard, stream_of
from tellback_workers.consumer import MAX_DELIVERIES, Consumer
from tests.support.acknowledge import acknowledge
from tests.support.intake_entries import read_new

FAMILY = Family.EVENTS


class Recorder:
    """Acknowledges what it is given, and fails where a test says so."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.batches: list[list[str]] = []
        self.poison: set[str] = set()
        self.away = False

    def ready(self) -> None:
        if self.away:
            raise Unavailable("no model")

    def apply(self, lease: Lease, entries: Sequence[IntakeEntry]) -> None:
        names = [tool_of(entry) for entry in entries]
        self.batches.append(names)
        if bad := self.poison.intersection(names):
            raise ValueError(f"cannot take {bad.pop()} with password=hunter2")
        committed(self.database.run(acknowledge(lease, entries)))


def tool_of(entry: IntakeEntry) -> str:
    assert isinstance(entry.message, ToolInvoked)
    return entry.message.tool


@pytest.fixture
def recorder(database: Database) -> Recorder:
    return Recorder(database)


@pytest.fixture
def consumer(intake: Intake, dead: DeadLetters, recorder: Recorder) -> Consumer:
    # A consumer stops after half its lease: a busy machine may take seconds to print the tracebacks of failed batches.
    return Consumer(intake, dead, recorder, lease_seconds=60, batch=3)


def append(database: Database, shard: Shard, *tools: str | bytes, field: str = "m") -> None:
    for tool in tools:
        raw = tool if isinstance(tool, bytes) else encode(
            ToolInvoked(event_id=new_event_id(), session="s", evaluation="e", tool=tool)
        )  # fmt: skip
        database.command("XADD", stream_of(shard, FAMILY), "*", field, raw)


def waiting(database: Database, shard: Shard) -> int:
    return int(database.command("XLEN", stream_of(shard, FAMILY)))


def test_entries_are_applied_in_order_in_batches_and_leave_the_stream(
    database: Database, shard: Shard, consumer: Consumer, recorder: Recorder
) -> None:
    append(database, shard, *"abcdefg")
    assert consumer.consume(shard, FAMILY) is False
    assert recorder.batches == [["a", "b", "c"], ["d", "e", "f"], ["g"]]
    assert waiting(database, shard) == 0


def test_poison_costs_itself_only_and_becomes_a_dead_letter_with_its_reason(
    database: Database, shard: Shard, consumer: Consumer, recorder: Recorder, dead: DeadLetters
) -> None:
    recorder.poison = {"b"}
    append(database, shard, *"abcd")
    for _ in range(MAX_DELIVERIES):
        consumer.consume(shard, FAMILY)
    assert recorder.batches[:4] == [["a", "b", "c"], ["a"], ["b"], ["c"]]
    assert [batch for batch in recorder.batches if "b" in batch] == [["a", "b", "c"], *[["b"]] * (MAX_DELIVERIES - 1)]
    (letter,) = dead.newest()
    assert letter.reason.startswith(f"failed {MAX_DELIVERIES} times; last: ")
    assert "hunter2" not in letter.reason
    assert msgspec.json.decode(letter.raw)["tool"] == "b"
    assert waiting(database, shard) == 0


def test_an_entry_whose_worker_died_each_time_becomes_a_dead_letter_untouched(
    database: Database, shard: Shard, intake: Intake, consumer: Consumer, recorder: Recorder, dead: DeadLetters
) -> None:
    append(database, shard, "killer", "innocent")
    lease = intake.take_lease(shard, FAMILY, 5)
    assert lease is not None
    read_new(intake, lease, 10)
    for _ in range(MAX_DELIVERIES):
        intake.read_pending(lease, "0", 1)
    intake.release(lease)
    consumer.consume(shard, FAMILY)
    assert recorder.batches == [["innocent"]]
    assert [letter.reason for letter in dead.newest()] == [
        "delivered 7 times and never applied: each time its worker died"
    ]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"not json", "MalformedMessage: JSON is malformed"),
        (b'{"type":"ToolInvoked","v":2}', "UnsupportedVersion: schema version 2; this release reads 1"),
        (
            b'{"type":"ToolInvoked","event_id":"e","session":"s","evaluation":"e","tool":7}',
            "MalformedMessage: ToolInvoked",
        ),
    ],
    ids=["not-json", "newer", "wrong-type"],
)
def test_what_cannot_be_read_becomes_a_dead_letter_and_the_stream_goes_on(
    database: Database, shard: Shard, consumer: Consumer, recorder: Recorder, dead: DeadLetters, raw: bytes, reason: str
) -> None:
    append(database, shard, "a", raw, "b")
    consumer.consume(shard, FAMILY)
    assert recorder.batches == [["a", "b"]]
    (letter,) = dead.newest()
    assert letter.reason.startswith(reason)
    assert letter.raw.encode() == raw


def test_a_dead_letter_whose_reply_was_lost_is_added_once(
    database: Database, shard: Shard, intake: Intake, dead: DeadLetters
) -> None:
    """The client sends the script again. Found by chaos, among 593 entries that nobody can read."""
    append(database, shard, b"x")
    lease = intake.take_lease(shard, FAMILY, 5)
    assert lease is not None
    (entry,) = read_new(intake, lease, 1)
    for _ in range(2):
        dead.add(lease, entry, "nobody can read it")
    assert len(dead.newest()) == 1


def test_ten_megabytes_in_one_field_become_a_dead_letter_that_says_so(
    database: Database, shard: Shard, consumer: Consumer, recorder: Recorder, dead: DeadLetters
) -> None:
    append(database, shard, b"x" * (10 << 20), "a")
    consumer.consume(shard, FAMILY)
    assert recorder.batches == [["a"]]
    (letter,) = dead.newest()
    assert letter.reason == "MessageTooLarge: 10485760 bytes; an entry holds at most 1048576"
    assert (letter.bytes, len(letter.raw)) == (10 << 20, 1 << 20)
    with pytest.raises(StateConflict, match="was truncated; it cannot be replayed"):
        dead.replay(letter.id)


def test_dead_letters_are_bounded_by_bytes_too(
    database: Database, shard: Shard, consumer: Consumer, dead: DeadLetters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that sends nothing but what is too large must not fill Redis: the oldest letters go."""
    monkeypatch.setattr(dead_module, "MAX_MEMORY", 3 << 20)
    for number in range(8):
        append(database, shard, b"%d" % number * (1 << 20))
    consumer.consume(shard, FAMILY)
    letters = dead.newest()
    assert letters[0].raw.startswith("7")
    assert 1 <= len(letters) <= 3
    assert database.command("MEMORY", "USAGE", shard.key("dead"), "SAMPLES", 0) <= 3 << 20


def test_an_entry_without_the_message_field_becomes_a_dead_letter(
    database: Database, shard: Shard, consumer: Consumer, dead: DeadLetters
) -> None:
    """Its fields are kept: they were lost."""
    append(database, shard, b"x \xff", field="other")
    consumer.consume(shard, FAMILY)
    [letter] = dead.newest()
    assert (letter.reason, letter.raw) == ("MalformedMessage: the entry has no field 'm'", '{"other":"x \ufffd"}')


@pytest.mark.parametrize(
    ("fields", "reason", "kept"),
    [
        (("m", "1", "m", "2"), "the entry has the field 'm' 2 times: append each message by itself", '{"m":["1","2"]}'),
        (("x", "1", "y", "2", "x", "3"), "the entry has no field 'm'", '{"x":["1","3"],"y":"2"}'),
    ],
)
def test_an_entry_with_a_field_twice_becomes_a_dead_letter_with_both(
    shard: Shard, database: Database, consumer: Consumer, dead: DeadLetters, fields: list[str], reason: str, kept: str
) -> None:
    """Of two messages in one entry the last was applied, and the first was lost."""
    database.command("XADD", stream_of(shard, FAMILY), "*", *fields)
    consumer.consume(shard, FAMILY)
    [letter] = dead.newest()
    assert (letter.reason, letter.raw) == (f"MalformedMessage: {reason}", kept)


def test_a_loop_that_is_not_ready_leaves_everything_in_the_stream(
    database: Database, shard: Shard, consumer: Consumer, recorder: Recorder
) -> None:
    recorder.away = True
    append(database, shard, "a")
    for _ in range(MAX_DELIVERIES + 2):
        with pytest.raises(Unavailable, match="no model"):
            consumer.consume(shard, FAMILY)
    recorder.away = False
    consumer.consume(shard, FAMILY)
    assert recorder.batches == [["a"]]


def test_an_entry_that_could_not_be_tried_is_never_given_up(
    database: Database, shard: Shard, intake: Intake, dead: DeadLetters, recorder: Recorder
) -> None:
    """A service that the loop needs is unavailable while it applies: no try counts as a delivery, however many fail."""

    class RaisesUnavailable(Recorder):
        def apply(self, lease: Lease, entries: Sequence[IntakeEntry]) -> None:
            self.batches.append([f"{lease.fence}", *map(tool_of, entries)])
            raise Unavailable("the cache is away")

    append(database, shard, "a")
    away = Consumer(intake, dead, RaisesUnavailable(database), lease_seconds=5, batch=3)
    for _ in range(MAX_DELIVERIES * 2):
        with pytest.raises(Unavailable):
            away.consume(shard, FAMILY)
    Consumer(intake, dead, recorder, lease_seconds=5, batch=3).consume(shard, FAMILY)
    assert recorder.batches == [["a"]]
    assert dead.count() == 0


def test_of_two_consumers_the_fenced_one_writes_nothing(
    database: Database, shard: Shard, intake: Intake, recorder: Recorder, dead: DeadLetters
) -> None:
    """The first loses its lease while it applies; the second applies everything, once."""

    class LosesLease(Recorder):
        def apply(self, lease: Lease, entries: Sequence[IntakeEntry]) -> None:
            database.command("DEL", lease.key)  # the lease runs out
            Consumer(intake, dead, recorder, lease_seconds=5, batch=3).consume(shard, FAMILY)
            with pytest.raises(Fenced):
                super().apply(lease, entries)
            raise Fenced

    slow = LosesLease(database)
    append(database, shard, *"abcd")
    assert Consumer(intake, dead, slow, lease_seconds=5, batch=3).consume(shard, FAMILY) is False
    assert slow.batches == [["a", "b", "c"]]
    assert recorder.batches == [["a"], ["b"], ["c"], ["d"]]
    assert waiting(database, shard) == 0


def test_a_second_consumer_leaves_a_leased_stream_alone(
    database: Database, shard: Shard, intake: Intake, consumer: Consumer, recorder: Recorder
) -> None:
    append(database, shard, "a")
    assert intake.take_lease(shard, FAMILY, 5) is not None
    assert consumer.consume(shard, FAMILY) is False
    assert recorder.batches == []


def test_a_dead_letter_can_be_replayed_once_and_dropped(
    database: Database, shard: Shard, consumer: Consumer, recorder: Recorder, dead: DeadLetters
) -> None:
    recorder.poison = {"a", "b"}
    append(database, shard, "a", "b")
    for _ in range(MAX_DELIVERIES):
        consumer.consume(shard, FAMILY)
    newest, oldest = dead.newest()
    assert dead.count() == 2
    recorder.poison = set()
    dead.replay(newest.id)
    consumer.consume(shard, FAMILY)
    assert recorder.batches[-1] == [msgspec.json.decode(newest.raw)["tool"]]
    dead.drop(oldest.id)
    assert dead.count() == 0
    for call in (dead.get, dead.replay, dead.drop):
        with pytest.raises(NotFound):
            call(newest.id)
        with pytest.raises(InvalidInput, match="ids look like"):
            call("nonsense")
