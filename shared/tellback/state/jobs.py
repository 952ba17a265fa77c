"""Jobs: commands on their way from submission to record.

queued ── lease_job ──▶ running ── finish_job ──▶ done
   │                      └─ lease expired: mark_job_lost ──▶ done, and perhaps a linked attempt queued
   └─ cancel_job ──▶ done, also before the submission was applied

Every transition is one script on the shard of the command's session: a command ends in exactly one record, whichever
worker, sweep or cancellation is first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import msgspec

from tellback import clock
from tellback.backoff import Backoff, retry
from tellback.commands.record import CommandAttempt, record_without_run
from tellback.commands.start_errors import CANCELLED
from tellback.contracts.commands import CommandRecord, CommandSubmitted
from tellback.errors import Unavailable
from tellback.names import Family
from tellback.state.answering import among_answering
from tellback.state.audit import MAX_PHRASE_CHARS, Author
from tellback.state.database import Database, shorten_lifetime, small_write
from tellback.state.decisions import decide
from tellback.state.job_claims import Claim, JobClaimant, JobLease
from tellback.state.job_keys import command_keys, outcome_of, pool_of, stored_record
from tellback.state.job_losses import (
    STORED_FIELDS,
    SWEEP_BATCH,
    UNREADABLE_SECONDS,
    Lost,
    loss_call,
    read_lost,
    report_unreadable,
    text_or_none,
)
from tellback.state.keys import Layout, Shard, stream_of
from tellback.state.readable import UNREADABLE, read_each, reply_of, without_errors
from tellback.state.script_calls import Command, ScriptCall, to_milliseconds
from tellback.state.scripts import commands as scripts
from tellback.state.scripts import common
from tellback.state.steady import GAP_MS, Observed, observe, steady_now
from tellback.truncation import truncate_chars

POSTPONE_MS: Final = 60_000  # a lost command whose record could not be stored is retried after this time
CANDIDATES: Final = 4  # commands of a queue that a claim names, because other workers claim at the same time
BACKOFF: Final = Backoff(0.2)  # while Redis is away
_EARLIER_STOP: Final = b"1"  # what hosts of earlier releases write there


class Jobs:
    """The jobs of one team."""

    def __init__(self, database: Database, layout: Layout) -> None:
        self._db = database
        self._layout = layout
        self._known_views: dict[tuple[str, tuple[Shard, ...]], list[Command]] = {}

    def lease(self, claimant: JobClaimant) -> JobLease | None:
        """Lease the next command of a pool: by priority, then in turn over its sessions; None if nothing is queued.

        Submissions that wait in an intake are applied first, if the claimant can.
        """
        if not claimant.has_fresh_heads():
            self._read_heads(claimant)
        if claimant.apply_intake is not None and claimant.should_apply_intake():
            claimant.apply_intake(claimant.unapplied)
            claimant.applied_at = clock.monotonic()
            self._read_heads(claimant)
        while claimant.heads:
            claim = Claim(claimant)
            asked = clock.since_boot()
            # Also after a timeout: a command whose lease nobody heard of would end as a loss.
            lease = claim.lease(retry(partial(self._db.run, claim.call), BACKOFF, tries=2), asked)
            if lease is not None:
                return lease
            self._read_heads(claimant)
        return None

    def _read_heads(self, claimant: JobClaimant) -> None:
        asked = clock.monotonic()

        def ask(shards: Sequence[Shard]) -> None:
            claimant.update_heads(shards, self._db.pipeline(self._head_commands(claimant.pool, shards)), asked)

        among_answering(self._db, self._layout.all, ask)

    def _head_commands(self, pool: str, shards: Sequence[Shard]) -> list[Command]:
        """Return the commands that read each shard's number of submissions and the first commands of its queue."""
        view = pool, tuple(shards)
        if view not in self._known_views:
            views: list[Command] = [("XLEN", stream_of(shard, Family.COMMANDS)) for shard in shards]
            views += [("ZRANGE", shard.key("jobs", pool), 0, CANDIDATES - 1, "WITHSCORES") for shard in shards]
            self._known_views[view] = views
        return self._known_views[view]

    def renew(self, lease: JobLease, seconds: float, cwd: str = "") -> bool:
        """Renew the lease for `seconds` from now; return False if the command was declared lost.

        A `cwd` is stored for the record of a later loss.
        """
        return bool(self._db.run(_renew_call(lease, seconds, cwd)))

    def confirm(self, lease: JobLease, seconds: float) -> bool:
        """Renew the lease, and wait until a failover could not take it away; return False if one has.

        Call it only where the settings ask for writes to be confirmed.

        Raises:
            Unavailable: nobody confirmed it in time, or Redis is away.
        """
        call = _renew_call(lease, seconds)

        def confirmed() -> bool:
            # The script first: `confirm` sends its digest alone, which a new primary may not know.
            return bool(self._db.run(call)) and self._db.confirm([call.evalsha]) == [1]

        return retry(confirmed, BACKOFF, tries=2)  # the first one may have met a primary that was about to leave

    def stop_requested(self, lease: JobLease, wait: float) -> str | None:
        """Wait at most `wait` seconds for a cancellation; return the text for the record, or None if there is none."""
        found = self._db.first_of(lease.shard.key("stop", lease.command_id), wait)
        if found is None or found == _EARLIER_STOP:
            return found and CANCELLED
        return f"{CANCELLED} {truncate_chars(found.decode(errors='replace'), MAX_PHRASE_CHARS)}"

    def finish(self, lease: JobLease, record: CommandRecord, *, retry_seconds: float = 0.0) -> bool | None:
        """Store the record of the command; return False if it came too late and is kept as superseded.

        If the record cannot be stored, return None: the command stays leased, and a later sweep records its loss.

        Raises:
            Unavailable: Redis is still away after `retry_seconds` of retries.
        """
        reply = self._run_with_retries(_finish_call(lease, record), retry_seconds)
        return None if reply is None else bool(reply == b"ok")

    def finish_and_lease(
        self, lease: JobLease, record: CommandRecord, claimant: JobClaimant, *, retry_seconds: float = 0.0
    ) -> tuple[bool | None, JobLease | None]:
        """Run `finish`, then `lease`, in one round trip if the view of the queues is recent and has commands.

        Raises:
            Unavailable: as `finish`, not as `lease`. A retry has the same token and gets the same lease.
        """
        finishing, claim = _finish_call(lease, record), None
        if claimant.has_fresh_heads() and claimant.heads and not claimant.should_apply_intake():
            claim = Claim(claimant)
        seen_at, asked = clock.monotonic(), clock.since_boot()
        end = seen_at + retry_seconds

        def ask(shards: Sequence[Shard]) -> list[Any]:
            calls = [finishing] if claim is None or claim.shard not in shards else [finishing, claim.call]
            replies = without_errors(self._db.run_each(calls, self._head_commands(claimant.pool, shards)))
            claimant.update_heads(shards, replies[len(calls) :], seen_at)
            return replies[: len(calls)]

        stored, *claimed = retry(lambda: among_answering(self._db, self._layout.all, ask), BACKOFF, end=end)
        following = claim.lease(claimed[0], asked) if claim is not None and claimed else None
        if following is None:
            with suppress(Unavailable):  # the record is stored; the commands that wait have another wake-up
                following = self.lease(claimant)
        return stored and stored == b"ok", following

    def _run_with_retries(self, call: ScriptCall, seconds: float) -> Any:
        return retry(lambda: without_errors(self._db.run_each([call])), BACKOFF, end=clock.monotonic() + seconds)[0]

    def overdue(self, lease: float = 0.0, gap_ms: int = GAP_MS, longest: float = 0.0) -> list[Lost]:
        """Return some commands of each shard whose lease has expired; none within a `lease` after a step or a gap.

        No lease is longer than `longest`, by default `lease`.
        """
        observed = observe(self._db, self._layout.all, gap_ms)
        longest_ms = round(max(lease, longest) * 1000)
        lost: list[Lost] = []
        for shard, seen in zip(self._layout.all, observed, strict=True):
            if longest_ms:
                self._shorten(shard, seen.now + longest_ms)
            if seen.watched >= lease * 1000:  # otherwise holders could not renew, or renewed by the old clock
                lost += self._overdue(shard, seen)
        return lost

    def _overdue(self, shard: Shard, seen: Observed) -> Iterable[Lost]:
        ids = self._db.command("ZRANGE", shard.key("running"), "-inf", seen.now, "BYSCORE", "LIMIT", 0, SWEEP_BATCH)
        names = [id_.decode(errors="replace") for id_ in ids]
        jobs = read_each(self._db, [("HMGET", shard.key("job", name), *STORED_FIELDS) for name in names])
        for id_, name, found in zip(ids, names, jobs, strict=True):
            drop = common.drop_not_running(job=shard.key("job", name), command_id=id_)
            try:
                if reply_of(found)[0] is None and self._db.run(drop):  # its job key has expired, or it is done
                    continue
                yield read_lost(shard, name, found)
            except UNREADABLE as error:  # not even its session is known; it must not block the others
                report_unreadable(error, command_id=name)
                self.postpone_loss(shard, name)

    def postpone_loss(self, shard: Shard, command_id: str) -> None:
        """Postpone a lost command for the next sweeps; one whose lease was renewed meanwhile keeps it."""
        self._db.run(common.postpone(index=shard.key("running"), member=command_id, ms=POSTPONE_MS))

    def _shorten(self, shard: Shard, latest: int) -> None:
        """Shorten leases that end later than a new one would: the clock stepped forward before they were given."""
        key = shard.key("running")
        ids = self._db.command("ZRANGE", key, f"({latest}", "+inf", "BYSCORE", "LIMIT", 0, SWEEP_BATCH)
        # race: LT and XX only ever shorten an existing lease, to the length of a new one
        self._db.pipeline([("ZADD", key, "XX", "LT", latest, id_) for id_ in ids])

    def mark_lost(self, lost: Lost, watch: float = 0.0) -> bool:
        """Record the loss and queue the next attempt, if any; return False if the lease was or may still be renewed.

        A loss is decided at the earliest `watch` seconds after the first call: after an outage of Redis every lease
        has expired, and live workers must be able to renew theirs first; an unreadable one has an hour.
        """
        record = record_without_run(lost.submitted, lost.error, lost.attempt, cwd=lost.cwd)
        stored = bool(self._db.run(loss_call(lost, record, watch if lost.is_readable else UNREADABLE_SECONDS)) == b"ok")
        if not stored and not lost.is_readable:
            self.postpone_loss(lost.shard, lost.submitted.command_id)
        return stored

    def give_up(self, lease: JobLease, record: CommandRecord, *, retry_seconds: float = 0.0) -> bool:
        """End the lease and store this record as a loss; it is superseded if the command was declared lost before.

        Raises:
            Unavailable: as `finish`.
        """
        lost = Lost(lease.shard, lease.submitted, CommandAttempt(lease.attempt, record.host, record.worker), record.cwd)
        stored = bool(self._run_with_retries(loss_call(lost, record, token=lease.token), retry_seconds) == b"ok")
        if not stored:
            self.finish(lease, record, retry_seconds=retry_seconds)
        return stored

    def idle_pools(self, quiet_seconds: float, wakeup_seconds: float) -> list[tuple[Shard, str, int]]:
        """Return pools with queued commands that nobody has touched for a while: their wake-ups may be lost.

        Each is returned once in `wakeup_seconds`, with the number of its queued commands.
        """
        found, life = list[tuple[Shard, str, int]](), to_milliseconds(wakeup_seconds)
        for shard, now in zip(self._layout.all, steady_now(self._db, self._layout.all), strict=True):
            pools, until = shard.key("pools"), now - to_milliseconds(quiet_seconds)
            for raw in self._db.command("ZRANGE", pools, "-inf", until, "BYSCORE", "LIMIT", 0, SWEEP_BATCH):
                pool = raw.decode(errors="replace")  # one that is not a pool has no queue, and is removed
                key, queue = shard.key("jobwakeup", pool), shard.key("jobs", pool)
                # race: a pool that was woken or emptied since it was found costs a wake-up that finds nothing
                woken = small_write("SET", key, 1, "NX", "PX", life)
                # race: GT and XX; the next sweep looks at others, which a hundred busy hosts would hide
                calls = [woken, small_write("ZADD", pools, "XX", "GT", now, raw)]
                marked, _, queued, _ = self._db.run_all(calls, [("ZCARD", queue), shorten_lifetime(key, life)])
                if not queued:
                    self._db.run(common.drop_missing(index=pools, key=queue, member=raw))
                elif marked is not None:
                    found.append((shard, pool, int(queued)))
        return found

    def cancel(self, submitted: CommandSubmitted, author: Author) -> tuple[str, str | None]:
        """Cancel a command in any state; return its former state and the id of its next attempt.

        The state is unknown, queued, running or done.
        """
        shard, pool = self._layout.of(submitted.session), pool_of(submitted)
        decision = scripts.cancel_job(
            **command_keys(shard, submitted),
            **stored_record(record_without_run(submitted, f"cancelled before it started {author.phrase}")),
            jobs=shard.key("jobs", pool),
            session=submitted.session,
            pool=pool,
            entry=author.entry("cancel", submitted.command_id, submitted.session),
            phrase=author.phrase,
        )
        reply = decide(self._db, shard, decision)
        return reply["state"], reply["next"] or None

    def cancel_attempt(self, submitted: CommandSubmitted, command_id: str, author: Author) -> tuple[str, str | None]:
        """Cancel a further attempt of a command, or the latest attempt that followed it."""
        state, again = self.cancel(msgspec.structs.replace(submitted, command_id=command_id), author)
        return (state, None) if again is None else self.cancel_attempt(submitted, again, author)

    def next_attempt(self, submitted: CommandSubmitted, command_id: str) -> str | None:
        """Return the id of the attempt that was queued when this one was lost."""
        return text_or_none(self._db.command("HGET", self._layout.of(submitted.session).key("job", command_id), "next"))


def _renew_call(lease: JobLease, seconds: float, cwd: str = "") -> ScriptCall:
    return scripts.renew_job(
        job=lease.shard.key("job", lease.command_id),
        command_id=lease.command_id,
        token=lease.token,
        lease_ms=round(seconds * 1000),
        cwd=cwd,
    )


def _finish_call(lease: JobLease, record: CommandRecord) -> ScriptCall:
    return scripts.finish_job(
        **command_keys(lease.shard, lease.submitted),
        **stored_record(record),
        command_id=lease.command_id,
        token=lease.token,
        outcome=outcome_of(record),
    )
