"""Entries of an intake as a consumer reads them, without Celery."""

from __future__ import annotations

from collections.abc import Callable

from tellback import Tellback
from tellback.contracts.codec import decode
from tellback.names import Family
from tellback.state.database import Database
from tellback.state.fleet import TeamVisits
from tellback.state.intake import Intake, StreamRef
from tellback.state.intake_lease import IntakeEntry, Lease, RawEntry
from tellback.state.keys import Layout, Shard
from tellback_workers.runtime import Runtime


def read_new(intake: Intake, lease: Lease, count: int) -> list[RawEntry]:
    """New entries of a stream; if there are none, it is released."""
    return intake.read_or_release([lease], count).entries.get(lease, [])


def lease_of(intake: Intake, shard: Shard, family: Family = Family.EVENTS) -> Lease:
    """The lease of a stream that nobody has."""
    lease = intake.take_lease(shard, family, 60)
    assert lease is not None
    return lease


def idle_streams(database: Database, layout: Layout, longest_lease: float = 300.0) -> list[StreamRef]:
    """The streams of a team that need a wake-up, as a visit finds them."""
    found = TeamVisits(database).work(layout.all, longest_lease)
    return [place for work in found.values() for place in work.streams]


def published(
    tb: Tellback, runtime: Runtime, *says: Callable[[], object], conversation: str = "c1"
) -> tuple[Lease, list[IntakeEntry]]:
    """Publish what a host says of the turns of one conversation; return the lease and the entries of their stream."""
    for say in says:
        say()
    tb.flush()
    intake = runtime.intake("default")
    lease = intake.take_lease(tb.context.layout.of_turn("chat", conversation), Family.TURNS, 60)
    assert lease is not None
    entries = [
        IntakeEntry(raw.id, decode(raw.raw or b"", Family.TURNS), raw.deliveries)
        for raw in read_new(intake, lease, 100)
    ]
    return lease, entries
