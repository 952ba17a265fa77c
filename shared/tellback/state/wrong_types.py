"""Keys that hold another type than Tellback stores, because somebody changed them by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tellback.state.database import Command, Database, WrongType
from tellback.state.keys import FAMILIES
from tellback.state.unavailable import as_raised

READS: Final = frozenset(
    {"GET", "HGET", "HGETALL", "HLEN", "HMGET", "LINDEX", "LLEN", "LRANGE", "SISMEMBER", "SMEMBERS", "SMISMEMBER"}
    | {"XLEN", "XRANGE", "XREVRANGE", "ZCARD", "ZCOUNT", "ZMSCORE", "ZRANGE", "ZSCORE"}
)
"""Commands that change nothing and name one key, their first argument."""


def advice_of(keys: Sequence[str]) -> str:
    """Return what is wrong with the keys of a command that met another type, and what to do."""
    named = " or ".join(f"{key} (a {kind_of(key)})" if kind_of(key) else key for key in keys)
    holds = f"{named} holds another type than Tellback stores" if len(keys) == 1 else f"another type is in {named}"
    return f"{holds}: look at it with redis-cli and remove it by DEL, or by RENAME to keep what it holds"


def kind_of(key: str) -> str:
    """Return the type that Tellback gives a key, "" if it is none of its keys."""
    family = FAMILIES.get(key.partition("}:")[2].partition(":")[0])
    return family.type if family else ""


class ReadingDatabase(Database):
    """A client that reads a key of another type as one that does not exist, and notes it in `wrong`.

    It is for listings: one such key must not hide what all others hold.
    """

    def __init__(self, url: str, **options: Any) -> None:
        """Prepare a client; the options are those of `Database`."""
        super().__init__(url, **options)
        self.wrong: dict[str, None] = {}

    def command(self, *parts: Any) -> Any:
        """Run one command and return its reply."""
        try:
            return super().command(*parts)
        except WrongType as error:
            return self._read_as_absent(parts, error)

    def pipeline(self, commands: Sequence[Command], *, raise_on_error: bool = True, repeat: bool = True) -> list[Any]:
        """Run several commands in one round trip and return their replies in order."""
        replies = super().pipeline(commands, raise_on_error=False, repeat=repeat)
        for at, reply in enumerate(replies):
            if isinstance(reply, WrongType) and commands[at][0] in READS:
                replies[at] = self._read_as_absent(commands[at], reply)
            elif isinstance(reply, Exception) and raise_on_error:
                raise as_raised(reply, self.url)
        return replies

    def _read_as_absent(self, command: Command, error: WrongType) -> Any:
        if command[0] not in READS:
            raise error
        key = str(command[1])
        self.wrong[key] = None
        return super().command(command[0], f"{key}:absent", *command[2:])
