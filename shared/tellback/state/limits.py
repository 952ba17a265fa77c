"""Limits that an operator sets a team: scripts that let something in check them, so a host gets a clear error at once.

The limits of a team are divided evenly among its shards and stored in each, because a script stays in one. A host that
writes keys of its team by itself passes them by, as it passes by the bounds of the streams. Requirement A-122.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import msgspec

from tellback.errors import InvalidInput
from tellback.state.audit import Act, Author
from tellback.state.database import Database
from tellback.state.decisions import decide
from tellback.state.keys import Layout
from tellback.state.readable import readable
from tellback.state.scripts import common as scripts

SUSPENDED: Final = "team {team} is suspended: an operator resumes it by `tellback teams resume {team}`"
TOO_MANY_OPEN: Final = (
    "the limit of open turns of team {team} is reached ({most} in this shard): answer some, or raise the limit by "
    "`tellback teams limit {team} --open-turns NUMBER`"
)
BURST_SECONDS: Final = 10
"""Seconds of the rate that a team may publish at once."""


class TeamLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one team; 0 is none."""

    events_per_second: float = 0
    """Events of all families that its hosts may publish. More are spooled on their disks."""
    intake_bytes: int = 0
    """Bytes that the streams of one family may hold; a host's own setting counts if it is lower."""
    open_turns: int = 0
    """Turns that may be open at once. More are refused."""
    sessions: int = 0
    """Sessions that may be active within an hour. One more is refused."""
    banks: int = 0
    """Banks that the team may have. One more is refused."""
    suspended: bool = False
    """Nothing new is accepted; events in the intake are applied, and open turns get their answers."""


class LimitStore:
    """The limits of one team in Redis."""

    def __init__(self, database: Database, layout: Layout) -> None:
        self._db = database
        self._layout = layout

    def read(self) -> TeamLimits:
        """Return the limits; a team without any has none."""
        return _decoded(self._stored())

    def change(self, author: Author | None = None, /, **values: float) -> TeamLimits:
        """Change some of the limits, and return all; they hold from the next call of each host.

        The audit log names the author, by default this process's user, unless a team is suspended or
        resumed that already is. A shard that could not be reached keeps its old limits until the call is repeated.

        Raises:
            InvalidInput: a value is negative, infinite or of another type, or the author's texts are too long.
            Unavailable: Redis is unavailable.
        """
        act = _act(values)
        target = " ".join(f"{name}={value}" for name, value in values.items()) if act == "limit" else self._layout.team
        entry = (author or Author.of()).entry(act, target)
        first = self._layout.shard(0)
        while True:
            before = self._stored()
            limits = _changed(_decoded(before), values)
            changing = scripts.change_limits(
                shard=first,
                before=before,
                entry=entry,
                fields=_fields(limits, self._layout.shards),
            )
            is_same = act != "limit" and limits == _decoded(before) and before in (b"", msgspec.json.encode(limits))
            if is_same or decide(self._db, first, changing):  # else another operator was faster
                self._copy(limits)
                return limits

    def _copy(self, limits: TeamLimits) -> None:
        """Write the limits of the first shard to the others, until nobody has changed them meanwhile."""
        while True:
            fields = _fields(limits, self._layout.shards)
            self._db.run_all([scripts.copy_limits(shard=shard, fields=fields) for shard in self._layout.all[1:]])
            stored = _decoded(self._stored())
            if stored == limits:
                return
            limits = stored

    def _stored(self) -> bytes:
        raw: bytes | None = self._db.command("HGET", self._layout.shard(0).key("limits"), "team")
        return raw or b""


def _act(values: Mapping[str, float]) -> Act:
    return "limit" if "suspended" not in values else "suspend" if values["suspended"] else "resume"


def _changed(limits: TeamLimits, values: Mapping[str, float]) -> TeamLimits:
    """Return the limits with some changed, in the form that `_decoded` returns: half a session could not be read back.

    Raises:
        InvalidInput: a value is negative, infinite or of another type.
    """
    try:
        changed = msgspec.convert(msgspec.structs.asdict(msgspec.structs.replace(limits, **values)), TeamLimits)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"the limits cannot be changed: {error}") from error
    for name, value in values.items():
        if not 0 <= value < math.inf:
            raise InvalidInput(f"{name} is {value:g}; use 0 for no limit, or more")
    return changed


def _decoded(raw: bytes) -> TeamLimits:
    """Return stored limits. Unreadable ones count as none: a team is listed, suspended and removed all the same."""
    found = readable("limits", [raw] if raw else [], msgspec.json.Decoder(TeamLimits).decode)
    return found[0] if found else TeamLimits()


def _fields(limits: TeamLimits, shards: int) -> list[str | bytes]:
    """Return the names and values of one shard's hash."""
    fields: dict[str, str | bytes] = {"team": msgspec.json.encode(limits)}
    if limits.suspended:
        fields["suspended"] = "1"
    if limits.events_per_second:
        fields["rate"] = str(limits.events_per_second / shards)
        # At least 1: a bucket that never holds a whole event would let none pass.
        fields["burst"] = str(max(1.0, BURST_SECONDS * limits.events_per_second / shards))
    if limits.intake_bytes:
        fields["bytes"] = str(max(1, limits.intake_bytes // shards))
    for field, most in (("turns", limits.open_turns), ("sessions", limits.sessions), ("banks", limits.banks)):
        if most:
            fields[field] = str(-(-most // shards))
    return [part for field in fields.items() for part in field]
