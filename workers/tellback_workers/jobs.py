"""The jobs of a worker: each runs under its lease until its record is stored.

A wake-up names a pool, not a job. A worker that was woken first applies the submissions of commands that wait in the
intake, so a command takes one wake-up from its submission to its record, and an urgent one does not wait behind the
wake-ups that stand before its own in the Celery queue. The task then runs further jobs for a few seconds, which saves a
wake-up for each. If it sees more jobs than its own, it wakes one more worker, which does the same.

A thread of its own publishes a followed command's output, so the command never waits for Redis.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog
from celery import Task as CeleryTask
from celery import shared_task

from tellback import clock
from tellback.commands.checks import MAX_TIMEOUT
from tellback.commands.follow import FollowTap
from tellback.commands.record import CommandAttempt, RecordFile, build_record, record_without_run
from tellback.commands.runner import NOT_STARTED, OVERDUE, ExecutionSpec, run
from tellback.commands.survivors import MARK, end_survivors
from tellback.contracts.commands import CommandRecord
from tellback.errors import Unavailable
from tellback.names import Family, Task
from tellback.redaction import Redactor
from tellback.state.followed_output import FollowedOutput
from tellback.state.job_claims import JobClaimant, JobLease
from tellback.state.job_losses import first_id
from tellback.state.jobs import Jobs
from tellback.state.keys import Shard
from tellback_workers.celery_signals import shutting_down
from tellback_workers.entry_spans import command_span
from tellback_workers.lease_heartbeat import NOT_RENEWED, SHUTDOWN_REASON, LeaseHeartbeat, LeaseTimes
from tellback_workers.policy import Policy, Refused
from tellback_workers.runtime import Runtime, current_runtime
from tellback_workers.wakeups import wake_pool

PERIOD: Final = 0.1  # seconds; output within one period is published together

LAST_SEND_SECONDS: Final = 1.0  # the longest time that a record waits for the last output to be published

_logger = structlog.get_logger("tellback.follow")


@contextmanager
def output_tap(runtime: Runtime, team: str, lease: JobLease, redactor: Redactor) -> Generator[FollowTap | None]:
    """Yield the tap for a followed command's output, or None; publish the rest when the block ends."""
    submitted = lease.submitted
    if not submitted.follow:
        yield None
        return
    tap = FollowTap(redactor)
    output = FollowedOutput(runtime.short_database, runtime.layout(team), submitted.session, submitted.command_id)
    try:
        publishing = _OutputPublisher(tap, output)
    except RuntimeError as error:  # the system gives no more threads; the record has the output's tails
        _logger.warning("follow.no_thread", command_id=submitted.command_id, reason=str(error))
        yield None
        return
    try:
        yield tap
    finally:
        if not publishing.end():
            _logger.warning("follow.not_ended", command_id=submitted.command_id)


class _OutputPublisher:
    """A thread that publishes what a tap has received, until the command ends. A failure never stops the command."""

    def __init__(self, tap: FollowTap, output: FollowedOutput) -> None:
        self._tap = tap
        self._output = output
        self._ended = threading.Event()
        self._given_up_at = 0.0
        self._away = False
        self._thread = threading.Thread(target=self._run, name="job-output", daemon=True)
        self._thread.start()

    def end(self) -> bool:
        """Publish the rest after the command's end; return True if all of it was published in time."""
        self._given_up_at = clock.monotonic() + LAST_SEND_SECONDS
        self._ended.set()
        self._thread.join(LAST_SEND_SECONDS)
        return not self._thread.is_alive() and not self._output.unsent

    def _run(self) -> None:
        try:
            self._publish()
        except Exception:  # the command and its record matter more than its live output
            _logger.exception("follow.failed")

    def _publish(self) -> None:
        while not self._ended.wait(PERIOD):
            if not self._output.unsent:  # otherwise Redis is unavailable, and the tap buffers within its bounds
                self._output.add(self._tap.pieces())
            self._send()
        self._output.add(self._tap.pieces(final=True))
        self._output.end(self._tap.dropped)
        while not self._send() and clock.monotonic() < self._given_up_at:
            clock.sleep(PERIOD)

    def _send(self) -> bool:
        try:
            self._output.send()
        except Unavailable as away:
            if not self._away:  # log an outage once, not ten times a second
                _logger.warning("follow.postponed", reason=str(away))
            self._away = True
            return False
        self._away = False
        return True


TIME_LIMIT: Final = int(MAX_TIMEOUT) + 600  # of the task; a command's own limits end it long before

RUN_SECONDS: Final = 5.0  # for which a task starts further jobs

FINISH_RETRY_SECONDS: Final = 120.0  # for which storing a record is retried while Redis is unavailable

