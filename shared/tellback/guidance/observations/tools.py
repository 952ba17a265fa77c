"""The tools that an agent has, in the forms in which hosts declare them.

Source: actionable-feedback, "Key Insight: Context Awareness".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from tellback.errors import InvalidInput
from tellback.guidance.observations.values import attribute, fields_of, is_dict, is_list, is_mapping

NAME_MAX: Final = 256
ANNOUNCED_BYTES: Final = 16 << 10
_SCHEMAS: Final = ("parameters", "input_schema", "inputSchema", "params_json_schema", "args_schema")
_FINAL: Final = frozenset({"finalanswer", "submitanswer", "providefinalanswer", "submitfinalanswer"})
_ANSWERS: Final = ("answer", "final_answer", "response", "result", "text", "output")


class Tool(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool as a host declares it. Without `parameters`, the JSON Schema of its arguments, any will do.

    `purpose` completes "Use wikipedia for ...": "encyclopedic facts".
    """

    name: str
    parameters: dict[str, Any] | None = None
    description: str = ""
    purpose: str = ""

    @property
    def properties(self) -> Mapping[str, Any]:
        """The schema of each argument, by name."""
        return fields_of((self.parameters or {}).get("properties"))

    @property
    def required(self) -> tuple[str, ...]:
        """The arguments that must be there."""
        names = (self.parameters or {}).get("required")
        return tuple(name for name in names if isinstance(name, str)) if is_list(names) else ()


ToolDeclaration = str | Tool | Mapping[str, Any] | object
"""A name, a `Tool`, or a definition of OpenAI (chat completions, responses), Anthropic or MCP, dict or object."""


def tools_of(declarations: Iterable[ToolDeclaration]) -> dict[str, Tool]:
    """The declared tools by name, in order; of two with one name the first.

    Raises:
        InvalidInput: one has no name, or its schema is no mapping.
    """
    given: Any = declarations
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InvalidInput(f"tools is {declarations!r}; use a list of names or definitions")
    found: dict[str, Tool] = {}
    for declaration in declarations:
        tool = tool_of(declaration)
        found.setdefault(tool.name, tool)
    return found


def tool_of(declaration: ToolDeclaration) -> Tool:
    """One declared tool.

    Raises:
        InvalidInput: it has no name, or its schema is no mapping.
    """
    if isinstance(declaration, Tool):
        return Tool(
            _name(declaration.name, declaration), declaration.parameters, declaration.description, declaration.purpose
        )
    if isinstance(declaration, str):
        return Tool(_name(declaration, declaration))
    fields = fields_of(declaration)
    fields = fields_of(fields.get("function")) or fields

    def get(key: str) -> Any:
        return fields.get(key) if fields else attribute(declaration, key)

    name = get("name") or (get("type") if fields else None)  # a provider's own tools may have a type alone
    schema = next((found for key in _SCHEMAS if (found := get(key)) is not None), None)
    if schema is not None and not is_dict(schema):
        schema = _schema_of_model(schema, declaration)
    description = get("description")
    return Tool(_name(name, declaration), schema, description if isinstance(description, str) else "")


def _schema_of_model(schema: object, declaration: object) -> dict[str, Any]:
    make = attribute(schema, "model_json_schema")
    made: Any = make() if callable(make) else schema
    if is_mapping(made):
        return dict(fields_of(made))
    raise InvalidInput(f"tools holds {_shortly(declaration)}, whose schema is {type(schema).__name__}; use a mapping")


def _name(name: object, declaration: object) -> str:
    if not isinstance(name, str) or not name.strip():
        raise InvalidInput(f"tools holds {_shortly(declaration)}, which has no name; use a text or a tool's definition")
    if len(name) > NAME_MAX:
        raise InvalidInput(f"tools holds a name of {len(name)} characters; use at most {NAME_MAX}")
    return name


def _shortly(declaration: object) -> str:
    text = repr(declaration)
    return text if len(text) <= 100 else text[:99] + "…"


def announced(tools: Mapping[str, Tool]) -> list[str]:
    """The names that travel with the evaluation's beginning: as many as have room."""
    names: list[str] = []
    room = ANNOUNCED_BYTES
    for name in tools:
        room -= len(name.encode("utf-8", "replace")) + 4
        if room < 0:
            break
        names.append(name)
    return names


def final_tool(tools: Mapping[str, Tool]) -> Tool | None:
    """The tool by which this agent gives its answer, where it has one."""
    return next((tool for name, tool in tools.items() if is_final(name)), None)


def is_final(name: str) -> bool:
    """Whether a tool of this name ends the task with an answer."""
    return "".join(filter(str.isalnum, name)).lower() in _FINAL


def answer_argument(tool: Tool) -> str | None:
    """The argument of a final tool that takes the answer as text; None where one text is not enough."""
    if tool.parameters is None:
        return "answer"
    texts = [name for name, schema in tool.properties.items() if fields_of(schema).get("type", "string") == "string"]
    name = next((name for name in (*_ANSWERS, *texts) if name in texts), None)
    return name if name is not None and set(tool.required) <= {name} else None
