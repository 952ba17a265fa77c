"""Records of commands, read by session or awaited by command, and the history of a session.

A session's records are in its own shard. Its history is a list in every shard that has entries for it, and readers
merge them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import msgspec

from tellback import clock
from tellback.backoff import Backoff, retry
from tellback.commands.record import iso_timestamp
from tellback.contracts.commands import CommandRecord, Waiver
from tellback.errors import InvalidInput, NotFound, Unavailable
from tellback.state.audit import Author
from tellback.state.database import Database
from tellback.state.decisions import decide
from tellback.state.keys import FAMILIES, Layout
from tellback.state.readable import read_each, readable, reading
from tellback.state.scripts import commands as scripts

BLOCK_SECONDS: Final = 2.0  # of one blocking read, below the socket's timeout

FIRST_BLOCK: Final = 0.001  # seconds: zero would block forever

RETRY_SECONDS: Final = 30.0  # long enough that a restart of Redis does not end a wait

BACKOFF: Final = Backoff(0.2)

WAIVE_TRIES: Final = 3  # of a record that somebody else waives at the same moment

CAP: Final = FAMILIES["records"].cap or 0

_decoder = msgspec.json.Decoder(CommandRecord)


class Records:
    """The records of one team."""

    def __init__(self, database: Database, layout: Layout) -> None:
        self._db = database
        self._layout = layout

    def last(self, session: str, count: int = CAP) -> list[CommandRecord]:
        """Return the newest records of a session, oldest first."""
        shard = self._layout.of(session)
        return _records(self._db.command("LRANGE", shard.key("records", session), -count, -1))

    def all(self, session: str) -> tuple[list[CommandRecord], int]:
        """Return every stored record of a session, oldest first, and how many others were evicted or are unreadable."""
        kept, total = self._read(session, 0)
        return kept, max(0, total - len(kept))

    def of_sessions(self, sessions: Sequence[str], count: int = CAP) -> list[list[CommandRecord]]:
        """Return the newest records of each session, oldest first."""
        lists = [("LRANGE", self._layout.of(name).key("records", name), -count, -1) for name in sessions]
        replies = read_each(self._db, lists) if lists else ()
        return [[] if isinstance(raws, Exception) else _records(raws) for raws in replies]

    def session_of(self, command_id: str) -> str:
        """Return the session of a command of the last seven days.

        Raises:
            NotFound: no command has this id.
        """
        lookups = [("HGET", shard.key("job", command_id), "session") for shard in self._layout.all]
        found = [name for name in self._db.pipeline(lookups) if name is not None]
        if not found:
            raise NotFound(f"no command {command_id} in the last seven days; name the session of an older one")
        return str(found[0].decode())

    def newest_hosts(self, sessions: Iterable[str]) -> dict[str, str]:
        """Return where the newest command of each session ran, for sessions that keep a record of one."""
        names = list(sessions)
        newest = [("LINDEX", self._layout.of(name).key("records", name), -1) for name in names]
        records = _records(raw for raw in (self._db.pipeline(newest) if newest else ()) if raw is not None)
        return {record.session: record.host for record in records if record.host}

    def follow(self, session: str, seen: int, polls: Iterable[object]) -> Iterator[CommandRecord]:
        """Yield records as they arrive, after the first `seen` of the session; read once for each item of `polls`.

        A record that was stored and evicted between two reads is missed. Outages of Redis are waited out.
        """
        for _ in polls:
            with suppress(Unavailable):
                total = self._total(session)
                if total < seen:  # the count expired after a week, and started over
                    seen = 0
                while total > seen:
                    newest, now = self._read(session, seen - total)
                    if now == total:  # otherwise more have come: read again, up to them
                        yield from newest
                        seen = total
                    total = now

    def _total(self, session: str) -> int:
        key = self._layout.of(session).key("recorded", session)
        with reading(key):
            return int(self._db.command("GET", key) or 0)

    def _read(self, session: str, start: int) -> tuple[list[CommandRecord], int]:
        """Return the records from index `start` of the list and the count of all so far, both of one moment."""
        shard = self._layout.of(session)
        key = shard.key("recorded", session)
        count = ("GET", key)
        while True:
            before, raws, after = self._db.pipeline(
                [count, ("LRANGE", shard.key("records", session), start, -1), count]
            )
            if before == after:  # otherwise one came between the replies, and would count as evicted
                with reading(key):
                    return _records(raws), int(after or 0)

    def superseded(self, session: str) -> list[CommandRecord]:
        """Return records that came when their command already had one, from workers that had been declared lost."""
        shard = self._layout.of(session)
        return _records(self._db.command("LRANGE", shard.key("superseded", session), 0, -1))

    def waive(self, session: str, command_id: str, author: Author) -> CommandRecord:
        """Put a waiver into the stored record of a failed command, and return the record.

        Raises:
            InvalidInput: the command succeeded.
            NotFound: there is no such record.
        """
        shard = self._layout.of(session)
        for _ in range(WAIVE_TRIES):
            raw, record = self._raw(session, command_id)
            if record.succeeded:
                raise InvalidInput(f"command {command_id} succeeded; there is nothing to waive")
            now = iso_timestamp(datetime.fromtimestamp(self._db.now_ms() / 1000, UTC))
            waiver = Waiver(by=author.by, reason=author.reason, at=now)
            waived = msgspec.structs.replace(record, waiver=waiver)
            entry = {"command_id": command_id, "by": waiver.by, "reason": waiver.reason}
            waiving = scripts.waive_record(
                records=shard.key("records", session),
                before=raw,
                after=msgspec.json.encode(waived),
                history=msgspec.json.encode(entry)[1:],
                entry=author.entry("waive", command_id, session),
            )
            if decide(self._db, shard, waiving)["waived"]:
                return waived
        raise NotFound(f"the record of command {command_id} changed meanwhile; try again")

    def _raw(self, session: str, command_id: str) -> tuple[bytes, CommandRecord]:
        """Return a record as it is stored and as it is read."""
        stored: list[bytes] = self._db.command("LRANGE", self._layout.of(session).key("records", session), 0, -1)
        for raw in reversed(stored):
            for record in _records([raw]):
                if record.command_id == command_id:
                    return raw, record
        raise NotFound(f"session {session} keeps no record of command {command_id}; see `tellback records {session}`")

    def wait(self, session: str, command_id: str, seconds: float) -> CommandRecord | None:
        """Wait for the record of a command; return None if there is none after `seconds` (`math.inf`: no limit).

        Raises:
            NotFound: the command has ended, and newer records have evicted its own, or it cannot be read.
            Unavailable: Redis has been away for `RETRY_SECONDS` seconds, or is away when the time is over.
        """
        end = clock.monotonic() + seconds
        block = FIRST_BLOCK
        while True:
            away_until = clock.monotonic() + block + RETRY_SECONDS
            slice_ = partial(self._wait_slice, session, command_id, block)
            record = retry(slice_, BACKOFF, end=min(end, away_until))
            left = end - clock.monotonic()
            if record is not None or left <= 0:
                return record
            block = max(FIRST_BLOCK, min(left, BLOCK_SECONDS))

    def _wait_slice(self, session: str, command_id: str, block: float) -> CommandRecord | None:
        """Return the record of a command if there is one within `block` seconds."""
        shard = self._layout.of(session)
        key = shard.key("done", command_id)
        raw = self._db.first_of(key, block)
        for record in _records([] if raw is None else [raw]):
            return record
        if self._db.command("HGET", shard.key("job", command_id), "state") == b"done":
            return self._stored(session, command_id)
        return None

    def _stored(self, session: str, command_id: str) -> CommandRecord:
        """Return the record of a command that ended long ago, when its `done` list has expired."""
        for record in reversed(self.last(session)):
            if record.command_id == command_id:
                return record
        raise NotFound(
            f"command {command_id} has ended, and {CAP} newer records of its session have replaced its own, or this "
            "release cannot read it"
        )


def _records(raws: Iterable[bytes]) -> list[CommandRecord]:
    return readable("record", raws, _decoder.decode)


def read_history(database: Database, layout: Layout, session: str) -> list[dict[str, Any]]:
    """Return a session's whole history, oldest first; each entry has `kind` and `at` (milliseconds, server time)."""
    replies = database.pipeline([("LRANGE", shard.key("hist", session), 0, -1) for shard in layout.all])
    entries = readable("history entry", (raw for items in replies for raw in items), _entry)
    return [entry for _, entry in sorted(entries, key=lambda timed: timed[0])]


def _entry(raw: bytes) -> tuple[float, dict[str, Any]]:
    entry = msgspec.json.decode(raw, type=dict[str, Any])
    return float(entry["at"]), entry