# After one of these errors `on_lost` decides what happens, as it does after a worker's death.
LOSSES: Final = (SHUTDOWN_REASON, NOT_RENEWED, OVERDUE, NOT_STARTED)


@shared_task(name=Task.RUN_JOB, bind=True, soft_time_limit=TIME_LIMIT - 60, time_limit=TIME_LIMIT)
def run_job(self: CeleryTask[[str, int, str], None], team: str, shard_index: int, pool: str) -> None:
    """Apply a shard's waiting submissions, then run a pool's jobs for a few seconds or until a longer one has ended."""
    runtime = current_runtime()
    end = clock.monotonic() + RUN_SECONDS

    def may_go_on() -> bool:
        return not shutting_down() and clock.monotonic() < end

    try:
        shard = runtime.shard(team, shard_index)
        worker = JobWorker(runtime, team, str(self.request.hostname), pool)
        worker.apply_and_run(shard, may_go_on)
        if not may_go_on():
            wake_pool(shard, pool, 1)  # for the jobs that are left, of which this task may have queued some
    except Unavailable as away:
        _logger.warning("job.postponed", team=team, pool=pool, reason=str(away))


class JobWorker:
    """Runs the jobs of one team's pool in this process."""

    def __init__(self, runtime: Runtime, team: str, worker: str, pool: str) -> None:
        self._runtime = runtime
        self._team = team
        self._worker = worker
        self._settings = runtime.settings
        self._jobs = Jobs(runtime.database, runtime.layout(team))
        self._renewing = Jobs(runtime.short_database, runtime.layout(team))
        self._policy = Policy(runtime.settings, team)
        self._claimant = JobClaimant(
            pool,
            seconds=LeaseTimes.of(self._settings, "record").lease,
            retry_seconds=LeaseTimes.of(self._settings, "retry").lease,
            worker=worker,
            host=self._settings.host_name,
            apply_intake=self._apply_waiting,
        )
        self._may_wake = True

    def apply_and_run(self, shard: Shard, further: Callable[[], bool]) -> None:
        """Apply the submissions that wait in a shard's stream, then run jobs as `run` does.

        The stream is taken even if it looks empty: this ends its pending marker, which would hold back the next
        wake-up.

        Raises:
            Unavailable: Redis is unavailable.
        """
        self._apply_waiting([shard])
        self.run(further)

    def run(self, further: Callable[[], bool]) -> None:
        """Run jobs one after the other until none is ready or `further` returns False.

        Raises:
            Unavailable: Redis is unavailable.
        """
        lease = self._jobs.lease(self._claimant) if further() else None
        while lease is not None:
            self._wake_another(lease)
            lease = self._ensured(lease)
            if lease is None:
                lease = self._jobs.lease(self._claimant) if further() else None
                continue
            times = LeaseTimes.of(self._settings, lease.submitted.on_lost)
            # The lease is renewed until the record is stored: a connection that fell silent may delay that for longer.
            with LeaseHeartbeat(self._renewing, lease, times) as heartbeat:
                record = self._run_traced(lease, heartbeat)
                try:
                    following = self._store_record(lease, record, further=further())
                finally:  # also if storing failed, since the file is then the only copy
                    self._append(record)
            lease = following

    def _wake_another(self, lease: JobLease) -> None:
        """Wake one more worker if other jobs wait, once for the task and for each time it has queued some."""
        own, heads = f":{lease.command_id}".encode(), self._claimant.heads
        if self._may_wake and any(not member.endswith(own) for head in heads for member in head.members):
            self._may_wake = False
            wake_pool(lease.shard, self._claimant.pool, 1)

    def _ensured(self, lease: JobLease) -> JobLease | None:
        """Confirm the lease, then renew it if that is due; return None if it is lost: the command must not start."""
        times = LeaseTimes.of(self._settings, lease.submitted.on_lost)
        is_ours = not self._runtime.database.confirms or self._survives(lease, times.lease)
        asked = clock.since_boot()
        # A slow disk delayed the previous job's record, or nobody confirmed.
        if is_ours and asked >= lease.asked + times.renew:
            with suppress(Unavailable):  # the rest of the lease may be enough
                is_ours = self._renewing.renew(lease, times.lease)
                lease = replace(lease, asked=asked)
        if is_ours:
            return lease
        _logger.warning("job.lease_lost", command_id=lease.command_id)
        return None

    def _survives(self, lease: JobLease, seconds: float) -> bool:
        """Return False if a failover took the lease: the command is queued again, and would run twice."""
        try:
            return self._jobs.confirm(lease, seconds)
        except Unavailable as error:
            _logger.warning("job.lease_not_confirmed", command_id=lease.command_id, reason=str(error))
            return True

    def _store_record(self, lease: JobLease, record: CommandRecord, *, further: bool) -> JobLease | None:
        """Store the record and lease the next job; retry during an outage, since the record exists nowhere else."""
        if record.error in LOSSES and lease.submitted.on_lost == "retry":
            if self._jobs.give_up(lease, record, retry_seconds=FINISH_RETRY_SECONDS):
                wake_pool(lease.shard, self._claimant.pool, 1)
            return None
        following = None
        try:
            if further:
                stored, following = self._jobs.finish_and_lease(
                    lease, record, self._claimant, retry_seconds=FINISH_RETRY_SECONDS
                )
            else:
                stored = self._jobs.finish(lease, record, retry_seconds=FINISH_RETRY_SECONDS)
        except Unavailable as away:
            _logger.exception("job.record_lost", command_id=lease.command_id, reason=str(away))
            raise
        if stored is None:  # a later sweep records the loss, once the session's records can be written again
            _logger.error("job.not_recorded", command_id=lease.command_id)
        elif not stored:
            _logger.warning("job.superseded", command_id=lease.command_id, attempt=lease.attempt)
        return following

    def _apply_waiting(self, shards: Sequence[Shard]) -> None:
        from tellback_workers.loops import consumer_of  # noqa: PLC0415 - it imports the app, which includes this module
        from tellback_workers.loops.commands import serving  # noqa: PLC0415 - as above

        with serving(self._claimant.pool) as served:
            for shard in shards:
                consumer_of(self._runtime, self._team, Family.COMMANDS).consume(shard, Family.COMMANDS)
            self._may_wake = self._may_wake or served.jobs > 0

    def _run_traced(self, lease: JobLease, heartbeat: LeaseHeartbeat) -> CommandRecord:
        tracing = self._runtime.tracing
        if tracing is None:
            return self._run(lease, heartbeat)
        with command_span(tracing, lease.submitted, lease.attempt) as note:
            return note(self._run(lease, heartbeat))

    def _run(self, lease: JobLease, heartbeat: LeaseHeartbeat) -> CommandRecord:
        submitted, times = lease.submitted, heartbeat.times
        attempt = CommandAttempt(lease.attempt, self._settings.host_name, self._worker)
        leased = clock.monotonic()
        try:
            secrets = self._policy.secrets(submitted)
            execution = self._policy.execution(submitted, secrets)
        except Refused as refusal:
            return record_without_run(submitted, str(refusal), attempt)

        # By the server's clock, so that the records of all hosts can be compared.
        def server_now() -> datetime:
            since = timedelta(seconds=clock.monotonic() - leased)
            return datetime.fromtimestamp(lease.at_ms / 1000, UTC) + since

        redactor = Redactor(secrets)
        start_until, alive_until = lease.asked + times.start, lease.asked + times.kill
        # The supervisor checks again, since this process may be frozen between here and the start.
        if clock.since_boot() >= start_until:
            return record_without_run(submitted, NOT_STARTED, attempt)
        execution = replace(execution, start_until=start_until, alive_until=alive_until, exclusive=times.exclusive)
        if times.exclusive:
            try:
                execution = self._ensure_alone(lease, execution)
            except TimeoutError as error:
                return record_without_run(submitted, str(error), attempt)
        heartbeat.cwd = execution.cwd
        with output_tap(self._runtime, self._team, lease, redactor) as tap:
            outcome = run(execution, redactor=redactor, control=heartbeat.control, now=server_now, tap=tap)
        return build_record(submitted, outcome, redactor=redactor, cwd=execution.cwd, attempt=attempt)

    def _ensure_alone(self, lease: JobLease, execution: ExecutionSpec) -> ExecutionSpec:
        """Kill what the previous attempt left running, and mark this one so that the next attempt can do the same.

        Raises:
            TimeoutError: a process of the previous attempt cannot be killed.
        """
        mark = f"{self._team}/{first_id(lease.submitted, lease.attempt)}"
        if lease.attempt > 1 and (survivors := end_survivors(mark)):
            _logger.warning("job.survivors_killed", command_id=lease.command_id, processes=survivors)
        return replace(execution, env={**execution.env, MARK: mark})

    def _append(self, record: CommandRecord) -> None:
        """Append the record to this host's file, after it is in Redis, because nobody should wait for a disk."""
        path = self._settings.record_path(self._team)
        if path is None:
            return
        try:
            RecordFile(path).append(record)
        except OSError as error:
            _logger.exception(
                "job.record_not_appended", command_id=record.command_id, path=str(path), reason=str(error)
            )
