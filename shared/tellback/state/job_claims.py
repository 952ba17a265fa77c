"""The claim of a pool's next command: a worker's view of the queues, and the lease that it gets.

A view may be old, so a claim names several commands of the queue that the worker chose, and the script decides.
"""

from __future__ import annotations

import math
import random
import secrets
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, NamedTuple

import msgspec

from tellback import clock
from tellback.contracts.commands import CommandSubmitted
from tellback.state.job_losses import report_unreadable
from tellback.state.keys import Shard
from tellback.state.readable import UNREADABLE, whole
from tellback.state.script_calls import to_milliseconds
from tellback.state.scripts import commands as scripts

FRESH_SECONDS: Final = 0.1  # for how long a view of the queues is good enough to lease by
APPLY_EVERY: Final = 0.02  # seconds between two attempts to apply the intake, which another worker may be applying
_TURNS: Final = 1 << 40


@dataclass(frozen=True, slots=True)
class JobLease:
    """The right to run one command.

    `at_ms` is when it was given, by the server's clock. `asked` is shortly before that, by `clock.since_boot`.
    """

    shard: Shard
    submitted: CommandSubmitted
    attempt: int
    token: str
    at_ms: int
    asked: float

    @property
    def command_id(self) -> str:
        """The id of the command."""
        return self.submitted.command_id


class QueueHead(NamedTuple):
    """The first commands of one shard's queue."""

    priority: int
    shard: Shard
    members: list[bytes]


@dataclass(slots=True)
class JobClaimant:
    """A worker that leases commands of a pool for `seconds` each, and its last view of the pool's queues.

    `retry_seconds` is the lease of commands with `on_lost="retry"`. `apply_intake` queues the submissions that wait in
    the intake of the shards it gets.
    """

    pool: str
    _: KW_ONLY
    seconds: float
    retry_seconds: float | None = None
    worker: str
    host: str
    apply_intake: Callable[[Sequence[Shard]], None] | None = None
    unapplied: list[Shard] = field(default_factory=list[Shard])
    heads: list[QueueHead] = field(default_factory=list[QueueHead])
    heads_at: float = -math.inf
    applied_at: float = -math.inf

    def update_heads(self, shards: Sequence[Shard], replies: Sequence[Any], at: float) -> None:
        """Store a new view of the queues from the replies of each shard."""
        lengths, firsts = replies[: len(shards)], replies[len(shards) :]
        self.unapplied = [shard for shard, length in zip(shards, lengths, strict=True) if length]
        self.heads = [
            QueueHead(whole(first[1]) // _TURNS, shard, first[::2])
            for shard, first in zip(shards, firsts, strict=True)
            if first
        ]
        self.heads_at = at

    def has_fresh_heads(self) -> bool:
        """Check whether the view is recent. An urgent command that came since then waits for at most one other."""
        return clock.monotonic() < self.heads_at + FRESH_SECONDS

    def should_apply_intake(self) -> bool:
        """Decide whether to apply submissions before leasing: if nothing is queued, and every `APPLY_EVERY` seconds.

        Not before each command: while another worker applies them, the attempt waits for nothing.
        """
        due = not self.heads or clock.monotonic() >= self.applied_at + APPLY_EVERY
        return self.apply_intake is not None and bool(self.unapplied) and due


class Claim:
    """One attempt to lease one of the first commands in a claimant's view.

    Of the shards with equally urgent commands it picks one at random: no shard can keep the others waiting.
    """

    def __init__(self, claimant: JobClaimant) -> None:
        head = min(claimant.heads, key=lambda head: (head.priority, random.random()))  # noqa: S311 - not a secret
        self.shard, self._token = head.shard, secrets.token_hex(8)
        ids = [member.partition(b":")[2].decode(errors="replace") for member in head.members]
        self.call = scripts.lease_job(
            jobs=head.shard.key("jobs", claimant.pool),
            candidates=[head.shard.key("job", id_) for id_ in ids],
            pool=claimant.pool,
            token=self._token,
            lease_ms=to_milliseconds(claimant.seconds),
            worker=claimant.worker,
            host=claimant.host,
            retry_lease_ms=to_milliseconds(claimant.retry_seconds or claimant.seconds),
            members=head.members,
        )

    def lease(self, reply: Any, asked: float) -> JobLease | None:
        """Decode the script's reply; an unreadable command ends as a loss, in time."""
        if reply is None:
            return None
        try:
            submitted = msgspec.json.decode(reply[0], type=CommandSubmitted)
        except UNREADABLE as error:  # perhaps a newer release queued it
            report_unreadable(error, shard=repr(self.shard))
            return None
        return JobLease(self.shard, submitted, int(reply[1]), self._token, int(reply[2]), asked)
