"""Jobs: commands on their way from submission to record.

queued ── lease_job ──▶ running ── finish_job ──▶ done
   │                      └─ lease ran out: lose_job ──▶ done, and perhaps a linked attempt queued
   └─ cancel_job ──▶ done (before the submission was applied: cancelled, a tombstone)

Every transition is one script on the shard of the command's session.
"""

from __future__ import annotations

import math
import random
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, NamedTuple

import msgspec

from tellback import clock
from tellback.commands.record import Attempt, history_entry, record_without_run
from tellback.contracts.commands import CommandRecord, CommandSubmitted
from tellback.errors import Unavailable
from tellback.names import Family, host_queue
from tellback.state.database import Arg, Command, Database
from tellback.state.decision import Decision
from tellback.state.intake import Entry, Lease
from tellback.state.keys import Layout, Shard, stream_of
from tellback.state.script import Call, Script

ANY_POOL: Final = "*"  # no host has this name
MAX_ATTEMPTS: Final = 3
SWEEP_BATCH: Final = 100
LATELY: Final = 0.1  # seconds
APPLY_EVERY: Final = 0.02  # seconds
CANDIDATES: Final = 4  # commands of a queue that a claim names, since others claim at the same time
PAUSE: Final = 0.2  # seconds between attempts at a Redis that is away
_PRIORITIES: Final = {"interactive": 0, "normal": 1, "batch": 2}
_TURNS: Final = 1 << 40

_enqueue = Script("enqueue_job")
_lease = Script("lease_job")
_renew = Script("renew_job")
_finish = Script("finish_job")
_lose = Script("lose_job")
_cancel = Decision("cancel_job")


def pool_of(submitted: CommandSubmitted) -> str:
    """The pool that runs it: its host's, or any."""
    return submitted.host or ANY_POOL


def queue_of(pool: str) -> str:
    """The Celery queue on which a pool is woken."""
    return Family.COMMANDS.value if pool == ANY_POOL else host_queue(pool)


@dataclass(frozen=True, slots=True)
class JobLease:
    """The right to run one command.

    `at_ms` is when it was given, by the server's clock, and `asked` shortly before that, by this host's monotonic one.
    """

    shard: Shard
    submitted: CommandSubmitted
    attempt: int
    token: str
    at_ms: int
    asked: float

    @property
    def command_id(self) -> str:
        """The command."""
        return self.submitted.command_id


class Head(NamedTuple):
    """The first commands of one shard's queue."""

    priority: int
    shard: Shard
    members: list[str]


