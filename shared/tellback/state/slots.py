"""The hash slot of a command in a Redis Cluster. `tellback hook` needs it without redis-py."""

from __future__ import annotations

from binascii import crc_hqx
from typing import Final

from tellback.state.script_calls import Command

SLOTS: Final = 16_384

# Commands of ours that name no key, or whose first key is not their first argument.
_KEYLESS: Final = frozenset(
    {"ACL", "CLIENT", "CLUSTER", "COMMAND", "CONFIG", "DBSIZE", "ECHO", "FLUSHALL", "INFO", "MODULE", "PING", "SCAN"}
    | {"SCRIPT", "TIME", "WAIT", "WAITAOF"}
)
_SCRIPTS: Final = frozenset({"EVAL", "EVALSHA"})
_SUBCOMMANDS: Final = frozenset({"MEMORY", "OBJECT", "XGROUP", "XINFO"})
_STREAMS: Final = frozenset({"XREAD", "XREADGROUP"})


def slot_of(key: str | bytes) -> int:
    """Return the hash slot of a key: that of the text between the first braces, or of the whole key."""
    raw = key.encode() if isinstance(key, str) else key
    start = raw.find(b"{")
    if start >= 0:
        end = raw.find(b"}", start + 1)
        if end > start + 1:
            raw = raw[start + 1 : end]
    return crc_hqx(raw, 0) % SLOTS


def slot_of_command(command: Command) -> int | None:
    """Return the slot of a command's first key, None if it has no key. All keys of a call are of one shard."""
    keys = keys_of_command(command)
    return slot_of(keys[0]) if keys else None


def keys_of_command(command: Command) -> list[str | bytes]:
    """Return all keys of a script's call, or the first key of another command; none if it has no key."""
    name = str(command[0]).upper()
    if name in _KEYLESS:
        return []
    at, number = 1, 1
    if name in _SCRIPTS:
        at, number = 3, int(command[2])
    elif name in _SUBCOMMANDS:
        at = 2
    elif name in _STREAMS:
        at = next(place for place, part in enumerate(command) if part in ("STREAMS", b"STREAMS")) + 1
    return [key for key in command[at : at + number] if isinstance(key, (str, bytes))]
