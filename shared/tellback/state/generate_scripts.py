"""The generator of the package `scripts`: a typed function for each Lua script, from the header of its file.

A module for each folder of scripts. Run by `make generate`; a contract test fails when a module differs.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from tellback.state.keys import FAMILIES
from tellback.state.lua_text import FOLDER, TYPES, Header, HeaderEntry, header_of, read

WIDTH: Final = 120
LONGEST: Final = WIDTH - len('    """."""')

# One parameter a line, as the formatter would have it, makes functions of 70 lines that nobody reads.
_TOP: Final = '''\
"""The calls of the scripts in `lua/{folder}`. Generated from their headers by `make generate`: do not edit."""
# fmt: off

from __future__ import annotations

{imports}
'''


def script_names() -> list[str]:
    """Return the names of all scripts, `FOLDER/NAME`."""
    paths = (path.relative_to(FOLDER).with_suffix("") for path in Path(FOLDER).glob("*/*.lua"))
    return sorted(path.as_posix() for path in paths if path.parent.name != "lib")


def render_scripts() -> dict[str, str]:
    """Return the text of each module by its name, that of a folder."""
    folders = dict.fromkeys(name.partition("/")[0] for name in script_names())
    return {folder: _module(folder) for folder in folders}


def _module(folder: str) -> str:
    scripts = [name for name in script_names() if name.startswith(f"{folder}/")]
    functions = [_function(name, header_of(read(name))) for name in scripts]
    text = "\n".join(functions)
    names = ("Arg", "DecisionCall", "Script", "ScriptCall", "beside", "of_shard")
    used = [name for name in names if re.search(rf"\b{name}[(\]:]", text)]
    imports = [f"from tellback.state.script_calls import {', '.join(used)}"]
    if ": Shard," in text:
        imports.insert(0, "from tellback.state.keys import Shard")
    if "Sequence[" in text:
        imports.insert(0, "from collections.abc import Sequence\n")
    return "\n\n".join([_TOP.format(folder=folder, imports="\n".join(imports)), *functions])


def _function(path: str, header: Header) -> str:
    name = path.partition("/")[2]
    keys = [entry for entry in header.keys if entry.name != "operation"]
    reply, method = ("ScriptCall", "call") if len(keys) == len(header.keys) else ("DecisionCall", "decision")
    given = [entry for entry in keys if entry.sign not in {"+", "/"}]
    first = next((entry.name for entry in given if not entry.repeated), "")
    sent = _keys(keys, first)
    counts = [f"len({name.partition('_')[2]})" for name in header.counted]
    args = [*counts, *map(_value, header.args)]
    of_shard = ["shard: Shard"] if not first and "/" in {entry.sign for entry in keys} else []
    parameters = _filled([*of_shard, *map(_parameter, (*given, *header.args))])
    return (
        f'_{name} = Script("{path}")\n\n\n'
        f'def {name}(\n    *,\n{parameters}\n) -> {reply}:\n    """{_summary(name, header)}."""\n'
        f"    keys: list[str] = {_list(sent)}\n"
        f"    args: list[Arg] = {_list(args)}\n"
        f"    return _{name}.{method}(keys, args)\n"
    )


def _keys(keys: Sequence[HeaderEntry], first: str) -> list[str]:
    """Return the expressions of the keys; `first` is the name of one that is given, if any is."""
    found: list[str] = []
    owner = ""
    for sign, entries in groupby(keys, key=lambda entry: entry.sign):
        run = list(entries)
        if sign in {"+", "/"}:
            families = ", ".join(f'"{FAMILIES[entry.name.replace("_", "-")].name}"' for entry in run)
            call = f"beside({owner}" if sign == "+" else f"of_shard({first or 'shard.prefix'}"
            found.append(f"*{call}, {families})")
        else:
            owner = run[-1].name
            found += map(_value, run)
    return found


def _filled(parts: Sequence[str], indent: int = 4) -> str:
    """Return the parts, each with a comma, on lines as full as the width allows."""
    whole = (re.sub("(?<!,) ", "\0", f"{part},") for part in parts)  # a part is divided after its commas alone
    lines = textwrap.wrap(" ".join(whole), WIDTH - indent, break_long_words=False, break_on_hyphens=False)
    return "\n".join(f"{' ' * indent}{line}" for line in lines).replace("\0", " ")


def _list(parts: Sequence[str]) -> str:
    line = f"[{', '.join(parts)}]"
    return line if len(line) < WIDTH - len("    args: list[Arg] = ") else f"[\n{_filled(parts, 8)}\n    ]"


def _summary(name: str, header: Header) -> str:
    summary = header.summary.partition(". ")[0].removesuffix(".")
    if len(summary) > LONGEST:
        summary = summary.partition(": ")[0]
    if len(summary) > LONGEST:
        raise ValueError(f"{name}.lua: the first sentence of its comment becomes a docstring and must fit its line")
    return summary


def _parameter(entry: HeaderEntry) -> str:
    kind = TYPES[entry.type]
    if entry.repeated:
        return f"{entry.name}: Sequence[{kind}]"
    return f"{entry.name}: {kind} | None = None" if entry.optional else f"{entry.name}: {kind}"


def _value(entry: HeaderEntry) -> str:
    if entry.repeated:
        return f"*{entry.name}"
    if entry.optional:
        return f"*(() if {entry.name} is None else ({entry.name},))"
    return f"int({entry.name})" if entry.type == "flag" else entry.name


def main(arguments: Sequence[str]) -> None:
    """Write the modules into the folder given."""
    for name, text in render_scripts().items():
        Path(arguments[0], f"{name}.py").write_text(text, "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
