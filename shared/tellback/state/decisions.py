"""Decisions: scripts that store their reply under an operation id, so that a retry does not repeat the effect."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from tellback import clock
from tellback.backoff import Backoff, retry
from tellback.errors import Unavailable
from tellback.state.database import Database, WrongType
from tellback.state.keys import Shard, lifetime_ms
from tellback.state.script_calls import DecisionCall, ScriptCall
from tellback.state.unavailable import LOST

T = TypeVar("T")

MAX_TRIES: Final = 3
_WRONG_TYPE: Final = (
    "a key holds another type than Tellback gives it ({error}): workers repair those that a whole shard shares in "
    "seconds, and `tellback doctor` names them; try again"
)
BACKOFF: Final = Backoff(0.1)
RETRY_SECONDS: Final = 3.0  # after this long no further try begins


def decide(database: Database, shard: Shard, decision: DecisionCall) -> Any:
    """Run a decision and return its decoded reply; retry up to twice with the same operation id.

    Raises:
        Unavailable: Redis stayed away or hangs; the last try may or may not have had its effect.
    """
    call = decision.named(shard.key("op", secrets.token_hex(12)))
    end = clock.monotonic() + RETRY_SECONDS
    return msgspec.json.decode(retry(lambda: _run_confirmed(database, call), BACKOFF, end=end, tries=MAX_TRIES))


def decide_on_host(database: Database, shard: Shard, decision: DecisionCall) -> Any:
    """Run a decision like `decide`, for a caller that keeps what Redis does not take and tries again.

    Raises:
        Unavailable: also if somebody changed a key by hand.
    """
    return on_host(lambda: decide(database, shard, decision))


def on_host(call: Callable[[], T]) -> T:
    """Return what a call returns, for a caller that expects no other error of Redis than its absence.

    Raises:
        Unavailable: also if somebody changed a key by hand.
    """
    try:
        return call()
    except WrongType as error:
        raise Unavailable(_WRONG_TYPE.format(error=str(error).partition(" script:")[0])) from error


def _run_confirmed(database: Database, call: ScriptCall) -> Any:
    reply = database.run(call)
    # unconditional: the stored reply gets the lifetime that it has. It is missing only if a failover has lost it, and
    # then the decision is repeated.
    if database.confirms and database.confirm([("PEXPIRE", call.keys[0], lifetime_ms("op"))]) != [1]:
        raise Unavailable(LOST)
    return reply
