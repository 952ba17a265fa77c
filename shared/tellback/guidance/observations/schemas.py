"""Check arguments against a tool's JSON Schema, for the subset of keywords that tool definitions use.

An unknown keyword counts as a violation: everything accepted here is accepted by a full validator, so no suggestion
proposes a call that the tool would refuse. The reverse does not hold, and need not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeGuard

import msgspec

from tellback.guidance.observations.values import (
    as_list,
    as_mapping,
    call_safely,
    is_dict,
    is_list,
    is_mapping,
    json_text,
)

# A schema may refer to itself without end; beyond this it counts as unchecked.
_DEPTH: Final = 24
# Longer texts are not matched: a host's pattern may backtrack exponentially.
_PATTERN_TEXT: Final = 256
# Keywords that never make an argument invalid. `format` is among them, since it is an annotation by default.
_NOTES: Final = frozenset({
    "title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly", "$schema", "$id",
    "$comment", "$defs", "definitions", "strict", "format", "contentMediaType", "contentEncoding",
})  # fmt: skip


class SchemaProblem(msgspec.Struct, frozen=True):
    """A problem with one argument. `kind`: "missing", "unknown", "type", "value" or "unchecked"."""

    kind: str
    name: str
    expected: str = ""


def schema_problems(schema: Mapping[str, Any] | None, arguments: Mapping[str, Any]) -> list[SchemaProblem]:
    """Return the problems of `arguments` under `schema`; none without a schema."""
    if schema is None:
        return []
    return _SchemaCheck(schema).check_value(schema, dict(arguments), "", 0)


def type_description(schema: object) -> str:
    """Describe what a property accepts in a few words: `integer`, `one of "a", "b"`."""
    fields = as_mapping(schema)
    values = as_list(fields.get("enum")) or ([fields["const"]] if "const" in fields else [])
    if values:
        listed = ", ".join(json_text(value) for value in values[:8])
        return f"one of {listed}" + (", …" if len(values) > 8 else "")
    kind = fields.get("type")
    if is_list(kind):
        return " or ".join(str(name) for name in as_list(kind)[:4])
    return kind if isinstance(kind, str) else ""


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


# JSON Schema calls 2.0 an integer.
def _is_integer(value: object) -> bool:
    return _is_number(value) and (isinstance(value, int) or value.is_integer())


def _is_boolean(value: object) -> bool:
    return isinstance(value, bool)


def _is_null(value: object) -> bool:
    return value is None


def _is_text(value: object) -> bool:
    return isinstance(value, str)


_TYPES: Final[Mapping[str, Callable[[object], bool]]] = {
    "string": _is_text,
    "integer": _is_integer,
    "number": _is_number,
    "boolean": _is_boolean,
    "null": _is_null,
    "object": is_dict,
    "array": is_list,
}


class _SchemaCheck:
    """A walk over a schema. `root` resolves local references; others are unchecked, as nothing is fetched."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root

    def check_value(self, schema: object, value: Any, name: str, depth: int) -> list[SchemaProblem]:
        if schema is True:
            return []
        if not is_mapping(schema) or depth > _DEPTH:
            return [SchemaProblem("unchecked" if depth > _DEPTH else "value", name)]
        found: list[SchemaProblem] = []
        fields = as_mapping(schema)
        for keyword, wanted in fields.items():
            if keyword in _NOTES or (
                keyword == "additionalProperties" and "properties" not in fields and wanted is True
            ):
                continue
            check = _KEYWORDS.get(keyword)
            if check is None:
                found.append(SchemaProblem("unchecked", name, keyword))
            else:
                found += check(self, wanted, value, name, depth, fields)
        return found

    def kind(self, wanted: Any, value: Any, name: str, _depth: int, fields: Mapping[str, Any]) -> list[SchemaProblem]:
        kinds = as_list(wanted) if is_list(wanted) else [wanted]
        if any(isinstance(kind, str) and kind in _TYPES and _TYPES[kind](value) for kind in kinds):
            return []
        return [SchemaProblem("type", name, type_description(fields))]

    def values(self, wanted: Any, value: Any, name: str, _depth: int, fields: Mapping[str, Any]) -> list[SchemaProblem]:
        return (
            []
            if any(_json_equal(value, item) for item in as_list(wanted))
            else [SchemaProblem("value", name, type_description(fields))]
        )

    def const(self, wanted: Any, value: Any, name: str, _depth: int, fields: Mapping[str, Any]) -> list[SchemaProblem]:
        return [] if _json_equal(value, wanted) else [SchemaProblem("value", name, type_description(fields))]

    def required(
        self, wanted: Any, value: Any, name: str, _depth: int, fields: Mapping[str, Any]
    ) -> list[SchemaProblem]:
        if not is_dict(value):
            return []
        properties = as_mapping(fields.get("properties"))
        return [
            SchemaProblem("missing", _nested_name(name, key), type_description(properties.get(key)))
            for key in as_list(wanted)
            if key not in value
        ]

    def properties(
        self, wanted: Any, value: Any, name: str, depth: int, _fields: Mapping[str, Any]
    ) -> list[SchemaProblem]:
        if not is_dict(value):
            return []
        return [
            problem
            for key, schema in as_mapping(wanted).items()
            if key in value
            for problem in self.check_value(schema, value[key], _nested_name(name, key), depth + 1)
        ]

    def additional(
        self, wanted: Any, value: Any, name: str, depth: int, fields: Mapping[str, Any]
    ) -> list[SchemaProblem]:
        if not is_dict(value):
            return []
        extra = [key for key in value if key not in as_mapping(fields.get("properties"))]
        if wanted is False:
            return [SchemaProblem("unknown", _nested_name(name, str(key))) for key in extra]
        return [
            p for key in extra for p in self.check_value(wanted, value[key], _nested_name(name, str(key)), depth + 1)
        ]

    def items(self, wanted: Any, value: Any, name: str, depth: int, _fields: Mapping[str, Any]) -> list[SchemaProblem]:
        if not is_list(value):
            return []
        # `as_list` ends at 2,000 items; the rest would go unchecked, so the list is refused.
        return [p for item in as_list(value) for p in self.check_value(wanted, item, name, depth + 1)] + (
            [SchemaProblem("unchecked", name)] if len(as_list(value)) < len(value) else []
        )

    def any_of(self, wanted: Any, value: Any, name: str, depth: int, _fields: Mapping[str, Any]) -> list[SchemaProblem]:
        tried = [self.check_value(schema, value, name, depth + 1) for schema in as_list(wanted)]
        return [] if any(not found for found in tried) else (tried[0] if tried else [SchemaProblem("value", name)])

    def one_of(self, wanted: Any, value: Any, name: str, depth: int, _fields: Mapping[str, Any]) -> list[SchemaProblem]:
        tried = [self.check_value(schema, value, name, depth + 1) for schema in as_list(wanted)]
        # An unchecked branch might match too, and two matches violate `oneOf`.
        has_unchecked = any(problem.kind == "unchecked" for found in tried for problem in found)
        if sum(not found for found in tried) == 1 and not has_unchecked:
            return []
        return next((found for found in tried if found), [SchemaProblem("value", name)])

    def all_of(self, wanted: Any, value: Any, name: str, depth: int, _fields: Mapping[str, Any]) -> list[SchemaProblem]:
        return [p for schema in as_list(wanted) for p in self.check_value(schema, value, name, depth + 1)]

    def reference(
        self, wanted: Any, value: Any, name: str, depth: int, _fields: Mapping[str, Any]
    ) -> list[SchemaProblem]:
        target: Any = self._root
        if not isinstance(wanted, str) or not wanted.startswith("#"):
            return [SchemaProblem("unchecked", name, "$ref")]
        for part in wanted[1:].strip("/").split("/"):
            target = target if not part else as_mapping(target).get(part.replace("~1", "/").replace("~0", "~"))
        if target is None:
            return [SchemaProblem("unchecked", name, "$ref")]
        return self.check_value(target, value, name, depth + 1)


