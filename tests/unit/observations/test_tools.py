"""Tools are declared in the forms that hosts have."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tellback import InvalidInput, Tool
from tellback.contracts.limits import MAX_ANNOUNCED_BYTES
from tellback.guidance.observations.tools import (
    announced_effects,
    announced_names,
    answer_argument,
    final_tool,
    parse_tools,
)

SCHEMA = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}


class _Model:
    @staticmethod
    def model_json_schema() -> dict[str, Any]:
        return SCHEMA


@pytest.mark.parametrize(
    "declaration",
    [
        Tool("search", SCHEMA),
        {"type": "function", "function": {"name": "search", "parameters": SCHEMA}},
        {"type": "function", "name": "search", "parameters": SCHEMA, "strict": True},
        {"name": "search", "input_schema": SCHEMA},
        {"name": "search", "inputSchema": SCHEMA},
        SimpleNamespace(name="search", inputSchema=SCHEMA, description="finds"),
        SimpleNamespace(name="search", input_schema=SCHEMA),
        SimpleNamespace(name="search", params_json_schema=SCHEMA),
        SimpleNamespace(name="search", args_schema=_Model),
    ],
    ids=["tool", "chat", "responses", "anthropic", "mcp", "mcp-object", "anthropic-object", "agents-sdk", "langchain"],
)
def test_every_form_gives_the_name_and_the_schema(declaration: object) -> None:
    (tool,) = parse_tools([declaration]).values()
    assert (tool.name, tool.parameters, tool.required) == ("search", SCHEMA, ("query",))


def test_a_name_alone_and_a_providers_own_tool() -> None:
    tools = parse_tools(["search", {"type": "web_search"}, {"type": "bash_20250124", "name": "bash"}, "search"])
    assert list(tools) == ["search", "web_search", "bash"]
    assert all(tool.parameters is None for tool in tools.values())


@pytest.mark.parametrize(
    "wrong", [["", "a"], [3], [None], [{"x": 1}], ["x" * 257], [{"name": "a", "parameters": 3}], "abc"]
)
def test_what_is_no_tool_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="tools"):
        parse_tools(wrong)


@pytest.mark.parametrize(
    ("annotations", "effect"),
    [
        ({"readOnlyHint": True}, "reads"),
        (SimpleNamespace(readOnlyHint=True, destructiveHint=True), "reads"),
        (SimpleNamespace(title="Deletes", readOnlyHint=False, destructiveHint=None), "writes"),
        ({"destructiveHint": True}, "writes"),
        ({"idempotentHint": True}, "writes"),
        ({"title": "Pages", "destructiveHint": False}, None),
        ({"readOnlyHint": "yes"}, None),
        (None, None),
    ],
)
def test_the_annotations_of_mcp_say_what_a_tool_does(annotations: object, effect: str | None) -> None:
    given = {"name": "pages", "inputSchema": SCHEMA, "annotations": annotations}
    for declaration in (given, SimpleNamespace(**given)):
        assert parse_tools([declaration])["pages"].effect == effect


def test_the_effects_of_the_names_that_are_sent_are_a_letter_each() -> None:
    tools = parse_tools(["a", Tool("b", effect="reads"), "c", Tool("d", effect="writes"), "e"])
    assert announced_effects(tools, [*tools]) == "-r-w"
    assert announced_effects(tools, ["a", "b", "c"]) == "-r"
    with pytest.raises(InvalidInput, match="the effect 'read'; use 'reads'"):
        parse_tools([Tool("b", effect=cast("Any", "read"))])


def test_what_travels_is_bounded() -> None:
    names = announced_names(parse_tools([f"tool_{number}_" + "x" * 200 for number in range(2_000)]))
    assert 50 < len(names) < 100
    assert sum(map(len, names)) <= MAX_ANNOUNCED_BYTES


@pytest.mark.parametrize(
    ("properties", "required", "argument"),
    [
        ({"answer": {"type": "string"}}, ["answer"], "answer"),
        ({"text": {"type": "string"}}, [], "text"),
        ({"verdict": {"type": "string"}}, ["verdict"], "verdict"),
        ({"answer": {"type": "string"}, "source": {"type": "string"}}, ["answer", "source"], None),
        ({"answer": {"type": "number"}}, ["answer"], None),
    ],
)
def test_the_final_tool_and_its_argument(properties: dict[str, Any], required: list[str], argument: str | None) -> None:
    tools = parse_tools(["search", Tool("finalAnswer", {"properties": properties, "required": required})])
    final = final_tool(tools)
    assert final is not None
    assert answer_argument(final) == argument
    assert final_tool(parse_tools(["search"])) is None
