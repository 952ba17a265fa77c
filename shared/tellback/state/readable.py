"""Read many stored values of which some may be unreadable, because a newer release or a person wrote them.

An unreadable value is skipped and logged; it never hides the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import msgspec
from redis import exceptions

from tellback.errors import StateConflict, TellbackError
from tellback.log import get_logger
from tellback.state.database import Database, WrongType
from tellback.state.script_calls import Command

UNREADABLE: Final = (
    *(msgspec.MsgspecError, exceptions.ResponseError, ValueError, TypeError),
    *(LookupError, OverflowError, RecursionError),
)
"""The errors of decoding a value that this release did not store, or of reading a key of another type."""

MAX_WHOLE: Final = 1 << 53  # scores are doubles

MAX_LOGGED: Final = 10  # of the members removed at once

Raw = TypeVar("Raw")
T = TypeVar("T")

_logger = get_logger("tellback.state")


def readable(what: str, raws: Iterable[Raw], decode: Callable[[Raw], T]) -> list[T]:
    """Return every value that `decode` can read; skip the others, and log one line for all of them."""
    found: list[T] = []
    failures: list[Exception] = []
    for raw in raws:
        try:
            found.append(decode(raw))
        except UNREADABLE as error:
            failures.append(error)
    if failures:
        _logger.error("stored.unreadable", what=what, values=len(failures), first=str(failures[0])[:500])
    return found


def names_of(what: str, members: Iterable[bytes]) -> list[str]:
    """Return the names that are UTF-8, as all of ours are."""
    return readable(what, members, bytes.decode)


def scored_names(what: str, flat: Sequence[bytes]) -> list[tuple[str, float]]:
    """Return name and score of each member in a reply WITHSCORES, without names that are not UTF-8."""
    return readable(what, zip(flat[::2], flat[1::2], strict=True), lambda pair: (pair[0].decode(), finite(pair[1])))


def finite(score: bytes) -> float:
    """Return a score; ours are times and counts, and an infinite one would end whoever makes it a whole number."""
    found = float(score)
    if not math.isfinite(found):
        raise ValueError(f"the score is {found}")
    return found


def whole(score: bytes) -> int:
    """Return a score as a whole number; an infinite one as the farthest that a score can hold exactly."""
    return int(max(-MAX_WHOLE, min(float(score), MAX_WHOLE)))


def counts_of(pairs: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, int]]:
    """Return the counters of a hash by name."""
    return readable("counter", pairs, lambda pair: (pair[0].decode(), int(pair[1])))


def summed_counts(database: Database, keys: Sequence[str], names: Sequence[str]) -> dict[str, int]:
    """Return these counters, summed over the hashes at `keys`.

    Raises:
        Unavailable: Redis is away.
    """
    totals = dict.fromkeys(names, 0)
    fields = [name.encode() for name in names]
    for values in database.pipeline([("HMGET", key, *names) for key in keys]):
        for name, count in counts_of(pair for pair in zip(fields, values, strict=True) if pair[1] is not None):
            totals[name] += count
    return totals


@contextmanager
def reading(key: str) -> Generator[None]:
    """Name the key whose value cannot be read, for a caller that asked for this one.

    Raises:
        StateConflict: it cannot be read; the message says what to do.
    """
    try:
        yield
    except (TellbackError, exceptions.RedisError):
        raise
    except UNREADABLE as error:
        advice = "if no newer release wrote it, look at it with redis-cli and remove it by DEL"
        raise StateConflict(f"{key} holds what this release cannot read ({error}): {advice}") from error


def remove_strays(database: Database, index: str, members: Collection[bytes]) -> None:
    """Remove members that can be none of ours, and log them: at the head of an index they would hide all others."""
    # race: none; nothing of ours can ever have such a name
    if members and database.command("ZREM", index, *members):  # otherwise another process removed and logged them
        first = [f"{member[:80]!r}" for member in list(members)[:MAX_LOGGED]]
        _logger.error("index.strays_removed", key=index, members=len(members), first=first)


def without_strays(database: Database, index: str, flat: Sequence[bytes]) -> list[tuple[str, float]]:
    """Return name and score of each member in a reply WITHSCORES; remove those that are not UTF-8 from the index."""
    pairs = list(zip(flat[::2], flat[1::2], strict=True))
    strays = {raw for raw, _ in pairs if raw.decode(errors="replace").encode() != raw}
    remove_strays(database, index, strays)
    return [(raw.decode(), float(at)) for raw, at in pairs if raw not in strays]


def read_each(database: Database, commands: Sequence[Command]) -> list[Any]:
    """Return the replies of reading commands in order, with the error in place of that of a key of another type.

    Raises:
        Unavailable: Redis is away.
    """
    replies = database.run_each([], commands)
    for reply in replies:
        if isinstance(reply, Exception) and not isinstance(reply, exceptions.ResponseError):
            raise reply
    return replies


def reply_of(reply: T | Exception) -> T:
    """Return one reply of `read_each`, or raise its error, so that `readable` logs and skips it."""
    if isinstance(reply, Exception):
        raise reply
    return reply


def without_errors(replies: Sequence[Any]) -> list[Any]:
    """Return replies of `Database.run_each`; log a script's error and put None in its place.

    Raises:
        Unavailable: Redis is unavailable; so is raised any other error that concerns all calls.
    """
    found: list[Any] = []
    for reply in replies:
        if isinstance(reply, exceptions.ResponseError):
            _logger.error("script.failed", reason=str(reply), keys=reply.keys if isinstance(reply, WrongType) else [])
        elif isinstance(reply, Exception):
            raise reply
        found.append(None if isinstance(reply, Exception) else reply)
    return found
