"""A score that is no time, which a host or a person wrote into an index, ends nobody who makes a time of it."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from tellback import OutgoingResponse, Tellback
from tellback.cli.app import app
from tellback.cli.metrics_collector import render_metrics
from tellback.state.database import Database
from tellback.state.job_claims import JobClaimant
from tellback.state.job_keys import ANY_POOL
from tellback.state.jobs import Jobs
from tellback.state.keys import FLEET, Layout
from tests.support.busy_shards import ALL, HOST, BusyShard, SchedulerVisits
from tests.support.jobs import CommandQueue
from tests.support.turns import opened, sent

INDEXES = [
    *("due", "running", "pools", "timers", "sessions", "turns", "polled", "channels", "banks", "factbanks"),
    *("out:chat", "ambiguous:chat", f"jobs:{HOST}", "fleet:teams", "fleet:active", "fleet:noticed", "workers"),
]
READERS = [["turns"], ["turns", "--open"], ["outbox"], ["ps"], ["sessions"], ["team"], ["stats"], ["alerts"]]


def key_of(layout: Layout, index: int, name: str) -> str:
    family, _, rest = name.partition(":")
    if family == "fleet":
        return FLEET.key(rest)
    return layout.shard(index).key(family, *([rest] if rest else []))


@pytest.mark.parametrize("score", ["-inf", "+inf"])
@pytest.mark.parametrize("name", INDEXES)
def test_workers_and_readers_go_on(
    visits: SchedulerVisits, places: list[BusyShard], name: str, score: str, caplog: pytest.LogCaptureFixture
) -> None:
    place, *others = places
    database, layout = place.tb.context.database, place.tb.context.layout
    key = key_of(layout, place.shard.index, name)
    members: list[bytes] = database.command("ZRANGE", key, 0, -1)
    database.command("ZADD", key, *[part for member in [*members, b"by hand"] for part in (score, member)])
    visits.visit(3)
    assert [visits.done(other) for other in others] == [ALL, ALL]
    if score == "-inf":
        assert visits.done(place) == ALL
    assert "OverflowError" not in caplog.text
    assert "tellback_outbox" in render_metrics(place.tb)
    for arguments in READERS:
        done = CliRunner().invoke(app, [*arguments, "--team", layout.team, "--redis-url", database.url])
        assert done.exit_code in {0, 1}, (arguments, done.output)
        assert done.exception is None or isinstance(done.exception, SystemExit), (arguments, done.exception)
    database.command("DEL", key)  # it has no lifetime if nothing of ours was in it


@pytest.mark.parametrize("score", ["-inf", "+inf"])
def test_a_command_is_leased(database: Database, one: Layout, score: str) -> None:
    """Each worker that looked at the queue ended its attempt with an OverflowError, and no command of the pool ran."""
    queue, key = CommandQueue(database, one), one.shard(0).key("jobs", ANY_POOL)
    wanted = [queue.put("s") for _ in range(2)]
    members: list[bytes] = database.command("ZRANGE", key, 0, -1)
    database.command("ZADD", key, "XX", *[part for member in members for part in (score, member)])
    jobs, claimant = Jobs(database, one), JobClaimant(ANY_POOL, seconds=60, worker="w@test", host="h")
    leases = [jobs.lease(claimant) for _ in wanted]
    assert sorted(lease.command_id for lease in leases if lease) == sorted(wanted)


@pytest.mark.parametrize("score", ["-inf", "+inf"])
def test_an_answer_is_sent(tb: Tellback, database: Database, score: str) -> None:
    for conversation in ("a", "b"):
        opened(tb, conversation=conversation).respond(OutgoingResponse.text_only(conversation))
    key = tb.context.layout.of_turn("chat", "a").key("out", "chat")
    database.command("ZADD", key, "XX", score, "a")
    assert {text for _, _, text in sent(tb)} == ({"a", "b"} if score == "-inf" else {"b"})
