"""Run luacheck over the Lua scripts as Redis gets them: with includes, constants, and names for keys and arguments.

A file by itself says little: its names come from a header, from `lua_text` and from `lua/lib`. So luacheck reads
whole scripts, and a finding is reported where the line stands. What a script does not use of an include is no finding.

Without luacheck it checks nothing; `debian.py lint` installs it, or says so.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tellback.state.generate_scripts import script_names
from tellback.state.lua_text import FOLDER, INCLUDE, prelude, read, with_includes

ROOT = Path(__file__).resolve().parent.parent
LUA = Path(FOLDER)
FINDING = re.compile(r"(.+):(\d+):(\d+): (\(.+)")
_LONG, _POP = "-- luacheck: push no max line length", "-- luacheck: pop"
DECLARED = re.compile(r"^local (?:function )?(\w+(?:, \w+)*)", re.MULTILINE)


def main() -> int:
    """Return 0 if luacheck finds nothing, or outside of continuous integration if there is no luacheck."""
    if not shutil.which("luacheck"):  # `make lint` runs debian.py first, which says so
        return 0
    findings = sorted(_findings(script_names()))
    print("\n".join(findings) or "luacheck: no findings")
    return 1 if findings else 0


def _findings(names: list[str]) -> set[str]:
    with tempfile.TemporaryDirectory() as folder:
        origins: dict[str, list[str]] = {}
        for name in names:
            declared = [_LONG, *prelude(with_includes(name)).splitlines(), _POP]
            lines = [(f"{name}.lua:1", line) for line in declared]
            lines += _lines(name, set())
            path = Path(folder, f"{name.replace('/', '.')}.lua")
            path.write_text("\n".join(line for _, line in lines) + "\n", "utf-8")
            origins[str(path)] = [origin for origin, _ in lines]
        command = ["luacheck", "--config", str(ROOT / ".luacheckrc"), "--formatter", "plain", "--codes", folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = [FINDING.fullmatch(line) for line in done.stdout.splitlines()]
    if done.returncode > 1 and not any(found):
        return {f"luacheck failed: {done.stdout}{done.stderr}"}
    return {f"{LUA.relative_to(ROOT)}/{origins[m[1]][int(m[2]) - 1]}:{m[3]}: {m[4]}" for m in found if m}


def _lines(name: str, included: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the lines of a script and its includes, each with where it stands."""
    for number, line in enumerate(read(name).splitlines(), 1):
        where = f"{name}.lua:{number}"
        include = INCLUDE.fullmatch(line)
        if include is None:
            yield where, line
        elif include[1] not in included:
            included.add(include[1])
            names = [part for found in DECLARED.findall(read(f"lib/{include[1]}")) for part in found.split(", ")]
            yield where, "-- luacheck: push"
            yield from ((where, f"-- luacheck: ignore 211/{part}") for part in names)
            yield from _lines(f"lib/{include[1]}", included)
            yield where, _POP


if __name__ == "__main__":
    sys.exit(main())
