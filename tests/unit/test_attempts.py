"""Calls that count as the same attempt."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellback.contracts.codec import decode, encode
from tellback.contracts.guidance import Offer, Outcome, ToolCall, ToolInvoked
from tellback.contracts.limits import MAX_OFFERS
from tellback.contracts.message import new_event_id
from tellback.errors import MessageError
from tellback.guidance.measures import stored_tool_call
from tellback.guidance.repeats import attempt_fingerprint
from tests.support.processes import run_program


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"query": "Ruby Creator"}, {"query": "  ruby   creator\n"}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": 1}, {"a": 1.0}),
        ({"a": 1}, {"a": 1, "page": None}),
        ({"a": ["X", {"b": "Y"}]}, {"a": ("x ", {"b": "y"})}),
        ({"q": "STRASSE"}, {"q": "straße"}),
    ],
)
def test_the_same_attempt(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert attempt_fingerprint("t", one) == attempt_fingerprint("t", other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"query": "a"}, {"query": "b"}),
        ({"query": "a"}, {"q": "a"}),
        ({"n": 1}, {"n": "1"}),
        ({"n": True}, {"n": 1}),
        ({"n": 0}, {"n": -1}),
        ({"a": [1, 2]}, {"a": [2, 1]}),
        ({}, {"a": ""}),
    ],
)
def test_different_attempts(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert attempt_fingerprint("t", one) != attempt_fingerprint("t", other)


def test_the_tool_is_part_of_the_attempt() -> None:
    assert attempt_fingerprint("a", {"q": 1}) != attempt_fingerprint("b", {"q": 1})


class _HostileText:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def test_no_arguments_make_it_raise() -> None:
    circular: dict[str, Any] = {}
    circular["self"] = circular
    hostile: Any
    for hostile in (circular, {"x": _HostileText()}, {"x": float("nan")}, {"\ud800": "\udfff"}, {1: b"\xff"}):
        assert len(attempt_fingerprint("t", hostile)) == 16


@given(st.dictionaries(st.text(), st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=10)))
def test_upper_case_and_spaces_change_nothing(params: dict[str, Any]) -> None:
    padded = {key: f" {value}\t" if isinstance(value, str) else value for key, value in params.items()}
    assert attempt_fingerprint("t", params) == attempt_fingerprint("t", padded)


@pytest.mark.programs
def test_it_is_the_same_in_another_process() -> None:
    code = (
        "from tellback.guidance.repeats import attempt_fingerprint; "
        "print(attempt_fingerprint('t', {'q': 'Ä', 'n': [1, 2.5]}))"
    )
    other = run_program([sys.executable, "-c", code], check=True)
    assert other.stdout.strip() == attempt_fingerprint("t", {"n": [1, 2.5], "q": "ä"})


def _invoked(outcome: Outcome | None) -> ToolInvoked:
    return ToolInvoked(event_id=new_event_id(), session="s", evaluation="e", tool="t", outcome=outcome)


def test_an_outcome_travels_and_stands_in_the_history() -> None:
    outcome = Outcome(
        status="error",
        code="rate_limited",
        retryable=True,
        retry_after=30.0,
        offered=(
            Offer(kind="alternative", tool="wikipedia", arguments=attempt_fingerprint("wikipedia", {"query": "x"})),
        ),
    )
    event = _invoked(outcome)
    assert decode(encode(event), event.family) == event
    assert msgspec.json.decode(stored_tool_call(event, 1, 1), type=ToolCall).outcome == outcome
    assert b"outcome" not in stored_tool_call(_invoked(None), 1, 1)


@pytest.mark.parametrize(
    "outcome",
    [
        {"status": "fine", "code": "ok"},
        {"status": "error", "code": "strange"},
        {"status": "error", "code": "rate_limited", "retry_after": -1},
        {"status": "error", "code": "rate_limited", "retry_after": 1e12},
        {"status": "error", "code": "error", "offered": [{"kind": "retry"}] * (MAX_OFFERS + 1)},
    ],
)
def test_a_worker_refuses_an_outcome_that_is_none(outcome: dict[str, Any]) -> None:
    event = _invoked(None)
    raw = msgspec.json.decode(encode(event))
    raw["outcome"] = outcome
    with pytest.raises(MessageError):
        decode(msgspec.json.encode(raw), event.family)
