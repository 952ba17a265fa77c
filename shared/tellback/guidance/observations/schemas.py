"""Whether arguments parse against a tool's JSON Schema.

The subset is what tool definitions use. A keyword outside it counts as a violation, so that nothing is proposed which
a full validator might refuse; what this accepts, a full validator accepts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeGuard

import msgspec

from tellback.guidance.observations.values import fields_of, is_dict, is_list, is_mapping, items_of, json_text, safely

_DEPTH: Final = 24
_PATTERN_TEXT: Final = 256
_NOTES: Final = frozenset({
    "title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly", "$schema", "$id",
    "$comment", "$defs", "definitions", "strict", "format", "contentMediaType", "contentEncoding",
})  # fmt: skip


class Problem(msgspec.Struct, frozen=True):
    """What is wrong with an argument. `kind`: "missing", "unknown", "type", "value" or "unchecked"."""

    kind: str
    name: str
    expected: str = ""


def problems(schema: Mapping[str, Any] | None, arguments: Mapping[str, Any]) -> list[Problem]:
    """What keeps `arguments` from parsing against `schema`; nothing where there is no schema."""
    if schema is None:
        return []
    return _Check(schema).of(schema, dict(arguments), "", 0)


def type_words(schema: object) -> str:
    """What a property wants, in a few words: `integer`, `one of "a", "b"`."""
    fields = fields_of(schema)
    values = items_of(fields.get("enum")) or ([fields["const"]] if "const" in fields else [])
    if values:
        listed = ", ".join(json_text(value) for value in values[:8])
        return f"one of {listed}" + (", …" if len(values) > 8 else "")
    kind = fields.get("type")
    if is_list(kind):
        return " or ".join(str(name) for name in items_of(kind)[:4])
    return kind if isinstance(kind, str) else ""


def _number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _integer(value: object) -> bool:
    return _number(value) and (isinstance(value, int) or value.is_integer())


def _boolean(value: object) -> bool:
    return isinstance(value, bool)


def _null(value: object) -> bool:
    return value is None


def _text(value: object) -> bool:
    return isinstance(value, str)


_TYPES: Final[Mapping[str, Callable[[object], bool]]] = {
    "string": _text,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "null": _null,
    "object": is_dict,
    "array": is_list,
}


class _Check:
    """A walk over a schema; `root` resolves its local references."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root

    def of(self, schema: object, value: Any, name: str, depth: int) -> list[Problem]:
        if schema is True:
            return []
        if not is_mapping(schema) or depth > _DEPTH:
            return [Problem("unchecked" if depth > _DEPTH else "value", name)]
        found: list[Problem] = []
        fields = fields_of(schema)
        for keyword, wanted in fields.items():
            if keyword in _NOTES or (
                keyword == "additionalProperties" and "properties" not in fields and wanted is True
            ):
                continue
            check = _KEYWORDS.get(keyword)
            if check is None:
                found.append(Problem("unchecked", name, keyword))
            else:
                found += check(self, wanted, value, name, depth, fields)
        return found

    def kind(self, wanted: Any, value: Any, name: str, _depth: int, fields: Mapping[str, Any]) -> list[Problem]:
        kinds = items_of(wanted) if is_list(wanted) else [wanted]
        if any(isinstance(kind, str) and kind in _TYPES and _TYPES[kind](value) for kind in kinds):
            return []
        return [Problem("type", name, type_words(fields))]

    def values(self, wanted: Any, value: Any, name: str, _depth: int, fields: Mapping[str, Any]) -> list[Problem]:
        return (
            [] if any(_same(value, item) for item in items_of(wanted)) else [Problem("value", name, type_words(fields))]
        )

    def const(self, wanted: Any, value: Any, name: str, _depth: int, fields: Mapping[str, Any]) -> list[Problem]:
        return [] if _same(value, wanted) else [Problem("value", name, type_words(fields))]

    def required(self, wanted: Any, value: Any, name: str, _depth: int, fields: Mapping[str, Any]) -> list[Problem]:
        if not is_dict(value):
            return []
        properties = fields_of(fields.get("properties"))
        return [
            Problem("missing", _under(name, key), type_words(properties.get(key)))
            for key in items_of(wanted)
            if key not in value
        ]

    def properties(self, wanted: Any, value: Any, name: str, depth: int, _fields: Mapping[str, Any]) -> list[Problem]:
        if not is_dict(value):
            return []
        return [
            problem
            for key, schema in fields_of(wanted).items()
            if key in value
            for problem in self.of(schema, value[key], _under(name, key), depth + 1)
        ]

    def additional(self, wanted: Any, value: Any, name: str, depth: int, fields: Mapping[str, Any]) -> list[Problem]:
        if not is_dict(value):
            return []
        extra = [key for key in value if key not in fields_of(fields.get("properties"))]
        if wanted is False:
            return [Problem("unknown", _under(name, str(key))) for key in extra]
        return [p for key in extra for p in self.of(wanted, value[key], _under(name, str(key)), depth + 1)]

    def items(self, wanted: Any, value: Any, name: str, depth: int, _fields: Mapping[str, Any]) -> list[Problem]:
        if not is_list(value):
            return []
        return [p for item in items_of(value) for p in self.of(wanted, item, name, depth + 1)] + (
            [Problem("unchecked", name)] if len(items_of(value)) < len(value) else []
        )

    def any_of(self, wanted: Any, value: Any, name: str, depth: int, _fields: Mapping[str, Any]) -> list[Problem]:
        tried = [self.of(schema, value, name, depth + 1) for schema in items_of(wanted)]
        return [] if any(not found for found in tried) else (tried[0] if tried else [Problem("value", name)])

    def one_of(self, wanted: Any, value: Any, name: str, depth: int, _fields: Mapping[str, Any]) -> list[Problem]:
        tried = [self.of(schema, value, name, depth + 1) for schema in items_of(wanted)]
        unsure = any(problem.kind == "unchecked" for found in tried for problem in found)
        if sum(not found for found in tried) == 1 and not unsure:
            return []
        return next((found for found in tried if found), [Problem("value", name)])

    def all_of(self, wanted: Any, value: Any, name: str, depth: int, _fields: Mapping[str, Any]) -> list[Problem]:
        return [p for schema in items_of(wanted) for p in self.of(schema, value, name, depth + 1)]

    def reference(self, wanted: Any, value: Any, name: str, depth: int, _fields: Mapping[str, Any]) -> list[Problem]:
        target: Any = self._root
        if not isinstance(wanted, str) or not wanted.startswith("#"):
            return [Problem("unchecked", name, "$ref")]
        for part in wanted[1:].strip("/").split("/"):
            target = target if not part else fields_of(target).get(part.replace("~1", "/").replace("~0", "~"))
        if target is None:
            return [Problem("unchecked", name, "$ref")]
        return self.of(target, value, name, depth + 1)


