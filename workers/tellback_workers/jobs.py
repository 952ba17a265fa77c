"""Running jobs: lease the next one, run it under its lease, store its record, go on for a while.

A wake-up names a pool and no job. Whoever is woken first applies submissions that still wait in the intake, so that an
urgent one is not held up by wake-ups of others that stand before its own in the Celery queue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog
from celery import Task as CeleryTask
from celery import shared_task

from tellback import clock
from tellback.commands.checks import MAX_TIMEOUT
from tellback.commands.record import Attempt, record_of, record_without_run
from tellback.commands.recordfile import RecordFile
from tellback.commands.runner import run
from tellback.contracts.commands import CommandRecord
from tellback.errors import Unavailable
from tellback.names import Family, Task
from tellback.redaction import Redactor
from tellback.state.jobs import Claimant, JobLease, Jobs
from tellback.state.keys import Shard
from tellback_workers.follow import followed
from tellback_workers.hold import KILL_AT, RENEW_AT, STOPPED, Hold
from tellback_workers.job_wakeups import wake_pool
from tellback_workers.policy import Policy, Refused
from tellback_workers.runtime import Runtime, runtime
from tellback_workers.shutdown import shutting_down

TIME_LIMIT: Final = int(MAX_TIMEOUT) + 600  # of the task: a command's own limits end it long before
BUDGET: Final = 5.0  # seconds in which a task begins further jobs
FINISH_PATIENCE: Final = 120.0  # seconds in which a record is offered to a Redis that is away

_log = structlog.get_logger("tellback.jobs")


@shared_task(name=Task.RUN_JOB, bind=True, soft_time_limit=TIME_LIMIT - 60, time_limit=TIME_LIMIT)
def run_job(self: CeleryTask[[str, int, str], None], team: str, shard_index: int, pool: str) -> None:
    """Run the jobs of a pool that are ready, for a few seconds or the length of one."""
    process = runtime()
    worker = JobWorker(process, team, str(self.request.hostname), pool)
    end = clock.monotonic() + BUDGET
    try:
        worker.run(lambda: not shutting_down() and clock.monotonic() < end)
        if clock.monotonic() >= end:
            wake_pool(process.layout(team).shard(shard_index), pool, 1)  # whatever is left
    except Unavailable as away:
        _log.warning("job.postponed", team=team, pool=pool, reason=str(away))


class JobWorker:
    """Runs the jobs of one team's pool in this process."""

    def __init__(self, process: Runtime, team: str, worker: str, pool: str) -> None:
        """Take the process's connections, the team, the worker's name as it stands in records, and the pool."""
        self._process = process
        self._team = team
        self._worker = worker
        self._settings = process.settings
        self._jobs = Jobs(process.database, process.layout(team))
        self._policy = Policy(process.settings, team)
        self._claimant = Claimant(
            pool,
            seconds=self._settings.job_lease,
            worker=worker,
            host=self._settings.host_name,
            apply=self._apply_waiting,
        )

    def run(self, further: Callable[[], bool]) -> None:
        """Run jobs to their records, one after the other, until none is ready or `further` says that it is enough.

        Raises:
            Unavailable: Redis is away.
        """
        lease = self._jobs.lease(self._claimant) if further() else None
        while lease is not None:
            record = self._run(self._renewed(lease))
            try:
                following = self._settle(lease, record, further())
            finally:
                self._append(record)
            lease = following

    def _renewed(self, lease: JobLease) -> JobLease:
        """The lease, renewed if it has waited: for the disk, on which the record before this one was kept."""
        asked, seconds = clock.monotonic(), self._settings.job_lease
        if asked >= lease.asked + seconds * RENEW_AT:
            with suppress(Unavailable):  # what is left of it may be enough
                if self._jobs.renew(lease, seconds):
                    return replace(lease, asked=asked)
        return lease

    def _settle(self, lease: JobLease, record: CommandRecord, further: bool) -> JobLease | None:  # noqa: FBT001 - private
        """Store the record, also when Redis comes back only after a while: until then it exists nowhere else."""
        if record.error == STOPPED and lease.submitted.on_lost == "retry":
            self._jobs.renew(lease, 0)  # the next sweep finds it lost, and queues the next attempt
            return None
        following = None
        try:
            if further:
                stored, following = self._jobs.finish_and_lease(lease, record, self._claimant, patience=FINISH_PATIENCE)
            else:
                stored = self._jobs.finish(lease, record, patience=FINISH_PATIENCE)
        except Unavailable as away:
            _log.exception("job.record_lost", command_id=lease.command_id, reason=str(away))
            raise
        if not stored:
            _log.warning("job.superseded", command_id=lease.command_id, attempt=lease.attempt)
        return following

    def _apply_waiting(self, shards: Sequence[Shard]) -> None:
        from tellback_workers.tasks import drainer  # noqa: PLC0415 - it imports the app, which includes this module

        for shard in shards:
            drainer(self._process, self._team, Family.COMMANDS).drain(shard, Family.COMMANDS)

    def _run(self, lease: JobLease) -> CommandRecord:
        submitted = lease.submitted
        attempt = Attempt(lease.attempt, self._settings.host_name, self._worker)
        leased = clock.monotonic()
        try:
            secrets = self._policy.secrets(submitted)
            execution = self._policy.execution(submitted, secrets)
        except Refused as refusal:
            return record_without_run(submitted, str(refusal), attempt)

        def server_now() -> datetime:
            since = timedelta(seconds=clock.monotonic() - leased)
            return datetime.fromtimestamp(lease.at_ms / 1000, UTC) + since

        redactor = Redactor(secrets)
        left = lease.asked + self._settings.job_lease * KILL_AT - clock.monotonic()
        if left <= 0:
            return record_without_run(submitted, "its lease ran out before it could be started", attempt)
        execution = replace(execution, lease=left)
        hold = Hold(self._jobs, lease, execution.cwd, self._settings.job_lease)
        with hold as control, followed(self._process, self._team, lease, redactor) as tap:
            outcome = run(execution, redactor=redactor, control=control, now=server_now, tap=tap)
        return record_of(submitted, outcome, redactor=redactor, cwd=execution.cwd, attempt=attempt)

    def _append(self, record: CommandRecord) -> None:
        """Add the record to this host's file, last, so that nobody waits for a disk; a full one is told in the log."""
        path = self._settings.record_path(self._team)
        if path is None:
            return
        try:
            RecordFile(path).append(record)
        except OSError as error:
            _log.exception("job.record_not_appended", command_id=record.command_id, path=str(path), reason=str(error))
