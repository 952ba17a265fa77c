"""Records of commands: read by session, or awaited by command."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

import msgspec

from tellback import clock
from tellback.contracts.commands import CommandRecord
from tellback.errors import NotFound, Unavailable
from tellback.state.database import Database
from tellback.state.keys import FAMILIES, Layout

BLOCK_SECONDS: Final = 2.0  # of one blocking read, below the socket's timeout
FIRST_BLOCK: Final = 0.001  # zero would block for ever
AWAY_PATIENCE: Final = 30.0  # a restart of Redis does not end a long wait
PAUSE: Final = 0.2
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
        kept, total = self._read(session, 0)
        return kept, max(0, total - len(kept))

    def follow(self, session: str, told: int, polls: Iterable[object]) -> Iterator[CommandRecord]:
        """Records as they come, after the first `told` that the session has had; looks once for each of `polls`.

        Those that came and went between two looks are not seen. A Redis that is away is asked again.
        """
        for _ in polls:
            with suppress(Unavailable):
                total = self._total(session)
                if total < told:  # the session was gone for a week, and has begun anew
                    told = 0
                while total > told:
                    newest, now = self._read(session, told - total)
                    if now == total:  # else more have come, and there are as many more to read
                        yield from newest
                        told = total
                    total = now

    def _total(self, session: str) -> int:
        return int(self._db.command("GET", self._layout.of(session).key("recorded", session)) or 0)

    def _read(self, session: str, start: int) -> tuple[list[CommandRecord], int]:
        """The records from place `start` of the list, and how many there have been, both of one moment."""
        shard = self._layout.of(session)
        count = ("GET", shard.key("recorded", session))
        while True:
            before, raws, after = self._db.pipeline(
                [count, ("LRANGE", shard.key("records", session), start, -1), count]
            )
            if before == after:  # else one came between the replies, and would be taken for one that is gone
                return [_decoder.decode(raw) for raw in raws], int(after or 0)

    def superseded(self, session: str) -> list[CommandRecord]:
        """Records that came when their command already had one: of workers that had been declared lost."""
        shard = self._layout.of(session)
        return [_decoder.decode(raw) for raw in self._db.command("LRANGE", shard.key("superseded", session), 0, -1)]

    def wait(self, session: str, command_id: str, seconds: float) -> CommandRecord | None:
        """The record of a command, or None if there is none after `seconds` (`math.inf`: never).

        Raises:
            NotFound: it has ended and its record is gone, since the session has had so many newer ones.
            Unavailable: Redis has been away for `AWAY_PATIENCE` seconds, or is when the time is over.
        """
        end = clock.monotonic() + seconds
        away_until, block = math.inf, FIRST_BLOCK
        while True:
            try:
                record = self._look(session, command_id, block)
                away_until = math.inf
            except Unavailable:
                away_until = min(away_until, clock.monotonic() + AWAY_PATIENCE)
                if clock.monotonic() >= min(end, away_until):
                    raise
                clock.sleep(PAUSE)
                continue
            left = end - clock.monotonic()
            if record is not None or left <= 0:
                return record
            block = max(FIRST_BLOCK, min(left, BLOCK_SECONDS))

    def _look(self, session: str, command_id: str, block: float) -> CommandRecord | None:
        """The record of a command, if there is one within `block` seconds."""
        shard = self._layout.of(session)
        key = shard.key("done", command_id)
        # The list is its own destination: everybody who waits gets the record, and it stays.
        raw = self._db.command("BLMOVE", key, key, "LEFT", "LEFT", f"{block:.3f}")
        if raw is not None:
            return _decoder.decode(raw)
        if self._db.command("HGET", shard.key("job", command_id), "state") == b"done":
            return self._kept(session, command_id)
        return None

    def _kept(self, session: str, command_id: str) -> CommandRecord:
        """The record of a command that ended long ago."""
        for record in reversed(self.last(session)):
            if record.command_id == command_id:
                return record
        raise NotFound(f"command {command_id} has ended, and {KEPT} newer records of its session have replaced its own")
