"""The lease of a consumer on an intake stream, and the entries that it reads. See docs/decisions/fences.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypedDict

import msgspec

from tellback.contracts.codec import AnyMessage
from tellback.errors import TellbackError
from tellback.names import Family
from tellback.state.keys import Shard, stream_of

FIELD: Final = "m"  # the one field of an entry: its message
_FIELD: Final = FIELD.encode()

NO_MESSAGE: Final = f"the entry has no field '{FIELD}'"


class RawEntry(msgspec.Struct, frozen=True, gc=False):  # no dataclass: a worker makes one for each event
    """An entry as stored in the stream; `raw` is None if it has not one message field, and `fields` has what it has."""

    id: str
    raw: bytes | None
    deliveries: int
    fields: bytes = b""  # as JSON, for the dead letters
    trouble: str = NO_MESSAGE  # the reason for which `raw` is None


class IntakeEntry(msgspec.Struct, frozen=True, gc=False):  # as above; no part of a cycle
    """A decoded entry. `deliveries` above 1 means that an earlier attempt failed or crashed.

    `read_at` is 0 unless the server's clock was set back and stream ids stand still. It is then the time of reading, in
    microseconds, by that clock as if it had not stopped. `trace` is the trace context in which it is being applied.
    """

    id: str
    message: AnyMessage
    deliveries: int
    read_at: int = 0
    trace: str = ""

    @property
    def at_ms(self) -> int:
        """The time of arrival, by the server's clock."""
        return self.read_at // 1000 or int(self.id.partition("-")[0])

    @property
    def order(self) -> int:
        """A number that grows with each entry of its stream: microseconds of its arrival, in small steps."""
        milliseconds, _, sequence = self.id.partition("-")
        return self.read_at or int(milliseconds) * 1000 + min(int(sequence), 999)


class CommitParts(TypedDict):
    """The keys and arguments of every script that commits."""

    intake: str
    fence: int
    entries: bytes


def raw_entry(id_: bytes, fields: Sequence[Any] | None, deliveries: int) -> RawEntry:
    """Return an entry by its id and its fields as Redis has them: names and values alternate, None if deleted."""
    # The form that our publishers write, without the cost of a dict.
    if fields and len(fields) == 2 and fields[0] == _FIELD:
        return RawEntry(id_.decode(), fields[1], deliveries)
    named: dict[bytes, list[bytes]] = {}
    for name, value in pairs(fields or ()):
        named.setdefault(name, []).append(value)
    messages = named.get(_FIELD, ())
    if len(messages) == 1 or not named:
        return RawEntry(id_.decode(), messages[0] if messages else None, deliveries)
    texts = {name.decode(errors="replace"): _text(values) for name, values in named.items()}
    several = f"the entry has the field '{FIELD}' {len(messages)} times: append each message by itself"
    return RawEntry(id_.decode(), None, deliveries, msgspec.json.encode(texts), several if messages else NO_MESSAGE)


def many_in(found: Mapping[Lease, Any]) -> dict[Lease, tuple[bytes, int]]:
    """Return where many entries stand that scripts left to their caller (lib/reading), by the scripts' replies."""
    return {lease: (reply[1], reply[2]) for lease, reply in found.items() if reply and reply[0] == b"many"}


def _text(values: Sequence[bytes]) -> str | list[str]:
    """Return the value of a field as text, or all values of one that an entry has several times."""
    texts = [value.decode(errors="replace") for value in values]
    return texts if len(texts) > 1 else texts[0]


def pairs(flat: Sequence[Any]) -> zip[tuple[Any, Any]]:
    """Return the pairs of a flat reply of names and values."""
    return zip(flat[::2], flat[1::2], strict=True)


def id_order(id_: bytes) -> tuple[int, int]:
    """Return the numbers by which stream ids are ordered."""
    milliseconds, _, sequence = id_.partition(b"-")
    return int(milliseconds), int(sequence)


class Fenced(TellbackError):
    """The consumer's lease has expired or passed to another. Stop: the last script wrote nothing."""

    def __init__(self) -> None:
        super().__init__("the consumer's lease has passed on")


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to consume one stream. `fence` grows with each lease, and every commit checks it."""

    shard: Shard
    family: Family
    fence: int

    @property
    def stream(self) -> str:
        """The intake stream: KEYS[1] of a commit."""
        return stream_of(self.shard, self.family)

    @property
    def key(self) -> str:
        """The key of the lease itself."""
        return self.shard.key("lease", self.family)

    def commit_of(self, entries: Sequence[IntakeEntry]) -> CommitParts:
        """Return the key and arguments of every commit, for entries that it takes out of the stream."""
        ids = msgspec.json.encode([entry.id for entry in entries])
        return {"intake": self.stream, "fence": self.fence, "entries": ids}


class Taken(NamedTuple):
    """A stream that was leased: whether a dead consumer left entries, which come first, and new ones that were read."""

    lease: Lease
    pending: bool
    entries: list[RawEntry]


@dataclass(slots=True)
class Read:
    """New entries of several streams, by lease; leases that have passed on, and streams that were released.

    `notified` is the reply to XREAD with notifications that came meanwhile, for `Notifications.note_seen`.
    """

    entries: dict[Lease, list[RawEntry]] = field(default_factory=dict[Lease, list[RawEntry]])
    fenced: list[Lease] = field(default_factory=list[Lease])
    released: list[Lease] = field(default_factory=list[Lease])
    notified: Any = None


def committed(reply: Any) -> bool:
    """Return True if a commit took effect, False if its compare-and-set lost ('stale').

    Raises:
        Fenced: the lease has passed on.
    """
    if reply == b"fenced":
        raise Fenced
    return reply in (b"ok", b"released")
