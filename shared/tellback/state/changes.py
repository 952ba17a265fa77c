"""Changes that were told to a whole session: each of its evaluations reads them, from the place where it stopped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from tellback.contracts.guidance import ContextChanged
from tellback.state.database import Arg, Database
from tellback.state.intake import Entry, Lease, committed
from tellback.state.keys import Shard
from tellback.state.script import Script

_share = Script("share_changes")
_LINE: Final = ("kind", "name", "detail", "by")


class SharedChange(msgspec.Struct, frozen=True, kw_only=True):
    """One of them; `n` grows within the session, and is the order of its entry: microseconds of its arrival."""

    n: int
    kind: str
    name: str
    detail: str | None = None
    by: str = ""

    @property
    def at_ms(self) -> int:
        """When it arrived."""
        return self.n // 1000


_decode = msgspec.json.Decoder(SharedChange).decode


class Changes:
    """The changes of the sessions of one shard."""

    def __init__(self, database: Database, shard: Shard) -> None:
        """Take the Redis and the shard."""
        self._db = database
        self._shard = shard

    def share(self, lease: Lease, session: str, entries: Sequence[Entry], changes: Sequence[ContextChanged]) -> None:
        """Keep and acknowledge changes of one session; an event id that was seen before has no effect.

        Raises:
            Fenced: the lease has passed on.
        """
        seen = [self._shard.key(name, session, "", "") for name in ("seen", "seen-old")]
        keys = [*lease.keys, self._shard.key("changes", session), *seen, self._shard.key("hist", session)]
        args: list[Arg] = [*lease.args(entries)]
        for entry, change in zip(entries, changes, strict=True):
            told = {name: value for name in _LINE if (value := getattr(change, name))}
            line = {"at": entry.at_ms, **told, "kind": "context_changed", "what": change.kind}
            args += [change.event_id, entry.order, msgspec.json.encode(told)[1:], msgspec.json.encode(line)]
        committed(self._db.run(_share.call(keys, args)))

    def read(self, sessions: Iterable[str]) -> dict[str, list[SharedChange]]:
        """What is kept for each session, oldest first."""
        names = list(sessions)
        replies = self._db.pipeline([("LRANGE", self._shard.key("changes", session), 0, -1) for session in names])
        return {name: [_decode(raw) for raw in reply] for name, reply in zip(names, replies, strict=True)}
