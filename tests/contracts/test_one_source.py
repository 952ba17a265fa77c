"""The lists and tables that several places need have one source: signal types, and the lifetimes of keys."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, get_args

import pytest
from matplotlib.colors import is_color_like

from docs.hooks import tables
from tellback import aio
from tellback.cli.metrics_collector import BOUNDS
from tellback.client.signal_session import SignalSession
from tellback.contracts.signal_types import KINDS, SIGNAL_TYPES, SignalType, SignalTypeInfo
from tellback.state.bank_stats import by_signal_type, unpack_day
from tellback.state.banks import unpack_fact
from tellback.state.keys import FAMILIES
from tellback.state.lua_text import CONSTANTS, script_text
from tests.support.pages import ROOT

LUA: Final = ROOT / "shared" / "tellback" / "state" / "lua"
SCRIPTS: Final = sorted(LUA.rglob("*.lua"))
DECLARATION: Final = ROOT / "shared" / "tellback" / "contracts" / "signal_types.py"
# As stored when there were four types: a fact's times and counts, a day's mean, facts and counts. Keep both.
OLD_FACT: Final = bytes.fromhex(
    "333333333333e33f000000000000594000000000004059400000000000805940"
    "000000000000f03f000000000000004000000000000008400000000000001040"
)  # fmt: skip
OLD_DAY: Final = OLD_FACT[:16] + OLD_FACT[32:]
BARE_BOUNDS: Final = {"lib/turnstats.lua": "local BOUNDS"}  # the buckets of a histogram, which are no lifetimes


def code_of(path: Path) -> Iterator[str]:
    """The lines of a script without their comments."""
    for line in path.read_text("utf-8").splitlines():
        yield line.partition("--")[0]


def test_the_table_declares_every_signal_type() -> None:
    """A type checker reads `SignalType`; everything else reads the table."""
    assert get_args(SignalType) == KINDS


@pytest.mark.parametrize("kind", SIGNAL_TYPES, ids=KINDS)
def test_a_signal_type_has_a_color_a_method_and_a_promise(kind: SignalTypeInfo) -> None:
    assert is_color_like(kind.color)
    assert [other.name for other in SIGNAL_TYPES if other.color == kind.color] == [kind.name]
    assert callable(getattr(SignalSession, kind.name))
    assert callable(getattr(aio.SignalSession, kind.name))
    assert f"| `{kind.name}` |" in tables.signal_types()
    promise = (ROOT / "docs" / "requirements" / "signals.md").read_text("utf-8")
    weight = f"{kind.weight:+.1f}".replace("-", "−")
    assert re.search(rf"^\| S-1 \|.*`{kind.name}` (?:weighs )?{re.escape(weight)}", promise, re.MULTILINE)


def test_stored_counts_keep_their_order() -> None:
    """New types come last; a record from before them has no count of theirs."""
    first = {"used": 1, "ignored": 2, "helpful": 3, "not_helpful": 4}
    expected = dict.fromkeys(KINDS, 0) | first
    assert by_signal_type(unpack_fact(OLD_FACT)[4:]) == expected
    assert by_signal_type(unpack_day(OLD_DAY)[2:]) == expected
    assert by_signal_type(unpack_fact(OLD_FACT + OLD_FACT)[4:]).keys() == expected.keys(), "of a newer release"


def test_no_other_list_of_signal_types() -> None:
    """Three of them in one literal are a copy of the list, which a new type would not reach."""
    sources = [path for top in ("shared", "workers", "beat", "docs") for path in (ROOT / top).rglob("*.py")]
    copies = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sources
        if path != DECLARATION
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.List | ast.Tuple | ast.Set | ast.Dict)
        and len({each.value for each in ast.walk(node) if isinstance(each, ast.Constant)} & set(KINDS)) >= 3
    ]
    copies += [
        f"{path.relative_to(ROOT)} names {kind}"
        for path in SCRIPTS
        for kind in KINDS
        if any(f"'{kind}'" in line for line in code_of(path))
    ]
    assert not copies, "\n".join(copies)


def test_lifetimes_in_lua_are_those_of_the_key_families() -> None:
    """Use `NAME_LIFETIME` after `-- constants: NAME_LIFETIME`; MINUTE_MS and so on for other durations."""
    bare: list[str] = []
    for path in SCRIPTS:
        name = path.relative_to(LUA).as_posix()
        for line in code_of(path):
            if line.startswith(BARE_BOUNDS.get(name, "\n")):
                continue
            numbers = [int(number) for number in re.findall(r"(?<![\w.])\d+(?![\w.])", line)]
            expiry = re.search(r"'(?:P?EXPIRE|PX|EX|PEXPIREAT)'.*,\s*\d+\s*(?:,|\))", line)
            if expiry or any(number >= 60_000 and number % 60_000 == 0 for number in numbers):
                bare.append(f"{name}: {line.strip()}")
    assert not bare, "\n".join(bare)


def test_metrics_read_the_buckets_that_scripts_count() -> None:
    [(name, beginning)] = BARE_BOUNDS.items()
    [line] = [line for line in code_of(LUA / name) if line.startswith(beginning)]
    assert [int(bound) for bound in re.findall(r"\d+", line)] == [round(bound * 1_000) for bound in BOUNDS]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.relative_to(LUA).as_posix())
def test_a_script_uses_the_constants_that_it_declares(path: Path) -> None:
    text = path.read_text("utf-8")
    declared = {
        name.strip() for line in re.findall(r"^-- constants: (.+)$", text, re.MULTILINE) for name in line.split(",")
    }
    assert declared <= CONSTANTS.keys()
    code = "\n".join(code_of(path))
    assert {name for name in CONSTANTS if re.search(rf"\b{name}\b", code)} == declared
    name = path.relative_to(LUA).with_suffix("").as_posix()
    assert all(f"local {each} = " in script_text(name) for each in declared)


def test_families_that_one_file_of_lua_expires_share_their_lifetime() -> None:
    """`lib/seen.lua` marks ids of three loops, `put_embeddings` and `lib/seen` rename one generation to the other."""
    for families in (
        ("seen", "seen-old", "sigseen", "sigseen-old", "factseen", "factseen-old"),
        ("vec", "vec-old"),
    ):
        assert len({FAMILIES[name].lifetime for name in families}) == 1
