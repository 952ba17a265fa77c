"""The parser of chat-completions messages into the steps that a host takes: messages, tool results, answers.

It never raises, whatever JSON the messages are; what it can't use is counted in `Oddities`. The agent's text before the
next user message is the answer: the last message without tool calls, else the last text beside tool calls. A tool call
counts once its result is there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, cast

from tellback.guidance.observations.files import file_tool_kind
from tellback.guidance.observations.programs import command_of


@dataclass(frozen=True, slots=True)
class UserMessage:
    """A user's message; it opens a turn. `position` counts the conversation's messages from 0."""

    position: int
    text: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A tool's result with its call, if one was found; `position` is that of the result's message."""

    tool: str
    params: dict[str, Any]
    result: str
    status: Literal["success", "error"]
    call_id: str | None
    position: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    """The answer to the user's message at `position`; `at` is its own."""

    position: int
    text: str
    at: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class MissingAnswer:
    """A missing answer: the transcript doesn't answer the user's message at `position`."""

    position: int
    reason: str


Step = UserMessage | ToolResult | AgentAnswer | MissingAnswer


@dataclass(slots=True)
class TranscriptCounts:
    """The counts of a transcript, from its file or from Redis.

    `closed` are user messages without an answer; `delivered` are answers that the transport has settled.
    """

    tool_calls: int = 0
    errors: int = 0
    opened: int = 0
    answered: int = 0
    closed: int = 0
    delivered: int = 0

    def add(self, other: TranscriptCounts) -> None:
        """Add the numbers of another one to these."""
        _add_fields(self, other)

    def difference_from(self, file: TranscriptCounts) -> str:
        """Return which numbers of Redis, these, differ from those of the file, in words."""
        pairs = ((each.name, getattr(file, each.name), getattr(self, each.name)) for each in fields(self))
        return "; ".join(
            f"{name.replace('_', ' ')}: {wanted} in the file, {found} in Redis"
            for name, wanted, found in pairs
            if wanted != found
        )


@dataclass(slots=True)
class Oddities:
    """The defects of a transcript, counted; none of them stops a replay."""

    calls_without_result: int = 0
    results_without_call: int = 0
    arguments_not_json: int = 0
    messages_skipped: int = 0

    def add(self, other: Oddities) -> None:
        """Add the numbers of another one to these."""
        _add_fields(self, other)


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation; `label` is unique within its file.

    `reward` is 1.0 if the transcript says that the task was solved. `domain` names the set of tools that the agent had;
    `tools` has their definitions if the transcript gives them.
    """

    line: int
    label: str
    steps: tuple[Step, ...]
    oddities: Oddities = field(default_factory=Oddities)
    reward: float | None = None
    domain: str = ""
    tools: tuple[dict[str, Any], ...] = ()

    @property
    def question(self) -> str | None:
        """The user's first message."""
        return next((step.text for step in self.steps if isinstance(step, UserMessage)), None)

    @property
    def solved(self) -> bool | None:
        """True if the task was solved; None if the transcript has no reward."""
        return None if self.reward is None else self.reward >= 1

    @property
    def counts(self) -> TranscriptCounts:
        """The counts of its steps."""
        return count_steps(self.steps)


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that holds no conversation, and why."""

    line: int
    reason: str


def count_steps(steps: Iterable[Step]) -> TranscriptCounts:
    """Count the steps as a replay should count them."""
    counts = TranscriptCounts()
    for step in steps:
        match step:
            case UserMessage():
                counts.opened += 1
            case AgentAnswer():
                counts.answered += 1
                counts.delivered += 1
            case MissingAnswer():
                counts.closed += 1
            case ToolResult():
                counts.tool_calls += 1
                counts.errors += step.status == "error"
    return counts


def _add_fields(ours: TranscriptCounts | Oddities, theirs: TranscriptCounts | Oddities) -> None:
    for each in fields(ours):
        setattr(ours, each.name, getattr(ours, each.name) + getattr(theirs, each.name))


UNNAMED_TOOL: Final = "unknown"

CALL_ROLES: Final = ("tool", "function")

SILENT_ROLES: Final = ("system", "developer")

# A result is an error if it begins with a word that ends in "error", or with a traceback. Only the beginning counts:
# "No error" or "Errors are rare" are good results. The repeats are bounded, since a result may be one huge word.
_ERROR: Final = re.compile(r"\s{0,80}\w{0,80}error\b|\s{0,80}Traceback \(most recent call last\)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _PendingCall:
    tool: str
    params: dict[str, Any]
    id: str | None


class _PendingCalls:
    """The calls that have no result yet, in order."""

    def __init__(self, oddities: Oddities) -> None:
        self._waiting: list[_PendingCall] = []
        self._oddities = oddities

    def note_calls(self, message: dict[str, Any]) -> bool:
        """Add the calls of an assistant's message, in the current or the older form; return True if it has any."""
        raw = message.get("tool_calls")
        calls = [_as_mapping(call) for call in cast("list[object]", raw)] if isinstance(raw, list) else []
        bodies: list[tuple[object, object]] = [(call.get("function"), call.get("id")) for call in calls]
        if message.get("function_call") is not None:
            bodies.append((message["function_call"], None))
        for body, id_ in bodies:
            function = _as_mapping(body)
            self._waiting.append(
                _PendingCall(_field_name(function), self._params(function.get("arguments")), _call_id(id_))
            )
        return bool(bodies)

    def match_result(self, message: dict[str, Any], position: int) -> ToolResult:
        """Return the step of a tool's message, with the call of its id, or of its name, or the oldest one."""
        call = self._take_call(_call_id(message.get("tool_call_id")), message.get("name"))
        if call is None:
            self._oddities.results_without_call += 1
            call = _PendingCall(_field_name(message), {}, _call_id(message.get("tool_call_id")))
        text = content_text(message.get("content"))
        # What a command printed or a file contains may begin with "Error"; the classifier judges it by the call.
        plain = command_of(call.tool, call.params) is None and file_tool_kind(call.tool, call.params) is None
        failed = (plain and is_error(text)) or message.get("is_error") is True
        return ToolResult(call.tool, call.params, text, "error" if failed else "success", call.id, position)

    def count_unanswered(self) -> None:
        """Count the calls that are left at the end of the transcript."""
        self._oddities.calls_without_result += len(self._waiting)

    def _take_call(self, id_: str | None, name: object) -> _PendingCall | None:
        # First match: an id that is used twice pairs in order.
        if id_ is not None:
            found = next((call for call in self._waiting if call.id == id_), None)
        else:
            found = next((call for call in self._waiting if name is None or call.tool == name), None)
        if found is not None:
            self._waiting.remove(found)
        return found

    def _params(self, arguments: object) -> dict[str, Any]:
        if arguments is None or arguments == "":
            return {}
        value = arguments
        if isinstance(arguments, str):
            try:
                value = json.loads(arguments)
            except (ValueError, RecursionError):
                self._oddities.arguments_not_json += 1
        # Arguments that aren't an object are kept under a name, since parameters must be a mapping.
        return cast("dict[str, Any]", value) if isinstance(value, dict) else {"arguments": value}


