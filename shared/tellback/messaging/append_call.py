"""Calls and replies of the script that appends events, shared with `tellback hook`, so with few imports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from tellback.errors import Unavailable
from tellback.light_struct import LightStruct
from tellback.state.keys import NOTIFICATIONS, mark_of
from tellback.state.script_calls import Command
from tellback.state.scripts import intake as scripts

if TYPE_CHECKING:
    from tellback.messaging.spool import SpooledEvent
    from tellback.state.script_calls import ScriptCall

CALL_BYTES: Final = 512 << 10  # of one call: a script blocks every other client of Redis


class StreamFull(Unavailable):
    """A stream is at one of its bounds; other streams may have room."""


class Bounds(LightStruct):
    """The largest number of entries and bytes of one stream, and the setting of the former, if one raises it."""

    entries: int
    bytes: int
    setting: str = "TELLBACK_INTAKE_MAX"

    @classmethod
    def of(cls, entries: int, family_bytes: int, shards: int) -> Bounds:
        """Return the bounds of each stream, given the bytes that all streams of one family share."""
        # At least 1: a bound of 0 bytes would refuse every event of a team with many shards.
        return cls(entries, max(1, family_bytes // shards))

    def check(self, stream: str, reply: Any) -> None:
        """Check that a stream took the events.

        Raises:
            StreamFull: it did not; the message names the bound, what the stream holds, and the setting, if any.
        """
        outcome, entries, size, _ = reply
        if outcome == b"appended":
            return
        if outcome != b"full":
            team = stream.partition("{")[2].partition(".")[0]
            raise StreamFull(_REFUSED[outcome].format(stream=stream, team=team))
        at = f"{self.entries} entries" if entries >= self.entries else f"{self.bytes} bytes, its share of the family's"
        name = self.setting if entries >= self.entries else "TELLBACK_INTAKE_MAX_BYTES"
        held, further = f"{stream} holds {entries} entries in {size} bytes", f", or raise {name}" if name else ""
        raise StreamFull(f"{held}, and its bound is {at}: start more workers{further}")


_REFUSED: Final = {
    b"bytes": "{stream} holds its share of the bytes that an operator allows team {team}: start more workers, or ask "
    "for a higher limit (`tellback teams limit {team} --intake-bytes NUMBER`)",
    b"rate": "team {team} publishes more events than an operator allows it: publish less, or ask for a higher limit "
    "(`tellback teams limit {team} --events-per-second NUMBER`)",
    b"suspended": "team {team} is suspended: an operator resumes it by `tellback teams resume {team}`",
}


def end_of_call(events: Sequence[SpooledEvent], start: int, most: int) -> int:
    """Return the end of a call that begins with event `start`.

    A call ends before another stream, another writer, a gap in the numbers, or more than `most` events or `CALL_BYTES`:
    the script numbers the events of a call consecutively from the first.
    """
    stream, raw, writer, number = events[start]
    size, end, last = len(raw), start + 1, min(len(events), start + most)
    while end < last:
        to, raw, of, following = events[end]
        size += len(raw)
        if size > CALL_BYTES or of != writer or to != stream or (writer and following != number + 1):
            break
        number, end = following, end + 1
    return end


def notification(about: str) -> Command:
    """Build the command that notifies the dispatchers of a stream, by its key, or of a team, by its name."""
    # unconditional: it only adds, and dispatchers check what it says
    return ("XADD", NOTIFICATIONS, "MAXLEN", "~", 100_000, "*", "k", about)


def must_notify(reply: Any) -> bool:
    """Return True if a script appended, or had appended before, and nobody consumes the stream."""
    return isinstance(reply, list) and reply[3:] == [1]


def append_call(events: Sequence[SpooledEvent], bounds: Bounds) -> ScriptCall:
    """Build the call that appends events to one stream, numbered without a gap if they have a writer."""
    stream, _, writer, number = events[0]
    return scripts.append_events(
        intake=stream,
        mark=mark_of(stream, writer) if writer else None,
        max_entries=bounds.entries,
        max_bytes=bounds.bytes,
        first=number,
        events=[event.raw for event in events],
    )
