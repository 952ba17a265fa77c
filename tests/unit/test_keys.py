"""Keys: one team's pattern covers one team, parts cannot imitate each other, a script stays in one shard."""

from __future__ import annotations

import fnmatch
import zlib
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tellback.errors import InvalidInput
from tellback.names import shard_of
from tellback.state.keys import FAMILIES, Layout, lifetime_ms
from tellback.state.scripts import common as scripts

TEAMS = st.from_regex(r"[a-z0-9-]{1,12}", fullmatch=True)


@given(TEAMS, TEAMS, st.sampled_from(sorted(FAMILIES)), st.lists(st.text(max_size=8), max_size=3))
def test_a_teams_acl_pattern_covers_its_keys_and_no_other_teams(
    team: str, other: str, family: str, parts: list[str]
) -> None:
    pattern = f"tb:{{{team}.*"
    assert fnmatch.fnmatchcase(Layout(team, 4).shard(1).key(family, *parts), pattern)
    assert (team == other) == fnmatch.fnmatchcase(Layout(other, 4).shard(1).key(family, *parts), pattern)


PARTS = st.lists(st.text(alphabet="ab:%}{/", max_size=4), max_size=3)


@given(PARTS, PARTS)
@example(["a:b"], ["a", "b"])
@example(["a%3Ab"], ["a:b"])
def test_different_parts_make_different_keys(parts: list[str], others: list[str]) -> None:
    shard = Layout("acme", 1).shard(0)
    assert (parts == others) == (shard.key("hist", *parts) == shard.key("hist", *others))


@given(st.text(max_size=20))
def test_a_part_cannot_move_a_key_to_another_slot(part: str) -> None:
    key = Layout("acme", 1).shard(0).key("hist", part)
    assert key[key.index("{") + 1 : key.index("}")] == "acme.0"


@pytest.mark.parametrize("team", ["", "Acme", "a.b", "a*", "a}", "a b", "a" * 65, "ä"])
def test_a_team_name_that_could_reach_others_is_refused(team: str) -> None:
    with pytest.raises(InvalidInput, match="team"):
        Layout(team, 1)


def test_the_shard_is_the_crc_that_other_languages_compute() -> None:
    assert zlib.crc32(b"session-1") == 0x23C0BE2E
    assert shard_of("session-1", 4) == 0x23C0BE2E % 4


@pytest.mark.parametrize(
    ("name", "said"),
    [("\udcff", r"^'\\udcff' is not valid Unicode text"), (5, "is 5; use text"), (None, "is None; use text")],
)
def test_a_name_that_no_key_can_hold_is_an_error_of_ours(name: Any, said: str) -> None:
    layout = Layout("acme", 4)
    with pytest.raises(InvalidInput, match=said):
        layout.shard(0).key("hist", name)
    with pytest.raises(InvalidInput, match=said):
        layout.of(name)


def test_a_family_that_is_not_declared_has_no_key() -> None:
    with pytest.raises(KeyError):
        Layout("acme", 1).shard(0).key("nonsense")


def test_every_family_says_what_bounds_it() -> None:
    for family in FAMILIES.values():
        assert family.bound
        assert family.lifetime is None or lifetime_ms(family.name) == family.lifetime * 1000


def test_a_script_is_refused_keys_of_two_shards() -> None:
    layout = Layout("acme", 2)
    keys = layout.shard(0).key("lease", "x"), layout.shard(1).key("wakeup", "x")
    with pytest.raises(AssertionError, match="is not in the shard of"):
        scripts.drop_missing(index=keys[0], key=keys[1], member="x")
