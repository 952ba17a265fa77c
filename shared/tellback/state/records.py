"""Records of commands: read by session, or awaited by command."""

from __future__ import annotations

from typing import Final

import msgspec

from tellback import clock
from tellback.contracts.commands import CommandRecord
from tellback.errors import NotFound
from tellback.state.database import Database
from tellback.state.keys import FAMILIES, Layout

BLOCK_SECONDS: Final = 2.0  # of one blocking read, below the socket's timeout
KEPT: Final = FAMILIES["records"].cap or 0

_decoder = msgspec.json.Decoder(CommandRecord)


class Records:
    """The records of one team."""

    def __init__(self, database: Database, layout: Layout) -> None:
        """Take the Redis and the team's shards."""
        self._db = database
        self._layout = layout

    def last(self, session: str, count: int = KEPT) -> list[CommandRecord]:
        """The newest records of a session, oldest first."""
        shard = self._layout.of(session)
        return [_decoder.decode(raw) for raw in self._db.command("LRANGE", shard.key("records", session), -count, -1)]

    def all(self, session: str) -> tuple[list[CommandRecord], int]:
        """Every record that is kept of a session, oldest first, and how many older ones are gone."""
        shard = self._layout.of(session)
        raws, total = self._db.pipeline(
            [("LRANGE", shard.key("records", session), 0, -1), ("GET", shard.key("recorded", session))]
        )
        return [_decoder.decode(raw) for raw in raws], max(0, int(total or 0) - len(raws))

    def superseded(self, session: str) -> list[CommandRecord]:
        """Records that came when their command already had one: of workers that had been declared lost."""
        shard = self._layout.of(session)
        return [_decoder.decode(raw) for raw in self._db.command("LRANGE", shard.key("superseded", session), 0, -1)]

    def wait(self, session: str, command_id: str, seconds: float) -> CommandRecord | None:
        """The record of a command, or None if there is none after `seconds` (`math.inf`: never).

        Raises:
            NotFound: it has ended and its record is gone, since the session has had so many newer ones.
        """
        shard = self._layout.of(session)
        end = clock.monotonic() + seconds
        key = shard.key("done", command_id)
        block = 0.001
        while True:
            # The list is its own destination: everybody who waits gets the record, and it stays.
            raw = self._db.command("BLMOVE", key, key, "LEFT", "LEFT", f"{block:.3f}")
            if raw is not None:
                return _decoder.decode(raw)
            if self._db.command("HGET", shard.key("job", command_id), "state") == b"done":
                return self._kept(session, command_id)
            left = end - clock.monotonic()
            if left <= 0:
                return None
            block = max(0.001, min(left, BLOCK_SECONDS))

    def _kept(self, session: str, command_id: str) -> CommandRecord:
        """The record of a command that ended long ago."""
        for record in reversed(self.last(session)):
            if record.command_id == command_id:
                return record
        raise NotFound(f"command {command_id} has ended, and {KEPT} newer records of its session have replaced its own")
