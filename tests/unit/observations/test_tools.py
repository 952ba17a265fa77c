"""Tools are declared in the forms that hosts have."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tellback import InvalidInput, Tool
from tellback.guidance.observations.tools import ANNOUNCED_BYTES, announced, answer_argument, final_tool, tools_of

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
    (tool,) = tools_of([declaration]).values()
    assert (tool.name, tool.parameters, tool.required) == ("search", SCHEMA, ("query",))


def test_a_name_alone_and_a_providers_own_tool() -> None:
    tools = tools_of(["search", {"type": "web_search"}, {"type": "bash_20250124", "name": "bash"}, "search"])
    assert list(tools) == ["search", "web_search", "bash"]
    assert all(tool.parameters is None for tool in tools.values())


@pytest.mark.parametrize(
    "wrong", [["", "a"], [3], [None], [{"x": 1}], ["x" * 257], [{"name": "a", "parameters": 3}], "abc"]
)
def test_what_is_no_tool_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="tools"):
        tools_of(wrong)


def test_what_travels_is_bounded() -> None:
    names = announced(tools_of([f"tool_{number}_" + "x" * 200 for number in range(2_000)]))
    assert 50 < len(names) < 100
    assert sum(map(len, names)) <= ANNOUNCED_BYTES


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
    tools = tools_of(["search", Tool("finalAnswer", {"properties": properties, "required": required})])
    final = final_tool(tools)
    assert final is not None
    assert answer_argument(final) == argument
    assert final_tool(tools_of(["search"])) is None
