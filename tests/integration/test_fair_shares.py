"""One session's backlog in a stream: the other sessions overtake it, each in order, and every event counts once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from random import Random

import pytest

from tellback.contracts.codec import encode
from tellback.contracts.guidance import ToolInvoked
from tellback.contracts.message import new_event_id
from tellback.errors import Unavailable
from tellback.names import Family
from tellback.state.database import Database
from tellback.state.dead_letters import DeadLetters
from tellback.state.intake import READ_BYTES, Intake
from tellback.state.intake_lease import Fenced, IntakeEntry, Lease, RawEntry, committed
from tellback.state.keys import Layout, Shard, stream_of
from tellback_workers import fair_shares
from tellback_workers.consumer import MAX_DELIVERIES, Consumer
from tellback_workers.fair_shares import KEEP_SECONDS, OWN_ENTRIES, FairShares, KeptShares
from tests.support.acknowledge import acknowledge
from tests.support.clocks import later
from tests.support.intake_entries import read_new

FAMILY = Family.EVENTS
BATCH = 4
HALF = 30.0  # seconds, of a lease
FLOOD = [f"a{n}" for n in range(60)]

pytestmark = pytest.mark.usefixtures("flood")


class Crashed(BaseException):
    """The worker's process is killed in the middle of a batch."""


class FairRecorder:
    """Acknowledges what it is given, and fails or dies where a test says so."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.batches: list[list[str]] = []
        self.poison = self.deadly = ""

    @property
    def applied(self) -> list[str]:
        return [tool for batch in self.batches for tool in batch]

    def ready(self) -> None:
        """Return at once: this loop is always ready."""

    def apply(self, lease: Lease, entries: Sequence[IntakeEntry]) -> None:
        tools = [entry.message.tool for entry in entries if isinstance(entry.message, ToolInvoked)]
        if self.deadly in tools:
            raise Crashed
        if self.poison in tools:
            raise ValueError("poison")
        self.batches.append(tools)
        committed(self.database.run(acknowledge(lease, entries)))


@pytest.fixture
def recorder(database: Database) -> FairRecorder:
    return FairRecorder(database)


@pytest.fixture
def consumer(intake: Intake, dead: DeadLetters, recorder: FairRecorder) -> Consumer:
    # As in `test_consumer`: it stops after half its lease.
    return Consumer(intake, dead, recorder, lease_seconds=60, batch=BATCH)


@pytest.fixture
def flood(database: Database, shard: Shard) -> None:
    append(database, shard, FLOOD)


def append(database: Database, shard: Shard, tools: Sequence[str]) -> None:
    """Append an event for each tool; its session is the letter of its name."""
    for tool in tools:
        event = ToolInvoked(event_id=new_event_id(), session=tool[0], evaluation="e", tool=tool)
        database.command("XADD", stream_of(shard, FAMILY), "*", "m", encode(event))


def deliveries(database: Database, shard: Shard) -> list[int]:
    """Return how often each entry that overtook or was recovered has been delivered."""
    return [count for *_, count in database.command("XPENDING", stream_of(shard, FAMILY), "consumer", "-", "+", 100)]


def read_batch(intake: Intake, lease: Lease) -> list[RawEntry]:
    read = read_new(intake, lease, BATCH)
    assert read
    return read


def test_other_sessions_overtake_a_backlog_in_order(
    database: Database, shard: Shard, consumer: Consumer, recorder: FairRecorder
) -> None:
    append(database, shard, ["b0", "c0", "b1", "b2", "b3"])
    assert consumer.consume(shard, FAMILY) is False
    assert (
        recorder.batches[:6]
        == [
            *(FLOOD[start : start + BATCH] for start in (0, 4)),
            ["b0", "c0", "b1"],  # two of each at most, since two sessions share a batch
            FLOOD[8:12],
            ["b2", "b3"],
            FLOOD[12:16],
        ]
    )
    assert sorted(recorder.applied) == sorted([*FLOOD, "b0", "c0", "b1", "b2", "b3"])
    assert [tool for tool in recorder.applied if tool[0] == "a"] == FLOOD


def test_what_comes_meanwhile_overtakes_too(
    database: Database, shard: Shard, intake: Intake, dead: DeadLetters
) -> None:
    class LateFairRecorder(FairRecorder):
        def apply(self, lease: Lease, entries: Sequence[IntakeEntry]) -> None:
            super().apply(lease, entries)
            if len(self.batches) == 5:
                append(database, shard, ["d0"])

    recorder = LateFairRecorder(database)
    assert Consumer(intake, dead, recorder, lease_seconds=60, batch=BATCH).consume(shard, FAMILY) is False
    assert recorder.batches[5] == ["d0"]


def test_other_sessions_overtake_a_backlog_in_streams_that_are_consumed_together(
    database: Database, layout: Layout, shard: Shard, intake: Intake, dead: DeadLetters, recorder: FairRecorder
) -> None:
    other = layout.shard(1)
    append(database, shard, ["b0"])
    append(database, other, [tool.replace("a", "x") for tool in FLOOD])
    append(database, other, ["y0", "y1"])
    consumer = Consumer(intake, dead, recorder, lease_seconds=60, batch=2 * BATCH)
    assert consumer.consume_together([shard, other], FAMILY) == []
    assert recorder.batches[4:6] == [["b0"], ["y0", "y1"]]
    assert [tool for tool in recorder.applied if tool[0] == "a"] == FLOOD
    assert len(recorder.applied) == len({*recorder.applied}) == 2 * len(FLOOD) + 3


def test_other_sessions_overtake_a_backlog_that_is_applied_in_slices(
    database: Database, shard: Shard, consumer: Consumer, recorder: FairRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slice is shorter than it takes to look through a long backlog, and each began again."""
    monkeypatch.setattr(fair_shares, "PEEK_ENTRIES", 2 * BATCH)
    monkeypatch.setattr(fair_shares, "AHEAD", 2)
    append(database, shard, ["b0"])
    slices = 1
    while consumer.consume(shard, FAMILY, most=0.0):
        slices += 1
    assert slices >= len(FLOOD) / BATCH
    assert recorder.batches.index(["b0"]) == 8, "when all was looked at, two batches for each that was applied"
    assert len(recorder.applied) == len({*recorder.applied}) == len(FLOOD) + 1


