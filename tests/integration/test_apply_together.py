"""Several streams applied together: in the round trips of one, each in order, and none pays for another's trouble."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import pytest

from tellback import FeedbackProviderConfig, StaticFeedback, Tellback
from tellback.contracts.codec import encode
from tellback.contracts.guidance import EvaluationBegun, FeedbackTrigger, ProviderSpec, ToolInvoked
from tellback.contracts.message import new_event_id
from tellback.guidance.evaluation import fire_timers
from tellback.guidance.repeats import decode_call
from tellback.guidance.state import BatchEffects
from tellback.names import Family, shard_of
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.dead_letters import DeadLetters
from tellback.state.evaluation_codec import EvaluationId
from tellback.state.evaluations import Evaluations, TimedEvaluation
from tellback.state.intake import Intake, mark_pending
from tellback.state.intake_lease import IntakeEntry, Lease, RawEntry
from tellback.state.keys import Layout, Shard
from tellback.state.redis_py import RedisConnections
from tellback.state.script_calls import Command, ScriptCall
from tellback_workers.consumer import Consumer, Deferred
from tellback_workers.isolation import ProviderCallMarker
from tellback_workers.linger import Lingerer
from tellback_workers.loops import consumer_of
from tellback_workers.loops.guidance import GuidanceLoop
from tellback_workers.runtime import Runtime
from tests.support import providers

FAMILY = Family.EVENTS
REMINDER = ProviderSpec(
    name="StaticFeedback", trigger=FeedbackTrigger(every_n_calls=1), fields={"summary": "Mind the goal."}
)
TIMED = ProviderSpec(
    name="StaticFeedback", trigger=FeedbackTrigger(every_n_seconds=5), fields={"summary": "Mind the time."}
)
MONITOR = ProviderSpec(name="Monitor", trigger=FeedbackTrigger(every_n_calls=1))


class Streams:
    """A session in each shard, and what comes of it."""

    def __init__(self, database: Database, layout: Layout, settings: Settings) -> None:
        self.database = database
        self.layout = layout
        self.intake = Intake(database, layout)
        self.runtime = Runtime(settings)
        self.loop = GuidanceLoop(self.runtime)
        names = (f"s{n}" for n in range(1_000))
        self.sessions = {shard_of(name, layout.shards): name for name in names}
        self.leases = [taken.lease for taken in self.intake.take_each(layout.all, FAMILY, 5, 0, linger=True)]
        self.entries = 0

    def begun(self, shard: int, *specs: ProviderSpec) -> IntakeEntry:
        session = self.sessions[shard]
        return self._entry(
            EvaluationBegun(event_id=new_event_id(), session=session, prompt="p", evaluation="e", providers=list(specs))
        )

    def call(self, shard: int, event_id: str | None = None) -> IntakeEntry:
        session = self.sessions[shard]
        return self._entry(
            ToolInvoked(event_id=event_id or new_event_id(), session=session, prompt="p", evaluation="e", tool="t")
        )

    def _entry(self, message: EvaluationBegun | ToolInvoked) -> IntakeEntry:
        self.entries += 1
        return IntakeEntry(f"{self.entries}-1", message, 1)

    def store(self, shard: int) -> Evaluations:
        return Evaluations(self.database, self.layout.shard(shard))

    def calls(self) -> list[int]:
        return [self.store(shard).counts(self.id(shard)).calls for shard in range(4)]

    def id(self, shard: int) -> EvaluationId:
        return EvaluationId(self.sessions[shard], "p", "e")

    def fire_timer(self, shard: int) -> bool:
        """Fire the timer of an evaluation of this shard as it stands ten seconds after its beginning."""
        store, id_ = self.store(shard), self.id(shard)
        found, effects = store.load_claimed([id_])[0], BatchEffects()
        assert found.state is not None
        at = found.state.began_at + 10_000
        invoker = self.loop.invoker(
            ProviderCallMarker(self.database, self.layout.shard(shard).key("provider-call", "x")), crashed=None
        )
        fire_timers(found.state, at, invoker, effects, generation=found.generation, idle_ms=60_000)
        return store.commit_timer(TimedEvaluation(id_, found, found.state, effects, at))

    def summaries(self, shard: int) -> list[str]:
        taken = self.store(shard).take_feedback(self.id(shard), new_event_id())
        return [feedback.summary for feedback in taken]


@pytest.fixture
def streams(database: Database, layout: Layout, settings: Settings) -> Streams:
    return Streams(database, layout, msgspec.structs.replace(settings, providers=providers.SETTING))


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of commands of each round trip, in whatever way it is made."""
    taken: list[int] = []
    run_all = RedisConnections.run_all

    def counted(self: RedisConnections, commands: Sequence[Command], **options: bool) -> list[object]:
        taken.append(len(commands))
        return run_all(self, commands, **options)

    monkeypatch.setattr(RedisConnections, "run_all", counted)
    return taken


