"""Check arguments against a tool's JSON Schema, for the subset of keywords that tool definitions use.

An unknown keyword counts as a violation: everything accepted here is accepted by a full validator, so no suggestion
proposes a call that the tool would refuse. The reverse does not hold, and need not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
    return _Place(schema, dict(arguments)).check(schema)


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


def _is_text(value: object) -> bool:
    return isinstance(value, str)


_TYPES: Final[Mapping[str, Callable[[object], bool]]] = {
    "string": _is_text,
    "integer": _is_integer,
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "object": is_dict,
    "array": is_list,
}


_Problems = list[SchemaProblem]


@dataclass(frozen=True, slots=True)
class _Place:
    """A value in the arguments; `root` resolves local references, while others are unchecked: nothing is fetched."""

    root: Mapping[str, Any]
    value: Any
    name: str = ""
    depth: int = 0

    def check(self, schema: object) -> _Problems:
        if schema is True:
            return []
        if not is_mapping(schema) or self.depth > _DEPTH:
            return self._problem("unchecked" if self.depth > _DEPTH else "value")
        fields = as_mapping(schema)
        return [each for keyword, wanted in fields.items() for each in self._check_keyword(keyword, wanted, fields)]

    def _check_keyword(self, keyword: str, wanted: Any, fields: Mapping[str, Any]) -> _Problems:
        if keyword in _NOTES or (keyword == "additionalProperties" and "properties" not in fields and wanted is True):
            return []
        if keyword in _KEYWORDS:
            return _KEYWORDS[keyword](self, wanted, fields)
        if keyword not in _COMPARISONS:
            return self._problem("unchecked", keyword)
        applies, holds = _COMPARISONS[keyword]
        fits = not applies(self.value) or call_safely(lambda: holds(self.value, wanted), otherwise=False)
        return [] if fits else self._problem("value")

    def _problem(self, kind: str, expected: str = "") -> _Problems:
        return [SchemaProblem(kind, self.name, expected)]

    def _at(self, value: Any, key: object = "") -> _Place:
        name = f"{self.name}.{key}" if self.name and key else f"{self.name}{key}"
        return _Place(self.root, value, name, self.depth + 1)

    def kind(self, wanted: Any, fields: Mapping[str, Any]) -> _Problems:
        kinds = as_list(wanted) if is_list(wanted) else [wanted]
        fits = any(isinstance(kind, str) and kind in _TYPES and _TYPES[kind](self.value) for kind in kinds)
        return [] if fits else self._problem("type", type_description(fields))

    def values(self, wanted: Any, fields: Mapping[str, Any]) -> _Problems:
        fits = any(_json_equal(self.value, item) for item in as_list(wanted))
        return [] if fits else self._problem("value", type_description(fields))

    def const(self, wanted: Any, fields: Mapping[str, Any]) -> _Problems:
        return self.values([wanted], fields)

    def required(self, wanted: Any, fields: Mapping[str, Any]) -> _Problems:
        properties = as_mapping(fields.get("properties"))
        missing = [key for key in as_list(wanted) if key not in self.value] if is_dict(self.value) else []
        return [
            SchemaProblem("missing", self._at(None, key).name, type_description(properties.get(key))) for key in missing
        ]

    def properties(self, wanted: Any, _fields: Mapping[str, Any]) -> _Problems:
        given: Mapping[str, Any] = self.value if is_dict(self.value) else {}
        return [
            each
            for key, schema in as_mapping(wanted).items()
            if key in given
            for each in self._at(given[key], key).check(schema)
        ]

    def additional(self, wanted: Any, fields: Mapping[str, Any]) -> _Problems:
        if not is_dict(self.value):
            return []
        extra = [
            self._at(item, key) for key, item in self.value.items() if key not in as_mapping(fields.get("properties"))
        ]
        if wanted is False:
            return [SchemaProblem("unknown", each.name) for each in extra]
        return [problem for each in extra for problem in each.check(wanted)]

    def items(self, wanted: Any, _fields: Mapping[str, Any]) -> _Problems:
        if not is_list(self.value):
            return []
        found = [problem for item in as_list(self.value) for problem in self._at(item).check(wanted)]
        # `as_list` ends at 2,000 items; the rest would go unchecked, so the list is refused.
        return found + (self._problem("unchecked") if len(as_list(self.value)) < len(self.value) else [])

    def any_of(self, wanted: Any, _fields: Mapping[str, Any]) -> _Problems:
        tried = [self._at(self.value).check(schema) for schema in as_list(wanted)]
        return [] if any(not found for found in tried) else (tried[0] if tried else self._problem("value"))

    def one_of(self, wanted: Any, _fields: Mapping[str, Any]) -> _Problems:
        tried = [self._at(self.value).check(schema) for schema in as_list(wanted)]
        # An unchecked branch might match too, and two matches violate `oneOf`.
        has_unchecked = any(problem.kind == "unchecked" for found in tried for problem in found)
        if sum(not found for found in tried) == 1 and not has_unchecked:
            return []
        return next((found for found in tried if found), self._problem("value"))

    def all_of(self, wanted: Any, _fields: Mapping[str, Any]) -> _Problems:
        return [problem for schema in as_list(wanted) for problem in self._at(self.value).check(schema)]

    def reference(self, wanted: Any, _fields: Mapping[str, Any]) -> _Problems:
        target: Any = self.root if isinstance(wanted, str) and wanted.startswith("#") else None
        for part in wanted[1:].strip("/").split("/") if target is not None else ():
            target = target if not part else as_mapping(target).get(part.replace("~1", "/").replace("~0", "~"))
        return self._problem("unchecked", "$ref") if target is None else self._at(self.value).check(target)


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


def _matches_pattern(value: str, pattern: str) -> bool:
    return len(value) <= _PATTERN_TEXT and re.search(pattern, value) is not None


# Only the first 64 items are compared with the rest: the comparisons grow with the square of their number.
def _has_unique_items(value: list[Any], wanted: object) -> bool:
    return wanted is False or not any(_json_equal(a, b) for n, a in enumerate(value[:64]) for b in value[n + 1 :])


_KEYWORDS: Final[Mapping[str, Callable[[_Place, Any, Mapping[str, Any]], _Problems]]] = {
    "type": _Place.kind,
    "enum": _Place.values,
    "const": _Place.const,
    "required": _Place.required,
    "properties": _Place.properties,
    "additionalProperties": _Place.additional,
    "items": _Place.items,
    "anyOf": _Place.any_of,
    "oneOf": _Place.one_of,
    "allOf": _Place.all_of,
    "$ref": _Place.reference,
}
# Comparisons: the values that each one applies to, and when it holds. One with a malformed limit holds for none.
_COMPARISONS: Final[Mapping[str, tuple[Callable[[Any], bool], Callable[[Any, Any], bool]]]] = {
    "minLength": (_is_text, lambda value, limit: len(value) >= limit),
    "maxLength": (_is_text, lambda value, limit: len(value) <= limit),
    "pattern": (_is_text, _matches_pattern),
    "minimum": (_is_number, lambda value, limit: value >= limit),
    "maximum": (_is_number, lambda value, limit: value <= limit),
    "exclusiveMinimum": (_is_number, lambda value, limit: _is_number(limit) and value > limit),
    "exclusiveMaximum": (_is_number, lambda value, limit: _is_number(limit) and value < limit),
    "minItems": (is_list, lambda value, limit: len(value) >= limit),
    "maxItems": (is_list, lambda value, limit: len(value) <= limit),
    "uniqueItems": (is_list, _has_unique_items),
    "minProperties": (is_dict, lambda value, limit: len(value) >= limit),
    "maxProperties": (is_dict, lambda value, limit: len(value) <= limit),
}
