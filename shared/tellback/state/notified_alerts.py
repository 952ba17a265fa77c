"""The alerts that each receiver was notified of: a restart repeats none, and of two processes only one notifies it."""

from __future__ import annotations

import secrets

from tellback.state.database import Database, small_write
from tellback.state.keys import Shard, lifetime_ms
from tellback.state.scripts import common


class NotifiedAlerts:
    """The firing alerts that one receiver knows of, each with its beginning (milliseconds, server time).

    `shard` has those of one team, or, as `FLEET`, those of no single team.
    """

    def __init__(self, database: Database, shard: Shard, receiver: str) -> None:
        self._db = database
        self._key = shard.key("alerts", receiver)
        self._lease = shard.key("alerting", receiver)
        self._token = secrets.token_hex(8)

    def acquire(self, seconds: float) -> bool:
        """Return True if this process may notify the receiver for the next `seconds`, and no other may."""
        ms = min(round(seconds * 1000), lifetime_ms("alerting"))
        return bool(self._db.run(common.hold_lease(lease=self._lease, token=self._token, ms=ms)))

    def release(self) -> None:
        """Let another process notify the receiver at once."""
        if self.acquire(1):
            # race: the lease is ours for a second, and ends by itself if it takes longer
            self._db.command("DEL", self._lease)

    def firing(self) -> dict[str, int]:
        """Return the alerts that the receiver was notified of and that were not resolved."""
        flat = self._db.command("HGETALL", self._key)
        return {name.decode(): int(since) for name, since in zip(flat[::2], flat[1::2], strict=True)}

    def note_firing(self, alert: str, since: int) -> None:
        """Note that the receiver was notified of an alert."""
        # race: only the lease holder notifies; after a pause beyond the lease, a change may be sent twice
        noted = small_write("HSET", self._key, alert, since)
        # race: as for the note; a longer lifetime of the same content
        self._db.run_all([noted, small_write("PEXPIRE", self._key, lifetime_ms("alerts"))])

    def renew(self) -> None:
        """Extend the key's lifetime, because an alert may last longer."""
        # unconditional: a longer lifetime of the same content
        self._db.run(small_write("PEXPIRE", self._key, lifetime_ms("alerts")))

    def note_resolved(self, alert: str) -> None:
        """Note that the receiver was notified of the end of an alert."""
        # race: only the lease holder notifies, as in `note_firing`
        self._db.command("HDEL", self._key, alert)
