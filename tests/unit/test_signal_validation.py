"""Wrong signals are refused before publishing, by item and field; the edge of the workers refuses the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellback.contracts.codec import decode, encode
from tellback.contracts.limits import MAX_CANDIDATES
from tellback.contracts.signal_types import KINDS
from tellback.contracts.signals import Candidate, SignalBatch, SignalItem
from tellback.errors import InvalidInput, MalformedMessage
from tellback.names import Family
from tellback.signals.validation import check_candidates, check_items, check_limits, check_name, check_share

GOOD: dict[str, Any] = {"fact_id": "f1", "signal_type": "used", "query": "who?"}


def item(**fields: Any) -> SignalItem:
    return SignalItem(**{**GOOD, **fields})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("fact_id", ""),
        ("fact_id", 7),
        ("fact_id", "x" * 513),
        ("fact_id", "half \ud800"),
        ("signal_type", "loved"),
        ("signal_type", None),
        ("query", ""),
        ("query", " \n\t"),
        ("query", None),
        ("confidence", 1.01),
        ("confidence", -0.1),
        ("confidence", float("nan")),
        ("confidence", float("inf")),
        ("confidence", "1"),
        ("confidence", True),
        ("context", 3),
        ("context", "x" * 70_000),
        ("signal_id", "x" * 513),
    ],
)
def test_an_error_names_the_item_and_the_field(field: str, value: object) -> None:
    with pytest.raises(InvalidInput, match=rf"signals\[1\]\.{field}\b"):
        check_items([item(), item(**{field: value})])


def test_an_empty_call_and_a_foreign_object_are_refused() -> None:
    with pytest.raises(InvalidInput, match="empty"):
        check_items([])
    with pytest.raises(InvalidInput, match=r"signals\[0\]"):
        check_items([dict(GOOD)])


@pytest.mark.parametrize("confidence", [0, 1, 0.0, 1.0, 0.7])
def test_the_borders_of_confidence_are_valid(confidence: float) -> None:
    assert check_items([item(confidence=confidence, context="seen in the answer", signal_id="mine")])


fields = st.fixed_dictionaries(
    {
        "fact_id": st.text(max_size=3),
        "signal_type": st.sampled_from([*KINDS, "other"]),
        "query": st.text(" \n\tab", max_size=3),
        "confidence": st.floats(-0.5, 1.5),
        "context": st.none() | st.text(max_size=3),
    }
)


@given(fields)
def test_hosts_and_workers_refuse_the_same(values: dict[str, Any]) -> None:
    """A batch that a host in another language appends is held to the rules of `check_items`."""
    try:
        check_items([SignalItem(**values)])
    except InvalidInput:
        accepted = False
    else:
        accepted = True
    raw = msgspec.json.encode({"type": "SignalBatch", "event_id": "e", "bank": "b", "items": [values]})
    with nullcontext() if accepted else pytest.raises(MalformedMessage):
        decode(raw, Family.SIGNALS)


@pytest.mark.parametrize("items", [[], [GOOD] * 501])
def test_a_batch_holds_1_to_500_items(items: list[dict[str, Any]]) -> None:
    raw = msgspec.json.encode({"type": "SignalBatch", "event_id": "e", "bank": "b", "items": items})
    with pytest.raises(MalformedMessage, match="items"):
        decode(raw, Family.SIGNALS)


def test_an_item_without_an_id_gets_one_from_its_batch_and_place() -> None:
    batch = SignalBatch(event_id="e", bank="b", items=[item(), item(signal_id="mine"), item()])
    assert batch.signal_ids == ["e.0", "mine", "e.2"]
    assert decode(encode(batch), Family.SIGNALS) == batch


@pytest.mark.parametrize(
    ("candidate", "field"),
    [(("", 0.5), "fact_id"), (("f", float("nan")), "semantic"), (("f", "0.5"), "semantic"), (("f", True), "semantic")],
)
def test_a_wrong_candidate_is_named(candidate: tuple[Any, Any], field: str) -> None:
    with pytest.raises(InvalidInput, match=rf"candidates\[1\]\.{field}"):
        check_candidates([("f", 0.1), candidate])


def test_candidates_are_pairs_or_objects_and_bounded() -> None:
    assert check_candidates([("a", 1), Candidate("b", 0.5)]) == [Candidate("a", 1.0), Candidate("b", 0.5)]
    with pytest.raises(InvalidInput, match=r"candidates\[0\]"):
        check_candidates(["just an id"])
    with pytest.raises(InvalidInput, match="1001 facts"):
        check_candidates([("a", 1)] * (MAX_CANDIDATES + 1))


def test_limits_and_weights() -> None:
    for limit, wait in [(0, 1), (True, 1), (1, -1), (1, 61), (1, float("nan"))]:
        with pytest.raises(InvalidInput):
            check_limits(limit, wait)
    with pytest.raises(InvalidInput, match="usefulness_weight"):
        check_share(1.1, "usefulness_weight")


def test_candidates_come_from_any_iterable() -> None:
    given = {"a": 0.1, "b": 0.2}
    assert check_candidates(given.items()) == check_candidates(pair for pair in given.items()) == [
        Candidate("a", 0.1), Candidate("b", 0.2),
    ]  # fmt: skip


def test_candidates_come_as_searches_give_them() -> None:
    """Any iterable will do, and so will the numbers of numpy; a score is a plain float from here on."""
    rows: list[Any] = [("a", np.float32(0.5)), ["b", Fraction(1, 4)], Candidate("c", 1)]
    forms: list[Any] = [rows, iter(rows), {"a": 0.5, "b": 1}.items()]
    for given_as in forms:
        checked = check_candidates(given_as)
        assert [candidate.fact_id for candidate in checked] == ["a", "b", "c"][: len(checked)]
        assert [type(candidate.semantic) for candidate in checked] == [float] * len(checked)


def test_a_candidate_that_comes_twice_counts_once_by_its_higher_score() -> None:
    """Two searches may have found it; it keeps its first place among equals."""
    pairs = [("a", 0.4), ("b", 0.9), ("a", 0.9), ("b", 0.1)]
    assert check_candidates(pairs) == [Candidate("a", 0.9), Candidate("b", 0.9)]


@pytest.mark.parametrize(
    ("given_as", "named"),
    [
        (["f1"], r"candidates\[0\] is 'f1'"),  # of two letters, it is no pair of them
        ({"f1": 0.5}, r"candidates\[0\] is 'f1'"),
        ([("a", 0.5), ("b", 10**400)], r"candidates\[1\].semantic"),
        ([("a", 1j)], r"candidates\[0\].semantic"),
        (7, "candidates is 7"),
        (((str(i), 0.5) for i in range(10**9)), "at most 1000"),
    ],
)
def test_what_is_no_list_of_candidates_is_named(given_as: Any, named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        check_candidates(given_as)


@pytest.mark.parametrize("wrong", [None, 5, SignalItem(fact_id="f", signal_type="used", query="q")])
def test_what_is_no_list_of_signals_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^signals is .*: use a list of tellback\.SignalItem"):
        check_items(wrong)


def test_an_error_of_the_hosts_own_generator_is_its_own() -> None:
    def broken() -> Iterator[SignalItem]:
        yield SignalItem(fact_id="f", signal_type="used", query="q")
        raise TypeError("of the host")

    with pytest.raises(TypeError, match="of the host"):
        check_items(broken())


SECRET = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"


@pytest.mark.parametrize("field", ["fact_id", "signal_id"])
def test_an_id_that_is_a_secret_is_refused(field: str) -> None:
    """Ids stand in Redis as they are, so no marker can take their place; the message does not repeat it."""
    many = [item(fact_id=f"f{i}", signal_id=f"s{i}") for i in range(2_500)]
    many[2_100] = msgspec.structs.replace(many[2_100], **{field: SECRET})
    with pytest.raises(InvalidInput, match=rf"signals\[2100\]\.{field} carries a secret") as refused:
        check_items(many)
    assert SECRET not in str(refused.value)
    with pytest.raises(InvalidInput, match=r"bank carries a secret \(rule "):
        check_name(f"bank of {SECRET}", "bank")


def test_a_candidate_whose_id_is_a_secret_is_named_by_its_place() -> None:
    with pytest.raises(InvalidInput, match=r"candidates\[3\]\.fact_id carries a secret"):
        check_candidates([("a", 0.1), ("a", 0.2), ("b", 0.3), (SECRET, 0.4)])


@pytest.mark.parametrize(
    "ids", [["secret", "hunter2hunter2x"], ["name: token", "value: 0123456789abcdef0123"], ["a\nb", "password", "c"]]
)
def test_ids_are_checked_each_by_itself(ids: list[str]) -> None:
    """Two ids that together look like a secret are fine."""
    assert [each.fact_id for each in check_items([item(fact_id=fact_id) for fact_id in ids])] == ids
