"""Parse the tools that a host declares for its agent, in the forms of OpenAI, Anthropic and MCP.

Requirements G-61, G-70 and G-90.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from tellback.contracts.limits import MAX_ANNOUNCED_BYTES, MAX_NAME_CHARS
from tellback.errors import InvalidInput
from tellback.guidance.observations.values import as_mapping, is_dict, is_list, is_mapping, safe_attribute
from tellback.guidance.progress.effects import DeclaredEffect
from tellback.truncation import truncate_chars

# Chat completions and responses, Anthropic, MCP, the OpenAI Agents SDK, LangChain.
_SCHEMAS: Final = ("parameters", "input_schema", "inputSchema", "params_json_schema", "args_schema")
# Compared without case and punctuation. Only names that leave no doubt.
_FINAL: Final = frozenset({"finalanswer", "submitanswer", "providefinalanswer", "submitfinalanswer"})
# The letters of `EvaluationBegun.effects`.
EFFECT_OF_LETTER: Final[dict[str, DeclaredEffect]] = {"r": "reads", "w": "writes"}
_LETTER_OF_EFFECT: Final[dict[DeclaredEffect | None, str]] = {"reads": "r", "writes": "w"}
_ANSWERS: Final = ("answer", "final_answer", "response", "result", "text", "output")


class Tool(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool as a host declares it.

    `parameters` is the JSON Schema of its arguments; without it any arguments are accepted. `purpose` completes the
    line "Use wikipedia for ...", for example "encyclopedic facts". `effect` says that it only reads, or that it may
    write; without it, its name decides.
    """

    name: str
    parameters: dict[str, Any] | None = None
    description: str = ""
    purpose: str = ""
    effect: DeclaredEffect | None = None

    @property
    def properties(self) -> Mapping[str, Any]:
        """The schema of each argument, by name."""
        return as_mapping((self.parameters or {}).get("properties"))

    @property
    def required(self) -> tuple[str, ...]:
        """The names of the required arguments."""
        names = (self.parameters or {}).get("required")
        return tuple(name for name in names if isinstance(name, str)) if is_list(names) else ()


ToolDeclaration = str | Tool | Mapping[str, Any] | object
"""A name, a `Tool`, or a definition of OpenAI (chat completions, responses), Anthropic or MCP, dict or object."""


def parse_tools(declarations: Iterable[ToolDeclaration]) -> dict[str, Tool]:
    """Return the declared tools by name, in order; of two with the same name the first.

    Raises:
        InvalidInput: A tool has no name, or its schema is not a mapping.
    """
    given: Any = declarations
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InvalidInput(f"tools is {declarations!r}; use a list of names or definitions")
    found: dict[str, Tool] = {}
    for declaration in declarations:
        tool = parse_tool(declaration)
        found.setdefault(tool.name, tool)
    return found


def parse_tool(declaration: ToolDeclaration) -> Tool:
    """Parse one declared tool.

    Raises:
        InvalidInput: It has no name, or its schema is not a mapping.
    """
    if isinstance(declaration, Tool):
        return Tool(
            _checked_name(declaration.name, declaration),
            declaration.parameters,
            declaration.description,
            declaration.purpose,
            _checked_effect(declaration),
        )
    if isinstance(declaration, str):
        return Tool(_checked_name(declaration, declaration))
    fields = as_mapping(declaration)
    fields = as_mapping(fields.get("function")) or fields
    given = fields or declaration
    name = _field(given, "name") or fields.get("type")  # a model provider's own tools may have only a type
    schema = next((found for key in _SCHEMAS if (found := _field(given, key)) is not None), None)
    if schema is not None and not is_dict(schema):
        schema = _schema_of_model(schema, declaration)
    description = _field(given, "description")
    return Tool(
        _checked_name(name, declaration),
        schema,
        description if isinstance(description, str) else "",
        effect=_annotated_effect(_field(given, "annotations")),
    )


def _annotated_effect(annotations: object) -> DeclaredEffect | None:
    """Return the effect in MCP's annotations of a tool.

    The defaults of the protocol, which call a tool without a hint destructive, are not used: most servers annotate
    only some of their tools, or none but a title. `destructiveHint` and `idempotentHint` mean something only for a tool
    that writes, so a true one says so.
    """
    reads, *writes = (_field(annotations, name) for name in ("readOnlyHint", "destructiveHint", "idempotentHint"))
    if isinstance(reads, bool):
        return "reads" if reads else "writes"
    return "writes" if any(hint is True for hint in writes) else None


def _field(declared: object, name: str) -> Any:
    """Return a field of a mapping, or an attribute of any other object."""
    fields = as_mapping(declared)
    return fields.get(name) if fields else safe_attribute(declared, name)


def _checked_effect(declaration: Tool) -> DeclaredEffect | None:
    given: object = declaration.effect
    if given not in (None, *EFFECT_OF_LETTER.values()):
        raise InvalidInput(f"tools holds {declaration.name!r} with the effect {given!r}; use 'reads', 'writes' or None")
    return declaration.effect


def _schema_of_model(schema: object, declaration: object) -> dict[str, Any]:
    make = safe_attribute(schema, "model_json_schema")
    made: Any = make() if callable(make) else schema
    if is_mapping(made):
        return dict(as_mapping(made))
    raise InvalidInput(
        f"tools holds {_short_description(declaration)}, whose schema is {type(schema).__name__}; use a mapping"
    )


def _checked_name(name: object, declaration: object) -> str:
    if not isinstance(name, str) or not name.strip():
        raise InvalidInput(
            f"tools holds {_short_description(declaration)}, which has no name; use a text or a tool's definition"
        )
    if len(name) > MAX_NAME_CHARS:
        raise InvalidInput(f"tools holds a name of {len(name)} characters; use at most {MAX_NAME_CHARS}")
    try:
        name.encode()
    except UnicodeEncodeError as error:  # half a surrogate pair
        raise InvalidInput(f"tools holds the name {name!r}, which is not valid Unicode: {error.reason}") from None
    return name


def _short_description(declaration: object) -> str:
    return truncate_chars(repr(declaration), 100)


def announced_names(tools: Mapping[str, Tool]) -> list[str]:
    """Return the names that are sent with the evaluation's beginning, as many as fit with a letter for each effect."""
    names: list[str] = []
    room = MAX_ANNOUNCED_BYTES
    for name in tools:
        room -= len(name.encode("utf-8", "replace")) + 4  # two quotes, a comma, and the letter
        if room < 0:
            break
        names.append(name)
    return names


def announced_effects(tools: Mapping[str, Tool], names: Sequence[str]) -> str:
    """Return a letter for each name: `r` reads, `w` writes, `-` not declared; without those at the end."""
    return "".join(_LETTER_OF_EFFECT.get(tools[name].effect, "-") for name in names).rstrip("-")


def final_tool(tools: Mapping[str, Tool]) -> Tool | None:
    """Return the tool with which the agent gives its answer, or None."""
    return next((tool for name, tool in tools.items() if is_final_tool_name(name)), None)


def is_final_tool_name(name: str) -> bool:
    """Check whether a tool of this name ends the task with an answer."""
    return "".join(filter(str.isalnum, name)).lower() in _FINAL


def answer_argument(tool: Tool) -> str | None:
    """Return the argument of a final tool that takes the answer, or None if one text is not enough."""
    if tool.parameters is None:
        return "answer"
    texts = [name for name, schema in tool.properties.items() if as_mapping(schema).get("type", "string") == "string"]
    name = next((name for name in (*_ANSWERS, *texts) if name in texts), None)
    return name if name is not None and set(tool.required) <= {name} else None
