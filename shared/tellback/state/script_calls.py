"""The calls of Lua scripts, as the functions of `scripts` build them, and the arguments that many of them share.

`tellback hook` needs them without redis-py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from tellback.light_struct import LightStruct

Arg = str | bytes | int | float
Command = Sequence[Arg]


def to_milliseconds(seconds: float) -> int:
    """Return seconds as the whole milliseconds that scripts take. A time above 0 must not become 0, so at least 1."""
    return max(1, round(seconds * 1000))


class Script:
    """A script by its file's name without `.lua`, and the digest of its text.

    The text is read by those who send it. A hook calls scripts that workers have loaded, and took 2 ms to read them.
    """

    def __init__(self, name: str, sha: str) -> None:
        self.name = name
        self._sha = sha
        self._source: str | None = None

    @property
    def source(self) -> str:
        """The script's text as Redis gets it."""
        if self._source is None:
            from tellback.state.lua_text import script_text  # noqa: PLC0415 - see above

            self._source = script_text(self.name)
        return self._source

    @property
    def sha(self) -> str:
        """The digest by which EVALSHA calls the script."""
        return self._sha

    def call(self, keys: Sequence[str], args: Sequence[Arg]) -> ScriptCall:
        """Build a call on these keys, all of one shard, in the order of the script's header."""
        prefix = f"{keys[0].partition('}')[0]}}}"
        for key in keys:
            if not key.startswith(prefix):
                raise AssertionError(f"script {self.name}: {key} is not in the shard of {keys[0]}")
        return ScriptCall(self, tuple(keys), tuple(args))

    def decision(self, keys: Sequence[str], args: Sequence[Arg]) -> DecisionCall:
        """Build a decision on these keys; `named` adds its operation."""
        return DecisionCall(self, tuple(keys), tuple(args))


class _KeysAndArgs:
    """The fields of both kinds of call. No `LightStruct`: each event makes several, to make one would take longer."""

    def __init__(self, script: Script, keys: tuple[str, ...], args: tuple[Arg, ...]) -> None:
        self.script = script
        self.keys = keys
        self.args = args


class ScriptCall(_KeysAndArgs):
    """A script with its keys and arguments."""

    @property
    def evalsha(self) -> tuple[Arg, ...]:
        """The EVALSHA command of this call."""
        return ("EVALSHA", self.script.sha, len(self.keys), *self.keys, *self.args)

    @property
    def eval(self) -> tuple[Arg, ...]:
        """The EVAL command of this call, for a process that sends few calls or a server that forgot the script."""
        # unconditional: a script reads again whatever it depends on
        return ("EVAL", self.script.source, len(self.keys), *self.keys, *self.args)


class FirstCall(LightStruct):
    """A call that goes before a blocking command in the same round trip; `answered` gets its reply at once."""

    call: ScriptCall
    answered: Callable[[Any], None]


class DecisionCall(_KeysAndArgs):
    """A script whose reply is kept under an operation id, so that a retry has no second effect; see `decide`."""

    def named(self, operation: str) -> ScriptCall:
        """Return the call that keeps its reply under this key."""
        return self.script.call([operation, *self.keys], self.args)


def of_shard(key: str, *families: str) -> Sequence[str]:
    """Return the keys of families that have one in each shard, in the shard of another key."""
    prefix = f"{key.partition('}')[0]}}}:"
    return [prefix + family for family in families]


@lru_cache(maxsize=4096)
def beside(key: str, *families: str) -> tuple[str, ...]:
    """Return the keys of families for the same parts as another key: the lease of a stream, the scores of a bank."""
    shard, _, rest = key.partition("}:")
    parts = rest.partition(":")[2]
    return tuple([f"{shard}}}:{family}:{parts}" for family in families])
