"""The text of the Lua scripts: each is a file `lua/NAME.lua` that opens with its keys, arguments and return value.

    -- keys: intake, +lease, /limits, mark?    `?`: may be absent, and is then nil
    -- args:
    --   max_bytes int                         a name and a type, then perhaps `: ` and a meaning
    --   *event text: JSON, without a gap      `*`: any number of them
    -- returns: prose

The script reads `key_intake`, `arg_max_bytes` and, as tables, `keys_NAME` and `args_event`; `prelude` is the Lua that
declares these. An argument is a string there, as Redis passes it. Positions stand nowhere else: the functions of
`scripts` are generated from the same declaration. Most keys are filled in: those with a `+` have the parts of the key
before them (the lease of the same stream), those with a `/` belong to the whole shard, and `decide` adds `operation`,
which is first. `make generate` stores the digest of each text, so a hook, which sends none, does not import this.

A line `-- @include NAME` inserts the shared `lua/lib/NAME.lua`, once in a script.
A line `-- constants: NAME, NAME` declares those of `CONSTANTS`. A first line `-- flags: FLAGS` becomes Redis'
own `#!lua flags=FLAGS`, which must be the first line that Redis gets (Redis 7.0 and later, and Valkey).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from tellback.contracts.signal_types import DECAY_PER_WEEK, KINDS, NEUTRAL, WEEK_MS
from tellback.state.keys import DAY_MS, FAMILIES, HOUR, MINUTE, UNOBSERVED_MS

FOLDER: Final = f"{__file__.rpartition('/')[0]}/lua"  # for the loader, and without pathlib to start fast

_FLAGS: Final = re.compile(r"\A-- flags: (\S+)\n")
INCLUDE: Final = re.compile(r"^-- @include (\w+)$", re.MULTILINE)
_CONSTANTS: Final = re.compile(r"^-- constants: (.+)$", re.MULTILINE)

CONSTANTS: Final[Mapping[str, float | str | tuple[str, ...]]] = {
    "MINUTE_MS": MINUTE * 1_000,
    "HOUR_MS": HOUR * 1_000,
    "DAY_MS": DAY_MS,
    "WEEK_MS": WEEK_MS,
    "UNOBSERVED_MS": UNOBSERVED_MS,
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

`NAME_LIFETIME` is the lifetime of the family NAME, in milliseconds.
"""

TYPES: Final = {
    "str": "str",
    "bytes": "bytes",
    "text": "str | bytes",
    "int": "int",
    "flag": "bool",
    "arg": "Arg",
}

_ENTRY: Final = re.compile(r"([*+/]?)([a-z][a-z0-9_]*)(\??)")
_CODE: Final = re.compile(r"^(?!--)|^-- @include ", re.MULTILINE)
# A table that grows one by one took 4 % of the instructions of Redis for a tool event. Lua takes 8,000 values off one.
_SLICE: Final = """\
local function slice_of(list, first, last)
  if last - first < 4000 then return {unpack(list, first, last)} end
  local found = {}
  for i = first, last do found[i - first + 1] = list[i] end
  return found
end
"""


class HeaderEntry(NamedTuple):
    """A declared key or argument."""

    name: str
    type: str
    optional: bool
    sign: str

    @property
    def repeated(self) -> bool:
        """True if there may be any number of them."""
        return self.sign == "*"


class Header(NamedTuple):
    """The keys and arguments of a script, in the order in which they are sent."""

    summary: str
    keys: tuple[HeaderEntry, ...]
    args: tuple[HeaderEntry, ...]

    @property
    def counted(self) -> list[str]:
        """The repeated entries whose number is sent before the arguments: all but the last keys and arguments."""
        return [f"keys_{entry.name}" for entry in _repeated(self.keys)[:-1]] + [
            f"args_{entry.name}" for entry in _repeated(self.args)[:-1]
        ]

    def prelude(self) -> str:
        """Return the Lua that names the keys and arguments; docs/decisions/scripts-by-names.md says what it costs."""
        lines = [_SLICE] if _repeated(self.keys) or _repeated(self.args) else []
        if self.counted:
            numbers = ", ".join(f"tonumber(ARGV[{at}])" for at in range(1, len(self.counted) + 1))
            lines.append(f"local {', '.join('n_' + name for name in self.counted)} = {numbers}\n")
        lines += _declarations("key", "KEYS", self.keys, 0)
        lines += _declarations("arg", "ARGV", self.args, len(self.counted))
        return "".join(lines)


def header_of(text: str) -> Header:
    """Parse the comment that opens a script.

    Raises:
        ValueError: a line declares nothing, or an order that could not be sent.
    """
    found = _CODE.search(text)
    lines = [line[3:] for line in text[: found.start() if found else None].splitlines()]
    keys, args, summary = list[str](), list[str](), list[str]()
    into = summary
    for line in lines:
        if line.startswith("keys: "):
            into = keys
        elif line.startswith(("args:", "returns: ")):
            into = args if line == "args:" else []
            continue
        into.append(line.removeprefix("keys: "))
    return Header(
        " ".join(line for line in summary if not line.startswith(("flags: ", "constants: "))),
        _checked([_entry(part, "str") for part in " ".join(line.strip() for line in keys).split(", ") if part]),
        _checked([_argument(line) for line in args if not line.startswith("    ")]),
    )


def _argument(line: str) -> HeaderEntry:
    name, _, rest = line.strip().partition(" ")
    return _entry(name, rest.partition(":")[0])


def _entry(text: str, kind: str) -> HeaderEntry:
    found = _ENTRY.fullmatch(text)
    if found is None or kind not in TYPES:
        raise ValueError(f"{text!r} of type {kind!r} declares nothing: write NAME, NAME? or *NAME")
    return HeaderEntry(found[2], kind, bool(found[3]), found[1])


def _checked(entries: list[HeaderEntry]) -> tuple[HeaderEntry, ...]:
    ranks = [2 if entry.repeated else int(entry.optional) for entry in entries]
    if ranks != sorted(ranks) or {1, 2} <= set(ranks):
        raise ValueError("absent and repeated entries come last, and a list has one kind of them")
    return tuple(entries)


def _repeated(entries: Sequence[HeaderEntry]) -> list[HeaderEntry]:
    return [entry for entry in entries if entry.repeated]


def _declarations(prefix: str, table: str, entries: Sequence[HeaderEntry], start: int) -> list[str]:
    fixed = [entry.name for entry in entries if not entry.repeated]
    lines = list[str]()
    if fixed:
        values = ", ".join(f"{table}[{at}]" for at in range(start + 1, start + len(fixed) + 1))
        lines.append(f"local {', '.join(f'{prefix}_{name}' for name in fixed)} = {values}\n")
    first = str(start + len(fixed))
    rest = _repeated(entries)
    for entry in rest:
        name = f"{prefix}s_{entry.name}"
        last = f"#{table}" if entry is rest[-1] else f"{first} + n_{name}"
        lines.append(f"local {name} = slice_of({table}, {first} + 1, {last})\n")
        first = last
    return lines


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
