"""Room in the queue of a conversation: what a full one loses for a further delivery, told to the turn that loses it.

A script has the keys that its caller gave it, and only the queue knows whose delivery is in the way. So a script that
finds a queue full changes nothing and names that delivery; its caller comes again with the keys of that one's turn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

import msgspec

from tellback.errors import Unavailable
from tellback.state.keys import Shard

TRIES: Final = 50  # each finds another delivery in the way only where another caller got through meanwhile


class InTheWay(msgspec.Struct, frozen=True):
    """The delivery that is dropped for another one; an empty `key`: none, as far as is known."""

    key: str = ""
    turn: str = ""
    session: str = ""

    def keys(self, shard: Shard) -> list[str]:
        """Its turn, and its session's history."""
        return [shard.key("turn", self.turn), shard.key("hist", self.session)] if self.key else []


NOTHING: Final = InTheWay()


def in_the_way(reply: Any) -> InTheWay | None:
    """What a script says is in the way; None where it has done what it was to do."""
    if isinstance(reply, bytes) and reply.startswith(b"{"):
        reply = msgspec.json.decode(reply)
    crowded = isinstance(reply, dict) and cast("dict[str, Any]", reply).get("result") == "crowded"
    return msgspec.convert(reply, InTheWay) if crowded else None


def with_room(run: Callable[[InTheWay], Any], crowd: InTheWay = NOTHING) -> Any:
    """The reply of a script that posts; `run` is called with what is to be dropped.

    Raises:
        Unavailable: others posted to the same full conversation all the time; nothing was done.
    """
    for _ in range(TRIES):
        reply = run(crowd)
        found = in_the_way(reply)
        if found is None:
            return reply
        crowd = found
    raise Unavailable("the outbox of this conversation is full, and others post to it at the same time; try again")
