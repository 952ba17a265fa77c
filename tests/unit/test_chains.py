"""Attempts that name the one before them, read as one story, whatever the links are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellback.commands.gate import build_chains, evaluate_gate, resolutions
from tellback.contracts.commands import CommandRecord
from tests.support.costs import calls_of


def record(
    id_: str, exit_code: int | None, parent: str | None = None, argv: str = "pytest", cwd: str | None = "/app"
) -> CommandRecord:
    return CommandRecord(
        command_id=id_, session="s", command=[argv], cwd=cwd, exit_code=exit_code, parent_command_id=parent
    )


def reported(*records: CommandRecord) -> list[tuple[str, str]]:
    """Of each chain: its ids, and those that are unresolved."""
    return [
        ("".join(one.command_id for one in chain.records), "".join(one.command_id for one in chain.unresolved))
        for chain in build_chains(records)
    ]


def test_a_chain_is_one_story_however_it_branches_and_whatever_stands_between() -> None:
    """Two retries of one attempt belong together; a success on one branch clears what lies above it alone."""
    records = [record("a", 1), record("x", 0), record("b", 1, "a"), record("c", 0, "a"), record("d", None, "b")]
    assert reported(*records) == [("abcd", "bd"), ("x", "")]


def test_a_success_clears_the_same_thing_over_attempts_at_others() -> None:
    """The agent looked around between its attempts, and linked what it did."""
    records = [record("a", 1), record("b", 2, "a", argv="ls"), record("c", 0, "b")]
    assert reported(*records) == [("abc", "b")]
    assert resolutions(records) == {0: "c"}


def test_the_first_success_is_named() -> None:
    assert resolutions([record("a", 1), record("b", 0, "a"), record("c", 0, "b")]) == {0: "b"}


def test_a_lost_command_is_cleared_by_a_retry_in_whatever_directory() -> None:
    """The directory of a lost command is not known."""
    assert reported(record("a", None, cwd=None), record("b", 0, "a", cwd="/elsewhere")) == [("ab", "")]


def test_an_orphan_is_reported() -> None:
    """Its parent may have run on another host, or be older than what is kept."""
    (chain,) = build_chains([record("b", 1, "a"), record("c", 0, "b")])
    assert chain.orphans == ("b",)
    assert chain.link_problems == ["b follows a, which is not among the records"]


def test_a_circle_is_reported_and_hangs_nobody() -> None:
    """A record that names itself is a circle too; a chain that leads into a circle is no part of it."""
    (chain,) = build_chains([record("a", 1, "b"), record("b", 1, "c"), record("c", 1, "a"), record("d", 0, "c")])
    assert chain.cycle == ("a", "b", "c")
    assert chain.link_problems == ["a circle of parents: a, b, c"]
    assert [one.command_id for one in chain.unresolved] == ["b"]
    (alone,) = build_chains([record("a", 1, "a")])
    assert (alone.cycle, len(alone.unresolved)) == (("a",), 1)


def test_a_second_record_of_one_id_is_judged_by_itself() -> None:
    """A worker that was declared lost may leave such; what cleared the first does not clear the second."""
    assert reported(record("a", 1), record("b", 0, "a"), record("a", 2)) == [("aba", "a")]


@pytest.mark.bulk
def test_ten_thousand_attempts_cost_little() -> None:
    """They form one chain, or have a success each, or form one star."""

    def cost(size: int) -> int:
        line = [record(str(n), n % 2, str(n - 1), argv=str(n)) for n in range(size)]
        star = [record(str(n), n % 2, "0") for n in range(size)]

        def check_chain() -> None:
            for records in (line, star, line[::-1]):
                assert len(build_chains(records)) == 1
                evaluate_gate(records)

        return calls_of(check_chain)

    assert cost(10_000) < 11 * cost(1_000)


_IDS = st.sampled_from("abcdef")
_RECORDS = st.lists(
    st.builds(
        record,
        _IDS,
        st.sampled_from([0, 1, None]),
        st.none() | _IDS,
        st.sampled_from(["x", "y"]),
        st.sampled_from(["/", None]),
    ),
    max_size=8,
)


@given(_RECORDS)
def test_any_links_are_read(records: list[CommandRecord]) -> None:
    """Every record stands in one chain; what is cleared is cleared by a walk over earlier parents alone."""
    found = build_chains(records)
    assert sorted(map(id, (one for chain in found for one in chain.records))) == sorted(map(id, records))
    assert _cleared_by_walking(records) == resolutions(records)
    assert evaluate_gate(records).passed == (bool(records) and not any(chain.unresolved for chain in found))


def _cleared_by_walking(records: list[CommandRecord]) -> dict[int, str]:
    """The rule in its slow, literal form, to compare with."""
    cleared: dict[int, str] = {}
    for place, success in enumerate(records):
        at = place if success.succeeded else None
        while at is not None:
            before = records[at]
            earlier = [n for n in range(at) if records[n].command_id == before.parent_command_id]
            at = earlier[-1] if earlier else None
            if at is None:
                break
            failure = records[at]
            if not failure.succeeded and failure.command == success.command and failure.cwd in (success.cwd, None):
                cleared.setdefault(at, success.command_id)
    return cleared
