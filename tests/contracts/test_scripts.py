"""Each Lua script declares its keys and arguments once, in a header from which names and Python functions are made."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from tellback.state import script_calls
from tellback.state.all_scripts import all_scripts
from tellback.state.generate_scripts import render_scripts, script_names
from tellback.state.lua_text import FOLDER, Header, header_of, read, script_text

ROOT: Final = Path(__file__).parents[2]
MODULES: Final = Path(script_calls.__file__).parent / "scripts"
FILES: Final = sorted(Path(FOLDER).rglob("*.lua"))
CALLERS: Final = [
    path for folder in ("shared", "workers", "beat") for path in (ROOT / folder).rglob("*.py") if path.parent != MODULES
]
_IMPORT: Final = re.compile(r"^from tellback\.state\.scripts import (\w+)(?: as (\w+))?$", re.MULTILINE)


def test_the_functions_and_digests_are_what_the_scripts_give() -> None:
    """Run `make generate` after you change a script, also its body or an include: the digests are stored."""
    stored = {path.stem: path.read_text("utf-8") for path in MODULES.glob("*.py") if path.stem != "__init__"}
    rendered = render_scripts()
    assert stored.keys() == rendered.keys()
    assert {name: ast.dump(ast.parse(text)) for name, text in stored.items()} == {
        name: ast.dump(ast.parse(text)) for name, text in rendered.items()
    }


def test_workers_load_every_script() -> None:
    """Hosts may run scripts and not send them, so one that workers don't load fails with NOSCRIPT after a restart."""
    assert sorted(script.name for script in all_scripts()) == script_names()


def test_no_script_loops_longer_than_its_data() -> None:
    """Redis runs nothing else meanwhile. A `for` ends with its list; each other loop is named here with its reason."""
    bounded = {
        "signals/apply_signals": "over a sample of fixed size",
        "fleet/claim_visits": "in pages, until the visits of one batch are found or no more are due",
        "intake/peek_entries": "until the bytes or the entries that one reply may have, which the consumer bounds",
    }
    code = {path: re.sub(r"--.*", "", path.read_text("utf-8")) for path in FILES}
    looping = {path for path, text in code.items() if re.search(r"\b(while|repeat|goto)\b", text)}
    assert {path.relative_to(FOLDER).with_suffix("").as_posix() for path in looping} == set(bounded)
    counted = [text for text in code.values() if re.search(r"for \w+ = .*\barg_", text)]
    assert not counted, "a caller could ask for any number of rounds"


def test_no_script_searches_for_a_text_of_any_length() -> None:
    """Lua's search takes the product of both lengths; `may_name` bounds what it searches for."""
    code = "\n".join(re.sub(r"--.*", "", path.read_text("utf-8")) for path in FILES)
    searches = re.findall(r"(?:string\.|:)find\(.*", code)
    assert [each for each in searches if "'" not in each] == ["string.find(text, id, 1, true)"]
    assert "return #id <= LONGEST_ID and string.find(text, id, 1, true)" in code


def test_each_script_has_a_caller() -> None:
    used: set[str] = set()
    for path in CALLERS:
        text = path.read_text("utf-8")
        for folder, alias in _IMPORT.findall(text):
            used |= {f"{folder}/{name}" for name in re.findall(rf"\b{alias or folder}\.(\w+)\b", text)}
    assert set(script_names()) <= used


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_script_counts_its_keys_and_arguments(path: Path) -> None:
    assert not re.search(r"\b(KEYS|ARGV)\b", path.read_text("utf-8")), "use key_NAME and arg_NAME: see lua_text"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_script_finds_an_outcome_in_the_text_of_json(path: Path) -> None:
    """A field is found by decoding, or passed by the caller; a search may only rule texts out before that."""
    assert not re.search(r"string\.(find|match)\([^)]*\\?\":", path.read_text("utf-8"))


def test_each_function_of_an_include_is_used() -> None:
    """Luacheck cannot say so: no script uses all of an include."""
    everything = "\n".join(path.read_text("utf-8") for path in FILES)
    declared = re.findall(r"^local function (\w+)", everything, re.MULTILINE)
    assert [name for name in declared if len(re.findall(rf"\b{name}\(", everything)) < 2] == []


@pytest.mark.parametrize("name", script_names())
def test_a_header_names_all_that_is_sent(name: str) -> None:
    """The steady clock's key is declared where it is used, and the operation comes first."""
    header, text = header_of(read(name)), script_text(name)
    keys = [entry.name for entry in header.keys]
    assert ("local function steady(" in text or "key_clock" in read(name)) == ("clock" in keys)
    assert ("local replayed = " in text) == (keys[:1] == ["operation"])


EVERY: Final = """\
-- flags: allow-oom
-- Do what is asked, in
-- one step. Atomic: it must be.
-- keys: a, +b,
--   /c, d?
-- args:
--   first int: a number: not
--     negative
--   *some str
--   *others text: JSON
-- returns: nothing
-- @include clock
return 1
"""


def test_a_header_is_read() -> None:
    header = header_of(EVERY)
    assert header.summary == "Do what is asked, in one step. Atomic: it must be."
    keys = [(entry.name, entry.sign, entry.optional) for entry in header.keys]
    assert keys == [("a", "", False), ("b", "+", False), ("c", "/", False), ("d", "", True)]
    assert [(entry.name, entry.type, entry.repeated) for entry in header.args] == [
        ("first", "int", False),
        ("some", "str", True),
        ("others", "text", True),
    ]
    assert header.counted == ["args_some"]


@pytest.mark.parametrize(
    "lines",
    [
        "-- keys: a, 2b",
        "-- args:\n--   size number",
        "-- args:\n--   size",
        "-- keys: *all, one",
        "-- keys: one?, *all",
    ],
)
def test_a_header_that_cannot_be_sent_is_refused(lines: str) -> None:
    with pytest.raises(ValueError, match=r"declares nothing|come last"):
        header_of(f"-- Do it.\n{lines}\n-- returns: 1\n")


def test_no_name_stands_for_a_key_and_an_argument() -> None:
    headers: Mapping[str, Header] = {name: header_of(read(name)) for name in script_names()}
    both = {
        name: {entry.name for entry in header.keys} & {entry.name for entry in header.args}
        for name, header in headers.items()
    }
    assert not {name: names for name, names in both.items() if names}