def test_an_event_by_itself_takes_three_round_trips(tb: Tellback, settings: Settings, trips: list[int]) -> None:
    """One takes the stream and reads, one loads, one commits and releases the stream."""
    reminder = FeedbackProviderConfig(StaticFeedback("Mind."), FeedbackTrigger(every_n_calls=1))
    prompt = tb.prompt("s", "p", feedback_providers=[reminder])
    shard = tb.context.layout.of("s")
    for number in range(2):  # the first one loads the scripts, as a worker does when it starts
        prompt.tool_invoked("search", result="found")
        tb.flush()
        cold = Runtime(settings)
        assert cold.layout(shard.team).shards, "known to a worker that serves the team"
        consumer = consumer_of(cold, shard.team, Family.EVENTS)
        trips.clear()
        assert consumer.consume(shard, Family.EVENTS) is False
        assert number == 0 or len(trips) == 3
        cold.database.close()
        assert len(prompt.feedback()) == 1, f"call {number} earns its feedback"


def test_four_streams_take_as_many_round_trips_as_one(streams: Streams, trips: list[int]) -> None:
    begun = {lease: [streams.begun(lease.shard.index, REMINDER)] for lease in streams.leases}
    streams.loop.apply_together(begun)
    trips.clear()
    streams.loop = GuidanceLoop(streams.runtime)  # another process
    left = streams.loop.apply_together(
        {lease: [streams.call(lease.shard.index), streams.call(lease.shard.index)] for lease in streams.leases}
    )
    assert trips == [12, 4], "one to load and one to commit"
    assert not left.fenced
    assert not left.separate
    assert streams.calls() == [2, 2, 2, 2]
    assert [len(streams.summaries(shard)) for shard in range(4)] == [2, 2, 2, 2]


def test_what_a_process_has_committed_it_need_not_load(streams: Streams, trips: list[int]) -> None:
    streams.loop.apply_together({lease: [streams.begun(lease.shard.index, REMINDER)] for lease in streams.leases})
    for _ in range(40):
        trips.clear()
        streams.loop.apply_together({lease: [streams.call(lease.shard.index)] for lease in streams.leases})
        assert trips == [4], "one to commit"
    assert streams.calls() == [40, 40, 40, 40]
    assert len(streams.summaries(0)) == 4, "of forty that were due, those of the last calls"
    loaded = streams.store(0).load({streams.id(0): ["x"]})[streams.id(0)].state
    assert loaded is not None
    assert [decode_call(line).call_index for line in loaded.recent] == list(range(9, 41))


def test_an_evaluation_that_another_has_changed_is_loaded_again(streams: Streams, trips: list[int]) -> None:
    other = GuidanceLoop(streams.runtime)
    for _ in range(3):
        for loop in (streams.loop, other):
            trips.clear()
            loop.apply_together({lease: [streams.call(lease.shard.index)] for lease in streams.leases})
    assert trips == [4, 12, 4], "one in vain, one to load and one to commit"
    assert streams.calls() == [6, 6, 6, 6]


def test_under_a_new_lease_everything_is_loaded(streams: Streams, trips: list[int]) -> None:
    """Between two leases another consumer may have been at work: what one made of a large batch would be in vain."""
    lease = streams.leases[0]
    streams.loop.apply_together({lease: [streams.call(0)]})
    streams.intake.release(lease)
    ((lease, *_),) = streams.intake.take_each([lease.shard], FAMILY, 5, 0, linger=True)
    trips.clear()
    streams.loop.apply_together({lease: [streams.call(0)]})
    assert trips == [3, 1]
    assert streams.calls()[0] == 2


