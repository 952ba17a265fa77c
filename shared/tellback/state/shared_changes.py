"""Changes shared with a whole session: each of its evaluations reads on from where it stopped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from tellback.contracts.guidance import ContextChanged
from tellback.state.database import Database
from tellback.state.intake_lease import IntakeEntry, Lease, committed
from tellback.state.keys import Shard
from tellback.state.readable import read_each, readable, reply_of
from tellback.state.scripts import guidance as scripts

_LINE: Final = ("kind", "name", "detail", "by")


class SharedChange(msgspec.Struct, frozen=True, kw_only=True):
    """One shared change. `n` grows within the session; it is its entry's `order`, microseconds of arrival."""

    n: int
    kind: str
    name: str
    detail: str | None = None
    by: str = ""

    @property
    def at_ms(self) -> int:
        """The time of arrival, in milliseconds."""
        return self.n // 1000


_decode = msgspec.json.Decoder(SharedChange).decode


class SharedChanges:
    """The changes of the sessions of one shard."""

    def __init__(self, database: Database, shard: Shard) -> None:
        self._db = database
        self._shard = shard

    def share(
        self, lease: Lease, session: str, entries: Sequence[IntakeEntry], changes: Sequence[ContextChanged]
    ) -> None:
        """Store changes of one session and acknowledge their entries; an event id seen before has no effect.

        Raises:
            Fenced: the lease has passed on.
        """
        shared, lines = list[bytes](), list[bytes]()
        for entry, change in zip(entries, changes, strict=True):
            fields = {name: value for name in _LINE if (value := getattr(change, name))}
            shared.append(msgspec.json.encode(fields)[1:])
            line = {"at": entry.at_ms, **fields, "kind": "context_changed", "what": change.kind}
            lines.append(msgspec.json.encode(line))
        call = scripts.store_shared_changes(
            **lease.commit_of(entries),
            changes=self._shard.key("changes", session),
            # Ids of the whole session, not of one evaluation: a change is stored once for all of them.
            seen=self._shard.key("seen", session, "", ""),
            event_ids=[change.event_id for change in changes],
            orders=[entry.order for entry in entries],
            shared=shared,
            lines=lines,
        )
        committed(self._db.run(call))

    def read(self, sessions: Iterable[str]) -> dict[str, list[SharedChange]]:
        """Return the stored changes of each session, oldest first."""
        names = list(sessions)
        commands = [("LRANGE", self._shard.key("changes", session), 0, -1) for session in names]
        replies = readable("changes", zip(names, read_each(self._db, commands), strict=True), _named)
        return {name: readable("change", reply, _decode) for name, reply in replies}


def _named(item: tuple[str, list[bytes] | Exception]) -> tuple[str, list[bytes]]:
    name, reply = item
    return name, reply_of(reply)
