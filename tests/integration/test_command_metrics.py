"""Metrics of commands: every transition is counted once, and labels stay few."""

from __future__ import annotations

import time

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tellback import Tellback
from tellback.cli.metrics_collector import render_metrics
from tellback.commands.record import record_without_run
from tellback.commands.resource_limits import limit_error, refused_by_policy
from tellback.state.gauges import OUTCOMES
from tellback.state.job_losses import AbsentHosts
from tellback.state.jobs import Jobs
from tellback.state.steady import observe
from tests.support.clocks import ServerClock
from tests.support.jobs import AUTHOR, CommandQueue, ended, taken


@pytest.fixture
def session(tb: Tellback) -> str:
    """A session of the shard in which the queue puts commands."""
    return next(name for name in map(str, range(100)) if tb.context.layout.of(name).index == 0)


def exposed(tb: Tellback, name: str) -> dict[str, float]:
    """The samples of a metric by the value of its one label, or by '' where it has none."""
    return {
        next(iter(sample.labels.values()), ""): sample.value
        for family in text_string_to_metric_families(render_metrics(tb))
        for sample in family.samples
        if sample.name == f"tellback_{name}"
    }


def counted(tb: Tellback) -> dict[str, float]:
    return {outcome: count for outcome, count in exposed(tb, "command_records_total").items() if count}


def test_nothing_yet_is_zero_everywhere(tb: Tellback) -> None:
    assert exposed(tb, "commands_running") == {"": 0}
    assert exposed(tb, "commands_lease_expired") == {"": 0}
    assert exposed(tb, "commands_queued") == {"any": 0}
    assert exposed(tb, "command_records_total") == dict.fromkeys(OUTCOMES, 0)


def test_records_are_counted_by_outcome_once(tb: Tellback, jobs: Jobs, queue: CommandQueue, session: str) -> None:
    for code in (0, 3, None):
        queue.put(session)
        lease = taken(jobs)
        record = ended(lease, code)
        assert jobs.finish(lease, record)
        assert jobs.finish(lease, record), "the same call, tried again"
    queue.put(session, refusal="the policy does not allow it")
    queue.put(session, "never", host="gone")
    assert AbsentHosts(tb.context.database, tb.context.layout).abandon(0) == {"gone": ["never"]}
    queue.put(session)
    late = taken(jobs)
    jobs.renew(late, 0)
    time.sleep(0.005)
    [lost] = jobs.overdue()
    assert exposed(tb, "commands_lease_expired") == {"": 1}
    jobs.mark_lost(lost)
    assert not jobs.finish(late, ended(late, 0))
    assert counted(tb) == dict.fromkeys(
        ("succeeded", "failed", "no_exit", "refused", "abandoned", "lost", "superseded"), 1
    )
    assert exposed(tb, "commands_lease_expired") == exposed(tb, "commands_running") == {"": 0}


def test_what_a_policy_refuses_and_what_is_cancelled_while_it_runs_is_counted_as_such(
    tb: Tellback, jobs: Jobs, queue: CommandQueue, session: str
) -> None:
    """Both counted as commands that ran and have no exit code, and `refused` stayed at zero under any policy."""
    queue.put(session)
    refused = taken(jobs)
    assert jobs.finish(refused, record_without_run(refused.submitted, refused_by_policy("programs", "not git")))
    queue.put(session)
    running = taken(jobs)
    jobs.cancel(running.submitted, AUTHOR)
    reason = jobs.stop_requested(running, 1.0)
    assert reason
    assert jobs.finish(running, record_without_run(running.submitted, reason))
    queue.put(session)
    killed = taken(jobs)
    assert jobs.finish(killed, record_without_run(killed.submitted, limit_error("processes", 64)))
    assert counted(tb) == dict.fromkeys(("refused", "cancelled", "no_exit"), 1)


def test_a_forward_step_of_the_clock_ends_no_lease(
    tb: Tellback, jobs: Jobs, queue: CommandQueue, session: str, clock: ServerClock
) -> None:
    """Leases end by the steady clock. By the wall clock, all of them counted as expired from the step on."""
    observe(tb.context.database, tb.context.layout.all)
    queue.put(session)
    taken(jobs)
    clock.step(3_600_000)
    observe(tb.context.database, tb.context.layout.all)
    assert exposed(tb, "commands_lease_expired") == {"": 0}
    assert exposed(tb, "commands_running") == {"": 1}


def test_a_cancelled_command_is_counted_whenever_the_cancel_comes(
    tb: Tellback, jobs: Jobs, queue: CommandQueue, session: str
) -> None:
    queue.put(session, "queued")
    lease = taken(jobs)
    jobs.cancel(lease.submitted, AUTHOR)
    assert counted(tb) == {}, "a running one ends in a record of its worker"
    queue.put(session, "waits")
    waits = msgspec.structs.replace(lease.submitted, command_id="waits")
    assert jobs.cancel(waits, AUTHOR)[0] == "queued"
    ahead = msgspec.structs.replace(lease.submitted, command_id="ahead")
    assert jobs.cancel(ahead, AUTHOR)[0] == "unknown"
    queue.put(session, "ahead")
    assert counted(tb) == {"cancelled": 2}


def test_what_runs_and_what_waits_is_seen_by_pool(tb: Tellback, jobs: Jobs, queue: CommandQueue, session: str) -> None:
    for _ in range(3):
        queue.put(session)
    queue.put(session, host="box-1")
    taken(jobs)
    assert exposed(tb, "commands_running") == {"": 1}
    assert exposed(tb, "commands_queued") == {"any": 2, "box-1": 1}


def test_hosts_do_not_multiply_labels(tb: Tellback, queue: CommandQueue, session: str) -> None:
    for number in range(130):
        queue.put(session, host=f"box-{number}-{'x' * 60}")
    queue.put(session)
    found = exposed(tb, "commands_queued")
    assert len(found) <= 102
    assert found["any"] == 1
    assert sum(found.values()) == 131
    assert max(map(len, found)) <= 64
