"""The consumer of an intake stream: it applies entries in order, one consumer for each stream at a time.

It first recovers the entries that a dead consumer left pending, one by one, because one of them may have killed its
worker. Then it applies new entries in batches, and with a long backlog of one session those of the others in between
(`fair_shares`). An entry that keeps failing becomes a dead letter. The family's `Loop` applies the entries.

lease ── pending, one by one ── new, in batches ──▶ release ── new entries meanwhile? ──▶ publish a wake-up
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Final, Protocol, runtime_checkable

import structlog
from redis.exceptions import ResponseError

from tellback import clock
from tellback.contracts.codec import decode
from tellback.errors import MalformedMessage, MessageError, Unavailable
from tellback.names import Family
from tellback.redaction import redact_text
from tellback.signals.models import ModelMismatch
from tellback.state.dead_letters import DeadLetters
from tellback.state.intake import READ_BYTES, Intake
from tellback.state.intake_lease import Fenced, IntakeEntry, Lease, RawEntry
from tellback.state.keys import Shard
from tellback.tracing import Tracing
from tellback_workers.entry_spans import EntrySpans
from tellback_workers.fair_shares import FairShares, KeptShares

MAX_DELIVERIES: Final = 5  # a worker's death is not yet the entry's fault; five in a row are

# Seconds after which what is left of a stream, or of several that are applied together, has to queue again. With half a
# lease, a backlog in the four streams of one team kept two processes from all other teams for five seconds.
SLICE: Final = 0.25

# Each pass over a stream reads its deferred entries again, one by one, so their number is bounded.
MAX_DEFERRED: Final = 500

_logger = structlog.get_logger("tellback.consumer")


class Loop(Protocol):
    """Applies the events of one family for one team."""

    def ready(self) -> None:
        """Return if entries can be processed now.

        Raises:
            Unavailable: something is missing, such as a model; no entry is read, they all stay in their stream.
        """
        ...

    def apply(self, lease: Lease, entries: Sequence[IntakeEntry]) -> None:
        """Apply and acknowledge every entry, in order, in scripts that check the fence.

        If it raises, the consumer delivers the unacknowledged entries again, one by one, with `deliveries` above 1.

        Raises:
            Fenced: another consumer has the lease.
        """
        ...


@dataclass(frozen=True, slots=True)
class Deferred:
    """The rest after applying several streams together: leases that are no longer held, and batches to apply alone."""

    fenced: set[Lease] = field(default_factory=set[Lease])
    released: set[Lease] = field(default_factory=set[Lease])
    separate: dict[Lease, Sequence[IntakeEntry]] = field(default_factory=dict[Lease, Sequence[IntakeEntry]])


@runtime_checkable
class JointLoop(Loop, Protocol):
    """A loop that applies entries of several streams in the round trips of one."""

    def apply_together(self, batches: Mapping[Lease, Sequence[IntakeEntry]], *, or_release: bool = False) -> Deferred:
        """Apply and acknowledge new entries of several streams, each stream in order; return the rest.

        With `or_release`, the script that leaves a stream without an entry releases it. A batch that could delay the
        others is returned, for you to apply alone. On a cluster all streams must share a slot.
        """
        ...

    def forget(self, leases: Iterable[Lease]) -> None:
        """Forget what was remembered of streams whose leases end."""
        ...


class Consumer:
    """Consumes the streams of one family of one team."""

    def __init__(
        self,
        intake: Intake,
        dead: DeadLetters,
        loop: Loop,
        *,
        lease_seconds: float,
        batch: int,
        recovery_lock: Lock | None = None,
        model_wait: float = 0.0,
        tracing: Tracing | None = None,
        kept: KeptShares | None = None,
    ) -> None:
        """Set up a consumer; `model_wait` is the seconds that an entry waits for a worker with its bank's model.

        Consumers that share `recovery_lock` recover one pending entry at a time between them. If an entry kills the
        process, the other consumers had none in hand, so no innocent entry counts a delivery.
        """
        self._intake = intake
        self._dead = dead
        self._loop = loop
        self._lease_seconds = lease_seconds
        self._batch = batch
        self._recovery_lock = recovery_lock or Lock()
        # Checked once: `isinstance` against a runtime-checkable protocol costs more than applying a small batch.
        self._joint_loop = loop if isinstance(loop, JointLoop) else None
        self._model_wait_ms = model_wait * 1000
        self._tracing = tracing
        self._kept = kept or KeptShares()

    def consume(self, shard: Shard, family: Family, most: float | None = None) -> bool:
        """Consume one stream as `consume_together` does; return True if another wake-up is due.

        Raises:
            Unavailable: Redis, or something that the loop needs, is unavailable; the entries stay in their stream.
        """
        return bool(self.consume_together([shard], family, most))

    def consume_together(self, shards: Sequence[Shard], family: Family, most: float | None = None) -> list[Shard]:
        """Apply what waits in streams of any teams, in the round trips of one; return those due for another wake-up.

        Each stream gives a share of a batch at a time, so one with a backlog delays the others by no more than that.
        New entries are applied for `most` seconds. What a dead consumer left takes half the lease at most. That has no
        shorter limit, because a pass over many deferred entries would leave no time for new ones.

        Raises:
            Unavailable: Redis, or something that the loop needs, is unavailable; the entries stay in their streams.
        """
        self._loop.ready()
        half = clock.monotonic() + self._lease_seconds / 2
        share = max(1, self._batch // len(shards))
        taken = self._intake.take_each(shards, family, self._lease_seconds, share)
        held = {one.lease: None for one in taken}
        read = {one.lease: one.entries for one in taken if not one.pending}
        shares = {lease: self._kept.take(self._intake, lease, share, READ_BYTES // len(held)) for lease in held}
        try:
            for lease in [one.lease for one in taken if one.pending]:
                self._alone(held, lease, partial(self.recover_pending, lease, half))
            end = half if most is None else min(half, clock.monotonic() + most)
            while held:
                given = {lease: raws for lease, raws in read.items() if raws and lease in held}
                self._apply_each(held, given, end)
                for lease in [lease for lease in given if lease in held]:
                    overtaking = partial(self._apply_overtaking, shares[lease], lease, given[lease], half)
                    self._alone(held, lease, overtaking)
                if clock.monotonic() >= end:
                    break
                more = self._intake.read_or_release(list(held), share)
                for lease in (*more.released, *more.fenced):
                    held.pop(lease, None)
                read = more.entries
        finally:
            self.release([one.lease for one in taken], held)
        return self._left(list(held), shares)

    def _left(self, leases: Sequence[Lease], shares: Mapping[Lease, FairShares]) -> list[Shard]:
        left = self._intake.with_new(leases)
        for lease in left:
            self._kept.keep(lease, shares[lease])
        return [lease.shard for lease in left]

    def _apply_each(self, held: dict[Lease, None], read: Mapping[Lease, Sequence[RawEntry]], end: float) -> None:
        if not read:
            return
        decoded, fenced = self.decode_each(read)
        for lease in fenced:
            held.pop(lease, None)
        deferred = self.apply_together(decoded, or_release=True)
        if deferred is None:
            for lease in decoded:
                self._alone(held, lease, partial(self.recover_pending, lease, end))
            return
        for lease in deferred.fenced | deferred.released:
            held.pop(lease, None)
        renew_at = clock.monotonic() + self._lease_seconds / 8
        for lease, entries in deferred.separate.items():
            if clock.monotonic() >= renew_at:  # the later streams wait for the providers of the earlier ones
                ours = self._intake.renew_lingering(list(held), self._lease_seconds)
                for lost in held.keys() - set(ours):
                    del held[lost]
                renew_at = clock.monotonic() + self._lease_seconds / 8
            if lease in held:
                self._alone(held, lease, partial(self.apply_entries, lease, entries, end))

    def _alone(self, held: dict[Lease, None], lease: Lease, work: Callable[[], object]) -> None:
        """Do one stream's work; if another consumer has it by now, leave it to that one."""
        try:
            work()
        except Fenced:
            _logger.warning("consumer.fenced", stream=lease.stream, fence=lease.fence)
            held.pop(lease, None)

    def _apply_overtaking(self, shares: FairShares, lease: Lease, applied: Sequence[RawEntry], end: float) -> None:
        if clock.monotonic() >= end:  # where each batch takes as long, no session would ever overtake
            self._intake.renew(lease, self._lease_seconds)
            end = clock.monotonic() + self._lease_seconds / 2
        if early := shares.overtaking(applied):
            self.apply(lease, early, end)

    def apply(self, lease: Lease, raws: Sequence[RawEntry], end: float) -> None:
        """Apply new entries as one batch; if that fails, apply each one alone.

        Raises:
            Fenced: another consumer has the lease.
            Unavailable: Redis, or something that the loop needs, is unavailable.
        """
        self.apply_entries(lease, list(self._decoded(lease, raws)), end)

    def apply_entries(self, lease: Lease, entries: Sequence[IntakeEntry], end: float) -> bool:
        """Apply decoded entries like `apply`; return False as `recover_pending` does."""
        if not entries:
            return True
        try:
            self._apply(lease, entries)
        except (Fenced, Unavailable):
            raise
        except ModelMismatch:
            return self.recover_pending(lease, end)
        except Exception:  # recovery finds the one entry at fault; the others are applied
            _logger.exception("consumer.batch_failed", stream=lease.stream, entries=len(entries))
            return self.recover_pending(lease, end)
        return True

    def decode_each(
        self, read: Mapping[Lease, Sequence[RawEntry]]
    ) -> tuple[dict[Lease, list[IntakeEntry]], set[Lease]]:
        """Decode new entries of several streams; return them by lease, and the leases that have passed on.

        Entries that cannot be decoded become dead letters.
        """
        decoded: dict[Lease, list[IntakeEntry]] = {}
        fenced: set[Lease] = set()
        for lease, raws in read.items():
            try:
                decoded[lease] = list(self._decoded(lease, raws))
            except Fenced:
                fenced.add(lease)
        return decoded, fenced

    def apply_together(
        self, decoded: Mapping[Lease, Sequence[IntakeEntry]], *, or_release: bool = False
    ) -> Deferred | None:
        """Apply new entries of several streams as one batch if the loop can; return the rest.

        With `or_release`, a stream that has no entry left then may be released.

        Returns None if the batch failed: its entries are pending, and you have to recover them.

        Raises:
            Unavailable: Redis, or something that the loop needs, is unavailable.
        """
        batches = {lease: entries for lease, entries in decoded.items() if entries}
        if self._joint_loop is None:
            return Deferred(separate=batches)
        try:
            return self._apply_jointly(self._joint_loop, batches, or_release=or_release)
        except Unavailable:
            raise
        except Exception:
            _logger.exception("consumer.batch_failed", streams=[lease.stream for lease in decoded])
            return None

    def _apply(self, lease: Lease, entries: Sequence[IntakeEntry]) -> None:
        if self._tracing is None:
            self._loop.apply(lease, entries)
            return
        with EntrySpans(self._tracing) as spans:
            traced = spans.begin(lease, entries)
            with spans.current(lease):
                self._loop.apply(lease, traced)

    def _apply_jointly(
        self, loop: JointLoop, batches: Mapping[Lease, Sequence[IntakeEntry]], *, or_release: bool
    ) -> Deferred:
        if self._tracing is None:
            return loop.apply_together(batches, or_release=or_release)
        with EntrySpans(self._tracing) as spans:
            traced = {lease: spans.begin(lease, entries) for lease, entries in batches.items()}
            rest = loop.apply_together(traced, or_release=or_release)
            spans.drop(rest.fenced | rest.separate.keys())  # the latter are applied again, alone
            return rest

    def release(self, leases: Iterable[Lease], held: Iterable[Lease]) -> None:
        """Forget what was remembered under leases, and release those that are still `held`."""
        if self._joint_loop is not None:
            self._joint_loop.forget(leases)
        self._intake.release(*held)

    def recover_pending(self, lease: Lease, end: float) -> bool:
        """Apply the pending entries, each alone, because a bad one must not affect the others.

        Returns False if the time ran out: entries are left that must be applied before new ones.
        """
        # Read one by one too: each read counts as a delivery, and an entry that was never tried must not become a
        # dead letter because the time ran out before its turn.
        after, left, finished = "0", 0, False
        while not finished and clock.monotonic() < end:
            with self._recovering(lease):
                raws = self._intake.read_pending(lease, after, 1)
                if not raws:
                    finished = True
                    continue
                after = raws[0].id
                for entry in self._decoded(lease, raws):
                    left += self._apply_one(lease, entry, raws[0], left)
        if left:
            _logger.warning("consumer.deferred", stream=lease.stream, entries=left)
        return finished

    @contextmanager
    def _recovering(self, lease: Lease) -> Generator[None]:
        # Another thread may hold the lock for as long as its entry takes, so the lease is renewed while this one waits.
        while not self._recovery_lock.acquire(timeout=self._lease_seconds / 4):
            self._intake.renew(lease, self._lease_seconds)
        try:
            yield
        finally:
            self._recovery_lock.release()

    def _apply_one(self, lease: Lease, entry: IntakeEntry, raw: RawEntry, deferred: int) -> bool:
        """Apply one entry or add a dead letter; return True if it is deferred, after `deferred` others."""
        if entry.deliveries > MAX_DELIVERIES:
            self._dead_letter(
                lease, raw, f"delivered {entry.deliveries} times and never applied: each time its worker died"
            )
            return False
        try:
            self._apply(lease, [entry])
        except Fenced:
            raise
        except Unavailable:  # an outage is not the entry's fault
            self._intake.uncount_delivery(lease, entry.id, entry.deliveries)
            raise
        except ModelMismatch as error:
            return self._defer(lease, entry, raw, deferred, error)
        except Exception as error:  # kept as the dead letter's reason
            _logger.exception("consumer.entry_failed", stream=lease.stream, entry=entry.id, deliveries=entry.deliveries)
            if entry.deliveries >= MAX_DELIVERIES:
                reason = redact_text(f"{type(error).__name__}: {error}")[:2000]
                self._dead_letter(lease, raw, f"failed {entry.deliveries} times; last: {reason}")
        return False

    def _defer(self, lease: Lease, entry: IntakeEntry, raw: RawEntry, deferred: int, error: ModelMismatch) -> bool:
        """Defer an entry to a worker with its bank's model; add a dead letter after `model_wait` or at the cap."""
        # Counted from when this worker first met the mismatch: an entry that is old because no worker ran at all
        # still gets its full wait. A negative age means that the server's clock was set back.
        age, lasting = self._intake.now_ms() - entry.at_ms, 1000 * error.lasting
        waited = lasting if age < 0 else min(age, lasting)
        if deferred < MAX_DEFERRED and waited < self._model_wait_ms:
            self._intake.uncount_delivery(lease, entry.id, entry.deliveries)
            return True
        reason = redact_text(f"waited {waited / 1000:.0f} s for a worker with the model of its bank; {error}")
        self._dead_letter(lease, raw, reason[:2000])
        return False

    def _decoded(self, lease: Lease, raws: Sequence[RawEntry]) -> Iterator[IntakeEntry]:
        read_at = self._intake.read_at(lease.shard)
        for place, raw in enumerate(raws):
            try:
                if raw.raw is None:
                    raise MalformedMessage(raw.trouble, b"")
                message = decode(raw.raw, lease.family)
                if lease.family is Family.SIGNALS and (shard := self._intake.shard_of(message)) != lease.shard:
                    raise MalformedMessage(
                        f"it is in shard {lease.shard.index}, but its bank belongs to shard {shard.index}: "
                        "append it there",
                        raw.raw,
                    )
                # 999: the steps of a microsecond that fit before the next millisecond, as in `IntakeEntry.order`.
                yield IntakeEntry(raw.id, message, raw.deliveries, read_at and read_at + min(place, 999))
            except MessageError as error:
                self._dead_letter(lease, raw, f"{type(error).__name__}: {error.reason}")

    def _dead_letter(self, lease: Lease, raw: RawEntry, reason: str) -> None:
        _logger.error("consumer.dead_letter", stream=lease.stream, entry=raw.id, reason=reason)
        try:
            self._dead.add(lease, raw, reason)
        except ResponseError:  # somebody changed their key by hand: the entry stays pending, and the others continue
            _logger.exception("consumer.dead_letter_failed", stream=lease.stream, entry=raw.id)
