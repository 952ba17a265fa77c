"""The limits of a team's sessions and banks, checked before a host brings one more. Requirement A-122.

A light module: `tellback hook` imports it.
"""

from __future__ import annotations

from typing import Final, Literal

from tellback.errors import Unavailable
from tellback.state.keys import HOUR, Shard
from tellback.state.script_calls import ScriptCall
from tellback.state.scripts import common as scripts

Counted = Literal["sessions", "banks"]

SESSION_SECONDS: Final = HOUR
"""Seconds after its last activity in which a session counts."""

_REACHED: Final = {
    "sessions": "the limit of active sessions of team {team} is reached ({most} in this shard, within an hour)",
    "banks": "the limit of banks of team {team} is reached ({most} in this shard)",
}


def admit_call(shard: Shard, kind: Counted, name: str) -> ScriptCall:
    """Return the call that asks for a session or bank of this shard; `is_limited` reads its reply."""
    sessions = kind == "sessions"
    return scripts.admit(
        names=shard.key(kind),
        others=shard.key("sessions" if sessions else "factbanks"),
        field=kind,
        name=name,
        within_ms=SESSION_SECONDS * 1000 if sessions else 0,
    )


def is_limited(shard: Shard, kind: Counted, reply: bytes) -> bool:
    """Return True if the shard's team has such a limit.

    Raises:
        TooMany: the team has as many as it may have.
    """
    if reply in (b"unlimited", b"admitted"):
        return reply == b"admitted"
    reached = _REACHED[kind].format(team=shard.team, most=reply.decode())
    raise TooMany(
        f"{reached}: use one of them, or raise the limit by `tellback teams limit {shard.team} --{kind} NUMBER`"
    )


class TooMany(Unavailable):
    """Raised when a team has as many sessions or banks as an operator allows."""
