"""The forms in which protocols and providers wrap a tool's result or its failure.

MCP: `CallToolResult` with `isError`, also within its JSON-RPC reply. Anthropic: `{"type": "tool_result", "is_error":
true}`, and the results of the tools that its servers run. OpenAI: tool messages, `function_call_output`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tellback.guidance.observations.values import (
    attribute,
    fields_of,
    is_dict,
    is_list,
    is_mapping,
    is_row,
    items_of,
    json_of,
    text_of,
)

_FLAGS: Final = ("isError", "is_error")
_MCP: Final = frozenset({"content", "structuredContent", "_meta"})


def unwrapped(value: object) -> tuple[object, bool]:
    """What a wrapper of a protocol holds, and whether it says that the call failed; else the value itself."""
    if is_mapping(value):
        return _of_fields(value, fields_of(value))
    if isinstance(value, str):
        data = json_of(value)
        return (_content(data, None), False) if _is_content(data) else _of_fields(value, fields_of(data))
    content = attribute(value, "content")
    if (
        not isinstance(value, str | BaseException)
        and _has_flag(value)
        and (is_list(content) or isinstance(content, str))
    ):
        flag = any(attribute(value, name) is True for name in _FLAGS)
        return _content(content, attribute(value, "structuredContent")), flag
    return (_content(value, None), False) if _is_content(value) else (value, False)


def _of_fields(value: object, fields: Mapping[str, Any]) -> tuple[object, bool]:
    if "jsonrpc" in fields and is_dict(fields.get("result")):
        return _of_fields(fields["result"], fields["result"])
    kind = str(fields.get("type", ""))
    flag = any(fields.get(name) is True for name in _FLAGS)
    wraps = any(name in fields for name in _FLAGS) or kind == "tool_result" or fields.get("role") == "tool"
    wraps = wraps or (fields.keys() <= _MCP and _is_content(fields.get("content")))
    if kind.endswith("_tool_result") and "content" in fields:  # of a tool that Anthropic's servers run
        said = fields_of(fields["content"])
        return fields["content"], str(said.get("type", "")).endswith("_error") and "error_code" in said
    if kind.endswith("_call_output") and "output" in fields:  # of OpenAI's Responses
        output = fields["output"]
        return (_content(output, None) if _is_content(output) else output), False
    if wraps and "content" in fields:
        return _content(fields["content"], fields.get("structuredContent")), flag
    return value, wraps and flag


def _has_flag(value: object) -> bool:
    return any(isinstance(attribute(value, name), bool) for name in _FLAGS)


def _is_content(value: object) -> bool:
    items = items_of(value)
    return bool(items) and all(
        fields_of(item).get("type") == "text" and isinstance(fields_of(item).get("text"), str) and len(item) <= 4
        for item in items
    )


def _content(content: object, structured: object) -> object:
    parts = [_part(part) for part in items_of(content)] if is_row(content) else [text_of(content)]
    text = "\n".join(part for part in parts if part)
    return structured if not text and structured is not None else text


def _part(part: object) -> str:
    if isinstance(part, str):
        return part
    text = fields_of(part).get("text", attribute(part, "text"))
    if isinstance(text, str):
        return text
    kind = fields_of(part).get("type", attribute(part, "type"))
    return f"[{kind}]" if isinstance(kind, str) else ""
