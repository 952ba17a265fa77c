"""One family's facts on their way to Redis: what one family waits for holds no other back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from redis import exceptions

from tellback import clock
from tellback.errors import SpoolFull, Unavailable
from tellback.log import get_logger
from tellback.messaging.spool import Fact, Spool

RETRY_SECONDS: Final = 0.5

_log = get_logger("tellback.publisher")


class Lane:
    """A buffer in memory and a spool behind it. Order holds: while anything is spooled, what comes later is too.

    `take` runs under the publisher's guard, everything else under its sending lock.
    """

    def __init__(self, spool: Spool, send: Callable[[Sequence[Fact]], None], batch: int) -> None:
        """Take the spool, what sends facts or raises, and the facts sent at once."""
        self._spool = spool
        self._send = send
        self._batch = batch
        self._buffer: list[Fact] = []
        self._adopted = False
        self._asked = False
        self._left = False
        self._next_try = 0.0
        self.full: SpoolFull | None = None
        self.bytes = 0

    def __len__(self) -> int:
        """Facts in memory."""
        return len(self._buffer)

    @property
    def spooled(self) -> bool:
        """Whether facts of this process wait on disk."""
        return self._spool.pending

    @property
    def trouble(self) -> bool:
        """Whether sending failed and is to be tried again, or others have left something to send."""
        return self.full is not None or self._left or self._spool.pending

    @property
    def due(self) -> bool:
        """Whether sending makes sense now: a lane in trouble rests between its tries."""
        return clock.monotonic() >= self._next_try if self.trouble else bool(self._buffer)

    def recover(self) -> bool:
        """Have what others may have left sent, too; whether there is any, asked once. Under the publisher's guard."""
        if self._asked:
            return False
        self._asked = True
        self._left = not self._adopted and bool(self._spool.others())
        return self._left

    def take(self, fact: Fact) -> int:
        """Keep a fact in memory; returns how many there are."""
        self._buffer.append(fact)
        self.bytes += len(fact[1])
        return len(self._buffer)

    def empty(self) -> list[Fact]:
        """Take what is in memory out; runs under the publisher's guard."""
        facts, self._buffer, self.bytes = self._buffer, [], 0
        return facts

    def send(self, facts: list[Fact]) -> None:
        """Send what is spooled, then `facts`; what cannot be sent is spooled, or stays in memory should that fail."""
        sent = 0
        try:
            self._send_spool()
            for start in range(0, len(facts), self._batch):
                chunk = facts[start : start + self._batch]
                self._send(chunk)
                sent += len(chunk)
            self.full = None
        except (Unavailable, exceptions.RedisError, OSError) as trouble:  # OSError: of the spool's files
            self._next_try = clock.monotonic() + RETRY_SECONDS
            self._keep(facts[sent:], trouble)

    def close(self) -> None:
        """Let go of the spool."""
        self._spool.close()

    def _send_spool(self) -> None:
        recovered = self._spool.pending
        if recovered:
            self._spool.send_own(self._send)
            _log.info("publisher.recovered")
        if recovered or not self._adopted:
            self._spool.send_orphans(self._send)
            self._adopted = True
            self._left = False

    def _keep(self, facts: list[Fact], trouble: Exception) -> None:
        if not facts:
            return
        try:
            self._spool.append(facts)
            self.full = None
            _log.warning("publisher.spooled", facts=len(facts), reason=str(trouble))
        except SpoolFull as full:
            self._buffer[:0] = facts
            self.bytes += sum(len(raw) for _, raw in facts)
            self.full = full