def test_other_sessions_overtake_on_a_host_that_takes_half_a_lease_for_a_batch_and_as_long_between_slices(
    database: Database, shard: Shard, intake: Intake, dead: DeadLetters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a host never looked ahead, and another that took turns with ten others began to look again each time."""

    class SlowFairRecorder(FairRecorder):
        def apply(self, lease: Lease, entries: Sequence[IntakeEntry]) -> None:
            super().apply(lease, entries)
            later(monkeypatch, HALF)

    monkeypatch.setattr(fair_shares, "PEEK_ENTRIES", 2 * BATCH)
    monkeypatch.setattr(fair_shares, "AHEAD", 2)
    append(database, shard, ["b0"])
    recorder = SlowFairRecorder(database)
    consumer = Consumer(intake, dead, recorder, lease_seconds=2 * HALF, batch=BATCH)
    while consumer.consume(shard, FAMILY, most=0.0):
        later(monkeypatch, HALF)
    assert recorder.batches.index(["b0"]) == 8, "as on any host"
    assert [tool for tool in recorder.applied if tool[0] == "a"] == FLOOD


def test_what_is_kept_of_streams_is_bounded_in_number_and_time(
    layout: Layout, intake: Intake, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases = [lease for shard in layout.all if (lease := intake.take_lease(shard, FAMILY, 60))]
    kept, shares = KeptShares(), FairShares(intake, leases[0], BATCH)

    def taken() -> list[bool]:
        return [kept.take(intake, lease, BATCH, READ_BYTES) is shares for lease in leases]

    monkeypatch.setattr(fair_shares, "MAX_NOTED", 3 * OWN_ENTRIES)
    for lease in leases:
        kept.keep(lease, shares)
    assert taken() == [False, True, True, True], "the oldest is gone"
    assert taken() == [False] * 4, "what is taken is not there"
    kept.keep(leases[0], shares)
    later(monkeypatch, KEEP_SECONDS)
    assert taken() == [False] * 4


def test_what_overtook_and_was_not_applied_comes_first_after_a_death(
    database: Database, shard: Shard, consumer: Consumer, recorder: FairRecorder
) -> None:
    append(database, shard, ["b0", "b1"])
    recorder.deadly = "b1"
    with pytest.raises(Crashed):
        consumer.consume(shard, FAMILY)
    assert deliveries(database, shard) == [1, 1]
    recorder.deadly, before = "", len(recorder.batches)
    assert consumer.consume(shard, FAMILY) is False
    assert recorder.batches[before : before + 2] == [["b0"], ["b1"]]
    assert sorted(recorder.applied) == sorted([*FLOOD, "b0", "b1"])


def test_poison_that_overtook_becomes_a_dead_letter(
    database: Database, shard: Shard, consumer: Consumer, recorder: FairRecorder, dead: DeadLetters
) -> None:
    append(database, shard, ["b0", "b1"])
    recorder.poison = "b0"
    for _ in range(MAX_DELIVERIES):
        consumer.consume(shard, FAMILY)
    [letter] = dead.newest()
    assert '"b0"' in letter.raw
    assert sorted(recorder.applied) == sorted([*FLOOD, "b1"])
    assert database.command("XLEN", stream_of(shard, FAMILY)) == 0


def test_an_entry_that_overtook_and_failed_keeps_its_count(database: Database, shard: Shard, intake: Intake) -> None:
    """Without it, the entry would never become a dead letter while the backlog lasts."""
    append(database, shard, ["b0"])
    lease = intake.take_lease(shard, FAMILY, 60)
    assert lease is not None
    read = read_batch(intake, lease)[-1].id
    overtaking = [entry.id for entry in intake.peek(lease, "0", len(FLOOD) + 1, 1 << 20)[0]][-1:]
    assert [entry.id for entry in intake.claim(lease, overtaking)] == overtaking
    assert [entry.deliveries for entry in intake.read_pending(lease, read, 1)] == [2]
    assert [entry.id for entry in intake.claim(lease, ["1-1", *overtaking])] == overtaking
    assert deliveries(database, shard) == [2]


def test_a_peek_is_bounded_in_bytes_where_large_entries_follow_small_ones(
    database: Database, shard: Shard, intake: Intake
) -> None:
    stream, large = stream_of(shard, FAMILY), b"x" * 100_000
    database.pipeline([("XADD", stream, "*", "m", large) for _ in range(40)])
    lease = intake.take_lease(shard, FAMILY, 60)
    assert lease is not None
    entries, more = intake.peek(lease, "0", 1_000, 500_000)
    assert more
    assert len(FLOOD) < len(entries) < len(FLOOD) + 10
    rest, more = intake.peek(lease, entries[-1].id, 1_000, 1 << 30)
    assert (len(entries) + len(rest), more) == (len(FLOOD) + 40, False)


def test_other_sessions_overtake_a_backlog_of_large_entries(
    database: Database, shard: Shard, consumer: Consumer, recorder: FairRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their bytes end a batch before it has as many entries as it may."""
    for module in ("tellback.state.intake", "tellback_workers.consumer"):
        monkeypatch.setattr(f"{module}.READ_BYTES", 20_000)
    database.command("DEL", stream_of(shard, FAMILY))
    flood = [f"a{n}" for n in range(40)]
    for tool in [*flood, "b0", "b1"]:
        params = {"text": "x" * 8_000} if tool[0] == "a" else {}
        event = ToolInvoked(event_id=new_event_id(), session=tool[0], evaluation="e", tool=tool, params=params)
        database.command("XADD", stream_of(shard, FAMILY), "*", "m", encode(event))
    assert consumer.consume(shard, FAMILY) is False
    assert max(map(len, recorder.batches)) < BATCH
    assert {"b0", "b1"} <= {*recorder.applied[:BATCH]}, "after the first batch"
    assert [tool for tool in recorder.applied if tool[0] == "a"] == flood


def test_it_peeks_no_further_while_much_is_noted(shard: Shard, intake: Intake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_shares, "MAX_NOTED", 10)
    monkeypatch.setattr(fair_shares, "PEEK_ENTRIES", 20)
    lease = intake.take_lease(shard, FAMILY, 60)
    assert lease is not None
    shares = FairShares(intake, lease, BATCH)
    for _ in range(fair_shares.FULL_BATCHES):
        shares.overtaking(read_batch(intake, lease))
    monkeypatch.delattr(Intake, "peek")
    shares.overtaking(read_batch(intake, lease))


def test_who_lost_the_lease_is_given_nothing(database: Database, shard: Shard, intake: Intake) -> None:
    append(database, shard, ["b0"])
    lease = intake.take_lease(shard, FAMILY, 60)
    assert lease is not None
    shares = FairShares(intake, lease, BATCH)
    assert shares.overtaking(read_batch(intake, lease)) == []
    read = read_batch(intake, lease)
    database.command("SET", lease.key, lease.fence + 1, "PX", 60_000)
    with pytest.raises(Fenced):
        shares.overtaking(read)
    assert deliveries(database, shard) == []
    assert intake.last_read([lease])[lease] == read[-1].id.encode()


def test_sessions_that_all_have_much_to_do_keep_the_order_of_arrival(
    database: Database, shard: Shard, consumer: Consumer, recorder: FairRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for longer than its own work takes, and nothing is looked at twice."""
    database.command("DEL", stream_of(shard, FAMILY))
    arrived = [f"{session}{n}" for n in range(15) for session in "abcd"]
    append(database, shard, arrived)
    monkeypatch.delattr(Intake, "peek")
    assert consumer.consume(shard, FAMILY) is False
    assert recorder.applied == arrived


class Troubled(FairRecorder):
    """Dies, loses Redis and is given more events at random."""

    def __init__(self, database: Database, shard: Shard, random: Random) -> None:
        super().__init__(database)
        self._shard, self._random = shard, random
        self.sent: Counter[str] = Counter()
        self.calm = False

    def add(self, count: int) -> None:
        for session in self._random.choices("abcde", [30, 1, 1, 2, 4], k=count):
            append(self.database, self._shard, [f"{session}{self.sent[session]}"])
            self.sent[session] += 1

    def apply(self, lease: Lease, entries: Sequence[IntakeEntry]) -> None:
        trouble = 1.0 if self.calm else self._random.random()
        if trouble < 0.06:
            raise Crashed if trouble < 0.03 else Unavailable("away")
        super().apply(lease, entries)
        if trouble < 0.15:
            self.add(5)


@pytest.mark.parametrize("seed", range(25))
def test_each_event_is_applied_once_and_in_the_order_of_its_session_whatever_happens(
    database: Database, layout: Layout, shard: Shard, intake: Intake, dead: DeadLetters,
    monkeypatch: pytest.MonkeyPatch, seed: int,
) -> None:  # fmt: skip
    random = Random(seed)
    database.command("DEL", stream_of(shard, FAMILY))
    monkeypatch.setattr(fair_shares, "PEEK_ENTRIES", random.choice([3, 7, 50]))
    monkeypatch.setattr(fair_shares, "MAX_NOTED", random.choice([5, 20, 1_000]))
    recorder = Troubled(database, shard, random)
    claim, claims = Intake.claim, list[int]()

    def lose_some_replies(self: Intake, lease: Lease, ids: Sequence[str]) -> list[RawEntry]:
        claims.append(len(ids))
        given = claim(self, lease, ids)
        if not recorder.calm and random.random() < 0.1:
            raise Unavailable("the reply was lost")
        return given

    monkeypatch.setattr(Intake, "claim", lose_some_replies)
    recorder.add(100)
    processes = KeptShares(), KeptShares()
    for turn in range(60):
        recorder.calm = turn >= 58
        batch, kept = random.choice([2, 4, 6]), random.choice(processes)
        consumer = Consumer(intake, dead, recorder, lease_seconds=60, batch=batch, kept=kept)
        most = 0.0 if random.random() < 0.5 and not recorder.calm else None
        with suppress(Crashed, Unavailable):
            if random.random() < 0.3:
                consumer.consume_together([shard, layout.shard(1)], FAMILY, most)
            else:
                consumer.consume(shard, FAMILY, most)
    for session, count in recorder.sent.items():
        assert [tool for tool in recorder.applied if tool[0] == session] == [
            f"{session}{number}" for number in range(count)
        ]
    assert claims
    assert dead.newest() == []
