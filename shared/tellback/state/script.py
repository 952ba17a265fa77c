"""Named Lua scripts: each lives in `lua/NAME.lua`, which opens with its keys, arguments and return.

A line `-- @include NAME` takes in `lua/lib/NAME.lua`, so that shared lines stand once.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files

from tellback.state.database import Arg

_INCLUDE = re.compile(r"^-- @include (\w+)$", re.MULTILINE)


class Script:
    """A script by name; its file is read on first use, never at import."""

    def __init__(self, name: str) -> None:
        """Take the file's name without `.lua`."""
        self.name = name

    @cached_property
    def source(self) -> str:
        """The script with its includes."""
        return _read(f"{self.name}.lua")

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


def _read(path: str) -> str:
    text = (files("tellback.state") / "lua" / path).read_text("utf-8")
    return _INCLUDE.sub(lambda match: _read(f"lib/{match[1]}.lua"), text)


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
