"""The backlog of one session, in real workers: others are served in between, and every event counts."""

from __future__ import annotations

import msgspec
import pytest

from tellback import Settings, connect
from tellback.contracts.codec import encode
from tellback.contracts.guidance import ToolInvoked
from tellback.contracts.message import new_event_id
from tellback.names import Family
from tellback.state.database import Database
from tellback.state.evaluation_codec import EvaluationId
from tellback.state.evaluations import Evaluations
from tellback.state.intake import Intake
from tellback.state.keys import Layout, Shard, stream_of
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers

pytestmark = pytest.mark.slow

FEW = 10


def append(database: Database, shard: Shard, session: str, count: int, size: int = 0) -> None:
    """Append tool calls of a session, as a host does that uses nothing but XADD."""
    call = ToolInvoked(event_id="e", session=session, prompt="p", evaluation="e", tool="t", params={"text": "x" * size})
    for start in range(0, count, 1_000):
        events = [
            msgspec.structs.replace(call, event_id=new_event_id(), params={**call.params, "n": number})
            for number in range(start, min(start + 1_000, count))
        ]
        database.pipeline([("XADD", stream_of(shard, Family.EVENTS), "*", "m", encode(event)) for event in events])


def applied(database: Database, shard: Shard, session: str) -> int:
    return Evaluations(database, shard).counts(EvaluationId(session, "p", "e")).calls


@pytest.mark.parametrize(("count", "size"), [(50_000, 0), (3_000, 60_000)], ids=["many", "large"])
def test_a_backlog_delays_neither_the_other_sessions_of_its_shard_nor_other_teams(
    settings: Settings, database: Database, layout: Layout, start_workers: StartWorkers, count: int, size: int
) -> None:
    """Both have all of their effect before half of the backlog is applied; then each event has had it once."""
    with connect(settings=msgspec.structs.replace(settings, team="zoo")) as other:
        shard, elsewhere = layout.of("small"), other.context.layout.of("other")
        append(database, shard, "huge", count, size)
        append(database, shard, "small", FEW)
        start_workers(queues="events,sweeps")
        wait_until(lambda: applied(database, shard, "huge") > 0, "the backlog is being applied", timeout=60)
        append(database, shard, "late", FEW)
        for _ in range(FEW):
            other.prompt("other", "p", evaluation="e").tool_invoked("t")
        other.flush()
        stream, left = stream_of(shard, Family.EVENTS), 0

        def served() -> bool:
            nonlocal left
            left = database.command("XLEN", stream)
            others = (applied(database, shard, "small"), applied(database, shard, "late"))
            return (*others, applied(database, elsewhere, "other")) == (FEW, FEW, FEW)

        wait_until(served, "the others have been served", timeout=60)
        assert left > count / 2
        wait_until(lambda: not database.command("XLEN", stream), "all of it is applied", timeout=180)
    found = [applied(database, shard, session) for session in ("huge", "small", "late")]
    assert (*found, applied(database, elsewhere, "other")) == (count, FEW, FEW, FEW)


def test_a_backlog_in_all_streams_of_a_team_delays_no_other_by_more_than_slices(
    settings: Settings, database: Database, layout: Layout, start_workers: StartWorkers
) -> None:
    """Two processes had two of its four streams for half a lease each, and then the other two."""
    with connect(settings=msgspec.structs.replace(settings, team="zoo")) as other:
        for shard in layout.all:
            append(database, shard, "huge", 12_500)
        start_workers(queues="events,sweeps")
        wait_until(
            lambda: sum(applied(database, shard, "huge") > 0 for shard in layout.all) >= 2,
            "two processes are busy",
            timeout=60,
        )
        other.prompt("other", "p", evaluation="e").tool_invoked("t")
        other.flush()
        elsewhere = other.context.layout.of("other")
        wait_until(lambda: applied(database, elsewhere, "other") == 1, "the other team is served", timeout=60)
        intake = Intake(database, layout)
        assert sum(intake.lengths().values()) > 50_000 * 0.6
        wait_until(lambda: not any(intake.lengths().values()), "all of it is applied", timeout=180)
    assert [applied(database, shard, "huge") for shard in layout.all] == [12_500] * 4
