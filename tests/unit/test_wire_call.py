"""A call's parameters, result and error are redacted in one search, as each of them would be alone."""

from __future__ import annotations

import random
from datetime import date
from typing import Any

import msgspec
import pytest

from tellback.client.wire_values import wire_call, wire_params, wire_text
from tellback.guidance.measures import truncate_params
from tellback.redaction import redact_text, redact_value
from tellback.truncation import bounded_copy
from tests.support.clean_lines import resembling
from tests.support.secrets import NAMED, draw, secrets


def alone(params: dict[str, Any], result: object, error: object) -> tuple[object, ...]:
    return wire_params(params), *(None if value is None else wire_text(value) for value in (result, error))


def test_a_secret_in_any_part_is_redacted_as_in_that_part_alone() -> None:
    for line in [*(line for _, line in secrets(seed=17, each=1)), *resembling(seed=17, each=1)]:
        calls: list[tuple[dict[str, Any], object, object]] = [
            ({"command": line}, "fine", None),
            ({"command": "ls"}, f"before\n{line}\nafter", None),
            ({}, {"stdout": line, "code": 0}, line),
        ]
        for given in calls:
            assert wire_call(*given) == alone(*given), line


def test_a_name_in_one_part_makes_no_secret_of_another() -> None:
    """The texts are joined for the search alone."""
    given = {"note": "Your password is:"}, "8c1f0be2a94d47719f2e is the commit", None
    assert wire_call(*given) == (*given[:2], None)


TABLES = [
    "user,password\nann,hT7-qL9zR2wX",
    "id\ttoken\n1\t9fQ2xL7vB4nM8kRt",
    "name      value\nAPI_KEY   9fQ2xL7vB4nM8kRt",
    " user | password\n------+--------------\n ann  | hT7-qL9zR2wX",
    "token-1 | name\n9fQ2xL7vB4nM8kRt | ann",  # no head where what docker compose puts before a line is left out
]


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("margin", ["", "{:6}\t", "{}:", "2026-01-02T10:11:1{}Z "])
def test_a_column_of_secrets_in_any_part_is_redacted_as_in_that_part_alone(table: str, margin: str) -> None:
    """In a text with the name of a secret the lines that may be heads of tables are looked at first."""
    code = "def check(\n    token,\n    name,\n    key: str,\n):\n    user, password = name, key\n" + "# why\n" * 40
    text = code + "\n".join(margin.format(number) + line for number, line in enumerate(table.split("\n")))
    calls: list[tuple[dict[str, Any], object, object]] = [
        ({"content": text}, "password, and\nname", None),
        ({"path": "a.csv"}, text, None),
        ({"webhook": table}, None, None),  # searched with its key, as a secret may be below it
        ({"path": "a.csv"}, {"stdout": text, "lines": [text]}, text),
    ]
    for given in calls:
        assert wire_call(*given) == alone(*given)
        assert margin or "[redacted: " in str(wire_call(*given))
    assert wire_call({"content": code}, code, None) == ({"content": code}, code, None)


def test_each_name_makes_a_secret_of_the_text_below_it() -> None:
    """Some do only as an assignment: `airtable_client_id="…"`, and not in the line above."""
    rng = random.Random(20261127)
    for names, template in NAMED.values():
        for name in names.split():
            value = draw(rng, template)
            shown, *_ = wire_call({"page": 1, name: value}, None, None)
            assert shown[name] == redact_text(f'{name}="{value}"'), name
            assert wire_call({name: [value]}, None, None)[0] == {name: [shown[name]]}


def test_result_and_error_each_say_how_much_of_them_was_not_read() -> None:
    found, failed = "ok\n" * 200_000, "no\n" * 300_000
    assert wire_call({}, found, failed) == ({}, wire_text(found), wire_text(failed))
    assert wire_call({}, found, None) == ({}, wire_text(found), None)
    assert wire_call({}, None, failed) == ({}, None, wire_text(failed))


class _Odd:
    def __repr__(self) -> str:
        raise ValueError("no repr")


@pytest.mark.parametrize("params", [{"size": 1 << 70, "password": "hunter2"}, {"a": _Odd()}, {"a": [float("nan")]}])
def test_parameters_that_no_json_holds_leave_the_result_redacted(params: dict[str, Any]) -> None:
    given = params, "DB_PASSWORD=hunter2\nready", "x" * 70_000
    shown = wire_call(*given)
    assert shown == alone(*given)
    assert shown[1] == "[redacted: password]\nready"
    assert "hunter2" not in str(shown[0])


@pytest.mark.parametrize(
    "params",
    [
        {"query": "ruby", "page": 2, "exact": True, "near": 0.5, "after": None},
        {"text": "x" * 4_096},
        {"text": "x" * 4_097},
        {"x" * 5_000: "a"},
        {"text": "line\n" * 100_000},
        {f"name{n}": "y" * 4_000 for n in range(16)},
        {f"name{n}": "y" * 4_000 for n in range(90)},
        {1: "a"},
        {"on": date(2026, 1, 2)},
        {"deep": {"a": [1, {"b": "c"}]}},
        {"note": "password=hunter2"},
    ],
)
def test_parameters_are_as_if_converted_bounded_and_redacted_whatever_they_hold(params: dict[Any, Any]) -> None:
    """Few short texts and numbers take a shorter way to the same."""
    converted = msgspec.to_builtins(params, str_keys=True)
    before = dict(params)
    assert wire_params(params) == truncate_params(redact_value(bounded_copy(converted)))
    assert params == before