def parse_messages(messages: Sequence[object]) -> tuple[tuple[Step, ...], Oddities]:
    """Return the steps of a conversation, in order, and the defects that were found."""
    oddities = Oddities()
    return tuple(_steps(messages, oddities)), oddities


def _steps(messages: Sequence[object], oddities: Oddities) -> Iterator[Step]:
    calls = _PendingCalls(oddities)
    user: int | None = None
    answer: tuple[bool, str, int] | None = None  # True if the message also had tool calls, the text, its position
    for position, raw in enumerate(messages):
        message = _as_mapping(raw)
        role = message.get("role")
        if role == "user":
            yield from _end_turn(user, answer, "the user wrote again before any answer")
            user, answer = position, None
            yield UserMessage(position, content_text(message.get("content")))
        elif role == "assistant":
            beside = calls.note_calls(message)
            text = content_text(message.get("content")) or content_text(message.get("refusal"))
            # Text beside tool calls is mostly a comment on the work, so it answers only if no other text does.
            if text.strip() and (answer is None or answer[0] or not beside):
                answer = (beside, text, position)
        elif role in CALL_ROLES:
            yield calls.match_result(message, position)
        elif role not in SILENT_ROLES:
            oddities.messages_skipped += 1
    yield from _end_turn(user, answer, "the transcript ends without an answer")
    calls.count_unanswered()


def _end_turn(user: int | None, answer: tuple[bool, str, int] | None, reason: str) -> Iterator[Step]:
    if user is not None:
        yield MissingAnswer(user, reason) if answer is None else AgentAnswer(user, *answer[1:])


def is_error(result: str) -> bool:
    """Return True for a failure: `Error: ...`, `ValueError: ...`, a traceback, or `{"error": ...}`."""
    if _ERROR.match(result):
        return True
    # Two cheap tests first, since most results are no JSON object with such a key.
    if '"error"' not in result or result.lstrip()[:1] != "{":
        return False
    try:
        return bool(_as_mapping(json.loads(result)).get("error"))
    except (ValueError, RecursionError):
        return False


def content_text(content: object) -> str:
    """Return the text of a message's content: null, a text, or parts; a part without text shows its type."""
    if content is None:
        return ""
    if isinstance(content, list):
        return "\n".join(part for part in map(_part_text, cast("list[object]", content)) if part)
    if isinstance(content, dict):
        return _part_text(cast("dict[str, Any]", content))
    return _without_surrogates(content if isinstance(content, str) else json.dumps(content))


def _part_text(part: object) -> str:
    if isinstance(part, str):
        return _without_surrogates(part)
    fields = _as_mapping(part)
    for name in ("text", "refusal"):
        if isinstance(fields.get(name), str):
            return _without_surrogates(fields[name])
    kind = fields.get("type")
    return f"[{_without_surrogates(kind)[:40]}]" if isinstance(kind, str) and kind else "[part]"


def _without_surrogates(text: str) -> str:
    """Replace lone surrogates, which JSON can spell but UTF-8 can't encode."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _field_name(fields: dict[str, Any]) -> str:
    name = fields.get("name")
    return _without_surrogates(name) if isinstance(name, str) and name else UNNAMED_TOOL


def _call_id(value: object) -> str | None:
    return _without_surrogates(value) if isinstance(value, str) and value else None


def _as_mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
