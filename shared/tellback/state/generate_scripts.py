"""The generator of the package `scripts`: a typed function for each Lua script, and its digest, from its file.

A module for each folder of scripts. Run by `make generate`; a contract test fails when a module differs.
"""

from __future__ import annotations

import hashlib
import re
import sys
import textwrap
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from tellback.state.keys import FAMILIES
from tellback.state.lua_text import FOLDER, TYPES, Header, HeaderEntry, header_of, read, script_text

WIDTH: Final = 120
LONGEST: Final = WIDTH - len('    """."""')

# One parameter a line, as the formatter would have it, makes functions of 70 lines that nobody reads.
_TOP: Final = '''\
"""The calls of the scripts in `lua/{folder}`. Generated from their files by `make generate`: do not edit."""
# fmt: off

from __future__ import annotations

{imports}

{scripts}
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
    paths = [name for name in script_names() if name.startswith(f"{folder}/")]
    scripts = "\n".join(f'_{path.partition("/")[2]} = Script("{path}", "{_digest(path)}")' for path in paths)
    functions = [_function(path.partition("/")[2], header_of(read(path))) for path in paths]
    text = "\n".join([scripts, *functions])
    names = ("Arg", "DecisionCall", "Script", "ScriptCall", "beside", "of_shard")
    used = [name for name in names if re.search(rf"\b{name}[(\]:]", text)]
    imports = [f"from tellback.state.script_calls import {', '.join(used)}"]
    if ": Shard," in text:
        imports.insert(0, "from tellback.state.keys import Shard")
    if "Sequence[" in text:
        imports.insert(0, "from collections.abc import Sequence\n")
    return "\n\n".join([_TOP.format(folder=folder, imports="\n".join(imports), scripts=scripts), *functions])


def _digest(name: str) -> str:
    """Return the digest by which Redis knows a script."""
    return hashlib.sha1(script_text(name).encode(), usedforsecurity=False).hexdigest()


def _function(name: str, header: Header) -> str:
    keys = [entry for entry in header.keys if entry.name != "operation"]
    reply, method = ("ScriptCall", "call") if len(keys) == len(header.keys) else ("DecisionCall", "decision")
    given = [entry for entry in keys if entry.sign not in {"+", "/"}]
    first = next((entry.name for entry in given if not entry.repeated), "")
    sent = _keys(keys, first)
    counts = [f"len({name.partition('_')[2]})" for name in header.counted]
    args = [*counts, *map(_value, header.args)]
    of_shard = ["shard: Shard"] if not first and "/" in {entry.sign for entry in keys} else []
    parameters = ["*", *of_shard, *map(_parameter, (*given, *header.args))]
    head = _bracketed(f"def {name}(", parameters, f") -> {reply}:")
    return f'{head}\n    """{_summary(name, header)}."""\n{_call(f"_{name}.{method}", sent, args)}\n'


def _call(called: str, keys: Sequence[str], args: Sequence[str]) -> str:
    line = f"    return {called}([{', '.join(keys)}], [{', '.join(args)}])"
    if len(line) <= WIDTH:
        return line
    lists = [_bracketed("        [", parts, "],") for parts in (keys, args)]
    return "\n".join([f"    return {called}(", *lists, "    )"])


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


def _bracketed(head: str, parts: Sequence[str], tail: str) -> str:
    """Return the parts between brackets: on one line if they fit, else on lines as full as the width allows."""
    line = f"{head}{', '.join(parts)}{tail}"
    if len(line) <= WIDTH:
        return line
    indent = " " * (len(head) - len(head.lstrip()))
    whole = (re.sub("(?<!,) ", "\0", f"{part},") for part in parts)  # a part is divided after its commas alone
    lines = textwrap.wrap(" ".join(whole), WIDTH - len(indent) - 4, break_long_words=False, break_on_hyphens=False)
    return "\n".join([head, *(f"{indent}    {line}" for line in lines), f"{indent}{tail}"]).replace("\0", " ")


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