def test_of_a_database_that_was_emptied_nothing_is_known(streams: Streams) -> None:
    for _ in range(2):
        streams.loop.apply_together({streams.leases[0]: [streams.call(0)]})
    streams.database.command("DEL", streams.layout.shard(0).key("eval", *streams.id(0)))
    streams.loop.apply_together({streams.leases[0]: [streams.call(0)]})
    assert streams.calls()[0] == 1


def test_a_commit_that_redis_forgot_is_not_built_upon(streams: Streams) -> None:
    """Redis came back without its last second, and another has committed as often since: no count shows that."""
    key = streams.layout.shard(0).key("eval", *streams.id(0))
    streams.loop.apply_together({streams.leases[0]: [streams.call(0, "kept")]})
    before = streams.database.command("DUMP", key)
    streams.loop.apply_together({streams.leases[0]: [streams.call(0, "lost")]})
    streams.database.command("RESTORE", key, 60_000, before, "REPLACE")
    GuidanceLoop(streams.runtime).apply_together({streams.leases[0]: [streams.call(0), streams.call(0)]})
    streams.loop.apply_together({streams.leases[0]: [streams.call(0)]})
    assert streams.calls()[0] == 4


@pytest.mark.parametrize("by_time", [False, True])
def test_a_state_of_an_earlier_version_goes_on_with_its_calls(streams: Streams, *, by_time: bool) -> None:
    """It held its newest calls itself, and counted its versions."""
    store, id_ = streams.store(0), streams.id(0)
    streams.loop.apply_together({streams.leases[0]: [streams.begun(0, TIMED), *(streams.call(0) for _ in range(5))]})
    state = store.load({id_: ["x"]})[id_].state
    assert state is not None
    key = streams.layout.shard(0).key("eval", *id_)
    streams.database.command("DEL", key)
    streams.database.command("HSET", key, "version", 2, "calls", 5, "state", msgspec.json.encode(state))
    if by_time:
        assert streams.fire_timer(0)
    else:
        streams.loop.apply_together({streams.leases[0]: [streams.call(0)]})
    calls = 5 if by_time else 6
    assert [streams.database.command("HEXISTS", key, f"call:{n}") for n in range(calls + 2)] == [0, *[1] * calls, 0]
    found = store.load({id_: ["x"]})[id_].state
    assert found is not None
    assert [decode_call(line).call_index for line in found.recent] == list(range(1, calls + 1))


def test_feedback_that_waits_for_a_taker_is_not_known(streams: Streams, trips: list[int]) -> None:
    """Only loading shows that it was taken, and the cadence of feedback that time earned starts over with that."""
    streams.loop.apply_together({streams.leases[0]: [streams.begun(0, TIMED), streams.call(0)]})
    assert streams.fire_timer(0)
    streams.loop.apply_together({streams.leases[0]: [streams.call(0)]})
    trips.clear()
    streams.loop.apply_together({streams.leases[0]: [streams.call(0)]})
    assert trips == [3, 1]
    assert streams.summaries(0) == ["Mind the time."]
    trips.clear()
    for _ in range(2):
        streams.loop.apply_together({streams.leases[0]: [streams.call(0)]})
    assert trips == [3, 1, 1]


def test_an_event_counts_once_in_whichever_batch_it_comes_again(streams: Streams) -> None:
    for _ in range(2):
        streams.loop.apply_together(
            {lease: [streams.call(lease.shard.index, f"id-{lease.shard.index}")] * 2 for lease in streams.leases}
        )
    assert streams.calls() == [1, 1, 1, 1]


def test_a_stream_that_was_lost_is_reported_and_the_others_are_applied(streams: Streams) -> None:
    streams.database.command("DEL", streams.leases[1].key)
    left = streams.loop.apply_together({lease: [streams.call(lease.shard.index)] for lease in streams.leases})
    assert left.fenced == {streams.leases[1]}
    assert streams.calls() == [1, 0, 1, 1]


