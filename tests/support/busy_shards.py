"""Shards of teams in which each duty of a scheduler has something to do, and its visits of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tellback import Tellback
from tellback.client.turns import Turn
from tellback.names import Family, Task
from tellback.settings import Settings
from tellback.state.decay import Decay
from tellback.state.evaluation_codec import EvaluationId
from tellback.state.evaluations import timer_member
from tellback.state.intake import Intake, StreamRef
from tellback.state.intake_lease import IntakeEntry
from tellback.state.job_claims import JobClaimant
from tellback.state.job_keys import ANY_POOL
from tellback.state.job_submissions import enqueue_call
from tellback.state.jobs import Jobs
from tellback.state.keys import Shard, stream_of
from tellback.state.records import Records
from tellback_workers.decay import run_for
from tellback_workers.runtime import Runtime
from tellback_workers.scheduler import TeamScheduler
from tests.support.jobs import submission
from tests.support.scores import build_bank
from tests.support.turns import deadline_passes, opened, state

HOST = "h9"  # of the commands that wait for their worker
ALL = {"fallback", "record", "pool", "timers", "stream", "decay"}
OWN = {  # the duties that find nothing any more, since what the key held is gone
    "due": {"fallback"},
    "running": {"record"},
    "pools": {"pool"},
    f"jobs:{HOST}": {"pool"},
    "timers": {"timers"},
    "in:events": {"stream"},
    "banks": {"decay"},
}


@dataclass(frozen=True)
class BusyShard:
    """A shard of a team in which each duty has something to do."""

    tb: Tellback
    shard: Shard
    turn: Turn
    session: str


def routed(tb: Tellback, shard: Shard) -> str:
    return next(name for name in map(str, range(1_000)) if tb.context.layout.of(name) == shard)


def busy(tb: Tellback, index: int) -> BusyShard:
    """Give each duty of a shard something to do."""
    database, layout = tb.context.database, tb.context.layout
    shard = layout.shard(index)
    session = routed(tb, shard)
    conversation = next(name for name in map(str, range(1_000)) if layout.of_turn("chat", name) == shard)
    assert list(tb.outbox("chat")) == []  # a transport polls
    turn = opened(tb, conversation=conversation)
    deadline_passes(tb, turn)
    lease = Intake(database, layout).take_lease(shard, Family.COMMANDS, 300)
    assert lease is not None
    for command_id, host in ((f"lost{index}", None), (f"waits{index}", HOST)):
        submitted = submission(session, command_id, host=host)
        queued = enqueue_call(lease, IntakeEntry("1-1", submitted, 1), submitted, None, 10_000)
        assert database.run(queued) == b"ok"
    assert Jobs(database, layout).lease(JobClaimant(ANY_POOL, seconds=0.001, worker="w@test", host="h"))
    database.command("ZADD", shard.key("running"), "XX", 1, f"lost{index}")
    database.command("ZADD", shard.key("pools"), "XX", 1, HOST)
    database.command("ZADD", shard.key("timers"), 1, timer_member(shard, EvaluationId(session, "p", "e")))
    database.command("PEXPIRE", shard.key("timers"), 60_000)
    build_bank(database, shard, session, facts=3, clusters=1, each=1, age_ms=30 * 86_400_000)
    database.command("XADD", stream_of(shard, Family.EVENTS), "*", "m", "{}")
    return BusyShard(tb, shard, turn, session)


class SchedulerVisits:
    """Visits of a worker's scheduler, with a broker that notes the wake-ups."""

    def __init__(self, settings: Settings) -> None:
        self.runtime = Runtime(settings)
        self.published: list[tuple[Task, Sequence[Any]]] = []
        self.woken: list[StreamRef] = []

    def publish(self, task: Task, arguments: Sequence[Any], _queue: str) -> None:
        self.published.append((task, arguments))

    def visit(self, number: int) -> None:
        scheduler = TeamScheduler(self.runtime, self.woken.extend)
        for _ in range(number):
            scheduler.run(0.0)

    def done(self, place: BusyShard) -> set[str]:
        """Return the duties that found what waits in this place."""
        database, layout, shard = place.tb.context.database, place.tb.context.layout, place.shard
        records = [record.command_id for record in Records(database, layout).last(place.session)]
        run_for(Decay(database, layout), "test", 60)
        here = (shard.team, shard.index)
        found = {
            "fallback": state(place.turn) == "fallback",
            "record": records == [f"lost{shard.index}"],
            "pool": (Task.RUN_JOB, (*here, HOST)) in self.published,
            "timers": (Task.FIRE_TIMERS, here) in self.published,
            "stream": (shard, Family.EVENTS) in self.woken,
            "decay": database.command("HEXISTS", shard.key("decay"), "done") == 1,
        }
        return {duty for duty, was in found.items() if was}
