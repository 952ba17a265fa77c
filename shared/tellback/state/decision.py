"""Decisions: direct scripts with an operation id, so that a client may retry without repeating the effect."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from tellback import clock
from tellback.errors import Unavailable
from tellback.state.database import Arg, Database
from tellback.state.keys import Shard
from tellback.state.script import Script

TRIES: Final = 3
PAUSE: Final = 0.1
PATIENCE: Final = 3.0  # seconds after which no further try begins


class Decision:
    """A named script that includes `lib/decision.lua`: KEYS[1] is the operation's reply, kept ten minutes."""

    def __init__(self, name: str) -> None:
        """Take the script's name."""
        self.script = Script(name)

    def run(self, database: Database, shard: Shard, keys: Sequence[str], args: Sequence[Arg] = ()) -> Any:
        """The decoded reply, after up to two further tries with the same operation id.

        Raises:
            Unavailable: Redis stayed away, or hangs; whether the last try had its effect is unknown.
        """
        operation = secrets.token_hex(12)
        call = self.script.call([shard.key("op", operation), *keys], args)
        end = clock.monotonic() + PATIENCE
        for attempt in range(1, TRIES + 1):
            try:
                return msgspec.json.decode(database.run(call))
            except Unavailable:
                if attempt == TRIES or clock.monotonic() >= end:
                    raise
                clock.sleep(PAUSE)
        raise AssertionError("the last try returns or raises")
