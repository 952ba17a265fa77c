"""Arguments are checked as a full JSON Schema validator would; in doubt they are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tellback.guidance.observations.schemas import SchemaProblem, schema_problems, type_description
from tests.support import json_schema
from tests.support.examples import examples

_names = st.sampled_from(["a", "b", "query"])
_scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-3, 3) | st.sampled_from(["", "a", "ab", "1"])
_values: st.SearchStrategy[Any] = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=3), max_leaves=6
)
_leaf_schemas = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["string", "integer", "number", "boolean", "null", "object", "array"])
        | st.lists(st.sampled_from(["string", "null", "integer"]), min_size=1, unique=True),
        "enum": st.lists(_scalars, min_size=1, max_size=3),
        "const": _scalars,
        "minimum": st.integers(-2, 2),
        "exclusiveMaximum": st.integers(-2, 2),
        "minLength": st.integers(0, 2),
        "maxLength": st.integers(0, 2),
        "pattern": st.sampled_from(["^a", "b$", "[0-9]"]),
        "maxItems": st.integers(0, 2),
        "uniqueItems": st.booleans(),
        "description": st.just("words"),
        "multipleOf": st.just(2),
        "not": st.just({"type": "string"}),
    },
)


def _grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array", ["object", "null"]]),
            "properties": st.dictionaries(_names, inner, max_size=3),
            "required": st.lists(_names, unique=True, max_size=2),
            "additionalProperties": st.booleans() | inner,
            "items": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "$ref": st.just("#/$defs/text"),
        },
    )


_schemas = st.recursive(_leaf_schemas, _grown, max_leaves=5)
_KNOWN = {"multipleOf", "not"}


def _uses(schema: Any, keys: set[str]) -> bool:
    return any(f'"{key}":' in json.dumps(schema) for key in keys)


@settings(max_examples=examples(600))
@given(_schemas, st.dictionaries(_names, _values, max_size=3))
def test_what_is_accepted_here_a_full_validator_accepts(schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    whole = {**schema, "$defs": {"text": {"type": "string"}}}
    ours = not schema_problems(whole, arguments)
    validator: Any = json_schema.Draft202012Validator(whole)
    theirs = bool(validator.is_valid(arguments))
    assert theirs or not ours
    if not _uses(schema, _KNOWN):
        assert ours == theirs


@pytest.mark.parametrize(
    ("schema", "arguments", "expected"),
    [
        ({"required": ["q"], "properties": {"q": {"type": "string"}}}, {}, [SchemaProblem("missing", "q", "string")]),
        ({"properties": {"n": {"type": "integer"}}}, {"n": "1"}, [SchemaProblem("type", "n", "integer")]),
        ({"properties": {"n": {"enum": ["a", 1]}}}, {"n": "b"}, [SchemaProblem("value", "n", 'one of "a", 1')]),
        ({"properties": {}, "additionalProperties": False}, {"x": 1}, [SchemaProblem("unknown", "x")]),
        ({"properties": {"o": {"required": ["x"]}}}, {"o": {}}, [SchemaProblem("missing", "o.x")]),
        ({"$ref": "http://example.org/other"}, {}, [SchemaProblem("unchecked", "", "$ref")]),
        ({"patternProperties": {}}, {}, [SchemaProblem("unchecked", "", "patternProperties")]),
    ],
)
def test_what_is_wrong_is_named(
    schema: dict[str, Any], arguments: dict[str, Any], expected: list[SchemaProblem]
) -> None:
    assert schema_problems(schema, arguments) == expected


def test_no_schema_takes_anything_and_one_without_end_is_refused() -> None:
    assert schema_problems(None, {"x": object()}) == []
    endless = {"$ref": "#"}
    assert schema_problems(endless, {})
    assert schema_problems({"properties": {"x": False}}, {"x": 1})
    assert type_description({"type": ["string", "null"]}) == "string or null"
    assert type_description({"enum": list(range(20))}).endswith(", …")