def _same(one: Any, other: Any) -> bool:
    """JSON's equality: true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if (is_dict(one) or is_list(one)) or (is_dict(other) or is_list(other)):
        return safely(
            lambda: msgspec.json.encode(one, order="sorted") == msgspec.json.encode(other, order="sorted"),
            otherwise=False,
        )
    return bool(one == other)


def _under(name: str, key: object) -> str:
    return f"{name}.{key}" if name else str(key)


_Keyword = Callable[[_Check, Any, Any, str, int, Mapping[str, Any]], list[Problem]]


def _bound(applies: Callable[[Any], bool], holds: Callable[[Any, Any], bool]) -> _Keyword:
    """A keyword that compares: it says nothing of values of another type, and fails for a limit that is none."""

    def check(
        _self: _Check, wanted: Any, value: Any, name: str, _depth: int, _fields: Mapping[str, Any]
    ) -> list[Problem]:
        return (
            []
            if not applies(value) or safely(lambda: holds(value, wanted), otherwise=False)
            else [Problem("value", name)]
        )

    return check


def _matches(value: str, pattern: str) -> bool:
    return len(value) <= _PATTERN_TEXT and re.search(pattern, value) is not None


def _distinct(value: list[Any], wanted: object) -> bool:
    return wanted is False or not any(_same(a, b) for n, a in enumerate(value[:64]) for b in value[n + 1 :])


_KEYWORDS: Final[Mapping[str, _Keyword]] = {
    "type": _Check.kind,
    "enum": _Check.values,
    "const": _Check.const,
    "required": _Check.required,
    "properties": _Check.properties,
    "additionalProperties": _Check.additional,
    "items": _Check.items,
    "anyOf": _Check.any_of,
    "oneOf": _Check.one_of,
    "allOf": _Check.all_of,
    "$ref": _Check.reference,
    "minLength": _bound(_text, lambda value, limit: len(value) >= limit),
    "maxLength": _bound(_text, lambda value, limit: len(value) <= limit),
    "pattern": _bound(_text, _matches),
    "minimum": _bound(_number, lambda value, limit: value >= limit),
    "maximum": _bound(_number, lambda value, limit: value <= limit),
    "exclusiveMinimum": _bound(_number, lambda value, limit: _number(limit) and value > limit),
    "exclusiveMaximum": _bound(_number, lambda value, limit: _number(limit) and value < limit),
    "minItems": _bound(is_list, lambda value, limit: len(value) >= limit),
    "maxItems": _bound(is_list, lambda value, limit: len(value) <= limit),
    "uniqueItems": _bound(is_list, _distinct),
    "minProperties": _bound(is_dict, lambda value, limit: len(value) >= limit),
    "maxProperties": _bound(is_dict, lambda value, limit: len(value) <= limit),
}
