"""Draining a stream: one drainer at a time, in order, what a dead one left first; poison goes to the dead letters.

lease ── pending, one by one ── new, in batches ──▶ release ── something new came meanwhile? ──▶ ring again
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Final

import structlog

from tellback import clock
from tellback.contracts.codec import decode
from tellback.errors import MalformedMessage, MessageError, Unavailable
from tellback.names import Family
from tellback.redaction import redact_text
from tellback.signals.models import OtherModel
from tellback.state.dead import DeadLetters
from tellback.state.intake import Entry, Fenced, Intake, Lease, RawEntry
from tellback.state.keys import Shard
from tellback_workers.loop import JointLoop, Left, Loop

MAX_DELIVERIES: Final = 5
MOST_LEFT: Final = 500
"""Entries of a stream that wait for a worker with another model: each pass over the stream looks at them again."""

_log = structlog.get_logger("tellback.drain")


class Drainer:
    """Drains the streams of one family of one team."""

    def __init__(
        self,
        intake: Intake,
        dead: DeadLetters,
        loop: Loop,
        *,
        lease_seconds: float,
        batch: int,
        trials: Lock | None = None,
        patience: float = 0.0,
    ) -> None:
        """Take the stores, the loop that applies, the lease's length and the entries read at once.

        `patience` is how many seconds an entry waits for a worker with the model of its bank.

        Drainers that share `trials` try what was read before one entry at a time: where one ends the process, the
        others were not read, and do not count as suspects.
        """
        self._intake = intake
        self._dead = dead
        self._loop = loop
        self._lease_seconds = lease_seconds
        self._batch = batch
        self._trials = trials or Lock()
        self._joint = loop if isinstance(loop, JointLoop) else None  # asked once: it costs more than a small batch
        self._patience_ms = patience * 1000

    def drain(self, shard: Shard, family: Family) -> bool:
        """Apply what waits, for at most half the lease. True when a further wake-up is due.

        Raises:
            Unavailable: Redis or what the loop needs is away; everything waits in the stream.
        """
        self._loop.ready()
        lease = self._intake.take_lease(shard, family, self._lease_seconds)
        if lease is None:
            return False
        end = clock.monotonic() + self._lease_seconds / 2
        try:
            self.recover(lease, end)
            while clock.monotonic() < end and self._fresh(lease, end):
                pass
        except Fenced:
            _log.warning("drain.fenced", stream=lease.stream, fence=lease.fence)
            return False
        finally:
            self._intake.release(lease)
        return self._intake.has_new(lease)

    def _fresh(self, lease: Lease, end: float) -> bool:
        """Apply one batch of new entries; False when there was none."""
        raws = self._intake.read_new(lease, self._batch)
        self.apply(lease, raws, end)
        return bool(raws)

    def apply(self, lease: Lease, raws: Sequence[RawEntry], end: float) -> None:
        """Apply new entries as one batch, and each alone where that fails.

        Raises:
            Fenced: the lease has passed on.
            Unavailable: Redis or what the loop needs is away.
        """
        self.apply_entries(lease, list(self._decoded(lease, raws)), end)

    def apply_entries(self, lease: Lease, entries: Sequence[Entry], end: float) -> None:
        """The same for entries that are decoded."""
        if entries:
            try:
                self._loop.apply(lease, entries)
            except (Fenced, Unavailable):
                raise
            except OtherModel:
                self.recover(lease, end)
            except Exception:  # noqa: BLE001 - a loop's fault costs one entry, found below, and no other
                _log.exception("drain.batch_failed", stream=lease.stream, entries=len(entries))
                self.recover(lease, end)

    def apply_together(self, read: Mapping[Lease, Sequence[RawEntry]]) -> Left | None:
        """Apply new entries of several streams as one batch where the loop can; what is left.

        None where that failed: the entries are pending, to be recovered.

        Raises:
            Unavailable: Redis or what the loop needs is away.
        """
        left = Left()
        for lease, raws in read.items():
            try:
                left.alone[lease] = list(self._decoded(lease, raws))
            except Fenced:
                left.fenced.add(lease)
        if self._joint is None:
            return left
        try:
            rest = self._joint.apply_together({lease: entries for lease, entries in left.alone.items() if entries})
        except Unavailable:
            raise
        except Exception:  # noqa: BLE001 - as above
            _log.exception("drain.batch_failed", streams=[lease.stream for lease in read])
            return None
        return Left(left.fenced | rest.fenced, rest.alone)

    def recover(self, lease: Lease, end: float) -> None:
        """Apply entries that were read before and not applied, each alone, so that one cannot take others with it.

        They are read one by one too, since each reading counts as a delivery: one that was never tried must not
        become a dead letter because the time ran out before its turn.
        """
        after, left = "0", 0
        while clock.monotonic() < end:
            with self._trial(lease):
                raws = self._intake.read_pending(lease, after, 1)
                if not raws:
                    break
                after = raws[0].id
                for entry in self._decoded(lease, raws):
                    left += self._alone(lease, entry, raws[0], left)
        if left:
            _log.warning("drain.left_to_others", stream=lease.stream, entries=left)

    @contextmanager
    def _trial(self, lease: Lease) -> Generator[None]:
        while not self._trials.acquire(timeout=self._lease_seconds / 4):
            self._intake.renew(lease, self._lease_seconds)
        try:
            yield
        finally:
            self._trials.release()

    def _alone(self, lease: Lease, entry: Entry, raw: RawEntry, left: int) -> bool:
        """Apply one entry, or bury it; True where it is left to a worker with another model, as `left` others were."""
        if entry.deliveries > MAX_DELIVERIES:
            self._bury(lease, raw, f"delivered {entry.deliveries} times and never applied: each time its worker died")
            return False
        try:
            self._loop.apply(lease, [entry])
        except Fenced:
            raise
        except Unavailable:
            self._intake.uncount(lease, entry.id, entry.deliveries)
            raise
        except OtherModel as error:
            return self._leave(lease, entry, raw, left, error)
        except Exception as error:  # noqa: BLE001 - kept as the dead letter's reason
            _log.exception("drain.entry_failed", stream=lease.stream, entry=entry.id, deliveries=entry.deliveries)
            if entry.deliveries >= MAX_DELIVERIES:
                reason = redact_text(f"{type(error).__name__}: {error}")[:2000]
                self._bury(lease, raw, f"failed {entry.deliveries} times; last: {reason}")
        return False

    def _leave(self, lease: Lease, entry: Entry, raw: RawEntry, left: int, error: OtherModel) -> bool:
        """Leave an entry to a worker that has its bank's model, for a while, and not too many of them.

        One that came while no worker ran at all has waited since this one met it.
        """
        waited = min(self._intake.now_ms() - entry.at_ms, 1000 * error.lasting)
        if left < MOST_LEFT and waited < self._patience_ms:
            self._intake.uncount(lease, entry.id, entry.deliveries)
            return True
        whole = redact_text(f"waited {waited / 1000:.0f} s for a worker with the model of its bank; {error}")
        self._bury(lease, raw, whole[:2000])
        return False

    def _decoded(self, lease: Lease, raws: Sequence[RawEntry]) -> Iterator[Entry]:
        for raw in raws:
            try:
                if raw.raw is None:
                    raise MalformedMessage("the entry has no field 'm'", b"")
                message = decode(raw.raw, lease.family)
                if lease.family is Family.SIGNALS and (shard := self._intake.shard_of(message)) != lease.shard:
                    raise MalformedMessage(
                        f"it stands in shard {lease.shard.index}, and its bank in shard {shard.index}: "
                        "append it there, where readers look",
                        raw.raw,
                    )
                yield Entry(raw.id, message, raw.deliveries)
            except MessageError as error:
                self._bury(lease, raw, f"{type(error).__name__}: {error.reason}")

    def _bury(self, lease: Lease, raw: RawEntry, reason: str) -> None:
        _log.error("drain.dead_letter", stream=lease.stream, entry=raw.id, reason=reason)
        self._dead.bury(lease, raw, reason)