@dataclass(slots=True)
class Claimant:
    """Who leases commands of a pool, for how many seconds each, and what it saw last of the pool's queues.

    `apply` takes shards in whose intake submissions wait, and queues them.
    """

    pool: str
    _: KW_ONLY
    seconds: float
    worker: str
    host: str
    apply: Callable[[Sequence[Shard]], None] | None = None
    unapplied: list[Shard] = field(default_factory=list[Shard])
    heads: list[Head] = field(default_factory=list[Head])
    seen_at: float = -math.inf
    applied_at: float = -math.inf

    def saw(self, shards: Sequence[Shard], replies: Sequence[Any], at: float) -> None:
        """Take the replies to a look at each shard."""
        lengths, firsts = replies[: len(shards)], replies[len(shards) :]
        self.unapplied = [shard for shard, length in zip(shards, lengths, strict=True) if length]
        self.heads = [
            Head(int(float(first[1])) // _TURNS, shard, [member.decode() for member in first[::2]])
            for shard, first in zip(shards, firsts, strict=True)
            if first
        ]
        self.seen_at = at

    def saw_lately(self) -> bool:
        """Whether what it saw can be acted on; an urgent command that came since then waits for one other at most."""
        return clock.monotonic() < self.seen_at + LATELY

    def should_apply(self) -> bool:
        """Whether to apply submissions before leasing: where nothing is queued, and every now and then.

        Another may be applying them, and keep whoever tries before each command waiting for nothing.
        """
        due = not self.heads or clock.monotonic() >= self.applied_at + APPLY_EVERY
        return self.apply is not None and bool(self.unapplied) and due


class Claim:
    """One attempt at leasing one of the commands that a claimant saw first."""

    def __init__(self, claimant: Claimant) -> None:
        """Choose the shard."""
        head = min(claimant.heads, key=lambda head: (head.priority, random.random()))  # noqa: S311 - not a secret
        self._shard, self._token = head.shard, secrets.token_hex(8)
        ids = [member.partition(":")[2] for member in head.members]
        keys = [*queue_keys(head.shard, claimant.pool), head.shard.key("running")]
        args: list[Arg] = [claimant.pool, self._token, _milliseconds(claimant.seconds), claimant.worker, claimant.host]
        self.call = _lease.call([*keys, *(head.shard.key("job", id_) for id_ in ids)], [*args, *head.members])

    def lease(self, reply: Any, asked: float) -> JobLease | None:
        """What the script's reply gives."""
        if reply is None:
            return None
        submitted = msgspec.json.decode(reply[0], type=CommandSubmitted)
        return JobLease(self._shard, submitted, int(reply[1]), self._token, int(reply[2]), asked)


@dataclass(frozen=True, slots=True)
class Lost:
    """A running command whose lease has run out."""

    shard: Shard
    submitted: CommandSubmitted
    attempt: Attempt
    cwd: str | None


class Jobs:
    """The jobs of one team."""

    def __init__(self, database: Database, layout: Layout) -> None:
        """Take the Redis and the team's shards."""
        self._db = database
        self._layout = layout
        self._known_views: dict[str, list[Command]] = {}

    def enqueue(self, lease: Lease, entry: Entry, submitted: CommandSubmitted, refusal: str | None) -> Call:
        """The call that applies a submission under the drainer's lease; `refusal` says why it is not to be run."""
        shard, pool = lease.shard, pool_of(submitted)
        refused = stored_record(record_without_run(submitted, refusal)) if refusal else ("", "")
        cancelled = stored_record(record_without_run(submitted, "cancelled before it started"))
        keys = [*lease.keys, shard.key("job", submitted.command_id), *queue_keys(shard, pool)]
        keys += [*record_keys(shard, submitted), shard.key("cmdstats")]
        spec = "" if refusal else msgspec.json.encode(submitted)
        args: list[Arg] = [
            *lease.args([entry]),
            submitted.command_id,
            submitted.session,
            pool,
            _PRIORITIES[submitted.priority],
        ]
        return _enqueue.call(keys, [*args, spec, *refused, *cancelled])

    def lease(self, claimant: Claimant) -> JobLease | None:
        """The next command of a pool: by priority, then in turn over its sessions; None when nothing is queued.

        Of several shards with equally urgent commands one is chosen by lot, so that none can keep the others waiting.
        Submissions that wait in an intake are applied first, if the claimant can.
        """
        if not claimant.saw_lately():
            self._look(claimant)
        if claimant.apply is not None and claimant.should_apply():
            claimant.apply(claimant.unapplied)
            claimant.applied_at = clock.monotonic()
            self._look(claimant)
        while claimant.heads:
            claim = Claim(claimant)
            asked = clock.monotonic()
            lease = claim.lease(self._db.run(claim.call), asked)
            if lease is not None:
                return lease
            self._look(claimant)
        return None

    def _look(self, claimant: Claimant) -> None:
        asked = clock.monotonic()
        claimant.saw(self._layout.all, self._db.pipeline(self._views(claimant.pool)), asked)

    def _views(self, pool: str) -> list[Command]:
        """What shows the submissions in each shard's intake, and the first commands of each shard's queue."""
        if pool not in self._known_views:
            shards = self._layout.all
            views: list[Command] = [("XLEN", stream_of(shard, Family.COMMANDS)) for shard in shards]
            views += [("ZRANGE", shard.key("jobs", pool), 0, CANDIDATES - 1, "WITHSCORES") for shard in shards]
            self._known_views[pool] = views
        return self._known_views[pool]

    def starts_in(self, lease: JobLease, cwd: str) -> None:
        """Note the directory, for the record of a loss."""
        self._db.command("HSET", lease.shard.key("job", lease.command_id), "cwd", cwd)

    def renew(self, lease: JobLease, seconds: float) -> bool:
        """Hold the lease for `seconds` from now, 0 to give it up; False when the command was declared lost."""
        keys = [lease.shard.key("job", lease.command_id), lease.shard.key("running")]
        return bool(self._db.run(_renew.call(keys, [lease.command_id, lease.token, _milliseconds(seconds)])))

    def stop_requested(self, lease: JobLease, wait: float) -> bool:
        """Whether the command was cancelled; waits for it, at most `wait` seconds."""
        key = lease.shard.key("stop", lease.command_id)
        return self._db.command("BLMOVE", key, key, "LEFT", "LEFT", f"{wait:.3f}") is not None

    def finish(self, lease: JobLease, record: CommandRecord, *, patience: float = 0.0) -> bool:
        """Store the record of the command; False when it came too late and is kept as superseded.

        Raises:
            Unavailable: Redis is away, after `patience` seconds in which it was tried again.
        """
        return bool(self._insist([_finishing(lease, record)], (), patience)[0] == b"ok")

    def finish_and_lease(
        self, lease: JobLease, record: CommandRecord, claimant: Claimant, *, patience: float = 0.0
    ) -> tuple[bool, JobLease | None]:
        """As `finish`, then as `lease`; one round trip where the queues were seen a moment ago and hold commands.

        Raises:
            Unavailable: as `finish`. A lease whose reply was lost is asked for again, under the same token.
        """
        calls = [_finishing(lease, record)]
        claim = None
        if claimant.saw_lately() and claimant.heads and not claimant.should_apply():
            claim = Claim(claimant)
            calls.append(claim.call)
        asked = clock.monotonic()
        replies = self._insist(calls, self._views(claimant.pool), patience)
        claimant.saw(self._layout.all, replies[len(calls) :], asked)
        following = claim.lease(replies[1], asked) if claim is not None else None
        return bool(replies[0] == b"ok"), following or self.lease(claimant)

    def _insist(self, calls: Sequence[Call], also: Sequence[Command], patience: float) -> list[Any]:
        end = clock.monotonic() + patience
        while True:
            try:
                return self._db.run_all(calls, also)
            except Unavailable:
                if clock.monotonic() >= end:
                    raise
                clock.sleep(PAUSE)

    def overdue(self) -> list[Lost]:
        """Commands whose lease has run out, a bounded number of each shard."""
        return [lost for shard in self._layout.all for lost in self._overdue(shard)]

    def _overdue(self, shard: Shard) -> Iterable[Lost]:
        now = self._db.now_ms()
        ids = self._db.command("ZRANGE", shard.key("running"), "-inf", now, "BYSCORE", "LIMIT", 0, SWEEP_BATCH)
        fields = ("spec", "attempt", "worker", "host", "cwd")
        jobs = self._db.pipeline([("HMGET", shard.key("job", id_.decode()), *fields) for id_ in ids])
        for id_, (spec, attempt, worker, host, cwd) in zip(ids, jobs, strict=True):
            if spec is None:  # its state is gone or it is done: nothing is running
                self._db.command("ZREM", shard.key("running"), id_)
                continue
            submitted = msgspec.json.decode(spec, type=CommandSubmitted)
            yield Lost(shard, submitted, Attempt(int(attempt), _text(host), _text(worker)), _text(cwd))

    def lose(self, lost: Lost) -> str | None:
        """Record the loss; the pool to wake if another attempt was queued. Nothing happens if the lease was renewed."""
        shard, submitted = lost.shard, lost.submitted
        record = record_without_run(
            submitted,
            f"lost: the lease of worker {lost.attempt.worker} ran out; whether the command ended is not known",
            lost.attempt,
            cwd=lost.cwd,
        )
        again = _next_attempt(lost)
        next_id = again.command_id if again else ""
        keys = [shard.key("job", submitted.command_id), shard.key("running"), *record_keys(shard, submitted)]
        keys += [shard.key("stop", submitted.command_id), shard.key("job", next_id)]
        keys += [*queue_keys(shard, pool_of(submitted)), shard.key("cmdstats")]
        args: list[Arg] = [submitted.command_id, *stored_record(record), next_id, submitted.session, pool_of(submitted)]
        args += [str(_PRIORITIES[submitted.priority]), msgspec.json.encode(again), str(lost.attempt.number + 1)]
        stored = self._db.run(_lose.call(keys, args)) == b"ok"
        return pool_of(submitted) if stored and again else None

    def idle_pools(self, quiet_seconds: float, ring_seconds: float) -> list[tuple[Shard, str, int]]:
        """Pools with queued commands that nobody has touched for a while: their wake-ups may be lost.

        Each is told once in `ring_seconds`, with the number of its queued commands.
        """
        found: list[tuple[Shard, str, int]] = []
        for shard in self._layout.all:
            until = self._db.now_ms() - _milliseconds(quiet_seconds)
            for name in self._db.command(
                "ZRANGE", shard.key("pools"), "-inf", until, "BYSCORE", "LIMIT", 0, SWEEP_BATCH
            ):
                pool = name.decode()
                ring = ("SET", shard.key("jobring", pool), 1, "NX", "PX", _milliseconds(ring_seconds))
                queued, rung = self._db.pipeline([("ZCARD", shard.key("jobs", pool)), ring])
                if not queued:
                    self._db.command("ZREM", shard.key("pools"), name)
                elif rung is not None:
                    found.append((shard, pool, int(queued)))
        return found

    def cancel(self, submitted: CommandSubmitted) -> tuple[str, str | None]:
        """Cancel it wherever it is. What it was (unknown, queued, running, done), and the id of its next attempt."""
        shard, id_ = self._layout.of(submitted.session), submitted.command_id
        pool = pool_of(submitted)
        keys = [shard.key("job", id_), *queue_keys(shard, pool), *record_keys(shard, submitted)]
        record = record_without_run(submitted, "cancelled before it started")
        keys += [shard.key("stop", id_), shard.key("cmdstats")]
        reply = _cancel.run(self._db, shard, keys, [id_, pool, *stored_record(record)])
        return reply["state"], reply["next"] or None

    def cancel_attempt(self, submitted: CommandSubmitted, command_id: str) -> tuple[str, str | None]:
        """Cancel a further attempt of it, or the attempt that came after that one."""
        state, again = self.cancel(msgspec.structs.replace(submitted, command_id=command_id))
        return (state, None) if again is None else self.cancel_attempt(submitted, again)

    def next_attempt(self, submitted: CommandSubmitted, command_id: str) -> str | None:
        """The id of the attempt that was queued when this one was lost."""
        shard = self._layout.of(submitted.session)
        return _text(self._db.command("HGET", shard.key("job", command_id), "next"))


def _next_attempt(lost: Lost) -> CommandSubmitted | None:
    """What is queued after a loss: the same command under an id of its own, linked to the attempt before."""
    submitted, number = lost.submitted, lost.attempt.number
    if submitted.on_lost != "retry" or number >= MAX_ATTEMPTS:
        return None
    base = submitted.command_id.removesuffix(f".{number}") if number > 1 else submitted.command_id
    return msgspec.structs.replace(submitted, command_id=f"{base}.{number + 1}", parent=submitted.command_id)


def _finishing(lease: JobLease, record: CommandRecord) -> Call:
    shard, id_ = lease.shard, lease.command_id
    keys = [shard.key("job", id_), shard.key("running"), *record_keys(shard, lease.submitted)]
    keys += [shard.key("superseded", lease.submitted.session), shard.key("stop", id_), shard.key("cmdstats")]
    return _finish.call(keys, [id_, lease.token, *stored_record(record)])


def stored_record(record: CommandRecord) -> tuple[bytes, bytes]:
    """The record and its history entry, as the scripts take them."""
    return msgspec.json.encode(record), msgspec.json.encode(history_entry(record))[1:]


def queue_keys(shard: Shard, pool: str) -> list[str]:
    """What a script needs to touch a pool's queue."""
    return [shard.key("jobs", pool), shard.key("joborder", pool), shard.key("pools")]


def record_keys(shard: Shard, submitted: CommandSubmitted) -> list[str]:
    """What a script needs to store the command's record."""
    session = submitted.session
    keys: Sequence[str] = (shard.key("records", session), shard.key("recorded", session))
    return [*keys, shard.key("done", submitted.command_id), shard.key("hist", session)]


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _text(value: Any) -> str | None:
    return value.decode() if value is not None else None
