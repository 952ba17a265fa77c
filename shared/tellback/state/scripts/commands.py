"""The calls of the scripts in `lua/commands`. Generated from their headers by `make generate`: do not edit."""
# fmt: off

from __future__ import annotations

from collections.abc import Sequence

from tellback.state.script_calls import Arg, DecisionCall, Script, ScriptCall, beside, of_shard

_abandon_job = Script("commands/abandon_job")


def abandon_job(
    *,
    job: str, jobs: str, records: str, member: str, pool: str, since: int, record: str | bytes, history: str | bytes,
) -> ScriptCall:
    """Store the record of a queued command that no worker serves, unless it was leased or cancelled meanwhile."""
    keys: list[str] = [
        job, *beside(job, "done"), jobs, *beside(jobs, "joborder", "jobabsent"), records, *beside(records, "recorded",
        "hist"), *of_shard(job, "pools", "cmdstats", "clock"),
    ]
    args: list[Arg] = [member, pool, since, record, history]
    return _abandon_job.call(keys, args)


_cancel_job = Script("commands/cancel_job")


def cancel_job(
    *,
    job: str, jobs: str, records: str, pool: str, record: str | bytes, history: str | bytes, entry: str | bytes,
    phrase: str | bytes,
) -> DecisionCall:
    """Cancel a command in any state."""
    keys: list[str] = [
        job, *beside(job, "done", "stop"), jobs, *beside(jobs, "joborder", "jobabsent"), records, *beside(records,
        "recorded", "hist"), *of_shard(job, "pools", "cmdstats", "audit", "clock"),
    ]
    args: list[Arg] = [pool, record, history, entry, phrase]
    return _cancel_job.decision(keys, args)


_enqueue_job = Script("commands/enqueue_job")


def enqueue_job(
    *,
    intake: str, job: str, jobs: str, records: str, fence: int, entries: str | bytes, command_id: str, session: str,
    pool: str, priority: int, spec: str | bytes, refused: str | bytes, refused_history: str | bytes,
    cancelled: str | bytes, cancelled_history: str | bytes, on_lost: str, queue_max: int,
) -> ScriptCall:
    """Apply CommandSubmitted: queue the command, or store its record at once if it cannot run or was cancelled."""
    keys: list[str] = [
        intake, *beside(intake, "lease"), job, *beside(job, "done"), jobs, *beside(jobs, "joborder"), records,
        *beside(records, "recorded", "hist", "activity"), *of_shard(intake, "pools", "cmdstats", "sessions", "clock"),
    ]
    args: list[Arg] = [
        fence, entries, command_id, session, pool, priority, spec, refused, refused_history, cancelled,
        cancelled_history, on_lost, queue_max,
    ]
    return _enqueue_job.call(keys, args)


_finish_job = Script("commands/finish_job")


def finish_job(
    *,
    job: str, records: str, command_id: str, token: str, record: str | bytes, history: str | bytes, outcome: str,
) -> ScriptCall:
    """Store the record of a command that a worker ran."""
    keys: list[str] = [
        job, *beside(job, "done", "stop"), records, *beside(records, "recorded", "hist", "superseded"), *of_shard(job,
        "running", "cmdstats"),
    ]
    args: list[Arg] = [command_id, token, record, history, outcome]
    return _finish_job.call(keys, args)


_lease_job = Script("commands/lease_job")


def lease_job(
    *,
    jobs: str, candidates: Sequence[str], pool: str, token: str, lease_ms: int, worker: str, host: str,
    retry_lease_ms: int, members: Sequence[str | bytes],
) -> ScriptCall:
    """Lease the first of some candidate commands that is still queued."""
    keys: list[str] = [
        jobs, *beside(jobs, "joborder", "jobabsent"), *of_shard(jobs, "pools", "running", "clock"), *candidates,
    ]
    args: list[Arg] = [pool, token, lease_ms, worker, host, retry_lease_ms, *members]
    return _lease_job.call(keys, args)


_mark_job_lost = Script("commands/mark_job_lost")


def mark_job_lost(
    *,
    job: str, next_job: str, jobs: str, records: str, command_id: str, record: str | bytes, history: str | bytes,
    next_id: str, session: str, pool: str, priority: int, spec: str | bytes, attempt: int, grace_ms: int, token: str,
    call: str, on_lost: str,
) -> ScriptCall:
    """Declare a running command lost if its lease has expired."""
    keys: list[str] = [
        job, *beside(job, "done", "stop"), next_job, jobs, *beside(jobs, "joborder"), records, *beside(records,
        "recorded", "hist"), *of_shard(job, "running", "pools", "cmdstats", "clock"),
    ]
    args: list[Arg] = [
        command_id, record, history, next_id, session, pool, priority, spec, attempt, grace_ms, token, call, on_lost,
    ]
    return _mark_job_lost.call(keys, args)


_publish_output = Script("commands/publish_output")


def publish_output(
    *,
    follow: str, keep: int, lifetime_ms: int, numbers: Sequence[int], pieces: Sequence[str | bytes],
) -> ScriptCall:
    """Append pieces of a command's output to the stream that its followers read, and drop the oldest."""
    keys: list[str] = [follow]
    args: list[Arg] = [len(numbers), keep, lifetime_ms, *numbers, *pieces]
    return _publish_output.call(keys, args)


_renew_job = Script("commands/renew_job")


def renew_job(
    *,
    job: str, command_id: str, token: str, lease_ms: int, cwd: str | bytes,
) -> ScriptCall:
    """Renew the lease of a running command, even an expired one, unless it was declared lost."""
    keys: list[str] = [job, *of_shard(job, "running", "clock")]
    args: list[Arg] = [command_id, token, lease_ms, cwd]
    return _renew_job.call(keys, args)


_waive_record = Script("commands/waive_record")


def waive_record(
    *,
    records: str, before: str | bytes, after: str | bytes, history: str | bytes, entry: str | bytes,
) -> DecisionCall:
    """Put a waiver into the record of a failed command."""
    keys: list[str] = [records, *beside(records, "hist"), *of_shard(records, "audit")]
    args: list[Arg] = [before, after, history, entry]
    return _waive_record.decision(keys, args)
