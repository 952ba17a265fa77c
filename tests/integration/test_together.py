"""Several streams applied together: in the round trips of one, each in order, and none pays for another's trouble."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import pytest

from tellback.contracts.codec import encode
from tellback.contracts.guidance import EvaluationBegun, FeedbackTrigger, ProviderSpec, ToolInvoked
from tellback.contracts.message import new_event_id
from tellback.names import Family, shard_of
from tellback.settings import Settings
from tellback.state.database import Command, Database
from tellback.state.dead import DeadLetters
from tellback.state.evaluations import Change, EvaluationId, Evaluations, commit_each
from tellback.state.intake import Entry, Intake, Lease, RawEntry
from tellback.state.keys import Layout
from tellback_workers.drain import Drainer
from tellback_workers.loop import Left
from tellback_workers.loops.guidance import GuidanceLoop
from tellback_workers.runtime import Runtime
from tellback_workers.standby import Standby
from tests.support import providers

FAMILY = Family.EVENTS
REMINDER = ProviderSpec(
    name="StaticFeedback", trigger=FeedbackTrigger(every_n_calls=1), fields={"summary": "Mind the goal."}
)
MONITOR = ProviderSpec(name="Monitor", trigger=FeedbackTrigger(every_n_calls=1))


class Streams:
    """A session in each shard, and what comes of it."""

    def __init__(self, database: Database, layout: Layout, settings: Settings) -> None:
        self.database = database
        self.layout = layout
        self.intake = Intake(database, layout)
        self.intake.ensure_groups()
        self.runtime = Runtime(settings)
        self.loop = GuidanceLoop(self.runtime, "default")
        names = (f"s{n}" for n in range(1_000))
        self.sessions = {shard_of(name, layout.shards): name for name in names}
        self.leases = self.intake.attend(layout.all, FAMILY, 5)
        self.entries = 0

    def begun(self, shard: int, *specs: ProviderSpec) -> Entry:
        session = self.sessions[shard]
        return self._entry(
            EvaluationBegun(event_id=new_event_id(), session=session, prompt="p", evaluation="e", providers=list(specs))
        )

    def call(self, shard: int, event_id: str | None = None) -> Entry:
        session = self.sessions[shard]
        return self._entry(
            ToolInvoked(event_id=event_id or new_event_id(), session=session, prompt="p", evaluation="e", tool="t")
        )

    def _entry(self, message: EvaluationBegun | ToolInvoked) -> Entry:
        self.entries += 1
        return Entry(f"{self.entries}-1", message, 1)

    def store(self, shard: int) -> Evaluations:
        return Evaluations(self.database, self.layout.shard(shard))

    def calls(self) -> list[int]:
        ids = [EvaluationId(self.sessions[shard], "p", "e") for shard in range(4)]
        return [self.store(shard).counts(id_).calls for shard, id_ in enumerate(ids)]

    def summaries(self, shard: int) -> list[str]:
        taken = self.store(shard).take_feedback(EvaluationId(self.sessions[shard], "p", "e"), new_event_id())
        return [feedback.summary for feedback in taken]


@pytest.fixture
def streams(database: Database, layout: Layout, settings: Settings) -> Streams:
    return Streams(database, layout, msgspec.structs.replace(settings, providers=providers.SETTING))


def test_four_streams_take_as_many_round_trips_as_one(streams: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    trips: list[int] = []
    pipeline = Database.pipeline

    def counted(self: Database, commands: Sequence[Command], *, raise_on_error: bool = True) -> list[object]:
        trips.append(len(commands))
        return pipeline(self, commands, raise_on_error=raise_on_error)

    begun = {lease: [streams.begun(lease.shard.index, REMINDER)] for lease in streams.leases}
    streams.loop.apply_together(begun)
    monkeypatch.setattr(Database, "pipeline", counted)
    left = streams.loop.apply_together(
        {lease: [streams.call(lease.shard.index), streams.call(lease.shard.index)] for lease in streams.leases}
    )
    monkeypatch.undo()
    assert len([trip for trip in trips if trip]) == 2, "one to load and one to commit"
    assert not left.fenced
    assert not left.alone
    assert streams.calls() == [2, 2, 2, 2]
    assert [len(streams.summaries(shard)) for shard in range(4)] == [2, 2, 2, 2]


def test_an_event_counts_once_in_whichever_batch_it_comes_again(streams: Streams) -> None:
    for _ in range(2):
        streams.loop.apply_together(
            {lease: [streams.call(lease.shard.index, f"id-{lease.shard.index}")] * 2 for lease in streams.leases}
        )
    assert streams.calls() == [1, 1, 1, 1]


def test_a_stream_that_was_lost_is_told_and_the_others_are_applied(streams: Streams) -> None:
    streams.database.command("DEL", streams.leases[1].key)
    left = streams.loop.apply_together({lease: [streams.call(lease.shard.index)] for lease in streams.leases})
    assert left.fenced == {streams.leases[1]}
    assert streams.calls() == [1, 0, 1, 1]


def test_who_may_ask_a_custom_provider_is_left_for_after_the_others(streams: Streams) -> None:
    streams.loop.apply(streams.leases[2], [streams.begun(2, MONITOR)])
    entries = {lease: [streams.call(lease.shard.index)] for lease in streams.leases}
    entries[streams.leases[3]].insert(0, streams.begun(3, MONITOR))
    left = streams.loop.apply_together(entries)
    assert left.alone == {lease: entries[lease] for lease in streams.leases[2:]}
    assert streams.calls() == [1, 1, 0, 0]
    for lease, waiting in left.alone.items():
        streams.loop.apply(lease, waiting)
    assert streams.calls() == [1, 1, 1, 1]
    assert [len(streams.summaries(shard)) for shard in range(4)] == [0, 0, 1, 1]


def test_what_earned_feedback_is_committed_first(streams: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    committed: list[list[str]] = []

    def noted(
        database: Database, batches: Sequence[tuple[Evaluations, Lease, Sequence[Change]]]
    ) -> list[list[Change] | None]:
        committed.extend([change.id.evaluation for change in changes] for _, _, changes in batches)
        return commit_each(database, batches)

    monkeypatch.setattr("tellback_workers.loops.guidance.commit_each", noted)
    silent = msgspec.structs.replace(streams.call(0).message, evaluation="silent")
    streams.loop.apply_together(
        {streams.leases[0]: [Entry("9-1", silent, 1), streams.begun(0, REMINDER), streams.call(0)]}
    )
    assert committed == [["e", "silent"]]


class Stumbles(GuidanceLoop):
    """Fails over a batch of several streams, as one bad entry makes it."""

    def apply_together(self, batches: Mapping[Lease, Sequence[Entry]]) -> Left:
        super().apply_together(dict([next(iter(batches.items()))]))
        raise ValueError("bad")


def test_after_a_failure_everything_is_pending_and_what_was_applied_counts_once(
    streams: Streams, database: Database
) -> None:
    for lease in streams.leases:
        for _ in range(3):
            database.command("XADD", lease.stream, "*", "m", encode(streams.call(lease.shard.index).message))
    stumbles = Stumbles(streams.runtime, "default")
    drainer = Drainer(streams.intake, DeadLetters(database, streams.layout), stumbles, lease_seconds=5, batch=500)
    assert drainer.apply_together(streams.intake.read_waiting(streams.leases, 500)) is None
    for lease in streams.leases:
        drainer.recover(lease, float("inf"))
    assert streams.calls() == [3, 3, 3, 3]
    assert not any(streams.intake.lengths().values())


@pytest.mark.parametrize(("loop", "heard"), [(GuidanceLoop, 4), (Stumbles, 2)])
def test_who_stands_by_applies_alone_what_is_left(
    streams: Streams, database: Database, loop: type[GuidanceLoop], heard: int
) -> None:
    """Streams with custom providers, and all after a failure: then no custom provider is asked."""
    streams.intake.release(*streams.leases)
    for lease in streams.leases:
        spec = MONITOR if lease.shard.index > 1 else REMINDER
        for entry in (streams.begun(lease.shard.index, spec), *(streams.call(lease.shard.index) for _ in range(8))):
            database.command("XADD", lease.stream, "*", "m", encode(entry.message))
    dead = DeadLetters(database, streams.layout)
    drainer = Drainer(streams.intake, dead, loop(streams.runtime, "default"), lease_seconds=5, batch=500)
    standby = Standby(streams.intake, drainer, lambda: False, lease_seconds=5, quiet=0.1, batch=500)
    assert standby.attend(streams.layout.all, FAMILY) == []
    assert streams.calls() == [8, 8, 8, 8]
    assert sum(bool(streams.summaries(shard)) for shard in range(4)) == heard
    assert not any(streams.intake.lengths().values())
    assert dead.newest() == []


def test_what_cannot_be_read_costs_its_stream_alone(streams: Streams, database: Database) -> None:
    """It goes to the dead letters; where even that fails, for want of the lease, the other streams are applied."""
    dead = DeadLetters(database, streams.layout)
    drainer = Drainer(streams.intake, dead, streams.loop, lease_seconds=5, batch=500)
    bad, lost, good = streams.leases[:3]
    database.command("DEL", lost.key)
    read = {lease: [RawEntry("1-1", b"{", 1)] for lease in (bad, lost)}
    read[good] = [RawEntry("1-1", encode(streams.call(2).message), 1)]
    left = drainer.apply_together(read)
    assert left is not None
    assert left.fenced == {lost}
    assert not left.alone
    assert streams.calls() == [0, 0, 1, 0]
    assert len(dead.newest()) == 1