def _json_equal(one: Any, other: Any) -> bool:
    """Compare as JSON does: true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if (is_dict(one) or is_list(one)) or (is_dict(other) or is_list(other)):
        return call_safely(
            lambda: msgspec.json.encode(one, order="sorted") == msgspec.json.encode(other, order="sorted"),
            otherwise=False,
        )
    return bool(one == other)


def _nested_name(name: str, key: object) -> str:
    return f"{name}.{key}" if name else str(key)


_Keyword = Callable[[_SchemaCheck, Any, Any, str, int, Mapping[str, Any]], list[SchemaProblem]]


def _comparison_keyword(applies: Callable[[Any], bool], holds: Callable[[Any, Any], bool]) -> _Keyword:
    """Make a comparing keyword: it ignores values of other types, and fails if its limit is malformed."""

    def check(
        _self: _SchemaCheck, wanted: Any, value: Any, name: str, _depth: int, _fields: Mapping[str, Any]
    ) -> list[SchemaProblem]:
        return (
            []
            if not applies(value) or call_safely(lambda: holds(value, wanted), otherwise=False)
            else [SchemaProblem("value", name)]
        )

    return check


def _matches_pattern(value: str, pattern: str) -> bool:
    return len(value) <= _PATTERN_TEXT and re.search(pattern, value) is not None


# Only the first 64 items are compared with the rest: the comparisons grow with the square of their number.
def _has_unique_items(value: list[Any], wanted: object) -> bool:
    return wanted is False or not any(_json_equal(a, b) for n, a in enumerate(value[:64]) for b in value[n + 1 :])


_KEYWORDS: Final[Mapping[str, _Keyword]] = {
    "type": _SchemaCheck.kind,
    "enum": _SchemaCheck.values,
    "const": _SchemaCheck.const,
    "required": _SchemaCheck.required,
    "properties": _SchemaCheck.properties,
    "additionalProperties": _SchemaCheck.additional,
    "items": _SchemaCheck.items,
    "anyOf": _SchemaCheck.any_of,
    "oneOf": _SchemaCheck.one_of,
    "allOf": _SchemaCheck.all_of,
    "$ref": _SchemaCheck.reference,
    "minLength": _comparison_keyword(_is_text, lambda value, limit: len(value) >= limit),
    "maxLength": _comparison_keyword(_is_text, lambda value, limit: len(value) <= limit),
    "pattern": _comparison_keyword(_is_text, _matches_pattern),
    "minimum": _comparison_keyword(_is_number, lambda value, limit: value >= limit),
    "maximum": _comparison_keyword(_is_number, lambda value, limit: value <= limit),
    "exclusiveMinimum": _comparison_keyword(_is_number, lambda value, limit: _is_number(limit) and value > limit),
    "exclusiveMaximum": _comparison_keyword(_is_number, lambda value, limit: _is_number(limit) and value < limit),
    "minItems": _comparison_keyword(is_list, lambda value, limit: len(value) >= limit),
    "maxItems": _comparison_keyword(is_list, lambda value, limit: len(value) <= limit),
    "uniqueItems": _comparison_keyword(is_list, _has_unique_items),
    "minProperties": _comparison_keyword(is_dict, lambda value, limit: len(value) >= limit),
    "maxProperties": _comparison_keyword(is_dict, lambda value, limit: len(value) <= limit),
}
