"""The text of the Lua scripts: each is a file `lua/NAME.lua` that opens with its keys, arguments and return value.

`lua_header` describes that comment. A line `-- @include NAME` inserts the shared `lua/lib/NAME.lua`, once in a script.
A line `-- constants: NAME, NAME` declares those of `CONSTANTS`. A first line `-- flags: FLAGS` becomes Redis'
own `#!lua flags=FLAGS`, which must be the first line that Redis gets (Redis 7.0 and later, and Valkey).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tellback.contracts.signal_types import DECAY_PER_WEEK, KINDS, NEUTRAL, WEEK_MS
from tellback.state.keys import DAY_MS, FAMILIES, HOUR, MINUTE
from tellback.state.lua_header import header_of

FOLDER: Final = f"{__file__.rpartition('/')[0]}/lua"  # for the loader, and without pathlib to start fast

_FLAGS: Final = re.compile(r"\A-- flags: (\S+)\n")
INCLUDE: Final = re.compile(r"^-- @include (\w+)$", re.MULTILINE)
_CONSTANTS: Final = re.compile(r"^-- constants: (.+)$", re.MULTILINE)

CONSTANTS: Final[Mapping[str, float | str | tuple[str, ...]]] = {
    "MINUTE_MS": MINUTE * 1_000,
    "HOUR_MS": HOUR * 1_000,
    "DAY_MS": DAY_MS,
    "WEEK_MS": WEEK_MS,
    "NEUTRAL": NEUTRAL,
    "DECAY_PER_WEEK": DECAY_PER_WEEK,
    "SIGNAL_TYPES": KINDS,
    **{
        f"{family.name.replace('-', '_').upper()}_LIFETIME": family.lifetime * 1_000
        for family in FAMILIES.values()
        if family.lifetime is not None
    },
}
"""The constants that scripts share with Python, each from the module that owns it.

`NAME_LIFETIME` is the lifetime of the family NAME, in milliseconds. The hook loads this module at each
call, so it must import no more than such modules.
"""


def script_text(name: str) -> str:
    """Return a script as Redis gets it: with its includes, its constants, and names for its keys and arguments."""
    text = with_includes(name)
    flags = _FLAGS.match(text)
    return (f"#!lua flags={flags[1]}\n" if flags else "") + prelude(text) + text[flags.end() if flags else 0 :]


def with_includes(name: str, included: set[str] | None = None) -> str:
    """Return a script's own text with its includes, each once."""
    known = set[str]() if included is None else included

    def insert(match: re.Match[str]) -> str:
        if match[1] in known:
            return match[0]
        known.add(match[1])
        return with_includes(f"lib/{match[1]}", known)

    return INCLUDE.sub(insert, read(name))


def read(name: str) -> str:
    """Read a file as the package's own loader does, which works in a zip archive too."""
    loader: Any = globals()["__loader__"]
    raw: bytes = loader.get_data(f"{FOLDER}/{name}.lua")
    return raw.decode()


def prelude(text: str) -> str:
    """Return the Lua that declares the constants, keys and arguments of a script."""
    names = dict.fromkeys(name.strip() for line in _CONSTANTS.findall(text) for name in line.split(","))
    constants = [f"local {name} = {_literal(CONSTANTS[name])}\n" for name in names]
    return "".join(constants) + header_of(text).prelude()


def _literal(value: float | str | tuple[str, ...]) -> str:
    if isinstance(value, tuple):
        return "{" + ", ".join(map(_literal, value)) + "}"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return repr(value)
