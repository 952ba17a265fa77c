"""The generator of the package `scripts`: a typed function for each Lua script, from the header of its file.

A module for each folder of scripts. Run by `make generate`; a contract test fails when a module differs.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tellback.state.lua_header import TYPES, Entry, Header, header_of
from tellback.state.lua_text import FOLDER, read

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
    used = [
        name for name in ("Arg", "DecisionCall", "Script", "ScriptCall", "clock_key") if re.search(rf"\b{name}\b", text)
    ]
    imports = [f"from tellback.state.script_calls import {', '.join(used)}"]
    if "Sequence[" in text:
        imports.insert(0, "from collections.abc import Sequence\n")
    return "\n\n".join([_TOP.format(folder=folder, imports="\n".join(imports)), *functions])


def _function(path: str, header: Header) -> str:
    name = path.partition("/")[2]
    keys = [entry for entry in header.keys if entry.name not in {"operation", "clock"}]
    is_decision = "operation" in {entry.name for entry in header.keys}
    reply, method = ("DecisionCall", "decision") if is_decision else ("ScriptCall", "call")
    sent = [_value(entry, keys[0].name) for entry in header.keys if entry.name != "operation"]
    counts = [f"len({name.partition('_')[2]})" for name in header.counted]
    args = [*counts, *(_value(entry, "") for entry in header.args)]
    parameters = _filled([_parameter(entry) for entry in (*keys, *header.args)])
    return (
        f'_{name} = Script("{path}")\n\n\n'
        f'def {name}(\n    *,\n{parameters}\n) -> {reply}:\n    """{_summary(name, header)}."""\n'
        f"    keys: list[str] = {_list(sent)}\n"
        f"    args: list[Arg] = {_list(args)}\n"
        f"    return _{name}.{method}(keys, args)\n"
    )


def _filled(parts: Sequence[str], indent: int = 4) -> str:
    """Return the parts, each with a comma, on lines as full as the width allows."""
    whole = (f"{part},".replace(" ", "\0") for part in parts)
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


def _parameter(entry: Entry) -> str:
    kind = TYPES[entry.type]
    if entry.repeated:
        return f"{entry.name}: Sequence[{kind}]"
    return f"{entry.name}: {kind} | None = None" if entry.optional else f"{entry.name}: {kind}"


def _value(entry: Entry, first_key: str) -> str:
    if entry.name == "clock" and entry.type == "str" and first_key:
        return f"clock_key({first_key})"
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
