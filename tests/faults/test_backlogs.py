"""The backlog of one session, in real workers: others are served in between, and every event counts."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
import redis

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
from tests.support.stopping_worker import APP, BATCH, standing_still, stopping_at
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

FEW = 10
# Who stands still longer than its lease loses it, and what it had in hand is then written one by one. The marker of one
# that lingers would live as long.
PATIENT = {"TELLBACK_CONSUMER_LEASE": "120", "TELLBACK_LINGER": "0"}


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


@contextmanager
def order_of_writes(url: str) -> Generator[Callable[[], list[str]]]:
    """Yield a function that returns the sessions whose evaluations were written, in that order, a session each write.

    The server tells. A look from here would come whenever this process gets a core.
    """
    with closing(cast("Any", redis.Redis).from_url(url, decode_responses=True)) as client, client.pubsub() as heard:
        client.config_set("notify-keyspace-events", "Kh")  # of hashes
        heard.psubscribe("__keyspace@0__:tb:{*}:eval:*")

        def written() -> list[str]:
            sessions = list[str]()
            while message := heard.get_message(timeout=1.0):
                if message["type"] == "pmessage":
                    sessions.append(message["channel"].split(":eval:")[1].partition(":")[0])
            return sessions

        try:
            yield written
        finally:
            client.config_set("notify-keyspace-events", "")


def before(order: list[str], session: str, others: Sequence[str]) -> float:
    """Return the share of a session's writes that came before the last of others."""
    last = max(number for number, each in enumerate(order) if each in others)
    return order[:last].count(session) / order.count(session)


@pytest.mark.parametrize(("count", "size"), [(50_000, 0), (3_000, 60_000)], ids=["many", "large"])
def test_a_backlog_delays_neither_the_other_sessions_of_its_shard_nor_other_teams(
    settings: Settings,
    database: Database,
    layout: Layout,
    start_workers: StartWorkers,
    tmp_path: Path,
    count: int,
    size: int,
) -> None:
    """Both have all of their effect before half of the backlog is applied; then each event has had it once."""
    with (
        connect(settings=msgspec.structs.replace(settings, team="zoo")) as other,
        order_of_writes(settings.redis_url) as written,
    ):
        shard, elsewhere = layout.of("small"), other.context.layout.of("other")
        append(database, shard, "huge", count, size)
        append(database, shard, "small", FEW)
        env = {**PATIENT, **stopping_at(BATCH, 2, tmp_path / "stopped")}
        workers = start_workers(queues="events,sweeps", env=env, app=APP)
        with standing_still(workers):
            append(database, shard, "late", FEW)
            for _ in range(FEW):
                other.prompt("other", "p", evaluation="e").tool_invoked("t")
            other.flush()
        stream = stream_of(shard, Family.EVENTS)
        wait_until(lambda: not database.command("XLEN", stream), "all of it is applied", timeout=240)
        wait_until(lambda: applied(database, elsewhere, "other") == FEW, "the other team is served")
        assert before(written(), "huge", ("small", "late", "other")) < 0.5
    found = [applied(database, shard, session) for session in ("huge", "small", "late")]
    assert (*found, applied(database, elsewhere, "other")) == (count, FEW, FEW, FEW)


def test_a_backlog_in_all_streams_of_a_team_delays_no_other_by_more_than_slices(
    settings: Settings, database: Database, layout: Layout, start_workers: StartWorkers, tmp_path: Path
) -> None:
    """Two processes had two of its four streams for half a lease each, and then the other two."""
    with (
        connect(settings=msgspec.structs.replace(settings, team="zoo")) as other,
        order_of_writes(settings.redis_url) as written,
    ):
        for shard in layout.all:
            append(database, shard, "huge", 25_000)
        env = {**PATIENT, **stopping_at(BATCH, 4, tmp_path / "stopped")}
        workers = start_workers(queues="events,sweeps", env=env, app=APP)
        with standing_still(workers):
            other.prompt("other", "p", evaluation="e").tool_invoked("t")
            other.flush()
        intake, elsewhere = Intake(database, layout), other.context.layout.of("other")
        wait_until(lambda: not any(intake.lengths().values()), "all of it is applied", timeout=240)
        wait_until(lambda: applied(database, elsewhere, "other") == 1, "the other team is served")
        assert before(written(), "huge", ("other",)) < 0.4
    assert [applied(database, shard, "huge") for shard in layout.all] == [25_000] * 4
