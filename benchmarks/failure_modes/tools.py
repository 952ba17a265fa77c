"""Simulated tools: what they find, and the faults that a mode injects. Time is the world's own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, Literal

from benchmarks.failure_modes.tasks import AgentTask, words_of

SEARCH: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"query": {"type": "string"}},
    "required": ["query"],
    "additionalProperties": False,
}
ARCHIVE: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "limit": {"type": "integer"}},
    "required": ["title"],
    "additionalProperties": False,
}
RESERVE: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"seat": {"type": "integer"}},
    "required": ["seat"],
    "additionalProperties": False,
}
FINAL: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"answer": {"type": "string"}},
    "required": ["answer"],
}
COOLING: Final = 30.0
Fault = Literal["limited", "down", "strict", "picky", "vague"]


@dataclass(frozen=True, slots=True)
class ToolReply:
    """The reply to a call, as its host would see it."""

    text: str
    error: bool = False
    http_status: int | None = None
    headers: Mapping[str, str] | None = None


@dataclass(slots=True)
class ToolWorld:
    """The tools of one run or of one fleet. `faults` by tool; `capacity` calls a second, then the tool is limited."""

    schemas: dict[str, dict[str, Any]]
    faults: dict[str, Fault] = field(default_factory=dict[str, Fault])
    capacity: dict[str, int] = field(default_factory=dict[str, int])
    free_seats: tuple[int, ...] = ()
    now: float = 0.0
    loads: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    limited_until: dict[str, float] = field(default_factory=dict[str, float])

    def definitions(self) -> list[dict[str, Any]]:
        """The tools as the agent's host declares them."""
        return [{"name": name, "input_schema": schema} for name, schema in self.schemas.items()]

    def call(self, tool: str, args: Mapping[str, Any], task: AgentTask, random: Random) -> ToolReply:
        if tool not in self.schemas:
            return ToolReply(f"Unknown tool: {tool}", error=True)
        self._load(tool)
        fault = self.faults.get(tool)
        if self._limited(tool, fault):
            return self._refusal(tool, random)
        if fault == "down":
            return ToolReply("Service temporarily unavailable", error=True, http_status=503)
        wrong = _violation(self.schemas[tool], args)
        if wrong:
            return ToolReply(f"Invalid arguments: {wrong}", error=True)
        if tool == "reserve":
            return self._reserve(int(args["seat"]), task)
        return _searched(str(args.get("query", args.get("title"))), task, fault)

    def _load(self, tool: str) -> None:
        key = (tool, int(self.now))
        self.loads[key] = self.loads.get(key, 0) + 1
        room = self.capacity.get(tool)
        if room is not None and self.loads[key] > room:
            self.limited_until[tool] = max(self.limited_until.get(tool, 0.0), self.now + COOLING)

    def _limited(self, tool: str, fault: Fault | None) -> bool:
        return (fault == "limited" and self.now < COOLING) or self.now < self.limited_until.get(tool, 0.0)

    def _refusal(self, tool: str, random: Random) -> ToolReply:
        """A limit as tools tell of it: with a time to wait, without, or as a page that asks for a captcha."""
        left = max(self.limited_until.get(tool, 0.0), COOLING) - self.now
        form = random.randrange(3)
        if form == 0:
            return ToolReply("Too Many Requests", error=True, http_status=429, headers={"Retry-After": f"{left:.0f}"})
        if form == 1:
            return ToolReply("<html><body>Please complete the captcha to go on.</body></html>", http_status=202)
        return ToolReply("Error: rate limit exceeded", error=True)

    def _reserve(self, seat: int, task: AgentTask) -> ToolReply:
        if seat in self.free_seats:
            return ToolReply(f"Reserved seat {seat}. " + task.answer_page(*task.values))
        return ToolReply(f"Error: seat {seat} is taken", error=True)


def _searched(query: str, task: AgentTask, fault: Fault | None) -> ToolReply:
    words, subject = words_of(query), words_of(task.subject)
    if fault == "picky" and any(word.isdigit() for word in words):
        return ToolReply("ValueError: the index has no field for a number in the query", error=True)
    if fault == "strict" and words - subject - set(task.values):
        return ToolReply("[]")
    if not subject & words:
        return ToolReply("[]")
    asked = [aspect for aspect in task.values if aspect in words]
    if not asked or (fault == "vague" and subject <= words and len(words) < 4 and len(asked) < len(task.values)):
        return ToolReply(task.general_page())
    return ToolReply(task.answer_page(*asked))


def _violation(schema: Mapping[str, Any], args: Mapping[str, Any]) -> str:
    kinds = {"string": str, "integer": int}
    for name in schema["required"]:
        if name not in args:
            return f"'{name}' is a required property"
    for name, value in args.items():
        if name not in schema["properties"]:
            return f"Additional properties are not allowed ('{name}' was unexpected)"
        kind = schema["properties"][name]["type"]
        if not isinstance(value, kinds[kind]):
            return f"{json.dumps(value)} is not of type '{kind}'"
    return ""
