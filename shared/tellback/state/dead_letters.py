"""Dead letters: entries that could not be applied, each with its reason and its bytes, for a person to replay or drop.

An entry moves here in one script and moves back in another: it is always in its stream or here, never in both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import msgspec

from tellback.contracts.limits import MAX_MESSAGE_BYTES
from tellback.errors import InvalidInput, NotFound, StateConflict
from tellback.names import FAMILIES, Family
from tellback.state.audit import Author
from tellback.state.database import Database
from tellback.state.decisions import decide
from tellback.state.intake_lease import Lease, RawEntry, committed
from tellback.state.keys import Layout, Shard, stream_of
from tellback.state.readable import readable
from tellback.state.scripts import intake as scripts

READ_BATCH: Final = 20
"""Letters of one reply: 20 MiB at most."""
MAX_MEMORY: Final = 64 << 20
"""Bytes of a shard's dead letters: Redis must not fill up with entries that nobody reads."""
_ID: Final = re.compile(r"(\d{1,4}):(\d{1,19}-\d{1,19})", re.ASCII)  # Redis refuses an entry's number above 2^64


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """One entry that could not be applied. `raw` is truncated to 1 MiB; `bytes` is the size of the whole."""

    id: str
    family: str
    reason: str
    at: int
    bytes: int
    raw: str

    @property
    def is_complete(self) -> bool:
        """True if `raw` is the whole entry; only then can it be replayed."""
        return len(self.raw.encode("utf-8", "surrogateescape")) == self.bytes


class DeadLetters:
    """The dead letters of one team; an id is `SHARD:ENTRY`."""

    def __init__(self, database: Database, layout: Layout) -> None:
        self._db = database
        self._layout = layout

    def add(self, lease: Lease, entry: RawEntry, reason: str) -> None:
        """Move an entry here from its stream.

        Raises:
            Fenced: the lease has passed on.
        """
        raw = entry.fields if entry.raw is None else entry.raw
        call = scripts.add_dead_letter(
            intake=lease.stream,
            fence=lease.fence,
            entries=msgspec.json.encode([entry.id]),
            family=lease.family,
            reason=reason,
            raw=raw[:MAX_MESSAGE_BYTES],
            size=len(raw),
            memory=MAX_MEMORY,
        )
        committed(self._db.run(call))

    def newest(self, limit: int = 100) -> list[DeadLetter]:
        """Return the newest letters of all shards, newest first."""
        replies = self._db.pipeline(
            [("XREVRANGE", shard.key("dead"), "+", "-", "COUNT", limit) for shard in self._layout.all]
        )
        letters = [
            letter
            for shard, items in zip(self._layout.all, replies, strict=True)
            for letter in readable("dead letter", items, partial(_letter, shard))
        ]
        return sorted(letters, key=lambda letter: letter.at, reverse=True)[:limit]

    def all_now(self) -> Iterator[DeadLetter]:
        """Yield every letter that is here now, shard by shard, oldest first, without later ones."""
        for shard in self._layout.all:
            # Stop at the letter that is newest now: replayed entries that fail again would make the loop endless.
            newest = self._db.command("XREVRANGE", shard.key("dead"), "+", "-", "COUNT", 1)
            start = "-"
            while newest:
                last: str = newest[0][0].decode()
                items = self._db.command("XRANGE", shard.key("dead"), start, last, "COUNT", READ_BATCH)
                yield from readable("dead letter", items, partial(_letter, shard))
                if len(items) < READ_BATCH:
                    break
                start = f"({items[-1][0].decode()}"

    def get(self, letter_id: str) -> DeadLetter:
        """Return one letter.

        Raises:
            InvalidInput: this is not the id of a dead letter.
            NotFound: there is no dead letter with this id.
        """
        shard, entry = self._locate(letter_id)
        items = self._db.command("XRANGE", shard.key("dead"), entry, entry)
        if not items:
            raise NotFound(f"no dead letter {letter_id}; `tellback dead list` shows what there is")
        return _letter(shard, items[0])

    def replay(self, letter_id: str, *, by: str = "", reason: str = "") -> str:
        """Put a letter back into its stream and return the entry's new id; the audit log says who did so and why.

        Raises:
            InvalidInput, NotFound: as `get`.
            StateConflict: the letter was truncated and is no longer what the host sent, its family is not known, or its
                stream takes no entry until workers have emptied it.
        """
        letter = self.get(letter_id)
        if not letter.is_complete:
            raise StateConflict(
                f"dead letter {letter_id} had {letter.bytes} bytes and was truncated; it cannot be replayed"
            )
        if letter.family not in FAMILIES:
            raise StateConflict(
                f"dead letter {letter_id} is of the family {letter.family!r}, which this release does not know: replay "
                "it with the release that wrote it"
            )
        shard, entry = self._locate(letter_id)
        audited = Author.of(by, reason).entry("replay", letter_id)
        replay = scripts.replay_dead(intake=stream_of(shard, Family(letter.family)), letter=entry, entry=audited)
        reply = decide(self._db, shard, replay)
        if reply.get("used_up"):
            raise StateConflict(
                f"dead letter {letter_id} cannot be replayed yet: somebody appended to its stream with the highest id, "
                "which nothing can follow. Try again once workers have emptied it"
            )
        if not reply["entry"]:
            raise NotFound(f"no dead letter {letter_id}; somebody else replayed or dropped it")
        return str(reply["entry"])

    def drop(self, letter_id: str, *, by: str = "", reason: str = "") -> None:
        """Delete a letter for good; the audit log says who did so and why.

        Raises:
            InvalidInput, NotFound: as `get`.
        """
        shard, entry = self._locate(letter_id)
        audited = Author.of(by, reason).entry("drop", letter_id)
        if not decide(self._db, shard, scripts.drop_dead(shard=shard, letter=entry, entry=audited))["dropped"]:
            raise NotFound(f"no dead letter {letter_id}; `tellback dead list` shows what there is")

    def count(self) -> int:
        """Count the letters of all shards."""
        return sum(self._db.pipeline([("XLEN", shard.key("dead")) for shard in self._layout.all]))

    def _locate(self, letter_id: str) -> tuple[Shard, str]:
        found = _ID.fullmatch(letter_id)
        if found is None or int(found[1]) >= self._layout.shards:
            raise InvalidInput(f"{letter_id!r} is not the id of a dead letter; ids look like 0:1700000000000-0")
        return self._layout.shard(int(found[1])), found[2]


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
