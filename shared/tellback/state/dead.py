"""Dead letters: what could not be processed, with its reason and its bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from tellback.errors import InvalidInput, NotFound, StateConflict
from tellback.names import Family
from tellback.state.database import Arg, Database
from tellback.state.decision import Decision
from tellback.state.intake import Lease, RawEntry, committed
from tellback.state.keys import Layout, Shard, stream_of
from tellback.state.script import Script

KEPT_BYTES: Final = 1 << 20
READ_AT_ONCE: Final = 20
"""Letters of one reply: 20 MiB at most."""
MEMORY: Final = 64 << 20  # bytes that the letters of a shard may take: Redis must not fill up with what nobody reads

_bury = Script("bury")
_replay = Decision("replay_dead")


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """One entry that could not be processed. `raw` is cut after 1 MiB; `bytes` is what the whole had."""

    id: str
    family: str
    reason: str
    at: int
    bytes: int
    raw: str

    @property
    def whole(self) -> bool:
        """Whether `raw` is all of it: only then it can be replayed."""
        return len(self.raw.encode("utf-8", "surrogateescape")) == self.bytes


class DeadLetters:
    """The dead letters of one team; an id is `SHARD:ENTRY`."""

    def __init__(self, database: Database, layout: Layout) -> None:
        """Take the Redis and the team's shards."""
        self._db = database
        self._layout = layout

    def bury(self, lease: Lease, entry: RawEntry, reason: str) -> None:
        """Move an entry here from its stream.

        Raises:
            Fenced: the lease is no longer ours.
        """
        raw = entry.raw or b""
        keys = [*lease.keys, lease.shard.key("dead")]
        args: list[Arg] = [
            str(lease.fence),
            msgspec.json.encode([entry.id]),
            lease.family,
            reason,
            raw[:KEPT_BYTES],
            len(raw),
            MEMORY,
        ]
        committed(self._db.run(_bury.call(keys, args)))

    def newest(self, limit: int = 100) -> list[DeadLetter]:
        """The newest letters of all shards, newest first."""
        replies = self._db.pipeline(
            [("XREVRANGE", shard.key("dead"), "+", "-", "COUNT", limit) for shard in self._layout.all]
        )
        letters = [
            _letter(shard, item) for shard, items in zip(self._layout.all, replies, strict=True) for item in items
        ]
        return sorted(letters, key=lambda letter: letter.at, reverse=True)[:limit]

    def oldest(self) -> Iterator[DeadLetter]:
        """Every letter that is here now, shard by shard, the oldest first; not those that come meanwhile."""
        for shard in self._layout.all:
            newest = self._db.command("XREVRANGE", shard.key("dead"), "+", "-", "COUNT", 1)
            start = "-"
            while newest:
                last: str = newest[0][0].decode()
                items = self._db.command("XRANGE", shard.key("dead"), start, last, "COUNT", READ_AT_ONCE)
                yield from (_letter(shard, item) for item in items)
                if len(items) < READ_AT_ONCE:
                    break
                start = f"({items[-1][0].decode()}"

    def get(self, letter_id: str) -> DeadLetter:
        """One letter.

        Raises:
            InvalidInput: not an id of a dead letter.
            NotFound: there is none of this id.
        """
        shard, entry = self._locate(letter_id)
        items = self._db.command("XRANGE", shard.key("dead"), entry, entry)
        if not items:
            raise NotFound(f"no dead letter {letter_id}; `tellback dead list` shows what there is")
        return _letter(shard, items[0])

    def replay(self, letter_id: str) -> str:
        """Put a letter back into its stream; returns the entry's new id.

        Raises:
            InvalidInput, NotFound: as `get`.
            StateConflict: the letter was cut, so what is left of it would not be what the host sent.
        """
        letter = self.get(letter_id)
        if not letter.whole:
            raise StateConflict(f"dead letter {letter_id} had {letter.bytes} bytes and was cut; it cannot be replayed")
        shard, entry = self._locate(letter_id)
        keys = [shard.key("dead"), stream_of(shard, Family(letter.family))]
        reply = _replay.run(self._db, shard, keys, [entry])
        if not reply["entry"]:
            raise NotFound(f"no dead letter {letter_id}; somebody else replayed or dropped it")
        return str(reply["entry"])

    def drop(self, letter_id: str) -> None:
        """Delete a letter for good.

        Raises:
            InvalidInput, NotFound: as `get`.
        """
        shard, entry = self._locate(letter_id)
        if not self._db.command("XDEL", shard.key("dead"), entry):
            raise NotFound(f"no dead letter {letter_id}; `tellback dead list` shows what there is")

    def count(self) -> int:
        """Letters of all shards."""
        return sum(self._db.pipeline([("XLEN", shard.key("dead")) for shard in self._layout.all]))

    def _locate(self, letter_id: str) -> tuple[Shard, str]:
        index, _, entry = letter_id.partition(":")
        parts = entry.split("-")
        if not (
            index.isdecimal()
            and int(index) < self._layout.shards
            and len(parts) == 2
            and all(map(str.isdecimal, parts))
        ):
            raise InvalidInput(f"{letter_id!r} is not the id of a dead letter; ids look like 0:1700000000000-0")
        return self._layout.shard(int(index)), entry


def _letter(shard: Shard, item: Any) -> DeadLetter:
    entry, fields = item[0].decode(), dict(zip(item[1][::2], item[1][1::2], strict=True))
    return DeadLetter(
        id=f"{shard.index}:{entry}",
        family=fields[b"family"].decode(),
        reason=fields[b"reason"].decode("utf-8", "replace"),
        at=int(entry.partition("-")[0]),
        bytes=int(fields[b"bytes"]),
        raw=fields[b"raw"].decode("utf-8", "surrogateescape"),
    )
