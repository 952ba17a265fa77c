"""Appending of events to intake streams: all streams in one round trip, each by one script call.

There is never a second call for the same stream in a round trip. If the first were refused (the server lost the script,
or was out of memory just then) and the second accepted, the second's mark would make the first look sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from redis import exceptions

from tellback.errors import TellbackError, Unavailable
from tellback.messaging.append_call import Bounds, StreamFull, append_call, end_of_call, must_notify, notification
from tellback.messaging.spool import SpooledEvent
from tellback.names import Family
from tellback.state.database import Database
from tellback.state.script_calls import ScriptCall
from tellback.state.unavailable import LOST

_CONFIRMED: Final = tuple(f":in:{family}" for family in (Family.COMMANDS, Family.TURNS))


class Unreachable(Unavailable):
    """Redis gave no reply, so trying other streams is pointless."""


class AppendOutcome:
    """The number of a stream's events that were appended, and the error that stopped it."""

    __slots__ = ("sent", "trouble")

    def __init__(self) -> None:
        self.sent = 0
        self.trouble: Exception | None = None


def append_all(
    database: Database,
    bounds: Bounds,
    batch: int,
    waiting: Sequence[Sequence[SpooledEvent]],
    outcomes: Sequence[AppendOutcome],
) -> None:
    """Append events, one sequence per stream, at most `batch` of each per call; store the results in `outcomes`.

    An error of one stream does not stop the others.
    """
    while True:
        calls: list[ScriptCall] = []
        running: list[tuple[AppendOutcome, int]] = []
        for events, outcome in zip(waiting, outcomes, strict=True):
            if outcome.trouble is None and outcome.sent < len(events):
                end = end_of_call(events, outcome.sent, batch)
                calls.append(append_call(events[outcome.sent : end], bounds))
                running.append((outcome, end))
        if not calls:
            return
        try:
            replies = database.run_each(calls)
        # No reply does not mean no effect. The caller resends, and the writers' marks drop what was appended.
        except (TellbackError, exceptions.RedisError) as error:
            for outcome, _ in running:
                outcome.trouble = Unreachable(str(error))
            return
        notify(database, [call.keys[0] for call, reply in zip(calls, replies, strict=True) if must_notify(reply)])
        for (outcome, end), call, reply in zip(running, calls, replies, strict=True):
            outcome.trouble = _trouble(call.keys[0], bounds, reply) or _unconfirmed(database, call)
            if outcome.trouble is None:
                outcome.sent = end


def notify(database: Database, streams: Sequence[str]) -> None:
    """Notify the dispatchers of these streams; if that fails, the scheduler finds their entries later."""
    if streams:
        with suppress(Unavailable, exceptions.RedisError):
            database.pipeline([notification(stream) for stream in streams])


def _trouble(stream: str, bounds: Bounds, reply: Any) -> Exception | None:
    if isinstance(reply, Exception):
        return reply
    try:
        bounds.check(stream, reply)
    except StreamFull as full:
        return full
    return None


def _unconfirmed(database: Database, call: ScriptCall) -> Exception | None:
    """Return the error of events that no replica confirmed; they are sent again, and appended once.

    That is asked for commands and answers only. Waiting for each batch of tool events would cost more than they are
    worth. The call itself is repeated: its writer's mark keeps it from a second effect, and a failover that lost the
    first one is made good by it.
    """
    stream, numbered = call.keys[0], "}:writer:" in call.keys[-1]
    if not (database.confirms and numbered and stream.endswith(_CONFIRMED)):
        return None
    try:
        [(outcome, *_)] = database.confirm([call.evalsha])
    except (Unavailable, exceptions.RedisError) as error:
        return Unavailable(str(error))
    return None if outcome == b"appended" else Unavailable(LOST)
