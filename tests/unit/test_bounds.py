"""Values that a host passes become bounded JSON, without known secrets, and never raise."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellback.client import wire_values
from tellback.client.wire_values import wire_params, wire_text
from tellback.contracts.guidance import ToolInvoked
from tellback.guidance.measures import STORED_FIELD_BYTES, stored_tool_call, truncate_params
from tellback.redaction import redact_text, redact_value
from tellback.truncation import MAX_CHARS_READ, truncate_text

LIMIT = 64 << 10


@given(st.text(max_size=300), st.integers(40, 400))
def test_a_cut_text_keeps_within_its_bytes_and_is_a_prefix(text: str, limit: int) -> None:
    cut = truncate_text(text, limit)
    assert len(cut.encode()) <= limit
    assert cut == text or text.startswith(cut.rpartition(" …[")[0])
    assert cut == text or cut.endswith("bytes cut]")


def test_a_cut_text_says_how_much_is_missing() -> None:
    cut = truncate_text("x" * 1000, 100)
    kept = cut.count("x")
    assert cut == "x" * kept + f" …[{1000 - kept} bytes cut]"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=5),
    max_leaves=40,
)


@given(st.dictionaries(st.text(max_size=8), json_values, max_size=6), st.integers(100, 2000))
def test_cut_parameters_keep_within_their_bytes(params: dict[str, Any], limit: int) -> None:
    cut = truncate_params(params, limit)
    assert len(msgspec.json.encode(cut)) <= limit
    if len(msgspec.json.encode(params)) <= limit:
        assert cut == params


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


class Rude:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def circle() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


RETURNS: dict[str, Callable[[], object]] = {
    "surrogate": lambda: "lone \ud800 surrogate",
    "bytes": lambda: b"\xff\xfe",
    "path": lambda: Path("/tmp"),
    "object": object,
    "set": lambda: {1, 2},
    "tuple key": lambda: {(1, 2): "v"},
    "no repr": Rude,
    "circle": circle,
    "nested": lambda: nested(500),
    "very nested": lambda: nested(100_000),
    "large number": lambda: 10**400,
    "nan": lambda: math.nan,
    "control characters": lambda: "\x00" * 200_000,
    "long key": lambda: {"k" * 200_000: "v"},
    "long list": lambda: ["x"] * 100_000,
}


@pytest.mark.parametrize("name", RETURNS)
def test_whatever_a_tool_returns_can_be_sent(name: str) -> None:
    value = RETURNS[name]()
    event = ToolInvoked(
        event_id="1",
        session="s",
        evaluation="e",
        tool="t",
        params=wire_params({"v": value}),
        result=wire_text(value),
    )
    raw = msgspec.json.encode(event)
    assert len(raw) <= 1 << 20
    back = msgspec.json.decode(raw, type=ToolInvoked)
    assert len((back.result or "").encode()) <= LIMIT
    assert len(msgspec.json.encode(back.params)) <= LIMIT
    assert len(stored_tool_call(back, 0, 1)) < 6 * 3 * STORED_FIELD_BYTES + 1000  # six: a control character in JSON


def test_values_that_json_knows_arrive_as_they_are() -> None:
    assert wire_params({"q": "x", "n": 5, "deep": {"list": [1, None, True]}}) == {
        "q": "x",
        "n": 5,
        "deep": {"list": [1, None, True]},
    }
    assert wire_text({"a": [1, "é"]}) == '{"a":[1,"é"]}'


def test_secrets_are_redacted_before_anything_is_cut() -> None:
    secret = "AKIA" + "A" * 16
    assert "AKIA" not in wire_text("x" * (LIMIT - 35) + secret + "x" * 100), (
        "half of a secret is none that a rule knows"
    )
    assert wire_params({"auth": {"password": "hunter22"}}) == {"auth": {"password": "[redacted: password]"}}
    assert wire_params({"header": f"key {secret}"}) == {"header": "[redacted: aws-access-key]"}


ROWS = [{"id": number, "name": f"row {number}"} for number in range(100_000)]


@pytest.mark.parametrize(
    "value",
    [
        "x" * 5_000_000,
        "line of words\n" * 400_000,
        b"x" * 5_000_000,
        ROWS,
        {"rows": ROWS},
        {str(n): "v" for n in range(100_000)},
    ],
    ids=["one line", "lines", "bytes", "rows", "rows of a field", "fields"],
)
def test_of_what_is_long_only_the_beginning_is_searched_for_secrets(
    value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched = 0

    def text(given: str) -> str:
        nonlocal searched
        searched += len(given)
        return redact_text(given)

    def structure(given: Any) -> Any:
        nonlocal searched
        searched += len(msgspec.json.encode(given))
        return redact_value(given)

    monkeypatch.setattr(wire_values, "redact_text", text)
    monkeypatch.setattr(wire_values, "redact_value", structure)
    assert len(wire_text(value).encode()) <= LIMIT
    assert len(msgspec.json.encode(wire_params({"value": value}))) <= LIMIT
    assert searched <= 5 * MAX_CHARS_READ


def test_what_was_not_read_is_counted() -> None:
    shown = wire_text("x" * 5_000_000)
    assert shown == "x" * shown.count("x") + f" …[{5_000_000 - shown.count('x')} bytes cut]"
    assert wire_text([0] * 100_000).endswith('items not read]"]')
    assert str(wire_params({"a": list(range(50_000))})).count("items not read") == 1


@pytest.mark.bulk
def test_no_half_of_a_secret_stands_where_reading_ends() -> None:
    secret = "AKIA" + "A" * 16
    for before in range(MAX_CHARS_READ - 40, MAX_CHARS_READ + 2, 3):
        assert "AKIA" not in wire_text((f"{secret}\n" * 20_000)[:before] + secret + "\nx" * 200_000)
        assert "AKIA" not in wire_text("x" * before + secret + "x" * 200_000)


def test_a_record_with_a_secret_keeps_what_is_none() -> None:
    assert wire_text({"user": "ann", "password": "hunter22"}) == '{"user":"ann","password":"[redacted: password]"}'


def test_a_small_call_is_kept_whole_and_a_large_one_is_cut() -> None:
    small = ToolInvoked(event_id="1", session="s", evaluation="e", tool="t", params={"q": "x"}, result="r")
    assert msgspec.json.decode(stored_tool_call(small, 7, 3)) == {
        "kind": "tool_call",
        "at": 7,
        "tool": "t",
        "call_index": 3,
        "evaluation": "e",
        "status": "success",
        "params": {"q": "x"},
        "result": "r",
    }
    large = msgspec.structs.replace(small, result="r" * 60_000, error="e" * 60_000, params={"q": "p" * 60_000})
    assert len(stored_tool_call(large, 7, 3)) < 4 * STORED_FIELD_BYTES


def test_what_another_host_nested_deeply_is_kept_without_an_exception() -> None:
    """A host that is not ours may send anything that decodes."""
    raw = b'{"event_id":"1","type":"ToolInvoked","session":"s","evaluation":"e","tool":"t","params":{"v":%s"%s"%s}}'
    event = msgspec.json.decode(raw % (b"[" * 700, b"x" * 9_000, b"]" * 700), type=ToolInvoked)
    assert len(stored_tool_call(event, 7, 1)) < 2 * STORED_FIELD_BYTES
