"""Named Lua scripts, and calls of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tellback.state.database import Arg
from tellback.state.lua_text import script_text


class Script:
    """A script by name; its file is read on first use, never at import."""

    def __init__(self, name: str) -> None:
        """Take the file's name without `.lua`."""
        self.name = name

    @cached_property
    def source(self) -> str:
        """The script with its includes."""
        return script_text(self.name)

    @cached_property
    def sha(self) -> str:
        """What EVALSHA calls it."""
        return hashlib.sha1(self.source.encode(), usedforsecurity=False).hexdigest()

    def call(self, keys: Sequence[str], args: Sequence[Arg] = ()) -> Call:
        """This script on these keys, all of one shard."""
        prefix = keys[0].partition("}")[0]
        for key in keys:
            if key.partition("}")[0] != prefix:
                raise AssertionError(f"script {self.name}: {key} is not in the shard of {keys[0]}")
        return Call(self, tuple(keys), tuple(args))


@dataclass(frozen=True, slots=True)
class Call:
    """A script with its keys and arguments."""

    script: Script
    keys: tuple[str, ...]
    args: tuple[Arg, ...]

    @property
    def evalsha(self) -> tuple[Arg, ...]:
        """The command to send."""
        return ("EVALSHA", self.script.sha, len(self.keys), *self.keys, *self.args)