def test_who_may_ask_a_custom_provider_is_deferred_until_after_the_others(streams: Streams) -> None:
    streams.loop.apply(streams.leases[2], [streams.begun(2, MONITOR)])
    entries = {lease: [streams.call(lease.shard.index)] for lease in streams.leases}
    entries[streams.leases[3]].insert(0, streams.begun(3, MONITOR))
    left = streams.loop.apply_together(entries)
    assert left.separate == {lease: entries[lease] for lease in streams.leases[2:]}
    assert streams.calls() == [1, 1, 0, 0]
    for lease, waiting in left.separate.items():
        streams.loop.apply(lease, waiting)
    assert streams.calls() == [1, 1, 1, 1]
    assert [len(streams.summaries(shard)) for shard in range(4)] == [0, 0, 1, 1]


def test_what_earned_feedback_is_committed_before_all_else(streams: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for the feedback can have it when Redis is asked to commit the rest, whatever the stream."""
    streams.loop.apply(streams.leases[3], [streams.begun(3, REMINDER)])
    heard: list[int] = []
    trips: list[int] = []
    run_all = Database.run_all

    def noted(self: Database, calls: Sequence[ScriptCall], also: Sequence[Command] = ()) -> list[object]:
        if calls and calls[0].script.name == "guidance/commit_evaluation":
            trips.append(len(calls))
            heard.append(len(streams.summaries(3)))
        return run_all(self, calls, also)

    entries = {lease: [streams.call(lease.shard.index)] for lease in streams.leases}
    silent = msgspec.structs.replace(streams.call(3).message, evaluation="silent")
    entries[streams.leases[3]].insert(0, IntakeEntry("9-1", silent, 1))
    monkeypatch.setattr(Database, "run_all", noted)
    streams.loop.apply_together(entries)
    assert (trips, heard) == ([1, 4], [0, 1])
    assert streams.calls() == [1, 1, 1, 1]


@pytest.mark.parametrize("passed_on", [0, 3])
def test_a_lease_that_passed_on_loses_what_was_earned_and_what_was_not(streams: Streams, passed_on: int) -> None:
    for shard in range(4):
        streams.loop.apply(streams.leases[shard], [streams.begun(shard, REMINDER)])
    streams.intake.release(streams.leases[passed_on])
    streams.intake.take_each([streams.leases[passed_on].shard], FAMILY, 5, 0, linger=True)
    entries = {lease: [streams.call(lease.shard.index)] for lease in streams.leases}
    silent = msgspec.structs.replace(streams.call(passed_on).message, evaluation="silent")
    entries[streams.leases[passed_on]].append(IntakeEntry("9-1", silent, 1))
    left = streams.loop.apply_together(entries)
    assert left.fenced == {streams.leases[passed_on]}
    assert streams.calls() == [int(shard != passed_on) for shard in range(4)]


class Stumbles(GuidanceLoop):
    """Fails over a batch of several streams, as one bad entry makes it."""

    def apply_together(self, batches: Mapping[Lease, Sequence[IntakeEntry]], *, or_release: bool = False) -> Deferred:
        super().apply_together(dict([next(iter(batches.items()))]), or_release=or_release)
        raise ValueError("bad")


def test_after_a_failure_everything_is_pending_and_what_was_applied_counts_once(
    streams: Streams, database: Database
) -> None:
    for lease in streams.leases:
        for _ in range(3):
            database.command("XADD", lease.stream, "*", "m", encode(streams.call(lease.shard.index).message))
    stumbles = Stumbles(streams.runtime)
    consumer = Consumer(streams.intake, DeadLetters(database, streams.layout), stumbles, lease_seconds=5, batch=500)
    read = streams.intake.read_next(streams.intake.last_read(streams.leases), 500, 60_000)
    decoded, _ = consumer.decode_each(read.entries)
    assert consumer.apply_together(decoded) is None
    for lease in streams.leases:
        consumer.recover_pending(lease, float("inf"))
    assert streams.calls() == [3, 3, 3, 3]
    assert not any(streams.intake.lengths().values())


@pytest.mark.parametrize(("loop", "heard"), [(GuidanceLoop, 4), (Stumbles, 2)])
def test_a_lingerer_applies_alone_what_is_left(
    streams: Streams, database: Database, loop: type[GuidanceLoop], heard: int
) -> None:
    """It leaves streams with custom providers, and all of them after a failure; then no custom provider is asked."""
    streams.intake.release(*streams.leases)
    for lease in streams.leases:
        spec = MONITOR if lease.shard.index > 1 else REMINDER
        for entry in (streams.begun(lease.shard.index, spec), *(streams.call(lease.shard.index) for _ in range(8))):
            database.command("XADD", lease.stream, "*", "m", encode(entry.message))
    dead = DeadLetters(database, streams.layout)
    consumer = Consumer(streams.intake, dead, loop(streams.runtime), lease_seconds=5, batch=500)
    lingerer = Lingerer(streams.intake, consumer, lambda: False, lease_seconds=5, idle_seconds=0.1, batch=500)
    assert lingerer.linger(streams.layout.all, FAMILY) == []
    assert streams.calls() == [8, 8, 8, 8]
    assert sum(bool(streams.summaries(shard)) for shard in range(4)) == heard
    assert not any(streams.intake.lengths().values())
    assert dead.newest() == []


def test_what_cannot_be_read_costs_its_stream_alone(streams: Streams, database: Database) -> None:
    """It goes to the dead letters; where even that fails, for want of the lease, the other streams are applied."""
    dead = DeadLetters(database, streams.layout)
    consumer = Consumer(streams.intake, dead, streams.loop, lease_seconds=5, batch=500)
    bad, lost, good = streams.leases[:3]
    database.command("DEL", lost.key)
    entries = {lease: database.command("XADD", lease.stream, "*", "m", b"{").decode() for lease in (bad, lost)}
    read = {lease: [RawEntry(entry, b"{", 1)] for lease, entry in entries.items()}
    read[good] = [RawEntry("1-1", encode(streams.call(2).message), 1)]
    decoded, fenced = consumer.decode_each(read)
    assert fenced == {lost}
    assert consumer.apply_together(decoded) == Deferred()
    assert streams.calls() == [0, 0, 1, 0]
    assert len(dead.newest()) == 1


def test_the_commit_that_empties_a_stream_releases_it(streams: Streams, database: Database) -> None:
    """An entry that came before it is left to the consumer; one that comes after it has a wake-up of its own."""
    lease, other = streams.leases[:2]
    append = [("XADD", lease.stream, "*", "m", encode(streams.call(0).message)) for _ in range(2)]
    first, last = (IntakeEntry(id_.decode(), streams.call(0).message, 1) for id_ in database.pipeline(append))
    database.command("XGROUP", "CREATE", other.stream, "consumer", "0", "MKSTREAM")
    left = streams.loop.apply_together({lease: [first], other: [streams.call(1)]}, or_release=True)
    assert (left.released, left.fenced) == ({other}, set())
    assert mark_pending(database, [(lease.shard, FAMILY), (other.shard, FAMILY)]) == ["lingering", "due"]
    assert streams.loop.apply_together({lease: [last]}).released == set(), "who lingers keeps it"
    database.command("XADD", lease.stream, "*", "m", encode(streams.call(0).message))
    assert streams.loop.apply_together({lease: [streams.call(0)]}, or_release=True).released == set()
    assert streams.calls() == [3, 1, 0, 0]


def test_nothing_is_remembered_of_streams_that_were_released(streams: Streams, database: Database) -> None:
    streams.intake.release(*streams.leases)
    dead = DeadLetters(database, streams.layout)
    consumer = Consumer(streams.intake, dead, streams.loop, lease_seconds=5, batch=500)
    lingerer = Lingerer(streams.intake, consumer, lambda: False, lease_seconds=5, idle_seconds=0.1, batch=500)

    def consume_each(shards: Sequence[Shard], family: Family) -> list[Shard]:
        return [shard for shard in shards if consumer.consume(shard, family)]

    for pass_, consume in enumerate((consume_each, consumer.consume_together, lingerer.linger), 1):
        for lease in streams.leases:
            database.command("XADD", lease.stream, "*", "m", encode(streams.call(lease.shard.index).message))
        assert consume(streams.layout.all, FAMILY) == []
        assert streams.calls() == [pass_] * 4
        assert len(streams.loop.cache) == 0
