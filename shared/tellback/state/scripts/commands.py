"""The calls of the scripts in `lua/commands`. Generated from their files by `make generate`: do not edit."""
# fmt: off

from __future__ import annotations

from collections.abc import Sequence

from tellback.state.script_calls import DecisionCall, Script, ScriptCall, beside, of_shard

_abandon_job = Script("commands/abandon_job", "1a8688b911dc9e633876944ade724de73fc4f13f")
_cancel_job = Script("commands/cancel_job", "99aebf5ffe8832eef372cf13560daec354489778")
_enqueue_job = Script("commands/enqueue_job", "6f370b60e402eabb052de50d3a6221c853bcf77c")
_finish_job = Script("commands/finish_job", "af2533a3ea588179235e95ca6feda890c70fe16a")
_lease_job = Script("commands/lease_job", "a0d74806578ea6d1765b15b7d3203ba25c465e92")
_mark_job_lost = Script("commands/mark_job_lost", "6171ba0d6c649562c5e7802ec66ad77b28afcb29")
_publish_output = Script("commands/publish_output", "5ef7ea3b072dbc2191df0a4bff40e3bedd8d23df")
_renew_job = Script("commands/renew_job", "12f8898a13a0a664141a7aec7bd29091e75384ab")
_waive_record = Script("commands/waive_record", "6affc987051e829c2e71c17e1a1fae666512a819")


def abandon_job(
    *, job: str, jobs: str, records: str, member: str, pool: str, since: int, record: str | bytes, history: str | bytes,
) -> ScriptCall:
    """Store the record of a queued command that no worker serves, unless it was leased or cancelled meanwhile."""
    return _abandon_job.call(
        [
            job, *beside(job, "done"), jobs, *beside(jobs, "joborder", "jobabsent"), records, *beside(records,
            "recorded", "hist"), *of_shard(job, "pools", "cmdstats", "clock"),
        ],
        [member, pool, since, record, history],
    )


def cancel_job(
    *, job: str, jobs: str, records: str, session: str, pool: str, record: str | bytes, history: str | bytes,
    entry: str | bytes, phrase: str | bytes,
) -> DecisionCall:
    """Cancel a command in any state."""
    return _cancel_job.decision(
        [
            job, *beside(job, "done", "stop"), jobs, *beside(jobs, "joborder", "jobabsent"), records, *beside(records,
            "recorded", "hist"), *of_shard(job, "pools", "cmdstats", "sessions", "audit", "clock"),
        ],
        [session, pool, record, history, entry, phrase],
    )


def enqueue_job(
    *, intake: str, job: str, jobs: str, records: str, fence: int, entries: str | bytes, command_id: str, session: str,
    pool: str, priority: int, spec: str | bytes, refused: str | bytes, refused_history: str | bytes,
    cancelled: str | bytes, cancelled_history: str | bytes, on_lost: str, queue_max: int,
) -> ScriptCall:
    """Apply CommandSubmitted: queue the command, or store its record at once if it cannot run or was cancelled."""
    return _enqueue_job.call(
        [
            intake, *beside(intake, "lease"), job, *beside(job, "done"), jobs, *beside(jobs, "joborder"), records,
            *beside(records, "recorded", "hist", "activity"), *of_shard(intake, "pools", "cmdstats", "sessions",
            "clock"),
        ],
        [
            fence, entries, command_id, session, pool, priority, spec, refused, refused_history, cancelled,
            cancelled_history, on_lost, queue_max,
        ],
    )


def finish_job(
    *, job: str, records: str, command_id: str, token: str, record: str | bytes, history: str | bytes, outcome: str,
) -> ScriptCall:
    """Store the record of a command that a worker ran."""
    return _finish_job.call(
        [
            job, *beside(job, "done", "stop"), records, *beside(records, "recorded", "hist", "superseded"),
            *of_shard(job, "running", "cmdstats"),
        ],
        [command_id, token, record, history, outcome],
    )


def lease_job(
    *, jobs: str, candidates: Sequence[str], pool: str, token: str, lease_ms: int, worker: str, host: str,
    retry_lease_ms: int, members: Sequence[str | bytes],
) -> ScriptCall:
    """Lease the first of some candidate commands that is still queued."""
    return _lease_job.call(
        [jobs, *beside(jobs, "joborder", "jobabsent"), *of_shard(jobs, "pools", "running", "clock"), *candidates],
        [pool, token, lease_ms, worker, host, retry_lease_ms, *members],
    )


def mark_job_lost(
    *, job: str, next_job: str, jobs: str, records: str, command_id: str, record: str | bytes, history: str | bytes,
    next_id: str, session: str, pool: str, priority: int, spec: str | bytes, attempt: int, grace_ms: int, token: str,
    call: str, on_lost: str,
) -> ScriptCall:
    """Declare a running command lost if its lease has expired."""
    return _mark_job_lost.call(
        [
            job, *beside(job, "done", "stop"), next_job, jobs, *beside(jobs, "joborder"), records, *beside(records,
            "recorded", "hist"), *of_shard(job, "running", "pools", "cmdstats", "clock"),
        ],
        [command_id, record, history, next_id, session, pool, priority, spec, attempt, grace_ms, token, call, on_lost],
    )


def publish_output(
    *, follow: str, keep: int, lifetime_ms: int, numbers: Sequence[int], pieces: Sequence[str | bytes],
) -> ScriptCall:
    """Append pieces of a command's output to the stream that its followers read, and drop the oldest."""
    return _publish_output.call([follow], [len(numbers), keep, lifetime_ms, *numbers, *pieces])


def renew_job(*, job: str, command_id: str, token: str, lease_ms: int, cwd: str | bytes) -> ScriptCall:
    """Renew the lease of a running command, even an expired one, unless it was declared lost."""
    return _renew_job.call([job, *of_shard(job, "running", "clock")], [command_id, token, lease_ms, cwd])


def waive_record(
    *, records: str, before: str | bytes, after: str | bytes, history: str | bytes, entry: str | bytes,
) -> DecisionCall:
    """Put a waiver into the record of a failed command."""
    return _waive_record.decision(
        [records, *beside(records, "hist"), *of_shard(records, "audit")],
        [before, after, history, entry],
    )
